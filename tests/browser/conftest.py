"""One JupyterLab, one browser and one notebook for the tests of this folder, which one process runs one by one.

Playwright keeps an event loop running in this thread as long as it lives, in which no asynchronous test of another
folder can be run: it may not outlive this one.
"""

from __future__ import annotations

import os

import pytest

from tests.support.lab import JupyterLab, chromium, firefox, missing
from tests.support.notebooks import NOTEBOOKS, copy_of, write_notebook
from tests.support.pages import SETUP, WAIT_MS, errors, finished, start

BROWSERS = {"chromium": chromium, "firefox": firefox}

RESET = """
for name in {*host.connections} - {"show"}:
    await host.disconnect(name)
host.consent.rules.clear()"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `firefox` in Firefox as well, once all else has run in Chromium."""
    if "live_browser" in metafunc.fixturenames:
        also = ["firefox"] if metafunc.definition.get_closest_marker("firefox") else []
        ids = [pytest.HIDDEN_PARAM, *also]
        metafunc.parametrize("live_browser", ["chromium", *also], indirect=True, ids=ids, scope="package")


def needs(browser: str) -> None:
    """Skip what needs a browser that is not installed; where MCP_MAGIC_REQUIRE_BROWSER=1 it fails."""
    problem = missing(browser)
    if problem and os.environ.get("MCP_MAGIC_REQUIRE_BROWSER") == "1":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


@pytest.fixture(scope="package")
def jupyterlab(tmp_path_factory):
    needs("chromium")
    folder = copy_of(NOTEBOOKS, tmp_path_factory.mktemp("live") / "notebooks")
    with JupyterLab(folder) as server:
        yield server


@pytest.fixture(scope="package")
def live_browser(jupyterlab, request):
    needs(request.param)
    with BROWSERS[request.param]() as browser:
        yield browser


@pytest.fixture(scope="package")
def shared_notebook(jupyterlab, live_browser):
    """A notebook with the showcase server: a kernel, a server and a page take seconds of a processor to start."""
    write_notebook(jupyterlab.folder / "shared.ipynb", SETUP)
    with jupyterlab.open(live_browser, "shared.ipynb") as lab:
        lab.run_all()
        lab.page.set_default_timeout(WAIT_MS)
        yield lab


@pytest.fixture(scope="module")
def notebook(shared_notebook, request):
    """That notebook with no other server, and with no cells but those of the module, `CELLS`, which have run."""
    lab = shared_notebook
    lab.theme("light")
    lab.clear()
    for source in (RESET, *getattr(request.module, "CELLS", ())):
        cell = start(lab, source)
        finished(cell)
        assert errors(lab, cell) == []
    return lab


@pytest.fixture
def lab(notebook):
    """That notebook without the cells of the tests before: all that is in a page costs time at each change."""
    notebook.clear()
    return notebook
