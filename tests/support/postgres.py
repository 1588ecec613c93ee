"""A PostgreSQL cluster for the tests, thrown away after them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PASSWORD", "cluster"]

PASSWORD = "sesame/opens@doors"


@contextmanager
def cluster() -> Iterator[int]:
    """Start a cluster on 127.0.0.1 with the user `tester`; yield its port."""
    programs = _programs()
    unprivileged = _unprivileged()  # PostgreSQL does not run as root
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if unprivileged:
            os.chown(folder, unprivileged["user"], unprivileged["group"])
        password, port = folder / "password", free_port()
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = ["-D", str(folder / "data"), "-U", "tester", "-A", "scram-sha-256", f"--pwfile={password}", "-N"]
        _run([str(programs / "initdb"), *options], folder, unprivileged)
        control = [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-w", "-l", str(folder / "log")]
        server = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
        _run([*control, "-o", server, "start"], folder, unprivileged)
        try:
            yield port
        finally:
            _run([*control, "-m", "immediate", "stop"], folder, unprivileged)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    control = shutil.which("pg_ctl")
    folders = [Path(control).resolve().parent] if control else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    folders = [folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()]
    if not folders:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return folders[-1]


def _unprivileged() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _run(command: list[str], folder: Path, unprivileged: dict[str, Any]) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, timeout=60, check=False, **unprivileged)
    assert done.returncode == 0, (
        f"{command} failed: {(folder / 'log').read_text() if (folder / 'log').exists() else ''}"
    )
