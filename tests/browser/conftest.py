"""One JupyterLab for all the live tests of a process; a browser for each module.

Playwright keeps an event loop running in this thread as long as it lives, in which no asynchronous test of another
folder can be run: it may not outlive a module.
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


@pytest.fixture(scope="session")  # not "package": a worker that has other tests in between would end it
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    problem = missing()
    if problem and os.environ.get("MCP_MAGIC_REQUIRE_BROWSER") == "1":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)
    folder = copy_of(NOTEBOOKS, tmp_path_factory.mktemp("live") / "notebooks")
    with JupyterLab(folder) as server:
        yield server


@pytest.fixture(scope="module")
def live_browser(jupyterlab: JupyterLab) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser
