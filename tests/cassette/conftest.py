from __future__ import annotations

import pytest


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "cassettes" / "a.jsonl"
