"""The syntax of the arguments on a `%mcp` line: reads the words of a line, and writes lines that read back."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic._text import similar_name
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import UnfitText, base64_text, from_text, is_reading, read_json, takes_text, to_json_value
from mcp_magic.schema.fields import Field, kept_root, shorten
from mcp_magic.schema.resolve import json_equal
from mcp_magic.schema.secrets import is_secret_name
from mcp_magic.schema.validate import check_arguments, unfit, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import PromptArgument


# The syntax of one argument, as in HTTPie: `name=text`, `name:=json`, `name=$variable`, `name={expression}`,
# `name=@file`, `name:=@file`, where `@cell` is the cell below the line. Without a name, `$dict`, `{expression}` or a
# JSON object gives all arguments. In a name, a backslash escapes the next character; before a value, it keeps `$`, `{`
# and `@` as text.

Source = Literal["text", "json", "python", "file", "json file"]

CELL = "cell"  # the word after `@` that stands for the cell below the line

MAX_SUGGESTED = 200
"""Characters of the longest text that a message repeats in quotes; for a longer one it shows only the syntax."""

_VARIABLE = re.compile(r"\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_ESCAPED = re.compile(r"\\+[${@]")

_PART = re.compile(r"(?:[^\\=.:]++|\\.?|:(?!=))*+", re.DOTALL)  # of a name, up to its next dot or its end
_PROTECTED = re.compile(r"\\(.)", re.DOTALL)

_WITH_APOSTROPHE = re.compile(r"""[^"\\]*'[^"\\]*""")  # A text with an apostrophe, which reads better in double quotes

_SPELLINGS = "write name=value, name:=json, or $dict for all arguments"

REFERENCE = re.compile(r"\$([^\W\d]\w*)|\{(.+)\}", re.DOTALL)
"""A whole word that stands for a Python object: `$variable` or `{expression}`."""


@dataclass(frozen=True)
class Item:
    """One argument as the user wrote it: its name, split at its dots (empty for all arguments), and its value."""

    parts: tuple[str, ...]
    source: Source
    text: str

    @property
    def name(self) -> str:
        """The whole name, for messages."""
        return ".".join(self.parts)


def read_item(word: str, *, objects: bool = True) -> Item:
    """Parse one argument; without `objects`, `$variable` and `{expression}` are text."""
    if word[:1] in ("$", "{") and (item := _read_all(word, objects)):
        return item
    parts, end, is_json = _read_name(word)
    value = word[end:]
    if is_json:
        return Item(parts, "json file", value[1:]) if value.startswith("@") else Item(parts, "json", value)
    if _ESCAPED.match(value):
        return Item(parts, "text", value[1:])
    if value.startswith("@") and len(value) > 1:
        return Item(parts, "file", value[1:])
    source = _python(value) if objects and value[:1] in ("$", "{") else None
    return Item(parts, "text", value) if source is None else Item(parts, "python", source)


def _read_name(word: str) -> tuple[tuple[str, ...], int, bool]:
    """Return the parts of the name, the index of the value, and whether the value is JSON."""
    parts, index, sign = [], 0, "."
    while sign == ".":
        part = _PART.match(word, index)
        assert part is not None  # it matches nothing as well
        text, index = part[0], part.end() + 1
        parts.append(_PROTECTED.sub(r"\1", text) if "\\" in text else text)
        sign = word[index - 1 : index]
    if sign:
        is_json = sign == ":"
        return tuple(parts), index + is_json, is_json
    raise ArgumentsError(f"cannot read {shorten(word)!r} as an argument: {_SPELLINGS}")


def is_stray(word: str) -> bool:
    """Return whether a word is no argument, because it has no `=` and is no object."""
    if word[:1] in ("$", "{") and _read_all(word, objects=True):
        return False
    try:
        _read_name(word)
    except ArgumentsError:
        return True
    return False


def stray_error(words: Sequence[str], index: int) -> ArgumentsError:
    """Return the error for a stray word, which shows the quoted text to type instead."""
    problem = f"cannot read {shorten(words[index])!r} as an argument"
    if index + 1 < len(words) and words[index + 1].startswith(("=", ":=")):
        equals, _, first = words[index + 1].partition("=")
        name, rest = f"{words[index]}{equals}=", words[index + 2 :]
        advice = "without spaces around the ="
    elif index and not is_stray(words[index - 1]):
        _, end, is_json = _read_name(words[index - 1])
        name, first, rest = words[index - 1][:end], words[index - 1][end:], words[index:]
        advice = "quote it" if first else "without spaces around the ="
        if is_json or first[:1] in ("$", "{", "@"):
            return ArgumentsError(f"{problem}: {_SPELLINGS}")
    else:
        return ArgumentsError(f"{problem}: {_SPELLINGS}")
    # In a shell, a backslash keeps the next space in the word. Here it does not, so the advice omits it.
    texts = [word.removesuffix("\\") for word in (first, *itertools.takewhile(is_stray, rest)) if word]
    text = " ".join(texts)
    if is_secret_name(name.rstrip(":=")):
        return ArgumentsError(f"cannot read the words after {name!r} as one argument; {advice}: {name}'...'")
    if text.startswith("["):
        return ArgumentsError(f'{problem}; a list is JSON: {name}["a", "b"], or Python in braces: {name}{{[a, b]}}')
    if len(text) > MAX_SUGGESTED:
        return ArgumentsError(f"{problem}; {advice}: {name}'...'")
    quoted = f'"{text}"' if _WITH_APOSTROPHE.fullmatch(text) else shlex.quote(text)
    return ArgumentsError(f"{problem}; {advice}: {name}{quoted}")


def _read_all(word: str, objects: bool) -> Item | None:
    """Return the item of a word that gives all arguments; None for other words, such as a name with a dollar."""
    if _is_json(word):
        return Item((), "json", word)
    match = _VARIABLE.fullmatch(word)
    source = match[1] if match else python_source(word)
    return Item((), "python", source) if objects and source else None


def _python(value: str) -> str | None:
    """Return the Python source in a value, or None. A JSON object is no expression."""
    if match := _VARIABLE.fullmatch(value):
        return match[1]
    if not _in_braces(value) or _is_json(value):
        return None
    return python_source(value) or value[1:-1].strip() or None


def python_source(value: str) -> str | None:
    """Return the expression in braces, or the dict or set that the braces belong to; None if there is neither."""
    if not _in_braces(value) or _is_json(value):
        return None
    for source in (value[1:-1].strip(), value):
        with suppress(SyntaxError, ValueError):
            ast.parse(source, mode="eval")
            return source
    return None


def _in_braces(value: str) -> bool:
    return len(value) > 2 and value.startswith("{") and value.endswith("}")


def _is_json(value: str) -> bool:
    try:
        read_json(value)
    except ValueError:
        return False
    return True


def escape_name(name: str) -> str:
    """Escape a property's name so that `read_item` reads it back as one part."""
    escaped = re.sub(r"[\\.=]|:(?==|$)", r"\\\g<0>", name)
    # A leading dash would make it an option; a leading `$` or `{` could make it all arguments.
    return f"\\{escaped}" if escaped[:1] in ("-", "$", "{") else escaped


def escape_text(text: str) -> str:
    """Escape a text so that `read_item` reads it back unchanged."""
    return f"\\{text}" if re.match(r"\\*[${@]", text) else text


def escape_word(text: str) -> str:
    """Escape a text so that a command reads it back unchanged, not as a variable or an expression."""
    return f"\\{text}" if REFERENCE.fullmatch(text.lstrip("\\")) else text


def unescape_word(word: str) -> str:
    """Return the text of an escaped word; the inverse of `escape_word`."""
    return word[1:] if word.startswith("\\") and escape_word(word[1:]) == word else word


# From the words of a `%mcp call` line to the JSON object that is sent.

Evaluate = Callable[[str], Any]
Convert = Callable[[Any, Field, str], Any]
Path_ = tuple[str, ...]


@dataclass(frozen=True)
class _Reader:
    """The context in which the values of a line are read."""

    evaluate: Evaluate | None
    directory: Path
    convert: Convert
    cell: str | None
    notes: list[str]


def parse_arguments(
    items: Sequence[str],
    schema: Mapping[str, Any],
    *,
    evaluate: Evaluate | None = None,
    directory: Path | None = None,
    convert: Convert = to_json_value,
    cell: str | None = None,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """Return the arguments that a command line gives, converted by the schema; ArgumentsError if one does not fit.

    To `notes` is added how a text was read that the schema takes as it is, too.
    """
    root = kept_root(schema)
    reader = _Reader(evaluate, directory or Path(), convert, cell, [] if notes is None else notes)
    places: dict[Path_, tuple[Field, list[Item]]] = {}
    result: dict[str, Any] = {}
    for index, word in enumerate(items):
        try:
            item = read_item(word, objects=evaluate is not None)
        except ArgumentsError:
            raise stray_error(items, index) from None
        if not item.parts:
            result |= _all(item, word, root, reader)
            continue
        path, where = _locate(root, item.parts)
        places.setdefault(path, (where, []))[1].append(item)
    for path, (where, group) in places.items():
        if any(path[:size] in places for size in range(1, len(path))):
            raise ArgumentsError(f"{path[0]} is given whole and in parts ({'.'.join(path)}); give one of them")
        _place(result, path, _value(where, group, reader))
    return result


def _all(item: Item, word: str, root: Field, reader: _Reader) -> dict[str, Any]:
    value = _read(item, root, reader, shorten(word))
    if isinstance(value, dict):
        return value
    problem = f"it is {type(value).__name__}, not a dict of all arguments; write name={word} for one of them"
    raise ArgumentsError(f"cannot read {shorten(word)!r} as arguments: {problem}")


def _locate(field: Field, parts: Path_) -> tuple[Path_, Field]:
    """Return the path and field of a dotted name. A property with dots in its own name wins over nesting."""
    path: Path_ = ()
    while parts:
        for size in range(len(parts), 0, -1):
            name = ".".join(parts[:size])
            child = field.child(name)
            if child is not None:
                break
        else:
            child = field.at(name)
            if child is None:  # dots may be part of a misspelt name, so "did you mean" gets all of it
                raise ArgumentsError(unknown([".".join(parts)], field, ".".join(path)))
        field, path, parts = child, (*path, name), parts[size:]
    return path, field


def _value(where: Field, items: list[Item], reader: _Reader) -> Any:
    path = items[0].name
    if len(items) == 1:
        return _read(items[0], where, reader, path)
    lists = [variant for variant in (where, *where.variants) if variant.kind in ("array", "any")]
    if not lists:
        raise ArgumentsError(f"{path} is given {len(items)} times; it takes one value ({where.type_text})")
    return [_read(item, lists[0].at(at) or where, reader, f"{path}[{at}]") for at, item in enumerate(items)]


def _read(item: Item, field: Field, reader: _Reader, path: str) -> Any:
    match item.source:
        case "json":
            return _json(item.text, path)
        case "json file":
            data = _file(item.text, reader, path)
            try:
                return _json(data.decode("utf-8-sig"), path)
            except UnicodeDecodeError:
                raise ArgumentsError(f"{path}: the file is not UTF-8 text, so it is not JSON") from None
        case "file":
            return _from_file(_file(item.text, reader, path), field, path)
        case "python":
            value = _evaluated(item.text, reader, path)
            _check_table(value, item.text, field, path)
            return reader.convert(value, field, path)
        case "text":
            value = _text(item.text, field, path)
            if is_reading(value, field):
                reader.notes.append(_reading(value, item, path))
            return value


def _reading(value: Any, item: Item, path: str) -> str:
    """Say that a text was read as JSON, and how to give the text itself."""
    exact = shlex.quote(f"{'.'.join(map(escape_name, item.parts))}:={_json_item(path, item.text)}")
    instead = f"; for the text write {exact}" if len(exact) <= MAX_SUGGESTED else ""
    kind = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a number"
    return f"{path} was read as JSON, {kind}{instead}"


def _text(text: str, field: Field, path: str) -> Any:
    try:
        return from_text(text, field)
    except UnfitText:
        several = f"; several are {path}=A {path}=B" if field.kind == "array" and "," in text else ""
        raise ArgumentsError(unfit(path, field, text) + several) from None


def _json(text: str, path: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise ArgumentsError(f"{path}: the value after := is not JSON: {error}; for text write {path}=text") from None


def _evaluated(source: str, reader: _Reader, path: str) -> Any:
    assert reader.evaluate is not None  # else `read_item` takes it as text
    try:
        return reader.evaluate(source)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    # Raised outside the except block: an exception group must not leave the package, not even as a context.
    raise ArgumentsError(f"{path}: cannot evaluate {source!r}: {problem}")


def _check_table(value: Any, source: str, field: Field, path: str) -> None:
    """Raise ArgumentsError for a DataFrame where the values of one column are wanted; it names the column to give."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("pandas", "polars") or type(value).__name__ != "DataFrame" or not len(value.columns):
        return
    items = [variant.at(0) for variant in (field, *field.variants) if variant.kind == "array"]
    kinds = {variant.kind for item in items if item is not None for variant in (item, *item.variants)}
    if not kinds or not kinds <= {"string", "number", "integer", "boolean", "enum"} or None in items:
        return
    names = [name for name in value.columns if isinstance(name, str)]
    texts = [name for name in names if kinds == {"string"} and all(isinstance(cell, str) for cell in value[name][:20])]
    column = similar_name(path.rpartition(".")[2], names) or next(iter(texts + names), None)
    if column is None:
        return
    of = source if re.fullmatch(r"[\w.]+", source) else f"({source})"
    is_attribute = library == "pandas" and column.isidentifier() and not hasattr(type(value), column)
    expression = f"{of}.{column}" if is_attribute and not iskeyword(column) else f"{of}[{json.dumps(column)}]"
    raise ArgumentsError(
        f"{path}: expected {field.type_text}, got a DataFrame; give one of its columns: {path}={{{expression}}}"
    )


def _file(name: str, reader: _Reader, path: str) -> bytes:
    if name == CELL and reader.cell is not None:
        return reader.cell.encode()
    place = reader.directory / Path(name).expanduser()
    try:
        return place.read_bytes()
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        below = "; the text of a cell needs %%mcp above it" if name == CELL else ""
        message = f"{path}: cannot read {str(place)!r}: {why}; for the text write '\\@{name}'{below}"
        raise ArgumentsError(message) from None


def _from_file(data: bytes, field: Field, path: str) -> Any:
    """Return base64 if the schema asks for it or a text field gets binary data, else the text as the field reads it."""
    if field.is_base64:
        return base64_text(data, field)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if takes_text(field):
            return base64_text(data, field)
        raise ArgumentsError(f"{path}: expected {field.type_text}, got a file that is not UTF-8 text") from None
    return text if takes_text(field) else _text(text.strip(), field, path)


def _place(result: dict[str, Any], path: Path_, value: Any) -> None:
    """Put a value at its path, creating the objects on the way."""
    for part in path[:-1]:
        if not isinstance(result.get(part), dict):
            result[part] = {}
        result = result[part]
    result[path[-1]] = value


# From arguments to the `%mcp` line that gives them, the inverse of `parse_arguments`.

MAX_REPEATED = 4
"""Items of the longest list or object that is written as repeated `name=`; a longer one is written as JSON."""

_RESERVED_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null"))


def call_line(
    tool: str,
    arguments: Mapping[str, Any],
    command: str = "%mcp call",
    *,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Return the line that calls a tool; `parse_arguments` reads exactly these arguments back."""
    if all(map(str.isprintable, arguments)):
        items = [item for name, value in arguments.items() for item in _items(name, value, schema)]
    else:
        items = [_json_item("arguments", dict(arguments))]
    return line_or_comment(" ".join([command, *map(shlex.quote, [tool, *items])]))


def line_or_comment(line: str, *, typed: bool = True) -> str:
    """Return the line, or a comment in its place if it (or, without `typed`, a word of it) cannot be typed.

    A line end would start another line, and invisible characters (bidirectional controls, zero-width spaces) would
    make the line differ from what the user sees.
    """
    if typed and line.isprintable():
        return line
    escapes = {ord(c): c.encode("unicode_escape").decode() for c in set(line) if not c.isprintable()}
    return f"# cannot be typed: {line.translate(escapes)}"


def as_word(text: str) -> str | None:
    """Return a text as one word that a command reads back unchanged; None if it cannot be typed."""
    return shlex.quote(escape_word(text)) if text.isprintable() and not text.startswith("-") else None


def as_command(words: Iterable[str]) -> str:
    """Return a command as typed after `--`; its words are read back unchanged."""
    return " ".join(shlex.quote(escape_word(word)) for word in words)


def prompt_line(prompt: str, arguments: Mapping[str, str]) -> str:
    """Return the line that gets a prompt."""
    return call_line(prompt, arguments, "%mcp prompt", schema={"additionalProperties": {"type": "string"}})


def _items(name: str, value: Any, schema: Mapping[str, Any] | None) -> list[str]:
    """Return the items of one argument in the simplest spelling that reads back."""
    escaped = escape_name(name)
    exact = [f"{escaped}:={_json_item(name, value)}"]
    if schema is None:
        plain = isinstance(value, str) and value.isprintable() and not _looks_like_json(value)
        return [f"{escaped}={escape_text(value)}"] if plain else exact
    return next((items for items in _simpler(escaped, value) if _reads_back(items, name, value, schema)), exact)


def _simpler(name: str, value: Any) -> Iterator[list[str]]:
    if (text := _as_text(value)) is not None:
        yield [f"{name}={text}"]
    if isinstance(value, list) and 0 < len(value) <= MAX_REPEATED:
        texts = [text for text in map(_as_text, value) if text is not None]
        if len(texts) == len(value):
            yield [f"{name}={text}" for text in texts]
    if isinstance(value, dict) and 0 < len(value) <= MAX_REPEATED:
        pairs = [(str(key), _as_text(item)) for key, item in value.items()]
        if all(text is not None and key.isprintable() for key, text in pairs):
            yield [f"{name}.{escape_name(key)}={text}" for key, text in pairs]


def _as_text(value: Any) -> str | None:
    """Return a scalar as typed, or None if it takes JSON to write it on one line."""
    if isinstance(value, str):
        return escape_text(value) if value.isprintable() else None
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _reads_back(items: list[str], name: str, value: Any, schema: Mapping[str, Any]) -> bool:
    try:
        read = parse_arguments(items, schema)
    except ArgumentsError:
        return False
    return json_equal(read, {name: value}) and repr(read) == repr({name: value})


def _looks_like_json(text: str) -> bool:
    """Return whether some schema could read a text as another type: a number, a boolean, null, a list or an object."""
    if text.lower() in _RESERVED_WORDS or text.lstrip()[:1] in ("[", "{"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json_item(name: str, value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(f"{name}: no JSON value: {shorten(str(error), 100)}") from None
    # ASCII JSON escapes line separators, which would end the line of the magic.
    return text if text.isprintable() else json.dumps(value, allow_nan=False)


# Arguments of prompts: texts, which the protocol describes by name, without a schema.


def prompt_schema(arguments: Iterable[PromptArgument]) -> dict[str, Any]:
    """Return the JSON Schema of a prompt's arguments: an object of strings."""
    arguments = list(arguments)
    return {
        "type": "object",
        "properties": {
            a.name: {"type": "string", **({"description": a.description} if a.description else {})} for a in arguments
        },
        "required": [a.name for a in arguments if a.required],
        "additionalProperties": False,
    }


def parse_prompt_arguments(
    items: Sequence[str],
    arguments: Iterable[PromptArgument],
    *,
    evaluate: Callable[[str], Any] | None = None,
) -> dict[str, str]:
    """Return a prompt's arguments from `name=value` words; a Python object becomes its `str`."""
    schema = prompt_schema(arguments)
    return parse_arguments(items, schema, evaluate=evaluate, convert=_prompt_text)


def _prompt_text(value: Any, field: Field, path: str) -> Any:
    if field.kind == "object" and isinstance(value, Mapping):  # all arguments at once
        return {str(name): str(inner) for name, inner in value.items()}
    return str(value)


def check_prompt_arguments(values: Mapping[str, Any], arguments: Iterable[PromptArgument]) -> None:
    """Raise an ArgumentsError if an argument of a prompt is missing, unknown or not text."""
    check_arguments(values, prompt_schema(arguments))
