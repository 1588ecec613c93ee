"""`%mcp find` in a kernel: a slow registry is seen to be waited for, and can be interrupted; nobody is asked."""

import threading

import pytest

from tests.support.kernel_servers import LOAD
from tests.support.kernels import run_by_itself
from tests.support.registry_server import Answer, entry, registry

pytestmark = pytest.mark.usefixtures("no_widget_is_left")


@pytest.fixture
def served():
    with registry(entry("io.github.acme/postgres")) as served:
        yield served


def test_slow_registry_is_shown_and_interrupted(frontend, served):
    release = threading.Event()
    served.answers.append(Answer(wait=release.wait))
    host = served.url.removeprefix("http://")
    try:
        cell = frontend.start(f"%mcp find postgres --registry {served.url}")
        frontend.shows(cell, f"find at {host}")
        frontend.kernel.interrupt()
        frontend.finish(cell)
        assert (cell.ename, cell.evalue) == ("KeyboardInterrupt", f"find at {host}: interrupted")
    finally:
        release.set()
    assert "postgres" in frontend.line(f"rows = %mcp find postgres --registry {served.url}\nrows[0]['name']")


def test_notebook_without_a_person_gets_the_table(served, tmp_path):
    lines = f"%mcp find postgres --registry {served.url}"
    [_, [output]] = run_by_itself(tmp_path, LOAD, lines)
    assert "io.github.acme/postgres" in output["data"]["text/plain"]
