"""The names that servers get: short, unique, and usable as Python attributes where they can be."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

__all__ = ["check_name", "name_of_command", "name_of_url", "slug", "unique_name"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SCRIPT = re.compile(r"(?i)\.(py|pyz|m?js|cjs|m?ts|sh|rb|jar|exe|cmd|bat|ps1)$")
_VERSION = re.compile(r"(?<=.)(@[^/]*|[=<>~!]=.*|\[.*)$")
_PYTHON = re.compile(r"(?i)^(python|pypy|py)[\d.]*w?$")

_VERBS = frozenset({"run", "exec", "tool", "dlx", "x", "start", "container"})
"""What follows a launcher before the package: `uv tool run`, `npm exec`, `docker container run`."""

_WITH_VALUE: dict[str, tuple[str, ...]] = {
    "uvx": ("--from", "--with", "--python", "-p", "--index-url", "--directory", "--project"),
    "uv": ("--from", "--with", "--python", "-p", "--index-url", "--directory", "--project", "--extra", "--group"),
    "pipx": ("--spec", "--python", "--pip-args"),
    "npx": ("-p", "--package", "-c", "--call", "-w", "--workspace"),
    "npm": ("-p", "--package", "-w", "--workspace"),
    "bunx": ("-p", "--package"),
    "docker": (
        *("-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "-p", "--publish", "--network"),
        *("--net", "-u", "--user", "-w", "--workdir", "--entrypoint", "--platform", "-l", "--label", "-m", "--memory"),
    ),
}
_WITH_VALUE["podman"] = _WITH_VALUE["docker"]
_LAUNCHERS = frozenset({*_WITH_VALUE, "node", "deno", "bun", "pnpm", "yarn", "java", "ruby", "sh", "bash", "cmd"})
"""Programs that start the server, so the server's name is among their arguments."""


def slug(text: str, default: str = "server") -> str:
    """Turn any text into a name.

    >>> slug("My Custom Tools"), slug("10.0.0.5"), slug("é")
    ('My_Custom_Tools', 'server_10_0_0_5', 'server')
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")
    if not name:
        return default
    return name if _NAME.fullmatch(name) else f"{default}_{name}"


def check_name(name: str) -> str:
    """Return `name` when a server can be called that.

    Raises:
        TargetError: with the closest name that is valid.
    """
    if _NAME.fullmatch(name):
        return name
    raise TargetError(f"{name!r} is no server name: letters, digits, _ and -. Did you mean {slug(name)!r}?")


def unique_name(name: str, taken: Container[str]) -> str:
    """Return `name`, with a number when it is taken.

    >>> unique_name("math", {"math", "math_2"})
    'math_3'
    """
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def name_of_url(url: str) -> str:
    """Name a server after its host; a server on this machine also after its port.

    >>> name_of_url("https://mcp.example.com/mcp"), name_of_url("http://127.0.0.1:8000/mcp")
    ('mcp_example_com', 'localhost_8000')
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    host = "localhost" if local else host
    return slug(f"{host}_{parts.port}" if local and parts.port else host)


def name_of_command(command: str, args: Sequence[str] = ()) -> str:
    """Name a server after its script, module or package.

    >>> name_of_command("npx", ["-y", "@modelcontextprotocol/server-everything", "stdio"])
    'everything'
    >>> name_of_command("uvx", ["mcp-server-git@latest"]), name_of_command("python", ["-m", "mcp_server_time"])
    ('git', 'time')
    >>> name_of_command("python3", ["servers/math_server.py"]), name_of_command("/opt/bin/weather-mcp")
    ('math', 'weather')
    """
    program = _SCRIPT.sub("", _last_part(command))
    if _PYTHON.match(program):
        return _short(_python_program(args) or program)
    if program not in _LAUNCHERS:
        return _short(program)
    words = _words(args, _WITH_VALUE.get(program, ()))
    script = next((word for word in words if _SCRIPT.search(word)), None)
    return _short(script or (words[0] if words else program))


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _python_program(args: Sequence[str]) -> str | None:
    """Return the module or script that Python is told to run."""
    words = _words(args, ("-m", "-c", "-W", "-X"))
    options = args[: args.index(words[0])] if words else args
    if "-m" in options and options[-1] != "-m":
        module = options[options.index("-m") + 1]
        parts = [part for part in module.split(".") if part not in ("__main__", "main", "server")]
        return parts[-1] if parts else module
    return words[0] if words and "-c" not in options else None


def _words(args: Sequence[str], with_value: Sequence[str]) -> list[str]:
    """Return the arguments that are no options, no values of options and no verbs of a launcher."""
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
    """Drop what every package of MCP servers has in its name."""
    name = _SCRIPT.sub("", _last_part(_VERSION.sub("", program)).partition(":")[0])
    parts = re.split(r"[-_]", name)
    while len(parts) > 1 and parts[0].lower() in ("mcp", "server"):
        parts = parts[1:]
    while len(parts) > 1 and parts[-1].lower() in ("mcp", "server"):
        parts = parts[:-1]
    return slug("_".join(parts))
