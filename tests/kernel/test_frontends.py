"""Frontends that cannot be run here, by what their messages are like.

VS Code names its cells by URIs of its own, takes input, and makes no subshell for widgets. Colab has ipykernel 6, which
hands no click to a cell that runs, and its messages name no cell.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.kernel.test_watch import SERVER, shows, write
from tests.support import dash_server
from tests.support.frontends import VIEW, Frontend
from tests.support.started_kernels import THIS_KERNEL, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.frontends import Shown
    from tests.support.kernels import Kernel

SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect notes", "from mcp_magic import ScriptedModel, host")
AGENT = "%%mcp_agent --model $model -o run\nwrite it down"
MODEL = "model = ScriptedModel([[('notes:write', {'line': 'done'})], 'It is written.'])"


class VSCode(Frontend):
    """VS Code: a cell is named by its URI."""

    name = "vscode"
    clicks = True

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, subshells=False)
        session: Any = kernel.client.session
        made = session.msg

        def named(kind: str, content: Any = None, *args: Any, metadata: Any = None, **more: Any) -> Any:
            if metadata and "cellId" in metadata:
                metadata = {"cellId": f"vscode-notebook-cell:/home/ada/a.ipynb#{metadata['cellId'].replace(' ', '')}"}
            return made(kind, content, *args, metadata=metadata, **more)

        session.msg = named


class Colab(Frontend):
    """A frontend that names no cell, before ipykernel 6."""

    name = "colab"
    clicks = False

    def start(self, code: str, *, stdin: bool = True, cell: bool = False) -> Shown:
        return super().start(code, stdin=stdin, cell=cell)


@pytest.fixture(scope="module", params=[VSCode, Colab], ids=lambda kind: kind.name)
def frontend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    version = THIS_KERNEL if request.param is VSCode else "kernel630"
    with started(tmp_path_factory.mktemp(request.param.name), SETUP, version) as running:
        yield request.param(running.kernel)


def approve(frontend: Any, cell: Shown) -> None:
    """Say yes, by a click or by a line."""
    if frontend.clicks:
        frontend.panel(cell)
        frontend.click("Approve", cell=cell)
    else:
        frontend.answer("y")


def test_magics_are_awaited_nested_and_assigned(frontend: Any) -> None:
    code = (
        "r = %mcp call notes:write line=a\nf = lambda: get_ipython().run_line_magic('mcp', 'call notes:write line=b')\n"
    )

    assert frontend.run(code + "r.data, f().data").lines == ["('a', 'b')"]


def test_a_call_is_approved_while_its_cell_waits(frontend: Any) -> None:
    cell = frontend.start("r = await host['notes'].call_tool('write', {'line': 'c'}, asker='agent')\nr.data")
    approve(frontend, cell)

    assert frontend.finish(cell).lines[-1] == "'c'"


def test_an_agent_asks_and_its_transcript_is_there(frontend: Any) -> None:
    frontend.run(MODEL)
    cell = frontend.start(AGENT)
    approve(frontend, cell)

    assert "It is written." in "\n".join(frontend.finish(cell).lines)


def test_a_form_and_the_explorer_answer_clicks_after_their_cell(frontend: Any) -> None:
    cell = frontend.run("form = %mcp form notes:write\nform")
    frontend.run("form.set_arguments({'line': 'from the form'})")
    frontend.click("Run", cell=cell)
    frontend.read_until(
        lambda: frontend.run("form.result is not None and form.result.data").lines == ["'from the form'"],
        what="the form has run",
    )
    assert frontend.run("%mcp ui").live


def test_a_form_works_where_anywidget_is_not_installed(frontend: Any) -> None:
    frontend.run("import sys\nkept = sys.modules.get('anywidget')\nsys.modules['anywidget'] = None")
    cell = frontend.run("form = %mcp form notes:write line=plain\nform")
    frontend.run("sys.modules.pop('anywidget')\nif kept: sys.modules['anywidget'] = kept")
    frontend.click("Run", cell=cell)
    frontend.read_until(
        lambda: frontend.run("form.result is not None and form.result.data").lines == ["'plain'"],
        what="the form has run",
    )


def test_a_watch_in_the_background_shows_updates(frontend: Any) -> None:
    cell = frontend.run("watch = %mcp watch note://lines --background\nwatch")
    write(frontend, "later")

    shows(frontend, cell, "1 update", "later")
    frontend.run("%mcp watch --stop;")


def test_view_shows_below_call_or_text_offers_a_line(frontend: Any) -> None:
    frontend.run(f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}")
    cell = frontend.run("%mcp call dash:sales region=US")
    shown = [*cell.displays.values()]

    assert "`%mcp view` opens it" in shown[0]["text/plain"]
    assert any(VIEW in each for each in shown) == frontend.clicks
