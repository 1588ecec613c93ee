"""What a stdio server may read, write and connect to, and how much it may use.

Everything else is refused by the backends in `mcp_magic.sandbox`. Three spellings are read: the line of `--sandbox`,
our own table, and the settings of Anthropic's `srt`, which are also VS Code's key `sandbox`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean
from mcp_magic.config.parsing import (
    FieldError,
    kind_of,
    parse_json,
    parse_toml,
    read_text,
    reject_unknown,
    working_directory,
)
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PRESETS = ("npx", "uvx", "python")
"""Names of what is allowed for a kind of command; `mcp_magic.sandbox.presets` says what that is."""

_PRESET_COMMANDS = {
    "npx": re.compile(r"npx(\.cmd|\.exe)?|npm(\.cmd|\.exe)? (exec|x)", re.IGNORECASE),
    "uvx": re.compile(r"uvx(\.exe)?|uv(\.exe)? (tool run|run)", re.IGNORECASE),
    "python": re.compile(r"(python|pypy)[\d.]*(\.exe)?", re.IGNORECASE),
}

_PATH_KEYS = ("read", "write", "deny")
_LIST_KEYS = (*_PATH_KEYS, "net", "preset")
KEYS = (*_LIST_KEYS, "memory", "processes", "backend")

BACKENDS = ("sandlock", "srt")
"""Names of the programs that isolate; without one, the first that works here does it."""

_EXAMPLE = "read=.,write=out,net=api.example.com:443"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?")
_NUMBER = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$")  # its last part is one, as in other forms of an IPv4 address


@dataclass(frozen=True, kw_only=True, repr=False)
class Sandbox:
    """The rights of a stdio server. Paths are absolute and without symbolic links."""

    read: tuple[str, ...] = ()  # files and folders, with all that is in them
    write: tuple[str, ...] = ()  # these can be read, too
    deny: tuple[str, ...] = ()  # neither, although a folder above is allowed
    net: tuple[str, ...] = ()  # `HOST:PORT`, or `HOST` for all its ports, or `*`
    memory: int | None = None  # bytes, of all its processes together
    processes: int | None = None  # at a time
    preset: tuple[str, ...] = ()  # of `PRESETS`
    backend: str = ""  # of `BACKENDS`

    def __repr__(self) -> str:
        return f"Sandbox({self.line!r})"

    @property
    def line(self) -> str:
        """The sandbox as `--sandbox` takes it, with short paths."""
        words = [*self.preset]
        for key in _PATH_KEYS:
            words += [f"{key}={short_path(path)}" for path in getattr(self, key)]
        words += [f"net={target}" for target in self.net]
        if self.memory is not None:
            words.append(f"memory={_size_text(self.memory)}")
        if self.processes is not None:
            words.append(f"processes={self.processes}")
        if self.backend:
            words.append(f"backend={self.backend}")
        return ",".join(words)

    @property
    def table(self) -> dict[str, Any]:
        """The sandbox as a table of a declaration, with absolute paths; without the keys that allow nothing."""
        values = {key: getattr(self, key) for key in KEYS}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in values.items()
            if value not in ((), None, "")
        }

    def declaration(self, folder: Path) -> dict[str, Any]:
        """Return the table for a file in a folder, with paths relative to it where they are in it."""
        table = self.table
        for key in table.keys() & {*_PATH_KEYS}:
            table[key] = [os.path.relpath(p, folder) if is_below(p, str(folder)) else p for p in table[key]]
        return table if self.memory is None else {**table, "memory": _size_text(self.memory)}

    def describe(self, script: str = "") -> str:
        """Say what is allowed, on one line; `script` is the folder that the preset `python` makes readable.

        >>> make_sandbox("npx,net=api.example.com:443,memory=2G").describe()
        'isolated: read nothing, write nothing, net api.example.com:443, memory 2G, preset npx'
        """
        parts = []
        for key in ("read", "write"):
            parts.append(f"{key} {' '.join(map(short_path, getattr(self, key))) or 'nothing'}")
        if self.deny:
            parts.append(f"not {' '.join(map(short_path, self.deny))}")
        parts.append(f"net {' '.join(self.net) or 'nothing'}")
        if self.memory is not None:
            parts.append(f"memory {_size_text(self.memory)}")
        if self.processes is not None:
            parts.append(f"processes {self.processes}")
        also = f" (reads {short_path(script)})" if script else ""
        parts += [f"preset {name}{also if name == 'python' else ''}" for name in self.preset]
        if self.backend:
            parts.append(f"by {self.backend}")
        return f"isolated: {', '.join(parts)}"


def with_preset(sandbox: Sandbox, command: str, args: Sequence[str]) -> Sandbox:
    """Return a sandbox with the preset of a command, unless it names one itself.

    >>> with_preset(Sandbox(), "/usr/bin/npx", ("-y", "@acme/server")).line
    'npx'
    """
    name = re.split(r"[/\\]", command)[-1]
    lines = [" ".join((name, *args[:count])) for count in range(3)]
    for preset, pattern in _PRESET_COMMANDS.items():
        if not sandbox.preset and any(map(pattern.fullmatch, lines)):
            return replace(sandbox, preset=(preset,))
    return sandbox


def script_folder(args: Sequence[str], cwd: Path) -> str:
    """Return the folder of a Python script, which it may import from; "" without one, or if the home is in it."""
    words = iter(args)
    word = next(words, "-c")
    while word.startswith("-"):
        if _PYTHON_CODE.match(word):
            return ""
        if _PYTHON_VALUED.fullmatch(word):
            next(words, None)
        word = next(words, "-c")
    try:
        script = Path(os.path.realpath(cwd / word))
    except FileNotFoundError:  # the current folder was deleted
        return ""
    folder = script if script.is_dir() else script.parent
    has_home = Path(os.path.realpath(Path.home())).is_relative_to(folder)
    is_script = (script.suffix in (".py", ".pyz") and script.is_file()) or (script / "__main__.py").is_file()
    return str(folder) if is_script and not has_home else ""


_PYTHON_VALUED = re.compile(r"-[A-Za-z]*[WX]|--check-hash-based-pycs")  # options of Python whose value is the next word
_PYTHON_CODE = re.compile(r"-[A-Za-z]*[cm]")


def short_path(path: str) -> str:
    """Return a path relative to the current folder or to the home if it is below one of them."""
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was deleted
        here = ""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    for folder, name in ((here, "."), (home, "~")):
        if folder in ("", os.sep):
            continue
        if path == folder:
            return "~" if path == home else name  # a short word for so much would deceive
        if path.startswith(folder + os.sep):
            rest = path[len(folder) + 1 :]
            return rest if name == "." else f"{name}{os.sep}{rest}"
    return path


def make_sandbox(value: Any, base: Path | None = None) -> Sandbox | None:
    """Return the sandbox of a line or a table; relative paths are relative to `base`, or to the current folder.

    `value` is a line (`read=.,write=out`), the path of a TOML or JSON file, a table, or true for a sandbox that allows
    nothing beyond the program itself; false is no sandbox. Raises FieldError.
    """
    if isinstance(value, Sandbox):
        return value
    if isinstance(value, bool):
        return Sandbox() if value else None
    if isinstance(value, str):
        return _of_text(value.strip(), base)
    if not isinstance(value, dict):
        raise FieldError(f"expected a table or a line such as {_EXAMPLE}, got {kind_of(value)}.", "sandbox")
    if value.keys() & {"filesystem", "network"}:
        value = _of_srt(value, base)
    return _of_table(value, base)


def _of_text(text: str, base: Path | None) -> Sandbox:
    if not text:
        raise FieldError(f"expected a line such as {_EXAMPLE}, got nothing.", "sandbox")
    if text.endswith((".toml", ".json")) and "=" not in text:
        return _of_file(text, base)
    table: dict[str, Any] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        key, equals, rest = (part.strip() for part in word.partition("="))
        if not equals:
            if word in KEYS:
                raise FieldError(f"{word} needs a value, for example {_EXAMPLE}.", "sandbox")
            if word not in PRESETS:
                hint = did_you_mean(word, (*PRESETS, *KEYS))
                raise FieldError(
                    f"{word!r} is no preset.{hint} Presets: {', '.join(PRESETS)}; a list repeats its key: "
                    "read=a,read=b.",
                    "sandbox",
                )
            key, rest = "preset", word
        if key in _PATH_KEYS:
            table.setdefault(key, []).extend(filter(None, rest.split(os.pathsep)) if rest else [""])
        elif key in _LIST_KEYS:
            table.setdefault(key, []).append(rest)
        elif key in table:
            raise FieldError("is there twice.", "sandbox", key)
        else:
            table[key] = rest
    return _of_table(table, base)


def _of_file(text: str, base: Path | None) -> Sandbox:
    path = absolute_path(text, base)
    try:
        content = read_text(Path(path))
        data = parse_toml(content) if path.endswith(".toml") else parse_json(content, source=path)
    except (ConfigError, ValueError) as error:
        problem = str(error)
    else:
        table = data.get("sandbox", data) if isinstance(data, dict) else data
        if isinstance(table, dict) and (sandbox := make_sandbox(table, Path(path).parent)) is not None:
            return sandbox
        problem = f"{path} has no table of a sandbox."
    raise FieldError(problem, "sandbox")


def _of_table(table: Mapping[str, Any], base: Path | None) -> Sandbox:
    reject_unknown(table, KEYS, "sandbox")
    values: dict[str, Any] = {}
    for key in _LIST_KEYS:
        words = _words(table.get(key), key)
        if key in _PATH_KEYS:
            values[key] = _unique(_checked_path(word, key, base) for word in words)
        elif key == "net":
            values[key] = _unique(map(_target, words))
        else:
            values[key] = _unique(map(_preset, words))
    if table.get("memory") is not None:
        values["memory"] = _size(table["memory"])
    if table.get("processes") is not None:
        values["processes"] = _count(table["processes"])
    if table.get("backend") is not None:
        values["backend"] = _one_of(BACKENDS, "backend", table["backend"])
    return Sandbox(**values)


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _words(value: Any, *path: str) -> list[str]:
    words = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise FieldError(f"expected a list of text, got {kind_of(value)}.", "sandbox", *path)
    return [*words]


def _preset(word: str) -> str:
    return _one_of(PRESETS, "preset", word)


def _one_of(names: Sequence[str], key: str, word: Any) -> str:
    if word not in names:
        hint = did_you_mean(str(word), names) or f" Valid: {', '.join(names)}."
        raise FieldError(f"there is no {key} {word!r}.{hint}", "sandbox", key)
    return str(word)


def absolute_path(word: str, base: Path | None = None) -> str:
    """Return the path that a word means, relative to `base` or to the current folder, without symbolic links."""
    return os.path.realpath((base or working_directory()) / os.path.expanduser(word))  # noqa: PTH111


def _checked_path(word: str, key: str, base: Path | None) -> str:
    if not word.strip() or "\0" in word:
        raise FieldError(f"expected a file or folder, for example {key}=. for the current one.", "sandbox", key)
    path = absolute_path(word.strip(), base)
    if any(c in word for c in "*?[") and not os.path.lexists(path):
        raise FieldError(
            f"{word!r} is a pattern; name a file or a folder, which counts with all in it.", "sandbox", key
        )
    return path


def _size(value: Any) -> int:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        value = int(float(match[1]) * _UNITS[match[2].lower()])
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise FieldError("expected a size, for example 512M or 2G.", "sandbox", "memory")
    return value


def _size_text(size: int) -> str:
    """Return a size as `memory` takes it.

    >>> _size_text(2**31), _size_text(1500)
    ('2G', '1500')
    """
    for unit in ("t", "g", "m", "k"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit.upper()}"
    return str(size)


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise FieldError("expected a number above 0, for example 64.", "sandbox", "processes")
    return value


# Hosts and ports.


def split_target(target: str) -> tuple[str, str]:
    """Return the host and the port of an entry of `net`; "*" for any.

    >>> split_target("api.example.com:443"), split_target("[::1]"), split_target("*")
    (('api.example.com', '443'), ('[::1]', '*'), ('*', '*'))
    """
    host, colon, port = target.rpartition(":")
    return (host, port) if colon and not target.endswith("]") else (target, "*")


def _target(word: str) -> str:
    """Return a checked entry of `net` in lower case."""
    text = word.strip().lower()
    if "://" in text or (text.partition("/")[1] and not _is_network(split_target(text)[0])):
        raise FieldError(
            f"{word!r} is a URL; name its host and port, for example api.example.com:443.", "sandbox", "net"
        )
    bracket, colons = text.startswith("["), text.count(":")
    if colons > 1 and not bracket:
        raise FieldError(f"an IPv6 address is in brackets, for example [{text}]:443.", "sandbox", "net")
    host, port = split_target(text)
    if port != "*" and not (port.isascii() and port.isdecimal() and 0 < int(port[:9]) < 65536):
        raise FieldError(f"{word!r} has no port from 1 to 65535, for example api.example.com:443.", "sandbox", "net")
    if host != "*" and not (_is_network(host) or (_HOST.fullmatch(host) and not _NUMBER.search(host))):
        raise FieldError(f"{word!r} is no host, for example api.example.com:443 or 127.0.0.1:8000.", "sandbox", "net")
    return host if port == "*" else f"{host}:{int(port)}"


def _is_network(host: str) -> bool:
    """Whether a host is an IP address, or a network such as 10.0.0.0/8."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        network = ipaddress.ip_network(bare, strict=False)
    except ValueError:
        return False
    return (network.version == 6) == host.startswith("[")


# The settings of srt, and VS Code's `sandbox`: reading is allowed except where it is denied.

_SRT_KEYS = {
    "filesystem": ("allowWrite", "denyWrite", "allowRead", "denyRead"),
    "network": ("allowedDomains", "deniedDomains"),
}


def _of_srt(settings: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    """Return our table for the settings of srt. Raises FieldError for what would be lost on the way."""
    reject_unknown(settings, _SRT_KEYS, "sandbox")
    values: dict[str, list[str]] = {}
    for section, keys in _SRT_KEYS.items():
        table = settings.get(section) or {}
        if not isinstance(table, dict):
            raise FieldError(f"expected an object, got {kind_of(table)}.", "sandbox", section)
        reject_unknown(
            {key: value for key, value in table.items() if value not in (False, [], None, {})}, keys, "sandbox", section
        )
        values |= {key: _words(table.get(key), section, key) for key in keys}
    write = [absolute_path(word, base) for word in values["allowWrite"]]
    for word in values["denyWrite"]:
        if any(is_below(absolute_path(word, base), folder) for folder in write):
            raise FieldError(
                f"{word!r} is below a folder of allowWrite, and cannot be kept from writing only; name narrower "
                "folders in allowWrite.",
                "sandbox",
                "filesystem",
                "denyWrite",
            )
    if values["allowRead"] and values["denyRead"]:
        raise FieldError(
            "is not supported; write read = [...] and write = [...].", "sandbox", "filesystem", "allowRead"
        )
    net = [*values["allowedDomains"]]
    for word in values["deniedDomains"]:
        net = [target for target in net if target.lower() != word.lower()]
        if any("*" in target for target in net):
            raise FieldError(
                f"{word!r} cannot be taken out of a pattern; name the hosts in allowedDomains.",
                "sandbox",
                "network",
                "deniedDomains",
            )
    return {"read": [os.sep], "write": values["allowWrite"], "deny": values["denyRead"], "net": net}


def is_below(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder or in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def of_vscode(settings: Any, cwd: str) -> dict[str, Any]:
    """Return VS Code's `sandbox` of a server with what VS Code adds to it; `cwd` is the server's folder."""
    settings = settings or {}
    if not isinstance(settings, dict) or settings.keys() & set(KEYS):
        return settings  # type: ignore[no-any-return]
    files, net = (settings.get(section) or {} for section in ("filesystem", "network"))
    if not isinstance(files, dict) or not isinstance(net, dict):
        return settings
    write = [*_words(files.get("allowWrite"), "filesystem", "allowWrite"), "~/.npm", cwd]
    hosts = [*_words(net.get("allowedDomains"), "network", "allowedDomains"), "registry.npmjs.org"]
    return {
        **settings,
        "filesystem": {**files, "allowWrite": write},
        "network": {**net, "allowedDomains": hosts},
    }
