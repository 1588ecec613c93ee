"""A recipe: how a server is run or reached, with the values that are still to be filled in.

A recipe becomes the table of a configuration file. There `${NAME}` is expanded with the variables of whoever uses the
file, so that a publisher must not write one: `${NAME}` in a text of theirs is a value to fill in, as `{NAME}` is, and
any other `${...}` is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.parsing import is_variable
from mcp_magic.display.text import LOOPBACK, one_line
from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.registry.entry import UNPRINTABLE, Input
from mcp_magic.schema.secrets import is_declared_secret

if TYPE_CHECKING:
    from mcp_magic.registry.entry import Remote

_HOLE = re.compile(r"(\$?)\{([^{}$]*)\}")
_FLAG_ONLY = Input()

Values = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class Slot:
    """A value to be filled in, under a key that is unique in its recipe."""

    key: str
    input: Input
    is_list: bool = False  # whether it may have several values, each for an argument of its own

    @property
    def is_needed(self) -> bool:
        """Whether nothing runs without it."""
        return self.input.required and self.input.default is None


@dataclass(frozen=True)
class Word:
    """An argument: a flag, texts with slots between them, or both. Left out if one of its slots has no value."""

    parts: tuple[str | Slot, ...] = ()
    flag: str = ""

    @property
    def slots(self) -> list[Slot]:
        """Its slots."""
        return [part for part in self.parts if isinstance(part, Slot)]

    def fill(self, values: Values) -> list[str]:
        """Return the words of the command."""
        texts = _texts(self.parts, values)
        if texts is None:
            return []
        if not self.parts:
            return [self.flag]
        if self.flag and self.slots and all(slot.input.format == "boolean" for slot in self.slots):
            return [f"{self.flag}={text}" for text in texts]
        return [word for text in texts for word in ((self.flag, text) if self.flag else (text,))]


def _texts(parts: Iterable[str | Slot], values: Values) -> list[str] | None:
    """Return the texts of some parts: several if a slot has a list; None if a slot has no value."""
    texts = [""]
    for part in parts:
        value = part if isinstance(part, str) else values.get(part.key)
        if value is None:
            return None
        several = [value] if isinstance(value, str) else [*value]
        texts = [text + end for text in texts for end in several]
    return texts


@dataclass(frozen=True)
class Recipe:
    """How to run or reach one server."""

    origin: str  # what it is made of, for people
    place: str = ""  # the host that has the package; empty for a bundle and a URL
    command: str = ""  # the program; empty for a URL
    words: tuple[Word, ...] = ()
    env: Mapping[str, Word] = field(default_factory=dict)
    url: Word | None = None
    headers: Mapping[str, Word] = field(default_factory=dict)
    transport: str = "stdio"
    env_at: int = -1  # the number of the word before which a container gets the variables, by their names
    cwd: str = ""  # the folder in which it runs; empty for that of the file
    digest: str = ""  # of what is downloaded, as its registry says
    version: str = ""
    unpinned: str = ""  # why what runs may change
    notes: tuple[str, ...] = ()

    @property
    def slots(self) -> list[Slot]:
        """All slots, each once, in the order of their use."""
        words = [*self.words, *self.env.values(), *([self.url] if self.url else []), *self.headers.values()]
        return list({slot.key: slot for word in words for slot in word.slots}.values())

    def table(self, values: Values) -> dict[str, Any]:
        """Return the table of a server in a configuration, with these values."""
        if self.url is not None:
            urls = _texts(self.url.parts, values) or [""]
            headers = {name: text for name, word in self.headers.items() for text in _texts(word.parts, values) or []}
            return {"transport": self.transport, "url": urls[0], **({"headers": headers} if headers else {})}
        env = {
            name: os.pathsep.join(texts)
            for name, word in self.env.items()
            if (texts := _texts(word.parts, values)) is not None
        }
        args: list[str] = []
        for number, word in enumerate(self.words):
            if number == self.env_at:
                args += [text for name in env for text in ("-e", name)]
            args += word.fill(values)
        cwd = {"cwd": self.cwd} if self.cwd else {}
        return {"command": self.command, "args": args, **cwd, **({"env": env} if env else {})}


class SlotMaker:
    """Makes the words of one recipe: equal inputs share a slot, different ones of one name get numbers."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._arguments = 0
        self.notes: list[str] = []

    def slot(self, own: Input) -> Slot:
        """Return the slot of an input."""
        default = own.default
        if default is not None and "${" in default:
            self.notes.append(f"the default of {one_line(own.label, 40)} has a variable and is left out")
            default = None
        if default is not None and own.choices and default not in own.choices:
            self.notes.append(f"the default of {one_line(own.label, 40)} is none of its choices and is left out")
            default = None
        own = replace(own, default=default)
        name = re.sub(r"[^\w.-]+", "_", own.label)[:60].strip("_")
        if not name:
            self._arguments += 1
            name = f"argument_{self._arguments}"
        number = 1
        while True:
            key = name if number == 1 else f"{name}_{number}"
            made = Slot(key, own, own.repeated)
            if self._slots.setdefault(key, made) == made:
                return made
            number += 1

    def parts(self, own: Input) -> tuple[str | Slot, ...]:
        """Return the text of an input, with slots for what is to be filled in.

        Raises:
            ConfigError: Its fixed text has a `${...}` that a configuration would expand.
        """
        if own.value is None:
            return (self.slot(own),)
        variables = {variable.name: variable for variable in own.variables}
        parts: list[str | Slot] = []
        end = 0
        for match in _HOLE.finditer(own.value):
            dollar, name = match[1], match[2]
            inner = variables.get(name)
            if inner is None and not (dollar and is_variable(name)):
                continue  # braces that are part of the text
            parts.append(own.value[end : match.start()])
            end = match.end()
            if inner is None:
                secret = own.secret or is_declared_secret(name)
                inner = Input(name, description=own.description, required=True, secret=secret)
            elif inner.value is not None:
                parts.append(inner.value)
                continue
            parts.append(self.slot(replace(inner, secret=inner.secret or own.secret)))
        parts.append(own.value[end:])
        for part in parts:
            if isinstance(part, str) and "${" in part:
                name = one_line(own.label or "an argument", 40)
                raise ConfigError(f"the text of {name} has a reference that a configuration would fill in: {part[:80]}")
        return tuple(part for part in parts if part != "")

    def arguments(self, inputs: Iterable[Input]) -> list[Word]:
        """Return the words of some arguments."""
        words = []
        for own in inputs:
            bare = replace(own, name="", kind="value") == _FLAG_ONLY
            if own.kind == "named" and bare:
                words.append(Word(flag=own.name))
            elif own.kind == "named":
                words.append(Word(self.parts(own), own.name))
            else:
                words.append(Word(self.parts(own)))
        return words

    def named(self, inputs: Iterable[Input]) -> dict[str, Word]:
        """Return the words of variables or headers, by name."""
        return {own.name: Word(self.parts(own)) for own in inputs}


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def remote_recipe(remote: Remote) -> Recipe:
    """Return the recipe of an endpoint.

    Raises:
        ConfigError: Its URL or a header cannot be used.
    """
    maker = SlotMaker()
    url = Word(maker.parts(Input("url", value=remote.url, variables=remote.variables)))
    names = [header.name for header in remote.headers if not _TOKEN.fullmatch(header.name)]
    if names:
        raise ConfigError(f"{one_line(names[0], 60)!r} is not the name of a header")
    start = url.parts[0] if url.parts else ""
    if isinstance(start, str):
        try:
            host = urlsplit(start).hostname
        except ValueError:
            start = ""
        if not re.match(r"https?://", start):
            raise ConfigError(f"{one_line(remote.url, 100)!r} is not a URL with http or https")
        if start.startswith("http:") and host not in LOOPBACK:
            maker.notes.append("nothing is encrypted on the way: others on the network can read and change it")
    transport = "sse" if remote.type == "sse" else "http"
    kind = "SSE" if transport == "sse" else "streamable HTTP"
    why = "the server at the URL may change at any time"
    headers = maker.named(remote.headers)
    return Recipe(
        f"a server at a URL ({kind})",
        url=url,
        headers=headers,
        transport=transport,
        unpinned=why,
        notes=tuple(maker.notes),
    )


# The values of slots: from `--set`, from a form, and by default.


def form_schema(slots: Sequence[Slot]) -> dict[str, Any]:
    """Return the JSON Schema of a form for slots."""
    properties: dict[str, Any] = {}
    for slot in slots:
        own = slot.input
        # a number stays text: what the publisher calls one is passed on as it is typed
        shape: dict[str, Any] = {"type": "boolean"} if own.format == "boolean" else {"type": "string"}
        if own.choices:
            shape = {"type": "string", "enum": [*own.choices]}
        if slot.is_list:
            shape = {"type": "array", "items": shape}
        words = [own.description, f"for example {own.placeholder}" if own.placeholder else ""]
        shape["description"] = one_line("; ".join(filter(None, words)), 400)
        if own.secret:
            shape["writeOnly"] = True
        if own.default is not None and not own.secret:
            shape["default"] = _as_typed(slot, own.default)
        properties[slot.key] = shape
    needed = [slot.key for slot in slots if slot.is_needed]
    return {"type": "object", "properties": properties, "required": needed}


def _as_typed(slot: Slot, text: str) -> Any:
    value: Any = text.lower() == "true" if slot.input.format == "boolean" and not slot.input.choices else text
    return [value] if slot.is_list else value


def default_values(slots: Iterable[Slot]) -> dict[str, str | Sequence[str]]:
    """Return the publisher's defaults."""
    return {
        slot.key: [slot.input.default] if slot.is_list else slot.input.default
        for slot in slots
        if slot.input.default is not None
    }


def read_values(slots: Sequence[Slot], typed: Mapping[str, Any]) -> dict[str, str | Sequence[str]]:
    """Return the values of slots, checked, with defaults for those without one. An empty text is no value.

    Raises:
        ArgumentsError: A key is unknown, a value is not among the choices, or one is missing.
    """
    by_key = {slot.key: slot for slot in slots}
    values: dict[str, str | Sequence[str]] = {}
    for key, value in typed.items():
        name = key if key in by_key else next((own for own in by_key if own.lower() == key.lower()), None)
        if name is None:
            takes = f" It takes {join_names(by_key)}." if by_key else " It takes no values."
            raise ArgumentsError(f"{one_line(key, 60)!r} is no value of this server.{did_you_mean(key, by_key)}{takes}")
        slot = by_key[name]
        texts = [_text(item) for item in (value if isinstance(value, list | tuple) else [value])]
        texts = [text for text in texts if text]
        if len(texts) > 1 and not slot.is_list:
            raise ArgumentsError(f"{name} takes one value, not {len(texts)}.")
        for text in texts:
            _check(slot, text)
        if texts:
            values[name] = texts if slot.is_list else texts[0]
    return {**default_values(slots), **values}


def find_missing(slots: Iterable[Slot], values: Values) -> list[str]:
    """Return the keys of the slots that are needed and have no value."""
    return [slot.key for slot in slots if slot.input.required and not values.get(slot.key)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _check(slot: Slot, text: str) -> None:
    own = slot.input
    shown = "***" if own.secret else repr(one_line(text, 60))
    if own.choices and text not in own.choices:
        raise ArgumentsError(f"{slot.key}: {shown} is none of its choices: {join_names(own.choices)}.")
    if own.format == "boolean" and not own.choices and text not in ("true", "false"):
        raise ArgumentsError(f"{slot.key}: {shown} is neither true nor false.")
    if own.format == "number":
        try:
            float(text)
        except ValueError:
            raise ArgumentsError(f"{slot.key}: {shown} is not a number.") from None
    if UNPRINTABLE.search(text):
        raise ArgumentsError(f"{slot.key}: a value cannot have control characters or line ends.")
