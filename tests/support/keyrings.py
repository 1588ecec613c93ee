"""A keyring in files and a program `op` for tests, in this process and in those that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import keyring
import pytest
from keyring.backend import KeyringBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "TEST_KEYRING_FOLDER"


class FolderKeyring(KeyringBackend):
    """A keyring that keeps passwords in files, up to a length as Windows' has one."""

    priority = 5
    folder: Path | None = None
    room = 10**6

    def _path(self, service: str, username: str) -> Path:
        return (self.folder or Path(os.environ[FOLDER])) / quote(f"{service}\n{username}", "")

    def get_password(self, service: str, username: str) -> str | None:
        path = self._path(service, username)
        return path.read_text() if path.exists() else None

    def set_password(self, service: str, username: str, password: str) -> None:
        if len(password) > self.room:
            raise OSError("too long")
        self._path(service, username).write_text(password)

    def delete_password(self, service: str, username: str) -> None:
        self._path(service, username).unlink()


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FolderKeyring]:
    """A keyring of the system's, which kernels that a test starts have too; and a data folder of the test's own."""
    before = keyring.get_keyring()
    fresh = FolderKeyring()
    fresh.folder = tmp_path / "keyring"
    fresh.folder.mkdir()
    monkeypatch.setenv(FOLDER, str(fresh.folder))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "tests.support.keyrings.FolderKeyring")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    keyring.set_keyring(fresh)
    yield fresh
    keyring.set_keyring(before)


OP = """#!{python}
import sys
{code}
"""


def put_op(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Put a program `op` with this code on PATH; `sys.argv[-1]` is what it is to read."""
    path = folder / "bin" / "op"
    path.parent.mkdir(exist_ok=True)
    path.write_text(OP.format(python=sys.executable, code=code), encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
