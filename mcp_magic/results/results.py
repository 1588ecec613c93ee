"""Results of calling a tool, reading a resource and getting a prompt, and checks of tool results."""

from __future__ import annotations

import csv
import difflib
import json
import mimetypes
import re
import textwrap
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from urllib.parse import unquote, urlsplit

from mcp_magic._text import duration, join_names
from mcp_magic.display import document
from mcp_magic.display.document import (
    Budget,
    Part,
    charge,
    error_label,
    fitting,
    joined,
    parts_text,
    show_parts,
    tag,
)
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.tables import (
    Records,
    Rows,
    check_shape,
    data_part,
    declared,
    delimited,
    describe,
    find_tables,
    is_wrapper,
    main_tables,
    members_line,
    passages,
    typed,
    verbatim_part,
)
from mcp_magic.display.text import cut, mime, one_line, shorten
from mcp_magic.errors import ArgumentsError, CommandError, MCPMagicError, NoTableError, ToolError
from mcp_magic.results.content import (
    DELIMITED,
    Media,
    is_json,
    message_block,
    part_of,
    read_line,
    resource_media,
    resource_part,
    titled_part,
    to_media,
)
from mcp_magic.results.handles import Handles
from mcp_magic.results.reasons import note_failure, reason
from mcp_magic.schema.resolve import json_equal
from mcp_magic.schema.validate import check_arguments, is_secret, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from langchain_core.messages import BaseMessage
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        GetPromptResult,
        ReadResourceResult,
        ResourceLink,
        TextResourceContents,
    )

    from mcp_magic.display.document import Displayed

# Exceptions of tools and server cells that run in this kernel.
#
# A tool's answer is data and cannot carry an exception. A server of the notebook puts a key into the answer's `_meta`
# instead, by which the exception is found. So the calling cell shows the tool's own lines, and `%debug` stops
# in them.

META = "mcp-magic/crash"  # the member of `_meta` that holds the key of an exception
CRASHES: Handles[BaseException] = Handles(most=20)  # each holds the frames of its traceback


class ToolCrashError(ToolError):
    """A tool that is defined in this notebook raised; `__cause__` is its exception, with the tool's own frames."""

    shows_cause = True


class CellCrashError(CommandError):
    """A server cell raised; `__cause__` is its exception, with the cell's own frames."""

    shows_cause = True


# DataFrames from a result's data and texts: the main table, and all tables by name.

MAX_NAMED_TABLES = 4  # most tables that a message names


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a result, and the tables in it."""

    name: str  # the key in `.frames` for a table without its own name
    tables: Sequence[Rows]  # the tables of this part
    rank: int = 1  # 0 for data, 1 for text, 2 for resources; `.df` uses the lowest rank that has a table
    schema: dict[str, Any] | None = None  # the output schema if it describes this part, else None
    boxed: bool = False  # whether this part was unwrapped from `{"result": ...}`, which the schema still describes


def in_data(data: Any, schema: dict[str, Any] | None = None, *, boxed: bool = False) -> Source:
    """Return the tables in a result's data; a string is read as text."""
    if isinstance(data, str):
        return Source("text", _in_text(data), rank=0)
    return Source("data", find_tables(data, schema, boxed=boxed), rank=0, schema=schema, boxed=boxed)


def _in_text(text: str) -> list[Rows]:
    return [rows for passage in passages(text) for rows in passage.tables]


def in_contents(contents: Any) -> Source:
    """Return the tables in the contents of a resource, read by their MIME type."""
    text = getattr(contents, "text", None)
    kind = mime(contents.mime_type)
    tables: Sequence[Rows] = ()
    if text is not None and kind in DELIMITED:
        tables = [delimited(text, DELIMITED[kind])]
    elif text is not None and is_json(kind):
        value = loads(text, nan=True)
        tables = [] if value is NOT_JSON else find_tables(value)
    elif text is not None:
        tables = _in_text(text)
    return Source(str(contents.uri), tables, rank=2)


def _several(sources: Sequence[Source], tables: Sequence[Rows], kind: str) -> NoTableError:
    """Return the error that says how to get each of several tables."""

    def quoted(name: str) -> str:
        return json.dumps(one_line(name, 100), ensure_ascii=False)

    ids = set(map(id, tables))
    names = [name for name, (_, rows) in _tables_by_name(sources).items() if id(rows) in ids]
    excerpt = names[:MAX_NAMED_TABLES]
    more = f" and {len(names) - MAX_NAMED_TABLES} more" if len(names) > MAX_NAMED_TABLES else ""
    ways = f".frames[{'], .frames['.join(quoted(name) for name in excerpt)}]{more}"
    return NoTableError(f"{len(names)} tables in this {kind}: {ways}")


def _tables_by_name(sources: Sequence[Source]) -> dict[str, tuple[Source, Rows]]:
    """Return the tables by the name of their member, else of their part; equal names are numbered."""
    tables = [(source, rows) for source in sources for rows in source.tables]
    tables = [(source, rows) for source, rows in tables if not rows.single] or tables[:1]
    result: dict[str, tuple[Source, Rows]] = {}
    used: dict[str, int] = {}
    for source, rows in tables:
        name = ".".join(rows.path) or source.name
        used[name] = used.get(name, 0) + 1
        result[name if used[name] == 1 else f"{name} {used[name]}"] = (source, rows)
    return result


def _frame(source: Source, rows: Rows) -> pd.DataFrame:
    """Return all rows with the column types that the schema declares, or raise NoTableError."""
    try:
        check_shape(*rows.shape())
        frame = rows.frame()
    except (ValueError, csv.Error) as error:  # pandas' ParserError is a ValueError
        raise NoTableError(f"no table in this result: {str(error).splitlines()[0][:200]}") from None
    from mcp_magic.display.frames import escaped  # it imports pandas

    return escaped(typed(frame, rows, declared(source.schema, rows, boxed=source.boxed)))


def found_texts(texts: Sequence[str]) -> list[str]:
    """Return a description of texts, for the error that they hold no table."""
    if len(texts) == 1:
        value = loads(texts[0])
        if value is not NOT_JSON:
            return [describe(value)]
        return [f"text ({len(texts[0]):,} characters)"]
    return [f"{len(texts)} texts ({sum(map(len, texts)):,} characters)"] if texts else []


# The texts of a result: whether they only repeat the data, and their value as an argument.


def repeats(texts: list[str], structured: Any) -> bool:
    """Whether texts only repeat the structured content, as the specification asks, or one member or each item of it."""
    members = [structured, *(structured.values() if isinstance(structured, dict) else ())]
    if len(texts) == 1 and _same(texts[0], *members):
        return True
    return any(_has_items(texts, member) for member in members if isinstance(member, list))


def _has_items(texts: list[str], values: list[Any]) -> bool:
    """Whether texts are the items of a list, apart from images, audio and resources, which have their own blocks."""
    blocks = ("image", "audio", "resource", "resource_link")
    visible = (item for item in _flat(values) if not (isinstance(item, dict) and item.get("type") in blocks))
    items = list(islice((item for item in visible if item is not None), len(texts) + 1))  # nothing is sent for null
    return len(items) == len(texts) and all(_same(text, item) for text, item in zip(texts[:3], items[:3], strict=True))


def _flat(values: list[Any]) -> Iterator[Any]:
    """Yield the items of a list and of the lists in it, as MCPServer sends them."""
    for value in values:
        yield from _flat(value) if isinstance(value, list) else (value,)


def without_media(data: Any, blocks: Sequence[Any]) -> Any:
    """Return data without the images and audio that content blocks show too; `NOTHING` if nothing else is in it.

    The data may have them as the content blocks themselves, or as base64 or a `data:` URL in a member.
    """
    media = {block.data for block in blocks if block.type in ("image", "audio") and block.data}
    return _without(data, media, 0) if media else data


NOTHING = object()  # the result of `without_media` for data that only repeats media


_DEEPEST = 5  # levels of a value that are searched for repeated media


def _without(data: Any, media: set[str], depth: int) -> Any:
    if isinstance(data, str):
        start = data[:100].find(";base64,") + len(";base64,") if data.startswith("data:") else 0
        return NOTHING if len(data) - start > 0 and data[start:] in media else data
    if depth > _DEEPEST or not isinstance(data, list | dict):
        return data
    if isinstance(data, list):
        items = [_without(item, media, depth + 1) for item in data]
        rest: Any = [item for item in items if item is not NOTHING]
        return rest if rest or not data else NOTHING
    members = {name: _without(value, media, depth + 1) for name, value in data.items()}
    rest = {name: value for name, value in members.items() if value is not NOTHING}
    is_block = len(rest) < len(data) and all(name in _OF_MEDIA or value is None for name, value in rest.items())
    return NOTHING if is_block else rest


_OF_MEDIA = ("type", "mimeType", "mime_type", "format", "annotations", "_meta")  # members that only describe media


def names_the_text(texts: list[str], data: Any) -> bool:
    """Whether the structured content is only the text under a name, if long beside other plain values."""
    if len(texts) != 1 or not isinstance(data, dict) or texts[0] not in data.values():
        return False
    return len(data) == 1 or (
        "\n" in texts[0].strip()
        and all(value is None or isinstance(value, str | int | float) for value in data.values())
    )


def argument_value(data: Any, texts: list[str], type_: str) -> Any:
    """Return a result's value as an argument of type `type_`: its text for a string, else its data."""
    if len(texts) == 1 and (data is None or (type_ == "string" and not isinstance(data, str))):
        return texts[0]
    return texts if data is None and texts else data


def _same(text: str, *values: Any) -> bool:
    if len(text) > document.display.parse:
        return text[:100].lstrip()[:1] in ("{", "[")
    value = loads(text)
    if value is NOT_JSON and "NaN" in text:
        with suppress(ValueError, RecursionError):  # structured content has null for NaN
            value = json.loads(text, parse_constant=lambda _: None)
    return any(value == candidate or text == candidate for candidate in values)


# Results of tools.

_REST = "… (`%mcp last` shows all of it; in Python it is `error.result`)"
"""The last line of a shortened error: where to find all of it."""


class _Result(ABC):
    """A result with texts, data, tables and media; `len`, indexing and iteration raise a TypeError."""

    raw: Any
    server: str
    _kind: ClassVar[str]
    _forms: ClassVar[str]

    _items_of: ClassVar[str]  # the member of `raw` that holds the content blocks, or the contents of a resource
    _to_media: ClassVar[Any]  # returns the image, audio or document of one of those, or None

    @abstractmethod
    def _sources(self) -> list[Source]:
        """Return the parts to search for tables: those that are displayed."""

    @abstractmethod
    def _summary(self) -> list[str]:
        """Return what the result holds, for the error that there is no table."""

    @abstractmethod
    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return the parts to display, within `budget` if the display holds more than this result."""

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    @property
    def texts(self) -> list[str]:
        """All texts, in order."""
        texts = (getattr(item, "text", None) for item in getattr(self.raw, self._items_of))
        return [text for text in texts if text is not None]

    @property
    def text(self) -> str | list[str]:
        """The text: a string, a list of strings if there are several texts, "" if there is none."""
        texts = self.texts
        return texts if len(texts) > 1 else "".join(texts)

    @cached_property
    def data(self) -> Any:
        """The value of a single text that is JSON, else None."""
        texts = self.texts
        value = loads(texts[0]) if len(texts) == 1 else NOT_JSON
        return None if value is NOT_JSON else value

    @property
    def df(self) -> pd.DataFrame:
        """A DataFrame of the displayed table: from the data, the text (JSON, CSV, TSV, Markdown) or a resource.

        Every access returns a new copy.

        Raises:
            NoTableError: There is no table, or there are several; the message says what there is.
        """
        return self._frame.copy()

    @cached_property
    def _parts_with_tables(self) -> list[Source]:
        return self._sources()  # to search a long text takes seconds

    @cached_property
    def _frame(self) -> pd.DataFrame:
        sources = self._parts_with_tables
        tables = [(source, rows) for source in sources for rows in main_tables(source.tables)]
        full = [(source, rows) for source, rows in tables if not rows.single]
        first = min((source.rank for source, _ in full), default=0)
        tables = [(source, rows) for source, rows in full if source.rank == first] or tables[:1]
        if not tables:
            raise NoTableError(f"no table in this {self._kind}: found {', '.join(self._summary()) or 'nothing'}")
        if len(tables) > 1:
            raise _several(sources, [rows for _, rows in tables], self._kind)
        return _frame(*tables[0])

    @property
    def tables(self) -> dict[str, Rows]:
        """All tables as they were sent, by the names of `frames`."""
        return {name: rows for name, (_, rows) in _tables_by_name(self._parts_with_tables).items()}

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables as DataFrames, by the name of the member that holds them ("entities") or their URI; {} if none."""
        frames = {}
        for name, (source, rows) in _tables_by_name(self._parts_with_tables).items():
            with suppress(NoTableError):  # pandas cannot read it
                frames[name] = _frame(source, rows)
        return frames

    def _media(self, family: str) -> list[Media]:
        media_of_items = (self._to_media(item) for item in getattr(self.raw, self._items_of))
        return [media for media in media_of_items if media is not None and media.mime_type.startswith(family)]

    @property
    def images(self) -> list[Media]:
        """The images, including embedded ones: `.bytes`, `.mime_type`, `.save(path)`; each displays itself."""
        return self._media("image/")

    @property
    def audio(self) -> list[Media]:
        """The audio, including embedded audio; each displays itself."""
        return self._media("audio/")

    @property
    def meta(self) -> dict[str, Any]:
        """The result's `_meta`."""
        return dict(self.raw.meta or {})

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is neither a list nor a dict; {self._forms}")

    __len__ = __iter__ = __getitem__ = __contains__ = _refuse

    def __bool__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]


@dataclass(repr=False)
class ToolResult(_Result):
    """The result of a tool call; its attributes are computed lazily.

    result.data     the JSON as Python values: structured content, or text that is JSON
    result.df       the table as a DataFrame; result.frames has all tables by name
    result.text     the text; a list if there are several text blocks
    result.images   the images, each with .bytes and .save(path); result.audio, .links and .resources likewise
    result.raw      the SDK's complete result

    Attributes:
        raw: The SDK's complete result.
        server: The server's name.
        tool: The tool's name.
        seconds: How long the call took.
        output_schema: The tool's output schema, or None.
        clue: For an error: what else is known of its cause, or where to look for it; "" if nothing is known.
        filled: Required arguments that the caller left out, by path, with the schema's default that was sent.
        readings: Which texts of a typed line were read as JSON although the schema takes text, too; "" if none.
        unfit: Why the answer does not fit the tool's output schema; "" if it does.
        unchecked: What of the arguments and the answer was not checked against the tool's schemas, and why; "" if all
            was checked.
        refused: What the server's sandbox refused, by the error, and the line that allows it; "" if nothing.
        outdated: Which programs of the server have changed since it was started, in words; "" if none.
        app: The view of this call, where the tool has one: displaying it shows the view again. Else None.
    """

    raw: CallToolResult
    _: KW_ONLY
    server: str = ""
    tool: str = ""
    seconds: float = field(default=0.0, compare=False)
    output_schema: dict[str, Any] | None = None
    clue: str = ""
    filled: dict[str, Any] = field(default_factory=dict)
    readings: str = field(default="", compare=False)
    unfit: str = ""
    unchecked: str = ""
    refused: str = ""
    outdated: str = field(default="", compare=False)
    app: Displayed | None = field(default=None, compare=False)

    _kind = "result"
    _forms = "its value is .data, its table .df, its text .text"

    _items_of = "content"
    _to_media = staticmethod(to_media)

    @property
    def artifacts(self) -> list[ContentBlock] | None:
        """The blocks that are not text, or None."""
        return [block for block in self.raw.content if block.type != "text"] or None

    @cached_property
    def data(self) -> Any:
        """The structured content without a mere wrapper `{"result": ...}`, else a single text's JSON, else None."""
        structured = self.raw.structured_content
        if structured is None:
            return super().data
        return structured["result"] if self._boxed else structured

    @property
    def _boxed(self) -> bool:
        structured = self.raw.structured_content
        return isinstance(structured, dict) and list(structured) == ["result"] and is_wrapper(self.output_schema)

    def _sources(self) -> list[Source]:
        blocks = [block for block in self._blocks if block.type == "resource"]
        resources = [in_contents(block.resource) for block in blocks]
        if self.raw.structured_content is None and self.data is not None:
            return [in_data(self.data), *resources]
        displayed = self._shown_data
        data = [in_data(displayed, self.output_schema, boxed=self._boxed)] if self._shows_data else []
        texts = [block.text for block in self._blocks if block.type == "text"]
        values = [loads(text, nan=True) for text in texts] if len(texts) > 1 else []
        if values and all(isinstance(value, dict) for value in values):  # the rows of one table
            return [*data, Source("text", [Records(values=values)]), *resources]
        return [*data, *(Source("text", _in_text(text)) for text in texts), *resources]

    @cached_property
    def _shows_data(self) -> bool:
        """Whether the structured content is displayed: not if it only names the blocks, nor beside an error's text."""
        if self.raw.structured_content is None or self._shown_data is NOTHING:
            return False
        if self.is_error and any(text.strip() for text in self.texts):
            return False
        if isinstance(self.data, str) and self.texts == [self.data]:
            return False
        return not names_the_text(self.texts, self.data)

    @cached_property
    def _shown_data(self) -> Any:
        """The data without images and audio that the content blocks show too; `NOTHING` if it has only these."""
        return without_media(self.data, self.raw.content)

    @cached_property
    def _blocks(self) -> list[ContentBlock]:
        """The blocks that are displayed: all but those that only repeat the structured content."""
        if not self._shows_data:
            return self.raw.content
        if repeats(self.texts, self.raw.structured_content):
            return self.artifacts or []
        return self.raw.content

    def _summary(self) -> list[str]:
        contents = [describe(self._shown_data)] if self._shows_data else found_texts(self.texts)
        kinds = [block.type.replace("_", " ") for block in self.artifacts or ()]
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        return contents + [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items()]

    @property
    def links(self) -> list[ResourceLink]:
        """The resource links, in order."""
        return [block for block in self.raw.content if block.type == "resource_link"]

    @property
    def resources(self) -> list[ResourceResult]:
        """The embedded resources, each as a `ResourceResult` like that of `%mcp read`."""
        from mcp_types import ReadResourceResult

        embedded = [block.resource for block in self.raw.content if block.type == "resource"]
        return [ResourceResult(ReadResourceResult(contents=[c]), server=self.server, uri=str(c.uri)) for c in embedded]

    @property
    def is_error(self) -> bool:
        """Whether the tool reported an error."""
        return self.raw.is_error

    def raise_for_error(self) -> ToolResult:
        """Return the result itself, or raise the error that the tool reported.

        Raises:
            ToolError: The tool reported an error; the exception's `.result` is this result.
        """
        if not self.is_error:
            return self
        note_failure(self)
        text = f"{self._name} failed{reason(self, _REST)}"
        text += "".join(f"\n  {line}" for line in (self.refused, self.outdated) if line)
        if (crash := CRASHES.find((self.raw.meta or {}).get(META))) is not None:
            raise ToolCrashError(text, self).with_traceback(crash.__traceback__) from crash
        raise ToolError(text, self)

    def __mcp_argument__(self, type_: str) -> Any:
        """Return its value as an argument of a call: its single image or audio as bytes, its text, else its data."""
        self.raise_for_error()
        media = self._media("") if type_ == "bytes" else []
        return media[0].bytes if len(media) == 1 else argument_value(self.data, self.texts, type_)

    @property
    def _name(self) -> str:
        return one_line(":".join(part for part in (self.server, self.tool) if part), 100) or "the tool"

    def __repr__(self) -> str:
        state = "error: " if self.is_error else ""
        content = one_line(" ".join(self.texts[:3]), 40) if self.texts else ", ".join(self._summary()) or "empty"
        remark = "".join(f"; {one_line(text, 400)}" for text in (self.unfit, self.unchecked) if text)
        return f"<ToolResult {self._name}: {state}{content} (.data, .df, .text, .images){remark}>"

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return the parts to display, within `budget` if the display holds more than this result."""
        budget = budget or Budget.full()
        parts: list[Part] = []
        if self.is_error:
            label = f"error from {self._name}"
            parts.append(Part(label, tag("p", error_label(label))))
        if self._shows_data:
            parts.append(charge(data_part(self._shown_data, budget), budget))

        def show(block: Any, budget: Budget) -> Part:
            if self.is_error and block.type == "text":
                return verbatim_part(block.text, budget)
            return part_of(block, budget, self.server)

        parts += fitting(self._blocks, show, budget, ".text, .artifacts")
        structured = self.raw.structured_content
        is_named = isinstance(structured, dict) and self._shown_data is not NOTHING
        if is_named and not (self.is_error or self._shows_data or self._boxed):
            # The text is displayed instead of the structured content: the rest of that.
            beside = members_line({name: value for name, value in structured.items() if value not in self.texts})
            parts += [Part.note(beside)] if beside else []
        if not any(part.plain.strip() or part.media for part in parts):
            parts = [Part.note("The text is empty." if self.texts else "The result is empty.")]
        if self.filled:
            values = (
                f"{one_line(path, 60)}={shown(value, secret=is_secret(path))}" for path, value in self.filled.items()
            )
            parts.append(Part.note(f"filled in from the tool's schema: {join_names(values)}"))
        remarks = (self.readings, self.unfit, self.unchecked, self.outdated)
        parts += [Part.note(one_line(remark, 400)) for remark in remarks if remark]
        if self.app is not None:
            parts += self.app.parts()
        return parts


# Results of reading resources.


@dataclass(repr=False)
class ResourceResult(_Result):
    """The contents of a resource, which may be several; `raw` is the SDK's complete result, `seconds` its duration.

    `age` is None if the server was asked, else how many seconds ago it gave this answer, which it lets be kept.
    """

    raw: ReadResourceResult
    _: KW_ONLY
    server: str = ""
    uri: str = ""
    seconds: float = field(default=0.0, compare=False)
    age: float | None = field(default=None, compare=False)

    _kind = "resource"
    _forms = "its contents are .text, .data, .df or .bytes"
    _items_of = "contents"
    _to_media = staticmethod(resource_media)

    @property
    def contents(self) -> list[TextResourceContents | BlobResourceContents]:
        """The contents as SDK objects."""
        return self.raw.contents

    @property
    def bytes(self) -> bytes | list[bytes]:
        """The bytes of blobs, and text as UTF-8; a list if there are several contents.

        Raises:
            InvalidResponseError: The server's data is not base64.
        """
        parts = [_bytes(c) for c in self.contents]
        return parts if len(parts) > 1 else b"".join(parts)

    @property
    def mime_type(self) -> str:
        """The MIME type of the first content; "" if the server gives none."""
        mime_type = self.contents[0].mime_type if self.contents else None
        return mime(mime_type) if mime_type else ""

    def _sources(self) -> list[Source]:
        return list(map(in_contents, self.contents))

    def _summary(self) -> list[str]:
        return found_texts(self.texts) + [media.summary for media in self._media("")]

    def save(self, path: str | Path) -> Path | list[Path]:
        """Write the contents to files, and return the path, or the list of paths of several contents.

        `path` is a file, or a folder if that folder exists or if there are several contents. In a folder, files are
        named after their URI.
        """
        target = Path(path)
        if len(self.contents) == 1 and not target.is_dir():
            target.write_bytes(_bytes(self.contents[0]))
            return target
        target.mkdir(parents=True, exist_ok=True)
        paths: list[Path] = []
        for content in self.contents:
            path = file = target / _file_name(str(content.uri), content.mime_type)
            number = 1
            while file.exists():  # two contents may have the same file name
                number += 1
                file = path.with_stem(f"{path.stem}-{number}")
            file.write_bytes(_bytes(content))
            paths.append(file)
        return paths if len(paths) != 1 else paths[0]

    def __mcp_argument__(self, type_: str) -> Any:
        """Return its value as an argument of a call: its bytes, text or data."""
        if type_ == "bytes" or not self.texts:
            return self.bytes
        return argument_value(self.data, self.texts, type_)

    def __repr__(self) -> str:
        content = [one_line(text, 60) for text in self.texts[:2]] or [media.summary for media in self._media("")[:3]]
        return f"<ResourceResult {one_line(self.uri, 80)}: {', '.join(content) or 'empty'}>"

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return the parts to display, within `budget` if the display holds more than this result."""
        show = titled_part if len(self.contents) > 1 else resource_part
        parts = fitting(self.contents, show, budget or Budget.full(), ".contents")
        parts = parts or [Part.note("The resource is empty.")]
        if self.age is None:
            return parts
        line = cut(read_line(self.uri, self.server), 500)
        return [Part.note(f"kept for {duration(round(self.age))}; `{line} --refresh` asks the server"), *parts]


def _bytes(content: Any) -> bytes:
    blob = getattr(content, "blob", None)
    if blob is None:
        text: str = content.text
        return text.encode()
    return Media(blob, content.mime_type or "").bytes


def _file_name(uri: str, mime_type: str | None) -> str:
    """Return a file name for a URI; it cannot lead out of its folder."""
    parts = urlsplit(uri)
    name = PurePosixPath(unquote(parts.path or parts.netloc)).name
    name = re.sub(r"[^\w.-]+", "_", name).strip("._")[-100:] or "resource"
    return name if "." in name else name + (mimetypes.guess_extension(mime(mime_type)) or "")


# Results of getting prompts.


@dataclass(repr=False)
class PromptResult:
    """The messages of a prompt; `raw` is the SDK's complete result, `seconds` the time that the request took."""

    raw: GetPromptResult
    _: KW_ONLY
    server: str = ""
    prompt: str = ""
    arguments: dict[str, Any] | None = None
    seconds: float = field(default=0.0, compare=False)

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    @property
    def description(self) -> str:
        """The description, or ""."""
        return self.raw.description or ""

    @property
    def text(self) -> str:
        """The texts of all messages, separated by empty lines."""
        return "\n\n".join(m.content.text for m in self.raw.messages if m.content.type == "text")

    @property
    def meta(self) -> dict[str, Any]:
        """The result's `_meta`."""
        return dict(self.raw.meta or {})

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages as LangChain messages: text as a string, any other content as content blocks."""
        from langchain_core.messages import AIMessage, HumanMessage

        classes = {"user": HumanMessage, "assistant": AIMessage}
        messages: list[BaseMessage] = []
        for message in self.raw.messages:
            block = message.content
            content = block.text if block.type == "text" else [message_block(block)]
            messages.append(classes[message.role](content=content))
        return messages

    def __len__(self) -> int:
        return len(self.raw.messages)

    def __repr__(self) -> str:
        name = one_line(":".join(part for part in (self.server, self.prompt) if part), 100)
        count = len(self.raw.messages)
        return f"<PromptResult {name}: {count} message{'s' if count != 1 else ''}, {one_line(self.text, 60)}>"

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return the parts to display, within `budget` if the display holds more than this result."""
        described = shorten(self.description, 500)
        heading = [Part.note(described)] if described else []
        parts = heading + fitting(self.raw.messages, self._turn, budget or Budget.full(), ".messages")
        return parts or [Part.note("The prompt has no messages.")]

    def _turn(self, message: Any, budget: Budget) -> Part:
        """Return one message under its role."""
        part = part_of(message.content, budget, self.server)
        html = joined([tag("div", tag("b", message.role)), tag("div", part.html, class_="mcp-turn")])
        return Part(f"{message.role}:\n{textwrap.indent(part.plain, '    ')}", html, media=part.media)


# Checks of results: each returns "" or says why the check failed.

DIFFERENCE = 20  # most lines of a difference in a message


class CheckFailedError(MCPMagicError, AssertionError):
    """A result failed a check; the message has the difference.

    Attributes:
        result: What was checked: a `ToolResult`, a report, the changes of an interface; or None.
    """

    def __init__(self, message: str = "", result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def succeeds(result: ToolResult) -> str:
    """Return "" if the tool reported no error, else the error."""
    return f"the tool reported an error: {_text(result)}" if result.is_error else ""


def fails(result: ToolResult, text: str) -> str:
    """Return "" if the tool reported an error that contains `text`, else what it answered."""
    if not result.is_error:
        return f"no error; it answered {_text(result)}"
    return "" if text in _joined(result) else f"the error does not contain {text!r}: {_text(result)}"


def equals(result: ToolResult, value: Any) -> str:
    """Return "" if the result's data, or its text if it has no data, equals `value`; else the difference."""
    answer = value_of(result)
    if json_equal(answer, value):
        return ""
    lines = difflib.unified_diff(_pretty(value), _pretty(answer), "expected", "got", lineterm="", n=2)
    return "it differs:\n" + "\n".join(f"  {line}" for line in islice(lines, DIFFERENCE))


def contains(result: ToolResult, text: str) -> str:
    """Return "" if the result's text contains `text`, else the result's text."""
    return "" if text in _joined(result) else f"no {text!r} in {_text(result)}"


def fits(result: ToolResult, schema: Mapping[str, Any]) -> str:
    """Return "" if the result's data, or its text if it has no data, fits a JSON Schema; else what does not fit."""
    boxed = {"type": "object", "properties": {"data": schema}, "required": ["data"]}
    if "$defs" in schema or "definitions" in schema:
        boxed |= {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    try:
        check_arguments({"data": value_of(result)}, boxed)
    except ArgumentsError as error:
        return f"it does not fit the schema: {error}"
    return ""


def within(result: ToolResult, milliseconds: float) -> str:
    """Return "" if the call took less than `milliseconds`, else how long it took."""
    elapsed = result.seconds * 1000
    return "" if elapsed < milliseconds else f"it took {elapsed:.0f} ms; the limit is {milliseconds:g} ms"


def value_of(result: ToolResult) -> Any:
    """Return the result's data, or its text if it has no data."""
    return result.text if result.data is None else result.data


def _joined(result: ToolResult) -> str:
    return "\n".join(result.texts) or json.dumps(result.data, ensure_ascii=False)


def _text(result: ToolResult) -> str:
    return repr(one_line(_joined(result), 200))


def _pretty(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=repr).splitlines()
