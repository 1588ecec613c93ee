"""What a tool answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..errors import ToolError
from ..schema import is_secret, shown
from ..wording import listed
from .answers import argument_value, names_the_text, reason, repeats
from .columns import is_wrapper
from .content import part_of, to_media
from .crashes import ToolCrashError, recall
from .frames import Source, all_frames, found_texts, in_contents, in_data, in_texts, one_frame
from .html import error_label, note, tag
from .jsontree import NOT_JSON, loads
from .limits import Budget
from .parts import Faceted, Part, counted, fitting
from .safe import one_line
from .shown import data_part, members_line, verbatim_part
from .tables import describe

if TYPE_CHECKING:
    import pandas as pd
    from mcp_types import CallToolResult, ContentBlock, ResourceLink

    from .media import Media
    from .resource import ResourceResult

__all__ = ["ToolResult", "last_failed"]

_failed: deque[ToolResult] = deque(maxlen=1)

_REST = "… (`%mcp last` shows all of it; in Python it is `error.result`)"
"""Where the rest of a long error is."""


class ToolResult(Faceted):
    """A tool's answer as a value; everything is computed when it is asked for.

    result.data     its JSON as Python values: structured content, or text that is JSON
    result.df       the table in it as a DataFrame; result.frames has all tables by name
    result.text     its text; a list where there are several blocks
    result.images   its images, each with .bytes and .save(path); result.audio, .links and .resources likewise
    result.raw      the SDK's result, nothing left out

    Attributes:
        raw: The SDK's result, nothing left out.
        server: The server's name.
        tool: The tool's name.
        seconds: How long the call took.
        output_schema: The tool's output schema, or None.
        clue: Where it failed: what else is known of why, or where that may be found; "" if nothing is.
        filled: Required arguments that were left out, by path, with the default of the tool's schema that was sent.
    """

    __slots__ = ("clue", "filled", "output_schema", "raw", "seconds", "server", "tool")
    _fields = ("raw", "server", "tool", "seconds", "output_schema", "clue", "filled")
    _facets = "its value is .data, its table .df, its text .text"

    def __init__(
        self,
        raw: CallToolResult,
        *,
        server: str = "",
        tool: str = "",
        seconds: float = 0.0,
        output_schema: dict[str, Any] | None = None,
        clue: str = "",
        filled: dict[str, Any] | None = None,
    ) -> None:
        self.raw = raw
        self.server = server
        self.tool = tool
        self.seconds = seconds
        self.output_schema = output_schema
        self.clue = clue
        self.filled = filled or {}
        self._cache = None

    @property
    def texts(self) -> list[str]:
        """The texts of all text blocks."""
        return [block.text for block in self.raw.content if block.type == "text"]

    @property
    def text(self) -> str | list[str]:
        """The text blocks: a string, a list of strings if there are several, "" if there are none."""
        texts = self.texts
        return texts if len(texts) > 1 else "".join(texts)

    @property
    def artifacts(self) -> list[ContentBlock] | None:
        """The blocks that are not text, or None."""
        return [block for block in self.raw.content if block.type != "text"] or None

    @property
    def data(self) -> Any:
        """The structured content, else the value of a single text block that is JSON, else None.

        A box `{"result": ...}` is opened, unless the output schema declares more than the box.
        """
        return self._once("data", self._find_data)

    def _find_data(self) -> Any:
        structured = self.raw.structured_content
        if structured is not None:
            return structured["result"] if self._boxed else structured
        texts = self.texts
        value = loads(texts[0]) if len(texts) == 1 else NOT_JSON
        return None if value is NOT_JSON else value

    @property
    def _boxed(self) -> bool:
        structured = self.raw.structured_content
        return isinstance(structured, dict) and list(structured) == ["result"] and is_wrapper(self.output_schema)

    @property
    def df(self) -> pd.DataFrame:
        """A DataFrame of the table that is shown: in the data, the text (JSON, CSV, TSV, Markdown) or a resource.

        Every access returns one of its own.

        Raises:
            NoTableError: There is no table, or there are several; the message says what there is.
        """
        made: pd.DataFrame = self._once("df", lambda: one_frame(self._sources(), "result", self._found))
        return made.copy()

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables as DataFrames, by the names of the members that hold them ("entities"); {} if there are none."""
        return all_frames(self._sources())

    def _sources(self) -> list[Source]:
        """Return the parts in which tables are looked for: those that are shown."""
        blocks = [block for block in self._blocks if block.type == "resource"]
        resources = [in_contents(block.resource) for block in blocks]
        if self.raw.structured_content is None and self.data is not None:
            return [in_data(self.data), *resources]
        data = [in_data(self.data, self.output_schema, boxed=self._boxed)] if self._shows_data else []
        return [*data, *in_texts([block.text for block in self._blocks if block.type == "text"]), *resources]

    @property
    def _shows_data(self) -> bool:
        """Whether the structured content is shown: not that of an error, and not where it is the text under a name."""
        structured = self.raw.structured_content
        return structured is not None and not self.is_error and not names_the_text(self.texts, self.data)

    @property
    def _blocks(self) -> list[ContentBlock]:
        """The blocks that are shown: without those that only repeat the structured content."""
        if not self._shows_data:
            return self.raw.content
        repeated: bool = self._once("repeats", lambda: repeats(self.texts, self.raw.structured_content, self.data))
        return (self.artifacts or []) if repeated else self.raw.content

    def _found(self) -> list[str]:
        found = [describe(self.data)] if self._shows_data else found_texts(self.texts)
        kinds = [block.type.replace("_", " ") for block in self.artifacts or ()]
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        return found + [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items()]

    @property
    def images(self) -> list[Media]:
        """The images, embedded ones too: `.bytes`, `.mime_type`, `.save(path)`; each displays itself."""
        return self._media("image/")

    @property
    def audio(self) -> list[Media]:
        """The sounds, embedded ones too."""
        return self._media("audio/")

    def _media(self, family: str) -> list[Media]:
        found = (to_media(block) for block in self.raw.content)
        return [media for media in found if media is not None and media.mime_type.startswith(family)]

    @property
    def links(self) -> list[ResourceLink]:
        """The resource links, in order."""
        return [block for block in self.raw.content if block.type == "resource_link"]

    @property
    def resources(self) -> list[ResourceResult]:
        """The embedded resources, each as a value like the one that `%mcp read` returns."""
        from mcp_types import ReadResourceResult

        from .resource import ResourceResult

        embedded = [block.resource for block in self.raw.content if block.type == "resource"]
        return [ResourceResult(ReadResourceResult(contents=[c]), server=self.server, uri=str(c.uri)) for c in embedded]

    @property
    def is_error(self) -> bool:
        """Whether the tool reported an error."""
        return self.raw.is_error

    @property
    def meta(self) -> dict[str, Any]:
        """The result's `_meta`."""
        return dict(self.raw.meta or {})

    def raise_for_error(self) -> ToolResult:
        """Return the result itself, or raise what the tool reported.

        Raises:
            ToolError: The tool reported an error; its `.result` is this value.
        """
        if not self.is_error:
            return self
        _failed.append(self)
        text = f"{self._name} failed{reason(self.texts, self.tool, self.clue, _REST)}"
        if (crash := recall(self.raw.meta)) is not None:
            raise ToolCrashError(text, self).with_traceback(crash.__traceback__) from crash
        raise ToolError(text, self)

    def __mcp_argument__(self, wanted: str) -> Any:
        """Return what stands for it as an argument: its one image or sound as bytes, its text, else its data."""
        self.raise_for_error()
        media = self._media("") if wanted == "bytes" else []
        return media[0].bytes if len(media) == 1 else argument_value(self.data, self.texts, wanted)

    @property
    def _name(self) -> str:
        return one_line(":".join(part for part in (self.server, self.tool) if part), 100) or "the tool"

    def __repr__(self) -> str:
        state = "error: " if self.is_error else ""
        shown = one_line(" ".join(self.texts[:3]), 40) if self.texts else ", ".join(self._found()) or "empty"
        return f"<ToolResult {self._name}: {state}{shown} (.data, .df, .text, .images)>"

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return what is displayed.

        Args:
            budget: What may be shown, for a display that holds more than this result; None for a display of its own.
        """
        budget = budget or Budget.full()
        parts: list[Part] = []
        if self.is_error:
            label = f"error from {self._name}"
            parts.append(Part(label, tag("p", error_label(label))))
        elif self._shows_data:
            parts.append(counted(data_part(self.data, budget), budget))
        parts += fitting(self._blocks, self._block_part, budget, ".text, .artifacts")
        if beside := self._beside():
            parts.append(Part(beside, note(beside)))
        parts = parts or [verbatim_part("(empty result)", budget)]
        return [*parts, self._filled_part()] if self.filled else parts

    def _filled_part(self) -> Part:
        given = listed(
            f"{one_line(path, 60)}={shown(value, secret=is_secret(path))}" for path, value in self.filled.items()
        )
        text = f"filled in from the tool's schema: {given}"
        return Part(text, note(text))

    def _beside(self) -> str:
        """Return what the structured content says beside the text that is shown instead of it."""
        structured = self.raw.structured_content
        if self.is_error or self._shows_data or not isinstance(structured, dict) or self._boxed:
            return ""
        return members_line({name: value for name, value in structured.items() if value not in self.texts})

    def _block_part(self, block: Any, budget: Budget) -> Part:
        if self.is_error and block.type == "text":
            return verbatim_part(block.text, budget)
        return part_of(block, budget, self.server)


def last_failed() -> ToolResult | None:
    """Return the answer of which a `ToolError` was raised last, or None."""
    return _failed[-1] if _failed else None
