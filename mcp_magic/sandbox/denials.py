"""Finds in what a server says which access its sandbox has refused, and the words that would allow it.

A backend tells nobody what it refuses; the server gets the error of the system (EACCES, EPERM, a host that cannot be
resolved), and says it in its own words. Only what the sandbox does not allow is taken for a refusal of the sandbox.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names
from mcp_magic.config.sandbox import absolute_path, short_path, split_target
from mcp_magic.sandbox.backends import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.config.sandbox import Sandbox
    from mcp_magic.config.specs import StdioSpec

MOST = 3  # most paths and hosts that are named
READ = 20_000  # characters of a text that are searched, at its end
LONGEST = 200  # most characters of a path or a host

_REFUSED = re.compile(r"permission denied|operation not permitted|\bE(?:ACCES|PERM)\b|read-only file system", re.I)
_QUOTED = re.compile(r"""(['"])([^'"\n`,]{1,200})\1""")
_BARE = re.compile(r"(?:^|[\s:(=])((?:~|\.{1,2})?/[^\s:'\"`,()]{1,200})")
_WRITES = re.compile(
    r"\b(?:mkdir|unlink|rmdir|rename|symlink|link|chmod|create|write|remove|touch|move|copyfile)", re.I
)

_UNKNOWN_HOST = re.compile(
    r"\bENOTFOUND|EAI_AGAIN|name resolution|name or service not known|resolve host|failed to resolve|no such host"
    r"|nodename nor servname|dns error|failed to lookup address",
    re.IGNORECASE,
)
_UNREACHED = re.compile(
    r"ECONNREFUSED|connection refused|ENETUNREACH|network is unreachable|fetch failed|connection attempts failed"
    r"|connection error|connect E(?:ACCES|PERM)\b|cannot connect to host|blocked by network allowlist",
    re.IGNORECASE,
)
_HOST = r"(?P<host>[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,198}[a-zA-Z0-9])?)"
_HOSTS = (
    re.compile(rf"(?:ENOTFOUND|EAI_AGAIN) {_HOST}(?::(?P<port>\d{{1,5}}))?"),
    re.compile(rf"host='{_HOST}', port=(?P<port>\d{{1,5}})"),  # urllib3
    re.compile(rf"(?:connect to host|connect E[A-Z]+|dial tcp|dial udp) {_HOST}:(?P<port>\d{{1,5}})"),
    re.compile(rf"(?:resolve|lookup|address information for) '?{_HOST}'?", re.IGNORECASE),
    re.compile(rf"resolve host:? '?{_HOST}'?", re.IGNORECASE),
    re.compile(rf"https?://{_HOST}(?::(?P<port>\d{{1,5}}))?"),
)


def refusal(text: str, spec: StdioSpec, name: str) -> str:
    """Return what the sandbox of a server refused, by what the server says, and the line that allows it; or "".

    `text` is the error of a call, or the standard error of a server that did not start; `name` is the server's.
    """
    if spec.sandbox is None or not text:
        return ""
    text = text[-READ:]
    rights = spec.sandbox
    folder = Path(spec.cwd or os.curdir).absolute()
    more: dict[str, list[str]] = {"read": [], "write": [], "net": []}
    for key, path in _paths(text, rights, folder):
        if path not in more[key] and len(more[key]) < MOST:
            more[key].append(path)
    is_network = bool(_UNKNOWN_HOST.search(text) or _UNREACHED.search(text))
    for target in _targets(text, rights) if is_network else ():
        if target not in more["net"] and len(more["net"]) < MOST:
            more["net"].append(target)
    if not any(more.values()):
        return _unnamed(text, rights) if is_network or _REFUSED.search(text) else ""
    allowed: dict[str, Any] = {key: (*getattr(spec.sandbox, key), *values) for key, values in more.items()}
    line = replace(spec.sandbox, **allowed).line
    words = [f"{key} {short_path(value)}" for key, values in more.items() for value in values]
    keys = join_names(key for key, values in more.items() if values)
    return (
        f"its sandbox does not allow: {', '.join(words)}. `--sandbox {line}` does, "
        f"or {keys} in [servers.{name}.sandbox]"
    )


def _unnamed(text: str, rights: Sandbox) -> str:
    """Return a hint for a refusal that does not say of what; "" if it is not of the sandbox."""
    if "*" in rights.net:
        return ""
    net = " ".join(rights.net) or "nothing"
    return f"its sandbox allows net {net}; if the server wants another host, `net=HOST:PORT` in its --sandbox allows it"


def _paths(text: str, rights: Sandbox, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each path that a text says was refused and that the sandbox does not allow, with the key that would."""
    for line in text.splitlines():
        if not _REFUSED.search(line):
            continue
        words = [match[2] for match in _QUOTED.finditer(line)] or [match[1] for match in _BARE.finditer(line)]
        for word in words:
            if not word.isprintable() or (any(c.isspace() for c in word) and not word.startswith(("/", "~"))):
                continue
            if "," in word or os.pathsep in word:  # the line would have more words, which the server chooses
                continue
            path = Path(absolute_path(word, folder))
            if (key := _missing_right(path, rights, writes=bool(_WRITES.search(line)))) == "write":
                path = path if path.exists() else path.parent  # a rule needs something that exists
            if key and not str(path).startswith("/proc/"):
                yield key, str(path)


def _missing_right(path: Path, rights: Sandbox, *, writes: bool) -> str:
    """Return the key that would allow what was refused; "" if all is allowed that a sandbox can allow."""
    if _is_in(path, rights.write) or _is_in(path, rights.deny):
        return ""
    if writes or not _exists(path) or _is_in(path, (*rights.read, *SYSTEM)):
        return "write"
    return "read"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        return error.errno == errno.EACCES


def _is_in(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _targets(text: str, rights: Sandbox) -> Iterator[str]:
    """Yield each host that a text says was not reached and that the sandbox does not allow."""
    for pattern in _HOSTS:
        for match in pattern.finditer(text):
            host, port = match["host"].lower(), match.groupdict().get("port") or "443"
            is_name = "." in host or host == "localhost"
            if is_name and int(port) < 65536 and not any(_covers(target, host, port) for target in rights.net):
                yield f"{host}:{port}"


def _covers(target: str, host: str, port: str) -> bool:
    allowed, allowed_port = split_target(target)
    is_host = allowed in ("*", host) or (allowed.startswith("*.") and host.endswith(allowed[1:]))
    return is_host and allowed_port in ("*", port)
