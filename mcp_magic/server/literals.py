"""JSON values as code of Python and TypeScript, in which secrets are read from the environment.

Texts of servers stay texts: each is a literal, and nothing of them is ever in a name or a comment.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from mcp_magic._text import json_text
from mcp_magic._unicode import HIDDEN
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH = 100  # characters of a line that a value should fit in

EXACT = 2**53 - 1  # the largest whole number that JavaScript has exactly


@dataclass(frozen=True)
class Variable:
    """A value that a program reads from the environment."""

    name: str


@dataclass(frozen=True)
class Beside:
    """A path that is written relative to the folder of the program."""

    path: str


@dataclass(frozen=True)
class Program:
    """This Python, as the program of a server; `path` is where it is."""

    path: str | Beside


@dataclass(frozen=True)
class Joined:
    """A text with parts that are variables."""

    parts: tuple[str | Variable, ...]


def _python_text(text: str) -> str:
    code = HIDDEN.sub(lambda match: "".join(map(_python_escape, match[0])), repr(text))
    return f'"{code[1:-1]}"' if code[0] == "'" and not {'"', "\\'"} & {*code, *re.findall(r"\\'", code)} else code


def _python_escape(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _typescript_text(text: str) -> str:
    return json_text(text).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _typescript_key(key: str) -> str:
    if key == "__proto__":  # a plain one would set the prototype
        return '["__proto__"]'
    return key if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) else _typescript_text(key)


@dataclass(frozen=True)
class Language:
    """How a language writes values; `{}` of the templates stands for the literal of a text."""

    constants: Mapping[Any, str]
    text: Callable[[str], str]
    key: Callable[[str], str]
    variable: str
    beside: str
    python: str  # the path of the Python that runs the program; "" if none does
    space: str = ""  # inside of the braces of an object on one line
    largest: float = math.inf


PYTHON = Language(
    {None: "None", True: "True", False: "False"},
    _python_text,
    _python_text,
    "os.environ[{}]",
    "str(Path(__file__).parent / {})",
    "sys.executable",
)
TYPESCRIPT = Language(
    {None: "null", True: "true", False: "false"},
    _typescript_text,
    _typescript_key,
    "environment({})",
    "join(here, {})",
    "",
    " ",
    EXACT,
)


class NoLiteralError(Exception):
    """A value that the language has no literal for."""


def literal(value: Any, language: Language, indent: int = 0) -> str:
    """Return the code of a value, which begins at a column. Raises NoLiteralError."""
    code = _line(value, language)
    if len(code) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return code
    inner = " " * (indent % 4 + indent // 4 * 4 + 4)
    if isinstance(value, dict):
        items = [f"{language.key(key)}: {literal(entry, language, len(inner))}" for key, entry in value.items()]
    else:
        items = [literal(entry, language, len(inner)) for entry in value]
    lines = "".join(f"{inner}{item},\n" for item in items)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{lines}{' ' * indent}{end}"


def _line(value: Any, language: Language) -> str:
    match value:
        case str():
            return language.text(value)
        case bool() | None:
            return language.constants[value]
        case int() | float():
            return _number(value, language)
        case Variable():
            return language.variable.format(language.text(value.name))
        case Beside():
            return language.beside.format(language.text(value.path))
        case Program():
            return language.python or _line(value.path, language)
        case Joined():
            return " + ".join(_line(part, language) for part in value.parts)
        case list():
            return f"[{', '.join(_line(entry, language) for entry in value)}]"
        case dict():
            items = (f"{language.key(key)}: {_line(entry, language)}" for key, entry in value.items())
            space = language.space if value else ""
            return f"{{{space}{', '.join(items)}{space}}}"
    raise NoLiteralError(f"a {type(value).__name__}")


def _number(value: float, language: Language) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise NoLiteralError("a number that JSON does not have")
    if isinstance(value, int) and abs(value) > language.largest:
        raise NoLiteralError("a number that JavaScript does not have exactly")
    try:
        return repr(value)
    except ValueError:  # of more digits than Python writes
        raise NoLiteralError("a number of thousands of digits") from None


def call_arguments(arguments: Mapping[str, Any], indent: int) -> str:
    """Return the code of arguments in a Python call: keywords if all names can be, else a dict."""
    others = [name for name in arguments if iskeyword(name) or name == "__debug__"]
    if others or not all(name.isascii() and name.isidentifier() for name in arguments):
        return literal(arguments, PYTHON, indent)
    line = ", ".join(f"{name}={_line(value, PYTHON)}" for name, value in arguments.items())
    if len(line) + indent <= WIDTH - 30:
        return line
    inner = " " * (indent + 4)
    lines = "".join(f"{inner}{name}={literal(value, PYTHON, len(inner))},\n" for name, value in arguments.items())
    return f"\n{lines}{' ' * indent}"


def variables_in(value: Any) -> set[str]:
    """Return the names of the variables in a value."""
    match value:
        case Variable():
            return {value.name}
        case Joined():
            return {part.name for part in value.parts if isinstance(part, Variable)}
        case list() | tuple():
            return set().union(*map(variables_in, value))
        case dict():
            return set().union(*map(variables_in, value.values()))
    return set()


def imports_of(code: str) -> list[str]:
    """Return the imports that the values in Python code need."""
    uses = {"import os": "os.environ", "import sys": "sys.executable", "from pathlib import Path": "Path(__file__)"}
    return [line for line, use in uses.items() if use in code]


# Secrets: masked values become variables.

_NAME = re.compile(r"([A-Za-z][\w.-]*)[\"']?\s*[=:]\s*[\"']?(?:\w+ )?$")


def variable_name(*words: str) -> str:
    """Return a name for a variable of the environment.

    >>> variable_name("shop", "api-key"), variable_name("shop", "…")
    ('SHOP_API_KEY', 'SHOP_SECRET')
    """
    parts = [re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_").upper()[:40] for word in words]
    name = "_".join([*filter(None, parts[:-1]), parts[-1] or "SECRET"])
    return f"_{name}" if name[0].isdigit() else name


def with_variables(value: Any, server: str, name: str = "") -> Any:
    """Return a value of the trace in which each mask is a variable, named after the server and what it is the value of.

    >>> with_variables({"password": "***", "note": "Bearer *** for me"}, "shop")["password"]
    Variable(name='SHOP_PASSWORD')
    """
    if isinstance(value, dict):
        return {key: with_variables(entry, server, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [with_variables(entry, server, name) for entry in value]
    return unmasked(value, server, name) if isinstance(value, str) and MASK in value else value


def unmasked(masked: str, server: str, name: str, variable: Callable[[str], str] = str) -> Any:
    """Return a masked text with a variable for each mask; `variable` may return another name than the usual one."""
    parts: list[str | Variable] = []
    pieces = masked.split(MASK)
    for number, piece in enumerate(pieces):
        if piece:
            parts.append(piece)
        if number < len(pieces) - 1:
            before = _NAME.search(piece)
            parts.append(Variable(variable(variable_name(server, before[1] if before else name))))
    return parts[0] if len(parts) == 1 else Joined(tuple(parts))


def reads(variables: Sequence[str]) -> str:
    """Return the line of a docstring that names the variables of the environment, or ""."""
    return f"\nIt reads from the environment: {', '.join(variables)}\n" if variables else ""


def quoted(text: str) -> str:
    """Return a text for a comment or a docstring: a name, without what could end it."""
    return json.dumps(re.sub(r"[^\w .:/@-]", "_", text, flags=re.ASCII)[:80])
