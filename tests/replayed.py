"""Runs notebooks a second time: from their cassettes, with their servers and the network made unreachable.

`python -m tests.replayed notebooks/quickstart.ipynb ...` compares what they show with what is saved, by nbval. They run
in a copy of the folder in which each server program ends at once, on a PATH without programs, without any key, in a
network that has nothing but 127.0.0.1 (where this machine lets a person make one), in kernels that can neither connect
nor start anything (`tests/support/unreachable`). One attempt to do so is a failure, even if no output shows it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUARD = ROOT / "tests" / "support" / "unreachable"
CASSETTES = "cassettes"
HELPERS = ("start.py", "needs.py", "story.py", "orchard_server.py")
"""What notebooks import of `servers/`; the rest are programs, and what those are made of."""

LIVE = ("contracts", "strangers", "outside")
"""Notebooks of which nothing is left in a replay: they hold servers to recordings, or start programs that call."""

GONE = "raise SystemExit('there is no server here: this is a replay')\n"
ALONE = ("unshare", "--map-root-user", "--net")
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
NETWORKS = {
    True: "in a network of their own and kernels that reach nothing",
    False: "in kernels that reach nothing (this machine gives nobody a network of their own)",
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each notebook's kernel its own cassette; nbval starts it right after this.

    A notebook that has none records and replays by itself, or has nothing to reach.
    """
    cassette = item.path.parent / CASSETTES / f"{item.path.stem}.jsonl"
    os.environ["MCP_MAGIC_CASSETTE"] = str(cassette) if cassette.exists() else ""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make 127.0.0.1 work where the network is one of its own; let texts be as wide as where there is no terminal."""
    os.environ.pop("COLUMNS", None)
    if os.environ.get("UNREACHABLE_NETWORK") == "alone":
        begin_loopback()


def begin_loopback() -> None:
    """Let a network of its own have 127.0.0.1, over which kernels are spoken to."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def copied(notebooks: list[Path], folder: Path) -> list[str]:
    """Copy notebooks with all that they need but their servers, and return their paths in the folder."""
    place = folder / "notebooks"
    (place / "servers").mkdir(parents=True)
    (place / CASSETTES).mkdir()
    for path in notebooks:
        shutil.copy(path, place)
        if (cassette := path.parent / CASSETTES / f"{path.stem}.jsonl").exists():
            shutil.copy(cassette, place / CASSETTES)
        for program in (path.parent / "servers").glob("*.py"):
            text = program.read_text(encoding="utf-8")
            # a notebook may read the text of a server, but nobody can run it
            text = text if program.name in HELPERS else f"{GONE}\n{text}"
            (place / "servers" / program.name).write_text(text, encoding="utf-8")
    return [f"notebooks/{path.name}" for path in notebooks]


def environment(folder: Path, *, alone: bool) -> dict[str, str]:
    """Return the variables of the run: no PATH to speak of, no key, no home."""
    (folder / "bin").mkdir()
    (folder / "home").mkdir()
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": str(folder / "bin"),
        "HOME": str(folder / "home"),
        "JUPYTER_RUNTIME_DIR": str(folder / "run"),
        "MPLCONFIGDIR": str(plotting()),
        "PYTHONPATH": os.pathsep.join(map(str, (GUARD, ROOT))),
        "MCP_MAGIC_CASSETTE_MODE": "replay",
        "UNREACHABLE_LOG": str(folder / "attempts"),
        "UNREACHABLE_NETWORK": "alone" if alone else "guarded",
    }


def plotting() -> Path:
    """Return where matplotlib keeps its list of fonts; making that runs a program, so it is made here."""
    code = "import matplotlib, matplotlib.font_manager; print(matplotlib.get_cachedir())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return Path(ran.stdout.strip())


def alone() -> bool:
    """Tell whether this machine lets a person have a network of their own."""
    code = "from tests.replayed import begin_loopback; begin_loopback()"
    try:
        ran = subprocess.run([*ALONE, sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    except OSError:
        return False
    return ran.returncode == 0


def replay(notebooks: list[Path], folder: Path, *options: str, apart: bool) -> subprocess.CompletedProcess[str]:
    """Replay notebooks in a folder; return how pytest ended, with what it printed.

    Args:
        notebooks: The notebooks, each in a folder with `cassettes/` and `servers/`.
        folder: An empty folder.
        options: Of pytest.
        apart: Whether they get a network of their own.
    """
    named = copied(notebooks, folder)
    command = [
        *((shutil.which(ALONE[0]) or ALONE[0], *ALONE[1:]) if apart else ()),
        *(sys.executable, "-m", "pytest", "-q", "--rootdir", ".", "-c", str(ROOT / "pyproject.toml")),
        *("-p", "tests.replayed", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"),
        *(("--numprocesses", "2", "--dist", "loadfile") if len(notebooks) > 1 else ()),
        *("--nbval", "--nbval-sanitize-with", str(ROOT / "notebooks" / "sanitize.cfg")),
        *(*options, *named),
    ]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, alone=apart), capture_output=True, text=True, check=False
    )


def attempts(folder: Path) -> tuple[int, list[str]]:
    """Return how many kernels were guarded in a folder, and what they tried."""
    log = folder / "attempts"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return lines.count("kernel"), [line for line in lines if line != "kernel"]


def problems(kernels: int, guarded: int, tried: list[str]) -> list[str]:
    """Return what is wrong with a run, whatever its outputs were."""
    unguarded = [f"{guarded} of {kernels} kernels were guarded"] if guarded != kernels else []
    return [*(f"tried, with everything out of reach: {line}" for line in tried), *unguarded]


def main(arguments: list[str]) -> int:
    """Replay the notebooks that are named but those of `LIVE`, and print what pytest says; 0 if all is as saved."""
    options = [each for each in arguments if each.startswith("-")]
    notebooks = [Path(each) for each in arguments if not each.startswith("-") and Path(each).stem not in LIVE]
    with tempfile.TemporaryDirectory() as name:
        apart = alone()
        print(f"from cassettes, {NETWORKS[apart]}", flush=True)
        ran = replay(notebooks, Path(name), *options, apart=apart)
        guarded, tried = attempts(Path(name))
    print(ran.stdout, ran.stderr, sep="", end="", flush=True)
    wrong = problems(len(notebooks), guarded, tried)
    print(*(f"{line}\n" for line in wrong), sep="", end="")
    return ran.returncode or int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
