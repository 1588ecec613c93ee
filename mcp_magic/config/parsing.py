"""Parses configuration files: JSON, TOML and YAML, fields, server names, variables, and the line of an error."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, join_names, sentence
from mcp_magic.errors import ConfigError, TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Fields of tables. No message repeats a value that may be a secret, because server tables hold tokens.

SAMPLING_MODES = ("off", "ask", "auto")
"""Answer to a server's sampling request: refuse it, ask the user first, or answer it at once."""


PROTOCOLS = ("auto", "handshake", "2026-07-28")
"""How to open a session: in the way that the server supports, by `initialize` only, or by `server/discover` only."""


class FieldError(ValueError):
    """A key or its value is wrong; `path` are the keys that lead to it from the checked table.

    Never leaves the package: the code that catches it adds the file and the line.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        self.message = message
        super().__init__(f"{'.'.join(map(str, path))}: {message}" if path else message)
        self.path = path


_KINDS: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a table"}


def kind_of(value: Any) -> str:
    """Describe the type of a value without repeating the value.

    >>> kind_of(3), kind_of(""), kind_of(None)
    ('a number', 'empty text', 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def reject_unknown(table: Mapping[str, Any], valid: Iterable[str], *path: str | int) -> None:
    """Raise FieldError for the first key of `table` that is not valid."""
    valid = list(valid)
    for key in table:
        if key not in valid:
            hint = did_you_mean(key, valid) or f" Valid: {join_names(valid, limit=12)}."
            raise FieldError(f"unknown key.{hint}", *path, key)


def working_directory() -> Path:
    """Return the folder of this process. Raises ConfigError if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        pass
    raise ConfigError("the folder of this kernel was deleted; `%cd FOLDER` goes to another, for example `%cd ~`.")


def working_path(text: str) -> Path:
    """Return the absolute path that a text means, with `~` as the home. Raises ConfigError if the folder is gone."""
    path = Path(text).expanduser()
    return path if path.is_absolute() else working_directory() / path


def path_of(text: str, base: Path | None) -> Path:
    """Return the path that `text` means in a file in the folder `base`."""
    path = Path(text).expanduser()
    return base / path if base else path


def text(fields: Mapping[str, Any], key: str) -> str:
    """Return the text at `key`, which must exist."""
    value = fields[key]
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"expected text, got {kind_of(value)}.", key)
    return value


def flag(fields: Mapping[str, Any], key: str) -> bool:
    """Return the boolean at `key`; False if the key is missing."""
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false, got {kind_of(value)}.", key)
    return value


def texts(fields: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the table of strings at `key`, which may be Jupyter's list of `{"name": ..., "value": ...}`."""
    table = fields.get(key, {})
    if isinstance(table, list) and all(isinstance(row, dict) and {"name", "value"} <= row.keys() for row in table):
        table = {str(row["name"]): row["value"] for row in table}
    if not isinstance(table, dict):
        raise FieldError(f"expected names with values, got {kind_of(table)}.", key)
    return {name: as_text(value, key, name) for name, value in table.items() if value is not None}


def as_text(value: Any, *path: str | int) -> str:
    """Return text, a number or a boolean as text, because people write `"PORT": 8000`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise FieldError(f"expected text, got {kind_of(value)}.", *path)
    text = str(value)
    if path[0] == "headers" and any(c in text for c in "\r\n\0"):
        raise FieldError("a header cannot have line breaks.", *path)
    return text


def choice(key: str, value: Any, valid: Sequence[str]) -> str:
    """Return the checked value of a key that takes one of a few words."""
    if isinstance(value, date):  # TOML without quotes
        value = value.isoformat()
    if value not in valid:
        actual = f"{value!r}.{did_you_mean(value, valid)}" if isinstance(value, str) else f"{kind_of(value)}."
        raise FieldError(f"expected {', '.join(valid[:-1])} or {valid[-1]}, got {actual}", key)
    return str(value)


def seconds(value: Any) -> float:
    """Return a checked time-out in seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise FieldError(f"expected seconds above 0, got {value!r}.", "timeout")
    return float(value)


# Names of servers: short, unique, and if possible usable as Python attributes.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SCRIPT = re.compile(r"(?i)\.(py|pyz|m?js|cjs|m?ts|sh|rb|jar|exe|cmd|bat|ps1)$")
_VERSION = re.compile(r"(?<=.)(@[^/]*|[=<>~!]=.*|\[.*)$")
_PYTHON = re.compile(r"(?i)^(python|pypy|py)[\d.]*w?$")

_VERBS = frozenset({"run", "exec", "tool", "dlx", "x", "start", "container"})
"""Words between a launcher and the package: `uv tool run`, `npm exec`, `docker container run`."""

_WITH_VALUE = (
    *("--from", "--with", "--python", "--index-url", "--directory", "--project", "--extra", "--group", "--spec"),
    *("--pip-args", "-p", "--package", "-c", "--call", "-w", "--workspace", "-e", "--env", "--env-file", "-v"),
    *("--volume", "--mount", "--name", "--publish", "--network", "--net", "-u", "--user", "--workdir", "--entrypoint"),
    *("--platform", "-l", "--label", "-m", "--memory"),
)
"""Options of launchers that a value follows."""

_LAUNCHERS = frozenset(
    (
        *("uvx", "uv", "pipx", "npx", "npm", "bunx", "docker", "podman"),
        *("node", "deno", "bun", "pnpm", "yarn", "java", "ruby", "sh", "bash", "cmd"),
    )
)
"""Programs that start another program; the server's name is among their arguments."""


def slug(text: str) -> str:
    """Turn any text into a valid server name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")
    if not name:
        return "server"
    return name if _NAME.fullmatch(name) else f"server_{name}"


def check_name(name: str) -> str:
    """Return `name` if it is a valid server name. Raises TargetError if the name is invalid."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise TargetError(f"{name!r} is not a server name: letters, digits, _ and -. Did you mean {slug(str(name))!r}?")


def name_of_url(url: str) -> str:
    """Return the name of a server at a URL: its host, and on this machine also its port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    host = "localhost" if local else host
    return slug(f"{host}_{parts.port}" if local and parts.port else host)


SERVER_FILES = {".py": "python", ".js": "node", ".mjs": "node", ".cjs": "node"}
"""Suffixes of files that are servers, and the program that runs each."""


def command_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command, after the program that runs it if the first one is a server file.

    >>> command_words(["servers/documents_server.py", "report.pdf"])
    ('python', 'servers/documents_server.py', 'report.pdf')
    """
    program = SERVER_FILES.get(Path(words[0]).suffix.lower())
    return (program, *words) if program else tuple(words)


def name_of_command(command: str, args: Sequence[str] = ()) -> str:
    """Return the name of a server with a command: that of its script, module or package."""
    program = _SCRIPT.sub("", _last_part(command))
    if _PYTHON.match(program):
        return _short(_python_program(args) or program)
    if program not in _LAUNCHERS:
        return _short(program)
    words = _words(args, _WITH_VALUE)
    script = next((word for word in words if _SCRIPT.search(word)), None)
    return _short(script or (words[0] if words else program))


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _python_program(args: Sequence[str]) -> str | None:
    words = _words(args, ("-m", "-c", "-W", "-X"))
    options = args[: args.index(words[0])] if words else args
    if "-m" in options and options[-1] != "-m":
        module = options[options.index("-m") + 1]
        parts = [part for part in module.split(".") if part not in ("__main__", "main", "server")]
        return parts[-1] if parts else module
    return words[0] if words and "-c" not in options else None


def _words(args: Sequence[str], with_value: Sequence[str]) -> list[str]:
    words: list[str] = []
    skip = False
    for arg in args:
        if skip:
            skip = False
        elif arg.startswith("-"):
            skip = arg in with_value
        elif words or arg not in _VERBS:
            words.append(arg)
    return words


def _short(program: str) -> str:
    """Return a program's name without suffix, version, and a leading or trailing "mcp" or "server"."""
    name = _SCRIPT.sub("", _last_part(_VERSION.sub("", program)).partition(":")[0])
    parts = re.split(r"[-_]", name)
    while len(parts) > 1 and parts[0].lower() in ("mcp", "server"):
        parts = parts[1:]
    while len(parts) > 1 and parts[-1].lower() in ("mcp", "server"):
        parts = parts[:-1]
    return slug("_".join(parts))


# JSON with comments and trailing commas (VS Code's "JSON with Comments"). Spaces replace them character by character,
# so that the errors of the standard parser have the positions of the file.

LARGEST = 1_000_000  # bytes of the largest configuration file that is read, because a stranger's file may have any size

LARGEST_DATA = 64_000_000  # bytes of the largest data file that is read: answers, schemas, snapshots

# Unterminated strings and comments match too. Otherwise each later quote would start a new search to the end.
_STRING = r'"(?:\\.|[^"\\\n])*+"?'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def _blank_comment(match: re.Match[str]) -> str:
    text = match[0]
    never_ends = text.startswith("/*") and not (len(text) > 3 and text.endswith("*/"))
    return text if text.startswith('"') or never_ends else re.sub(r"[^\n]", " ", text)


def _blank_comma(match: re.Match[str]) -> str:
    if match[0] != ",":
        return match[0]
    before = match.start()
    while before and match.string[before - 1].isspace():
        before -= 1
    # a trailing comma must follow a value; any other is a mistake and stays
    return "," if match.string[before - 1 : before] in ("", "[", "{", ",", ":") else " "


def plain_json(text: str) -> str:
    """Return `text` with spaces in place of comments and trailing commas.

    >>> plain_json('{"a": 1, /* b */ "c": "// no,}",} // d')
    '{"a": 1,         "c": "// no,}" }     '
    """
    return _STRING_OR_LAST_COMMA.sub(_blank_comma, blank_comments(text))


def blank_comments(text: str) -> str:
    """Return JSON with spaces in place of comments."""
    return _STRING_OR_COMMENT.sub(_blank_comment, text)


def parse_json(text: str, *, source: str) -> Any:
    """Parse JSON with comments and trailing commas. Raises ConfigError if the text is not JSON."""
    try:
        return json.loads(plain_json(text))
    except json.JSONDecodeError as error:
        problem = f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
    except ValueError:
        problem = f"{source}: a number has more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        problem = f"{source}: nested too deeply"
    raise ConfigError(problem)


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """Read a file of limited size.

    Raises OSError if the file cannot be read, is no regular file (a pipe may never end), or has more bytes than
    `largest`.
    """
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        data = file.read(largest + 1)
        if len(data) > largest:
            size = max(len(data), status.st_size)
            raise OSError(0, f"it has {size:,} bytes, and at most {largest:,} are read")
    return data


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Read a UTF-8 file, with or without a byte order mark."""
    try:
        return read_bytes(path, largest).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        problem = f"{path}: cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        problem = f"{path}: not UTF-8 (byte {error.start})"
    raise ConfigError(problem)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file in any locale. A lone surrogate, which UTF-8 cannot encode, becomes its escape sequence."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    except OSError as error:
        problem = error.strerror or str(error)
    except UnicodeEncodeError:
        problem = "the locale has no such characters for the name of a file; choose another, or set LANG=C.UTF-8"
    except ValueError as error:  # a null byte in the name
        problem = str(error)
    raise ConfigError(f"{path} cannot be written: {problem}")


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a UTF-8 file as a whole, so that no half of it is ever read.

    Args:
        path: The file, in a folder that is there.
        text: Its text, with its own line ends.
        mode: Its mode; None for that which it has, or which any new file gets.

    Raises:
        OSError: It cannot be written.
    """
    if mode is None and path.exists():
        mode = path.stat().st_mode & 0o777
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(fresh, flags, mode or 0o666), "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            fresh.chmod(mode)  # what the umask took from it
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


# Variables in configuration, from the environment and a `.env` file: `${VAR}` and `${VAR:-default}` (Claude Code),
# `${env:VAR}`, `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}`
# (VS Code, Cursor), and the text of a file: `${file:PATH}` (Windsurf). Any other `${...}`, such as a shell's `${1}`,
# stays. The value of a variable is not expanded again.

_REFERENCE = re.compile(  # reads an unterminated reference once, however many `:-` it has
    r"\$\{(?:(?P<kind>env|file|input|config|command):)?(?P<name>(?:(?!:-)[^{}])++)(?P<default>:-[^{}]*+)?\}"
)
LARGEST_SECRET = 65_536  # bytes of the largest file that `${file:PATH}` reads
_WITHIN_DOTENV = re.compile(r"\$\{([^}:]*)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_EDITOR = ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/")


class Verbatim(str):
    """A text in which `${...}` means nothing, because its file knows no references or others."""

    __slots__ = ()


class MissingHereError(FieldError):
    """The configuration is right, but this machine lacks a variable or a file that it needs."""


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables that a `.env` file sets. Raises MissingHereError if the file cannot be read."""
    from dotenv import dotenv_values

    try:
        text = read_bytes(path).decode("utf-8-sig")
        if _is_bomb(dotenv_values(stream=StringIO(text), interpolate=False)):
            problem = f"{path}: its variables refer to too many others."
        else:
            values = dotenv_values(stream=StringIO(text))
            return {name: value for name, value in values.items() if value is not None}
    except OSError as error:
        problem = sentence(f"{path} cannot be read", error.strerror or str(error))
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8."
    raise MissingHereError(problem)


def _is_bomb(values: Mapping[str, str | None]) -> bool:
    """Return whether nested variables (`B=${A}${A}`) would fill the memory or keep python-dotenv busy."""
    sizes: dict[str, int] = {}
    for name, value in values.items():
        text = value or ""
        if text.count("${") * len(text) > 50 * LARGEST:
            return True
        sizes[name] = len(text) + sum(sizes.get(match[1], 0) for match in _WITHIN_DOTENV.finditer(text))
        if sizes[name] > LARGEST:
            return True
    return False


def _references(text: str) -> list[re.Match[str]]:
    matches = [match for match in _REFERENCE.finditer(text) if match["kind"] in (None, "env", "file")]
    own = [match for match in matches if match["kind"] or match["default"] or match["name"] not in _EDITOR]
    return [match for match in own if match["kind"] == "file" or is_variable(match["name"])]


def is_variable(name: Any) -> bool:
    """Return whether a value is the name of a variable."""
    return isinstance(name, str) and bool(_VARIABLE.fullmatch(name))


@dataclass(frozen=True, repr=False)  # the environment holds secrets
class Variables:
    """The values of `${...}` in one file."""

    environ: Mapping[str, str]  # wins over the `.env` file
    base: Path | None = None  # the folder that the file configures, which may hold a `.env`
    inputs: Mapping[str, Any] = field(default_factory=dict)  # what the file says of each `${input:ID}`
    workspace: Path | None = None  # `${workspaceFolder}`, if it is another folder
    defaults: bool = True  # whether the file can have `${VAR:-default}`, for messages

    def __contains__(self, name: object) -> bool:
        """Return whether the environment or `.env` sets a variable."""
        return name in self.environ or name in self._dotenv

    def expand(self, value: Any) -> Any:
        """Return `value` with all its strings expanded; keys stay.

        Raises MissingHereError if neither the environment nor `.env` sets a variable, which the message names;
        FieldError if only an editor can expand a reference, such as `${command:...}`. References to secrets stay.

        >>> Variables({"PORT": "80"}).expand(["${PORT}", {"a": "${HOST:-localhost}:${env:PORT}"}])
        ['80', {'a': 'localhost:80'}]
        """
        if isinstance(value, Verbatim):
            return str(value)
        if isinstance(value, str):
            return _REFERENCE.sub(self._replacement, value)
        if isinstance(value, dict):
            return {key: self.expand(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.expand(inner) for inner in value]
        return value

    def values(self, value: Any) -> dict[str, str]:
        """Return, by name, the values (or defaults) of the variables that the strings in `value` refer to.

        >>> Variables({"PORT": "80"}).values({"url": "http://${HOST:-localhost}:${PORT}/${workspaceFolder}"})
        {'HOST': 'localhost', 'PORT': '80'}
        """
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list | tuple):
            return {name: text for inner in value for name, text in self.values(inner).items()}
        if not isinstance(value, str) or isinstance(value, Verbatim):
            return {}
        return {self._name_of(match): self._replacement(match) for match in _references(value)}

    def _name_of(self, match: re.Match[str]) -> str:
        """Return the name of a variable, or of a file behind all links, so that a project cannot hide what it reads."""
        if match["kind"] != "file":
            return match["name"]
        return f"file:{os.path.realpath(path_of(match['name'], self.base))}"

    def _replacement(self, match: re.Match[str]) -> str:
        kind, name, default = match["kind"], match["name"], match["default"]
        if kind == "input":  # a reference to a secret, which is resolved when the server is connected
            return match[0]
        if kind in ("config", "command"):
            variable = re.sub(r"\W+", "_", name).strip("_").upper() or "VARIABLE"  # `api-key` is API_KEY
            instead = f"Use ${{env:{variable}}}, which both understand, and set it in the environment or in .env."
            raise FieldError(f"{match[0]} can only be filled in by an editor. {instead}")
        if kind == "file":
            return self._text_of(name)
        if kind is None and default is None and name in self._editor_names:
            return self._editor_names[name]
        if not _VARIABLE.fullmatch(name):
            return match[0]
        value = self.environ[name] if name in self.environ else self._dotenv.get(name)
        if default is not None:
            return value or default[2:]  # as in a shell, `:-` also stands in for an empty value
        if value is None:
            hint = did_you_mean(name, [*self.environ, *self._dotenv])
            problem = f"the variable {name} is not set (environment, .env).{hint}"
            raise MissingHereError(f"{problem} ${{{name}:-default}} gives it a default." if self.defaults else problem)
        return value

    def _text_of(self, name: str) -> str:
        """Return the text of a file, without the white space around it."""
        path = path_of(name, self.base)
        try:
            return read_bytes(path, LARGEST_SECRET).decode("utf-8-sig").strip()
        except OSError as error:
            problem = sentence(f"{path} cannot be read", error.strerror or str(error))
        except ValueError:  # not UTF-8, or a null byte in the name
            problem = f"{path} is not UTF-8."
        raise MissingHereError(problem)

    @cached_property
    def _dotenv(self) -> dict[str, str]:
        path = self.base / ".env" if self.base else None
        return read_env_file(path) if path and path.is_file() else {}

    @property
    def _editor_names(self) -> dict[str, str]:
        base = self.workspace or self.base or working_directory()
        home = self.environ.get("HOME") or self.environ.get("USERPROFILE") or str(Path.home())
        return {
            "workspaceFolder": str(base),
            "workspaceFolderBasename": base.name,
            "userHome": home,
            "pathSeparator": os.sep,
            "/": os.sep,
        }


# YAML as JSON: the core schema of YAML 1.2 (`no` is a text), without dates, merge keys and objects. Aliases count with
# all that they repeat, because ten lines of them can stand for millions of values.

LARGEST_YAML = 256_000  # bytes of the largest file of YAML that is parsed
MAX_SIZE = 1_000_000  # values in a file of YAML and characters in them, its aliases filled in
MAX_DEPTH = 50  # of lists and mappings in each other

_TAG = "tag:yaml.org,2002:"
_CORE = {  # the plain scalars that are no text, and the characters that they begin with
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?[0-9]{1,18}", [*"-+0123456789"]),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]{1,2})?", [*"-+.0123456789"]),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
}
_TAGS = (None, "!", *(f"{_TAG}{name}" for name in ("str", "seq", "map", *_CORE)))


def yaml_document(text: str, source: str) -> Any:
    """Parse a file of YAML. Raises ConfigError if the text is not YAML, or has more in it than is read."""
    import yaml

    if len(text) > LARGEST_YAML:
        raise ConfigError(f"{source}: at most {LARGEST_YAML:,} characters of YAML are read, and it has {len(text):,}")
    try:
        _check_yaml(text)
        return _with_text_keys(yaml.load(text, _yaml_loader()))
    except yaml.MarkedYAMLError as error:
        mark, what = error.problem_mark or error.context_mark, error.problem or error.context
        problem = f"{source}{f':{mark.line + 1}:{mark.column + 1}' if mark else ''}: not YAML: {what}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = f"{source}: not YAML: {' '.join(str(error).split())[:200]}"
    raise ConfigError(problem)


@cache
def _yaml_loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Resolves plain scalars by the core schema only."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    for tag, (pattern, first) in _CORE.items():
        Loader.add_implicit_resolver(f"{_TAG}{tag}", re.compile(rf"(?:{pattern})\Z"), first)
    return Loader


def _check_yaml(text: str) -> None:
    """Raise ValueError if a file of YAML has types of its own, nests too deeply, or is too large without aliases."""
    import yaml

    sizes: dict[str, int] = {}  # of what has an anchor
    inside: list[tuple[str | None, int]] = []  # the anchor of each open list or mapping, and the count before it
    count = 0
    for event in yaml.parse(text, _yaml_loader()):
        before = count
        if getattr(event, "tag", None) not in _TAGS:
            raise ValueError(f"it has a value of a type of its own, {event.tag[:80]!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            inside.append((event.anchor, count))
        if isinstance(event, yaml.AliasEvent):
            within = any(anchor == event.anchor for anchor, _ in inside)
            count += MAX_SIZE + 1 if within else sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.NodeEvent):
            count += 1 + len(getattr(event, "value", ""))
            sizes[event.anchor] = count - before
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor or ""] = count - before
        if count > MAX_SIZE:
            raise ValueError(f"it has more than {MAX_SIZE:,} characters, its aliases filled in")
        if len(inside) > MAX_DEPTH:
            raise ValueError("nested too deeply")


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value


# TOML with limits on its cost, and the line of a key, which `tomllib` does not tell. The line is where the shortest run
# of lines from the start ends that `tomllib` accepts and that has the key. So multi-line strings, quoted and dotted
# keys, inline tables and arrays of tables need no parser here.

KeyPath = tuple[str | int, ...]

MAX_TRIED = 2_000_000  # characters that are parsed to find a line. Past them, messages have no line.

MAX_PARTS = 32  # parts of a dotted key. The time of `tomllib` grows with the square of their number.

_PART = r"""(?:[\w-]++|"[^"\n]*"|'[^'\n]*')[ \t]*+"""
_LONG_NAME = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{{MAX_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises tomllib.TOMLDecodeError if the text is not TOML, or would take too long to parse."""
    if (match := _LONG_NAME.search(text)) is not None:
        line = text.count("\n", 0, match.start()) + 1
        raise tomllib.TOMLDecodeError(f"A name has more than {MAX_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        problem = f"A number has more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        problem = "Nested too deeply"
    raise tomllib.TOMLDecodeError(problem)


_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def toml_document(text: str, source: str) -> dict[str, Any]:
    """Parse a file of TOML. Raises ConfigError, with the line, if the text is not TOML."""
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    match = _AT.fullmatch(message)
    if match is None:
        raise ConfigError(f"{source}: not TOML: {message}")
    line, column = match[2] or str(text.count("\n") + 1), match[3] or str(len(text) - text.rfind("\n"))
    raise ConfigError(f"{source}:{line}:{column}: not TOML: {match[1]}")


def find_line(text: str, path: KeyPath) -> int | None:
    """Return the number of the line that sets `path`, or of the nearest table around it; None if neither is found."""
    document = parse_toml(text)
    while path and not _has(document, path):
        path = path[:-1]
    lines = text.replace("\r\n", "\n").split("\n")
    start, tried = 0, 0  # of the statement, and the characters that were parsed
    for end in range(1, len(lines) + 1) if path else ():
        begin = "\n".join(lines[:end])
        tried += len(begin)
        if tried > MAX_TRIED:
            break
        try:
            value = parse_toml(begin)
        except tomllib.TOMLDecodeError:  # within a statement of several lines
            continue
        if _has(value, path):
            key = re.compile(rf"""(^|[\s{{,."'\[]){re.escape(str(path[-1]))}["']?\s*[=.\]]""")
            return next((number for number in range(start, end) if key.search(lines[number])), start) + 1
        start = end
    return None


def _has(value: Any, path: KeyPath) -> bool:
    for part in path:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return False
    return True
