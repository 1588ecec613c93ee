"""A form that calls a tool with a view shows it below the result."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from anywidget import AnyWidget

from mcp_magic.ui.request_form import RequestForm
from tests.support.dash_server import HTML, server
from tests.support.widgets import receive, until, widgets

if TYPE_CHECKING:
    from mcp_magic._host import Host


async def test_a_form_shows_the_view_of_its_result_until_it_runs_again(host: Host) -> None:
    connection = await host.connect(server, name="dash")
    with closing(RequestForm(connection, await connection.find_tool("sales"))) as form:
        for _ in range(2):
            await form.run()
            *_, view = widgets(form.widget, AnyWidget)  # after the form's own
            sent: list[dict[str, object]] = []
            view.send = lambda content, buffers=None, sent=sent: sent.append(content)
            receive(view, {"kind": "hello", "view": "a"})
            await until(lambda sent=sent: sent)
            assert sent[0]["html"] == HTML
