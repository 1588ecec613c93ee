from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "a.jsonl"
