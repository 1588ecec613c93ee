"""Runs what `%mcp export` writes, as a user would: pytest, Python, Node with the TypeScript SDK."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.environments import PROGRAM_PACKAGES, cache, make_node
from tests.support import stall_server
from tests.support.asgi import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic import Host
    from mcp_magic.session.connection import Connection

TOKEN = "tok-shop-0123456789"
KEY = "key-shop-0123456789"


async def ran(*command: str, folder: Path, **variables: str) -> tuple[int | None, str]:
    """Run a command; return its exit status and its output."""
    secrets = ("SHOP_KEY", "SHOP_TOKEN", "SHOP_PASSWORD")
    environment = {name: value for name, value in os.environ.items() if name not in secrets} | variables
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def pytest_run(file: Path, *options: str, **variables: str) -> str:
    """Return the last line of a test run."""
    others = [word for name in ("cacheprovider", "langsmith_plugin", "nbval", "xdist") for word in ("-p", f"no:{name}")]
    command = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(file.parent), *others)
    _, output = await ran(*command, str(file), *options, folder=file.parent, **variables)
    return output.strip().splitlines()[-1].partition(" in ")[0] + ("" if " passed" in output else output)


def node_project(folder: Path) -> None:
    """Give a folder the TypeScript SDK, as `npm install` does."""
    make_node("programs", PROGRAM_PACKAGES)
    (folder / "node_modules").symlink_to(cache() / "programs" / "node_modules", target_is_directory=True)


async def node_run(file: Path, **variables: str) -> str:
    """Return the output of a program of TypeScript, whose types are checked."""
    node = shutil.which("node") or "node"
    modules = cache() / "programs" / "node_modules"
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck"]
    roots = ("--types", "node", "--typeRoots", str(modules / "@types"))
    tsc = (node, str(modules / "typescript" / "bin" / "tsc"), *options, *roots)
    assert await ran(*tsc, str(file), folder=file.parent) == (0, "")
    status, output = await ran(
        node, str(modules / "tsx" / "dist" / "cli.mjs"), str(file), folder=file.parent, **variables
    )
    assert status == 0, output
    return output


@asynccontextmanager
async def shop(host: Host, how: str, **options: Any) -> AsyncIterator[tuple[Connection, dict[str, str]]]:
    """A session with the shop, over stdio with a key or over HTTP with a token; and the variables of its secrets."""
    if how == "stdio":
        command = [sys.executable, "-m", "tests.support.stall_server"]
        folder = stall_server.__file__.partition("tests")[0]
        yield await host.connect(command, name="shop", env={"SHOP_KEY": KEY}, cwd=folder, **options), {"SHOP_KEY": KEY}
        return
    app = stall_server.make().streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != f"Bearer {TOKEN}".encode():
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    async with serving(guarded) as url:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection = await host.connect(f"{url}/mcp", name="shop", headers=headers, **options)
        yield connection, {"SHOP_TOKEN": TOKEN}
