"""Writes a file of requests, and runs it once before: against a replay of the answers that it is made of.

Tests run with their own cassettes, clients with a mock of the server at the end of their own transport. So nothing
reaches a real server, and no secret is needed: its variables hold masks.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import did_you_mean, join_names
from mcp_magic.cassette.cassette import LIKE_KEYS
from mcp_magic.config.masking import Masker
from mcp_magic.config.parsing import write_text
from mcp_magic.errors import CommandError, ConfigError, MissingDependencyError
from mcp_magic.flight.request import InFlightRequest, Look
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.secrets import MASK
from mcp_magic.server.clients import Written, write_python, write_tests, write_typescript
from mcp_magic.server.exchange import Recording
from mcp_magic.server.mock import MockThread
from mcp_magic.server.report import page
from mcp_magic.server.targets import Target, replayed, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_magic.flight.progress import Reports

SECONDS = 120.0  # how long the run of a written file may take

_INSTALL = "npm install @modelcontextprotocol/client tsx"

SAYS = 1500  # most characters of its output that an error shows

_PACKAGE = Path("node_modules") / "@modelcontextprotocol" / "client" / "package.json"


def write_report(recording: Recording, target: Target, file: Path) -> Written:
    """Return the report as a file."""
    return Written(page(recording, time.time()), requests=len(recording.exchanges), remarks=recording.odd)


Write = Callable[[Recording, Target, Path], Written]

WRITERS: dict[str, dict[str, Write]] = {
    "pytest": {".py": write_tests},
    "client": {".py": write_python, ".ts": write_typescript, ".mts": write_typescript},
    "report": {".html": write_report},
}
"""Kind -> suffix of the file -> what writes it."""


def writer_of(kind: str, file: Path) -> Write:
    """Return what writes a file of a kind. Raises CommandError if there is nothing for its suffix."""
    if kind not in WRITERS:
        raise CommandError(f"export writes {join_names(WRITERS)}, not {kind!r}.{did_you_mean(kind, WRITERS)}")
    if file.suffix not in (suffixes := WRITERS[kind]):
        raise CommandError(
            f"%mcp export: --{kind} writes a file that ends in {' or '.join(suffixes)}, not {file.name!r}."
        )
    return suffixes[file.suffix]


async def write_out(
    recording: Recording,
    kind: str,
    file: Path,
    *,
    variables: Mapping[str, Any] | None = None,
    reports: Reports | None = None,
) -> Written:
    """Write the requests to a server into a file, once it has run; return what was written.

    `variables` may have the user's names for the secrets in the server's spec.

    Raises:
        CommandError: It cannot be written as a program.
        CheckFailedError: It does not run against the recorded answers; nothing was written.
    """
    write = writer_of(kind, file)
    if not file.parent.is_dir() and not file.parent.parent.is_dir():
        raise ConfigError(f"{file} cannot be written: there is no folder {file.parent}")
    if kind == "report":
        written = write(recording, Target(recording.transport), file)
    else:
        target = target_of(recording, file, variables or {})
        written = write(recording, target, file)
        _check_secrets(recording, written)
        remark = await try_out(recording, target, file, write, reports)
        written = replace(written, remarks=tuple(filter(None, (*written.remarks, remark))))
    with suppress(OSError):  # the next line says why
        file.parent.mkdir(exist_ok=True)
    write_text(file, written.text)
    return written


def _check_secrets(recording: Recording, written: Written) -> None:
    secrets = recording.spec.secrets if recording.spec is not None else ()
    if any(len(secret) >= LIKE_KEYS and secret in written.text for secret in secrets):
        raise CommandError(
            f"%mcp export: a secret of {recording.server} would be in the file, in a place that no variable can take. "
            "Nothing was written."
        )


async def try_out(
    recording: Recording,
    target: Target,
    file: Path,
    write: Write,
    reports: Reports | None = None,
) -> str:
    """Run what `write` writes into `file`; return "", or why it was not run.

    Raises:
        CheckFailedError: It failed, or took too long.
        MissingDependencyError: There is no pytest, or no SDK.
    """
    if IN_BROWSER:
        return "it was not run: Python in a browser starts no processes"
    written = write(recording, target, file)
    with TemporaryDirectory(prefix="mcp_magic") as name, MockThread() as mocks:
        folder = Path(name).resolve()
        cassette = folder / "recording.jsonl"
        is_typescript = file.suffix in (".ts", ".mts")
        (_sent_by_javascript(recording) if is_typescript else recording).save(cassette)
        program = folder / "written" / file.name
        program.parent.mkdir()
        if written.tests:
            program.write_text(written.text, "utf-8", "backslashreplace")
            cassettes = program.parent / "cassettes" / program.stem
            cassettes.mkdir(parents=True)
            for test in written.tests:
                os.link(cassette, cassettes / f"{test}.jsonl")
            command = _pytest(program)
        else:
            serve = ["-m", "mcp_magic", "serve", recording.server, "--cassette", str(cassette), "--stdio"]
            url = mocks.serve(cassette, recording.server) if target.transport != "stdio" else ""
            text = write(recording, replayed(target, url, [sys.executable, *serve]), program).text
            program.write_text(text, "utf-8", "backslashreplace")
            command = [sys.executable, str(program)]
            if is_typescript:
                command = _node(program, file.parent)
                if not command:
                    return f"it was not run: that needs Node, and `{_INSTALL}` in its folder"
        with InFlightRequest(f"export: running {file.name}", recording.server, reports, look=Look(button="Stop")):
            code, output = await _run(command, program.parent, written.variables)
    if code != 0:
        masker = Masker(recording.spec.secrets if recording.spec is not None else ())
        says = masker.text(output.replace(str(program), str(file)).strip())[-SAYS:]
        how = "took too long" if code is None else "failed"
        raise CheckFailedError(
            f"%mcp export: {file.name} {how} against the recorded answers, so nothing was written. It said:\n{says}"
        )
    return ""


def _sent_by_javascript(recording: Recording) -> Recording:
    """Return a recording with whole numbers as JavaScript writes them, without a fraction."""

    def written(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: written(entry) for name, entry in value.items()}
        if isinstance(value, list):
            return [written(entry) for entry in value]
        return int(value) if isinstance(value, float) and abs(value) < 1e21 and value.is_integer() else value

    exchanges = [replace(exchange, params=written(exchange.params)) for exchange in recording.exchanges]
    return replace(recording, exchanges=exchanges)


def _pytest(program: Path) -> list[str]:
    if importlib.util.find_spec("pytest") is None:
        raise MissingDependencyError(
            "%mcp export: what is written is run once, and pytest is missing: pip install pytest"
        )
    plugins = [word for plugin in ("anyio.pytest_plugin", "mcp_magic.testing") for word in ("-p", plugin)]
    alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(program.parent)]
    return [sys.executable, "-m", "pytest", "-q", "--tb=short", *alone, *plugins, str(program)]


def _node(program: Path, folder: Path) -> list[str]:
    """Return the command that runs a program of TypeScript with the packages around a folder; [] if it cannot run."""
    node = shutil.which("node")
    folders = [folder, *folder.parents]
    modules = next((parent / "node_modules" for parent in folders if (parent / _PACKAGE).exists()), None)
    if node is None or modules is None:
        return []
    (program.parent / "node_modules").symlink_to(modules, target_is_directory=True)
    version = re.match(r"v(\d+)\.(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
    if version is not None and (int(version[1]), int(version[2])) >= (23, 6):
        return [node, str(program)]
    runners = [parent / "node_modules" / "tsx" / "dist" / "cli.mjs" for parent in folders]
    runner = next((path for path in runners if path.exists()), None)
    return [node, str(runner), str(program)] if runner is not None else []


async def _run(command: Sequence[str], folder: Path, variables: Iterable[str]) -> tuple[int | None, str]:
    """Run a command to its end; return its exit status, None if it took too long, and its output."""
    ours = ("MCP_MAGIC_CASSETTE", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= dict.fromkeys(variables, MASK) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONIOENCODING": "utf-8"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, map(str, sys.path)))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reading = asyncio.create_task(asyncio.to_thread(process.communicate))
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await asyncio.shield(reading)
    except TimeoutError:
        _kill(process)
        output, _ = await reading
        return None, output.decode("utf-8", "replace")
    except BaseException:
        _kill(process)
        await reading
        raise
    return process.returncode, output.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
