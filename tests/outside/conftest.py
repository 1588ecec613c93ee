"""What tests of several modules of outside share: both eras of a client, and a folder whose notebook is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_magic.outside import proxy
from tests.support.stdio_proxy import notebook_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """The era of the SDK's client: 2026-07-28 by `server/discover`, or the handshake."""
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the notebook, where the client runs."""
    monkeypatch.setattr(proxy, "LOOK_SECONDS", 0.05)
    return notebook_folder(tmp_path, monkeypatch)
