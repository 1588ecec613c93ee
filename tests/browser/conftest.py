"""One JupyterLab and one browser for all the tests of this folder, which one process runs one after the other.

Playwright keeps an event loop running in this thread as long as it lives, in which no asynchronous test of another
folder can be run: it may not outlive this one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import JupyterLab, chromium, missing
from tests.browser.notebooks import NOTEBOOKS, copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    problem = missing()
    if problem and os.environ.get("MCP_MAGIC_REQUIRE_BROWSER") == "1":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)
    folder = copy_of(NOTEBOOKS, tmp_path_factory.mktemp("live") / "notebooks")
    with JupyterLab(folder) as server:
        yield server


@pytest.fixture(scope="package")
def live_browser(jupyterlab: JupyterLab) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser
