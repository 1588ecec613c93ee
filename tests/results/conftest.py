"""Fixtures over the showcase server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import showcase

if TYPE_CHECKING:
    from mcp_magic.results import PromptResult


@pytest.fixture
def call() -> object:
    return showcase.called


@pytest.fixture
def read() -> object:
    return showcase.read


@pytest.fixture
async def prompt() -> PromptResult:
    return await showcase.prompted(code="x = 1 < 2")
