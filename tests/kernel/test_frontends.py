"""Frontends that cannot be run here, by what their messages are like.

VS Code names its cells by URIs of its own, takes input, and makes no subshell for widgets. Colab has ipykernel 6, which
hands no click to a cell that runs, and its messages name no cell.
"""

import sys

import pytest

from tests.support import dash_server
from tests.support.frontends import VIEW, Frontend
from tests.support.kernel_servers import LOAD, NOTES
from tests.support.started_kernels import THIS_KERNEL, started

SETUP = (LOAD, NOTES, "%mcp connect notes", "from mcp_magic import ScriptedModel, host")


class VSCode(Frontend):
    """VS Code: a cell is named by its URI."""

    name = "vscode"
    clicks = True

    def __init__(self, kernel):
        super().__init__(kernel, subshells=False)
        session = kernel.client.session
        made = session.msg

        def named(kind, content=None, *args, metadata=None, **more):
            if metadata and "cellId" in metadata:
                metadata = {"cellId": f"vscode-notebook-cell:/home/ada/a.ipynb#{metadata['cellId'].replace(' ', '')}"}
            return made(kind, content, *args, metadata=metadata, **more)

        session.msg = named


class Colab(Frontend):
    """A frontend that names no cell, before ipykernel 6."""

    name = "colab"
    clicks = False

    def start(self, code, *, stdin=True, cell=False, again=""):
        return super().start(code, stdin=stdin, cell=cell)


@pytest.fixture(scope="module", params=[VSCode, Colab], ids=lambda kind: kind.name)
def frontend(request, tmp_path_factory):
    version = THIS_KERNEL if request.param is VSCode else "kernel630"
    with started(tmp_path_factory.mktemp(request.param.name), SETUP, version) as running:
        yield request.param(running.kernel)


def approve(frontend, cell):
    """Say yes, by a click or by a line."""
    if frontend.clicks:
        frontend.panel(cell)
        frontend.click("Approve", cell=cell)
    else:
        frontend.answer("y")
    return frontend.finish(cell)


def runs_form(frontend, cell, text):
    frontend.click("Run", cell=cell)
    done = "form.result is not None and form.result.data"
    frontend.read_until(lambda: frontend.run(done).lines == [repr(text)], what="the form has run")


def test_calls_are_awaited_nested_and_approved(frontend):
    nested = "f = lambda: get_ipython().run_line_magic('mcp', 'call notes:write line=b')\n"
    assert frontend.line(f"r = %mcp call notes:write line=a\n{nested}r.data, f().data") == "('a', 'b')"
    cell = frontend.start("r = await host['notes'].call_tool('write', {'line': 'c'}, asker='agent')\nr.data")
    assert approve(frontend, cell).lines[-1] == "'c'"


def test_an_agent_asks_and_its_transcript_is_there(frontend):
    frontend.run("model = ScriptedModel([[('notes:write', {'line': 'done'})], 'It is written.'])")
    cell = frontend.start("%%mcp_agent --model $model -o run\nwrite it down")
    assert "It is written." in "\n".join(approve(frontend, cell).lines)


def test_forms_and_the_explorer_answer_clicks_after_their_cell(frontend):
    cell = frontend.run("form = %mcp form notes:write\nform")
    frontend.run("form.set_arguments({'line': 'from the form'})")
    runs_form(frontend, cell, "from the form")
    assert frontend.run("%mcp ui").live
    frontend.run("import sys\nkept = sys.modules.get('anywidget')\nsys.modules['anywidget'] = None")
    cell = frontend.run("form = %mcp form notes:write line=plain\nform")
    frontend.run("sys.modules.pop('anywidget')\nif kept: sys.modules['anywidget'] = kept")
    runs_form(frontend, cell, "plain")


def test_a_watch_in_the_background_shows_updates(frontend):
    cell = frontend.run("watch = %mcp watch note://lines --background\nwatch")
    frontend.run("await host['notes'].call('write', line='later');")
    frontend.shows(cell, "1 update", "later")
    frontend.run("%mcp watch --stop;")


def test_view_shows_below_call_or_text_offers_a_line(frontend):
    frontend.run(f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}")
    shown = [*frontend.run("%mcp call dash:sales region=US").displays.values()]
    assert "`%mcp view` opens it" in shown[0]["text/plain"]
    assert any(VIEW in bundle for bundle in shown) == frontend.clicks
