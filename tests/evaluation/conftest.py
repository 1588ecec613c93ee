from __future__ import annotations

import pytest

from tests.support.evaluated import CASES, answering, wrong_about_apples
from tests.support.shopping import host, shop

__all__ = ["host", "shop"]


@pytest.fixture
async def evaluation(host):
    """Of a model that is right, and of one that takes apples for pears."""
    models = {"good": answering(), "bad": answering(wrong_about_apples)}
    return await host.evaluate(CASES, models, runs=2, tools_only=True)
