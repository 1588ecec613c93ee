"""Writes servers into configuration files, as text: whatever else is in the file, comments too, stays as it is.

The text is changed and then parsed. If it does not mean what the file meant before, with this server more or less,
nothing is written. A file is replaced as a whole, so that no half of it is ever read.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import did_you_mean, join_names, json_text
from mcp_magic._unicode import HIDDEN
from mcp_magic.config.parsing import (
    LARGEST,
    blank_comments,
    kind_of,
    parse_json,
    parse_toml,
    plain_json,
    read_bytes,
    replace_text,
    slug,
    toml_document,
)
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

JSON_KEYS = ("mcpServers", "servers")  # of the table of servers in a JSON file; the second is VS Code's
_HEADER = re.compile(r"[ \t]*\[\[?[^\]\n]*\]\]?[ \t]*(#.*)?")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_IS_TABLE = re.compile(r"\s*\[")


@dataclass(frozen=True)
class ServerFile:
    """The text of a configuration file that has servers, or will have one.

    Attributes:
        path: The file, with symbolic links followed.
        text: Its text, with its own line ends; "" if there is no file.
    """

    path: Path
    text: str

    @property
    def is_toml(self) -> bool:
        """Whether it is TOML; otherwise it is JSON with comments."""
        return self.path.suffix == ".toml"

    @property
    def is_editors(self) -> bool:
        """Whether it is a file of VS Code, which has `inputs` and other keys."""
        return not self.is_toml and self._key == JSON_KEYS[1]

    @property
    def _data(self) -> dict[str, Any]:
        data: Any = {}
        if self.is_toml:
            data = toml_document(self.text, str(self.path))
        elif self.text.strip():
            data = parse_json(self.text, source=str(self.path))
        if not isinstance(data, dict):
            raise ConfigError(f"{self.path}: expected an object, got {kind_of(data)}.")
        return data

    @property
    def _key(self) -> str:
        """The key of the servers in a JSON file."""
        data = self._data
        default = JSON_KEYS[1] if self.path.parent.name == ".vscode" else JSON_KEYS[0]
        return next((key for key in JSON_KEYS if key in data), default)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The keys that lead to the table of servers."""
        if not self.is_toml:
            return (self._key,)
        return ("tool", "mcp_magic", "servers") if self.path.name == "pyproject.toml" else ("servers",)

    @property
    def servers(self) -> dict[str, Any]:
        """The tables of its servers, as they are written."""
        table: Any = self._data
        for key in self._keys:
            table = table.get(key, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise ConfigError(f"{self.path}: {self._keys[-1]}: expected servers by name, got {kind_of(table)}.")
        return table

    def twin(self, name: str) -> str:
        """Return the name of the server that has this name, or one that differs too little; "" if there is none."""
        return next((own for own in self.servers if slug(own) == slug(name)), "")

    def added(self, name: str, table: Mapping[str, Any], *, comment: str, inputs: Sequence[Any] = ()) -> str:
        """Return the text with a server more.

        Raises:
            ConfigError: The file has one of this name, or cannot be changed without changing something else.
        """
        if twin := self.twin(name):
            raise ConfigError(f"{self.path} has a server {twin!r}; `--name NAME` gives this one another name.")
        wanted = self._data
        place = wanted
        for key in self._keys:
            place = place.setdefault(key, {})
        place[name] = json.loads(json.dumps(table))
        if inputs:
            own = wanted.get("inputs", [])
            if not isinstance(own, list):
                raise ConfigError(f"{self.path}: inputs: expected a list, got {kind_of(own)}.")
            wanted["inputs"] = [*own, *inputs]
        texts = self._toml_added(name, table, comment) if self.is_toml else self._json_added(name, table, inputs)
        for text in texts:
            if ServerFile(self.path, text).means(wanted):
                return text
        line = json_text({name: table})
        raise ConfigError(f"{self.path} cannot be changed without changing something else; write it by hand: {line}")

    def removed(self, name: str) -> str:
        """Return the text without a server.

        Raises:
            ConfigError: The file has none of this name, or cannot be changed without changing something else.
        """
        servers = self.servers
        if name not in servers:
            has = f" It has: {join_names(servers)}" if servers else " It has none."
            raise ConfigError(f"{self.path} has no server {name!r}.{did_you_mean(name, servers)}{has}")
        wanted = self._data
        place = wanted
        for key in self._keys:
            place = place[key]
        del place[name]
        for text in self._toml_removed(name) if self.is_toml else self._json_removed(name):
            if ServerFile(self.path, text).means(wanted):
                return text
        raise ConfigError(f"{self.path}: {name!r} cannot be taken out without changing something else; do it by hand.")

    def means(self, wanted: dict[str, Any]) -> bool:
        """Whether the text has this meaning, but for tables that are empty."""
        try:
            return bool(_without_empty(self._data) == _without_empty(wanted))
        except ConfigError:
            return False

    @property
    def _line_end(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    # TOML

    def _toml_added(self, name: str, table: Mapping[str, Any], comment: str) -> Iterator[str]:
        head = ".".join(key if _BARE.fullmatch(key) else toml_value(key) for key in (*self._keys, name))
        lines = [f"[{head}]", *([f"# {comment}"] if comment else [])]
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if key != "sandbox"]
        if rights := table.get("sandbox"):
            lines += ["", f"[{head}.sandbox]", *(f"{key} = {toml_value(value)}" for key, value in rights.items())]
        elif rights is not None:
            lines.append(f"sandbox = {toml_value(rights)}")
        start = self.text if not self.text or self.text.endswith("\n") else self.text + self._line_end
        gap = self._line_end if start.strip() else ""
        yield start + gap + "".join(line + self._line_end for line in lines)

    def _toml_removed(self, name: str) -> Iterator[str]:
        lines = self.text.splitlines(keepends=True)
        heads = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip("\r\n"))]
        heads.append(len(lines))
        drop: set[int] = set()
        for at, number in enumerate(heads[:-1]):
            if not self._is_header_of(lines[number], name) or not _is_complete(lines[:number]):
                continue
            following = next(own for own in heads[at + 1 :] if own == len(lines) or _is_complete(lines[:own]))
            end = following
            while following < len(lines) and end > number + 1 and re.fullmatch(r"\s*(#.*)?\s*", lines[end - 1]):
                end -= 1  # what stands above the next table belongs to that
            drop |= {*range(number, end)}
            if end < following and not lines[end].strip() and number and not lines[number - 1].strip():
                drop.add(end)  # one of the two empty lines that would meet
        rest = "".join(line for number, line in enumerate(lines) if number not in drop)
        if len(lines) - 1 in drop:
            yield rest.rstrip() + self._line_end if rest.strip() else ""
        yield rest

    def _is_header_of(self, line: str, name: str) -> bool:
        if not _IS_TABLE.match(line):
            return False
        try:
            table: Any = tomllib.loads(line)
        except ValueError:
            return False
        for key in (*self._keys, name):
            if not isinstance(table, dict) or key not in table:
                return False
            table = table[key]
        return True

    # JSON

    def _json_added(self, name: str, table: Mapping[str, Any], inputs: Sequence[Any]) -> Iterator[str]:
        text = self.text if self.text.strip() else "{}\n"
        for line_end in (True, False):
            changed = _inserted(text, (self._key,), name, table, after_line=line_end, new_line=self._line_end)
            if inputs:
                changed = _with_inputs(changed, inputs, self._line_end)
            yield changed

    def _json_removed(self, name: str) -> Iterator[str]:
        text = self.text
        blank, commented = plain_json(text), blank_comments(text)
        _, members, _ = _object_at(blank, (self._key,))
        number = next(number for number, member in enumerate(members) if member.name == name)
        own = members[number]
        cuts = [(own.start, own.end)]
        if number + 1 < len(members):
            comma = commented.index(",", own.end)
            cuts = [(own.start, comma + 1)] if not text[own.end : comma].strip() else [*cuts, (comma, comma + 1)]
        elif number:
            comma = commented.index(",", members[number - 1].end)
            cuts.insert(0, (comma, comma + 1))
        for start, end in reversed(cuts):
            before, after = text[:start], text[end:]
            line = before.rpartition("\n")[2]
            if not line.strip() and "\n" in before and re.match(r"[ \t]*\r?\n", after):  # an empty line would stay
                before, after = before[: len(before) - len(line)], re.sub(r"^[ \t]*\r?\n", "", after)
            text = before + after
        yield text


def _is_complete(lines: Sequence[str]) -> bool:
    """Whether lines are TOML, and do not end within a text or a list."""
    try:
        parse_toml("".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, part in value.items() if (inner := _without_empty(part)) not in ({}, [])}
    return value


# TOML values


def toml_value(value: Any) -> str:
    """Return a value on one line of TOML.

    >>> toml_value({"a b": ["x", 1], "c": True})
    '{ "a b" = ["x", 1], c = true }'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return HIDDEN.sub(_escaped, json.dumps(value, ensure_ascii=False)).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        pairs = (f"{key if _BARE.fullmatch(key) else toml_value(key)} = {toml_value(v)}" for key, v in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return str(value)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}" for char in match[0])


# Places in JSON with comments. Offsets are the same in a text and in its plain form.

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


class _Member(NamedTuple):
    name: str
    start: int  # of its name
    value: int  # of its value
    end: int


def _members(plain: str, at: int) -> tuple[list[_Member], int]:
    """Return the members of the object that begins at an offset, and the offset of its end."""
    members: list[_Member] = []
    at += 1
    while True:
        at = _after_space(plain, at)
        if plain[at] == "}":
            return members, at
        if plain[at] == ",":
            at = _after_space(plain, at + 1)
        name, end = _DECODER.raw_decode(plain, at)
        value = _after_space(plain, _after_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members.append(_Member(name, at, value, end))
        at = end


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _object_at(plain: str, keys: Sequence[str]) -> tuple[int, list[_Member], int]:
    """Return the offset of an object, its members and the offset of its end; LookupError if it is not there."""
    start = _after_space(plain, 0)
    members, end = _members(plain, start)
    for key in keys:
        [*_, inner] = [member for member in members if member.name == key]  # of several, the last one counts
        start = inner.value
        members, end = _members(plain, start)
    return start, members, end


def _inserted(
    text: str, keys: Sequence[str], name: str, value: Any, *, after_line: bool, new_line: str, unit: str = ""
) -> str:
    """Return JSON with a member more in the object to which some keys lead; objects that are not there are made."""
    plain, commented = plain_json(text), blank_comments(text)
    present = len(keys)
    while True:
        try:
            start, members, end = _object_at(plain, keys[:present])
            break
        except ValueError:  # no such member
            present -= 1
    for key in reversed(keys[present:]):
        name, value = key, {name: value}
    unit = unit or _unit(text)
    outer = _indent(text, start)
    indent = _indent(text, members[-1].start) if members and _is_first(text, members[-1].start) else outer + unit
    body = json_text(value, indent=len(unit) if unit != "\t" else 4)
    if unit == "\t":
        body = re.sub(r"^( {4})+", lambda match: "\t" * (len(match[0]) // 4), body, flags=re.MULTILINE)
    entry = f"{json_text(name)}: {body}".replace("\n", f"\n{indent}").replace("\n", new_line)
    if not members:
        rest = "" if re.match(r"[ \t]*\r?\n", text[start + 1 :]) else new_line + outer
        return f"{text[: start + 1]}{new_line}{indent}{entry}{rest}{text[start + 1 :]}"
    at = members[-1].end
    comma = commented.find(",", at, end)
    line = text.find("\n", at, end)
    own = at if comma < 0 else comma + 1
    place = line - (text[line - 1] == "\r") if after_line and line >= own and not plain[own:line].strip() else own
    sign = "," if comma < 0 else ""
    closing = "" if "\n" in text[place:end] else new_line + outer
    return f"{text[:at]}{sign}{text[at:place]}{new_line}{indent}{entry}{closing}{text[place:]}"


def _with_inputs(text: str, inputs: Sequence[Any], new_line: str) -> str:
    """Return VS Code's JSON with inputs more."""
    plain = plain_json(text)
    start, members, _ = _object_at(plain, ())
    own = [member for member in members if member.name == "inputs"]
    if not own:
        entry = json_text("inputs") + ": " + json_text(list(inputs), indent=2)
        indent = _indent(text, members[0].start) if members and _is_first(text, members[0].start) else "  "
        entry = entry.replace("\n", f"{new_line}{indent}")
        comma = "," if members else ""
        return f"{text[: start + 1]}{new_line}{indent}{entry}{comma}{text[start + 1 :]}"
    at = own[-1].value + 1
    entries = ", ".join(json_text(item) for item in inputs)
    has_more = plain[_after_space(plain, at)] != "]"
    if has_more:
        return f"{text[: own[-1].end - 1].rstrip()}, {entries}]{text[own[-1].end :]}"
    return f"{text[:at]}{entries}{text[at:]}"


def _unit(text: str) -> str:
    """Return the indentation of one level."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return ("\t" if match[1][0] == "\t" else match[1][:8]) if match else "  "


def _indent(text: str, at: int) -> str:
    """Return the white space at the start of the line of an offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _is_first(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


# Files


def read_file(path: Path) -> ServerFile:
    """Read a configuration file; one that does not exist is empty.

    Raises:
        ConfigError: It cannot be read, or is of no format that can be written.
    """
    path = Path(os.path.realpath(path.expanduser().absolute()))
    if path.suffix not in (".toml", ".json"):
        raise ConfigError(
            f"{path} is not written: servers are written into mcp_magic.toml, mcp.json, .vscode/mcp.json."
        )
    if not path.exists():
        return ServerFile(path, "")
    try:
        return ServerFile(path, read_bytes(path, LARGEST).decode("utf-8-sig"))
    except OSError as error:
        problem = f"{path}: cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        problem = f"{path}: not UTF-8 (byte {error.start})"
    raise ConfigError(problem)


def write_file(path: Path, text: str) -> None:
    """Replace a file as a whole; its mode stays. Raises ConfigError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
        return
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror or error}"
    raise ConfigError(problem)
