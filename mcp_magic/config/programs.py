"""Whether the program of a server is on this machine, and what brings it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.specs import StdioSpec

_SOURCES = {
    **dict.fromkeys(("npx", "npm", "node"), "it comes with Node.js, https://nodejs.org"),
    **dict.fromkeys(("uvx", "uv"), "`%pip install uv` brings it"),
    "pipx": "`%pip install pipx` brings it",
    **dict.fromkeys(("bunx", "bun"), "it comes with Bun, https://bun.sh"),
    "deno": "it comes with Deno, https://deno.com",
    **dict.fromkeys(("docker", "podman"), "it runs containers, and has to be installed on this machine"),
}


def source_of(program: str) -> str:
    """Return what brings a well-known program, or "".

    >>> source_of("npx.cmd"), source_of("my-server")
    ('it comes with Node.js, https://nodejs.org', '')
    """
    return _SOURCES.get(program.lower().removesuffix(".exe").removesuffix(".cmd"), "")


def missing_program(spec: StdioSpec, environ: Mapping[str, str] | None = None) -> str:
    """Say which program or folder a server needs that is not here, and what to do; "" if it can be started.

    >>> from mcp_magic.config.specs import StdioSpec
    >>> missing_program(StdioSpec(command="npx"), {"PATH": "/nowhere"})
    "no program 'npx': it comes with Node.js, https://nodejs.org"
    """
    environ = os.environ if environ is None else environ
    if spec.cwd is not None and not os.path.isdir(spec.cwd):  # noqa: PTH112
        return f"no folder {spec.masked(str(spec.cwd))!r}: its cwd names where it runs"
    command = spec.masked(spec.command)
    if os.path.dirname(spec.command):  # noqa: PTH120
        path = os.path.join(spec.cwd or "", spec.command)  # noqa: PTH118
        if shutil.which(path):
            return ""
        if os.path.isfile(path):  # noqa: PTH113
            return f"the program {command!r} is a file that cannot be executed"
        todo = "`~` is for a shell, so write the whole path" if spec.command.startswith("~") else "is its path right?"
        return f"no program {command!r}: {todo}"
    if shutil.which(spec.command, path=spec.env.get("PATH", environ.get("PATH"))):
        return ""
    return f"no program {command!r}: {source_of(spec.command) or 'is it installed, and on PATH?'}"
