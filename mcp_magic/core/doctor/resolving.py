"""The step resolve: what a target means, and where that is written."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.browser import IN_BROWSER
from mcp_magic.config.files import find_server
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, UrlSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.files import ServerEntry
    from mcp_magic.core.doctor.report import Step

__all__ = ["meant", "older", "resolve"]

VERSION_SECONDS = 5.0

_TELL_VERSIONS = ("python", "python3", "node", "npx", "npm", "uvx", "uv", "deno", "bun", "bunx", "docker", "podman")
"""Programs that are known to say their version and nothing else when they are asked for it."""


def meant(target: Any, options: Mapping[str, Any]) -> tuple[Spec, str]:
    """Return the spec and the name that a target means.

    Args:
        target: What `Host.connect` takes.
        options: Its options.

    Raises:
        MCPMagicError: It means nothing.
    """
    command = target if isinstance(target, list | tuple) else ()
    return resolve_target(None if command else target, command=command, **options)


async def resolve(target: Any, options: Mapping[str, Any], step: Step) -> tuple[Spec, str] | None:
    """Say what a target means.

    Returns:
        The spec and a name, or None if it means nothing.
    """
    found: list[ServerEntry] = []
    find = options.get("find_entry") or find_server

    def find_entry(name: str) -> ServerEntry:
        entry: ServerEntry = find(name)
        found.append(entry)
        return entry

    try:
        spec, name = meant(target, {**options, "find_entry": find_entry})
    except MCPMagicError as error:
        first, _, rest = str(error).partition(". ")
        step.fail(first, " ".join(rest.split()))
        return None
    step.ok(_meaning(target, spec, found))
    if isinstance(spec, StdioSpec):
        return (spec, name) if await _command(spec, step) else None
    if isinstance(spec, UrlSpec):
        _url(spec, step)
    return spec, name


def _meaning(target: Any, spec: Spec, found: list[ServerEntry]) -> str:
    what = f"{spec.transport}: {spec.where}"
    if found:
        return f"server {found[0].name!r} of {found[0].source}: {what}"
    if isinstance(spec, InProcessSpec):
        return f"{spec.where} in this kernel" + (f", the variable {target}" if isinstance(target, str) else "")
    if isinstance(target, str) and isinstance(spec, StdioSpec):
        return f"server file, {what}" if target.endswith((".py", ".js", ".mjs", ".cjs")) else f"variable, {what}"
    return what


def _url(spec: UrlSpec, step: Step) -> None:
    parts = urlsplit(spec.url)
    headers = ", ".join(sorted(spec.headers)) or "none"
    path = spec.masked(parts.path) or "/"
    step.ok(f"host {parts.hostname}, port {_port(parts.port, parts.scheme)}, path {path}, headers: {headers}")
    if parts.path in ("", "/"):
        step.ok("the URL has no path; most servers are under /mcp")


def _port(port: int | None, scheme: str) -> int:
    return port or (443 if scheme in ("https", "wss") else 80)


async def _command(spec: StdioSpec, step: Step) -> bool:
    """Find the program, its folder and its version."""
    if IN_BROWSER:
        step.fail(
            "this Python runs in a browser and starts no programs", "connect to a URL or to a server in this kernel"
        )
        return False
    if spec.cwd is not None and not Path(spec.cwd).is_dir():
        step.fail(f"the working directory {str(spec.cwd)!r} does not exist", "mend cwd (--cwd)")
        return False
    path = spec.env.get("PATH") or os.environ.get("PATH")
    program = shutil.which(spec.command, path=path)
    if program is None and spec.cwd is not None:
        program = shutil.which(str(Path(spec.cwd) / spec.command))
    if program is None:
        exists = Path(spec.command).is_file()
        said = "is not executable" if exists else "is not found on PATH"
        todo = f"chmod +x {spec.command}" if exists else "install it, or name its whole path"
        step.fail(f"the command {spec.command!r} {said}", todo)
        return False
    version = await _version(program)
    named = program if program == spec.command else f"{spec.command} is {program}"
    step.ok(f"{named}, {version}" if version else named)
    return True


async def _version(program: str) -> str:
    """Return what a known program says of its version, "" if it is not known or says nothing in time."""
    if Path(program).name.rstrip("0123456789.") not in _TELL_VERSIONS:
        return ""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = None
    try:
        process = await asyncio.create_subprocess_exec(program, "--version", stdin=nothing, stdout=pipe, stderr=nothing)
        async with asyncio.timeout(VERSION_SECONDS):
            said, _ = await process.communicate()
    except (OSError, TimeoutError, NotImplementedError):
        return ""
    finally:
        if process is not None and process.returncode is None:
            process.kill()
    return " ".join(said.decode("utf-8", "replace").split())[:80]


def older(spec: HttpSpec) -> SseSpec:
    """Return what a session falls back to where the server does not know streamable HTTP."""
    return SseSpec(**{field.name: getattr(spec, field.name) for field in fields(SseSpec)})
