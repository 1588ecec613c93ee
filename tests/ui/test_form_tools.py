"""Forms that call tools of a live server."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import comm
import nbconvert
import nbformat
import pytest
from ipywidgets.widgets.widget import _instances
from mcp.server.mcpserver import MCPServer
from pydantic import Field

from mcp_magic._host import Host
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from mcp_magic.display.document import display
from mcp_magic.errors import ArgumentsError, ToolError
from mcp_magic.ipython.commandline import split_line
from mcp_magic.schema import example_arguments, parse_arguments
from mcp_magic.ui.request_form import RequestForm
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support import bundled
from tests.support.widgets import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic.session.connection import Connection


@pytest.fixture
async def connection(host: Host) -> Connection:
    return await host.connect(bundled.load("showcase_server").server, name="showcase")


@pytest.fixture
async def opened(connection: Connection) -> AsyncIterator[Callable[..., Any]]:
    """Opens forms, and sees that they leave no comm."""
    comms = set(comm.get_comm_manager().comms)
    forms: list[RequestForm] = []

    async def open_form(tool: str, **arguments: Any) -> RequestForm:
        form = RequestForm(connection, await connection.find_tool(tool))
        forms.append(form)
        if arguments:
            form.set_arguments(arguments)
        return form

    yield open_form
    for form in forms:
        form.close()
    assert not set(comm.get_comm_manager().comms) - comms


def html(form: RequestForm) -> str:
    return form._repr_mimebundle_()["text/html"]


@pytest.mark.lowest
async def test_run_shows_the_result_as_the_call_would(opened: Any, connection: Connection) -> None:
    form = await opened("defaults", count=7)
    assert form.result is None
    form._run.click()
    await until(lambda: form.result is not None and not form.running)
    assert form.result.data["count"] == 7
    called = await connection.call("defaults", count=7)
    [shown] = form._runner.output.outputs
    assert shown == {"output_type": "display_data", "data": called._repr_mimebundle_(), "metadata": {}}
    assert "done in " in form._runner.result_line.value


@pytest.mark.parametrize("tool", ["image_png", "audio_wav", "mixed", "structured", "embedded_binary"])
async def test_what_is_shown_can_be_sent_to_the_page(opened: Any, tool: str) -> None:
    form = await opened(tool)
    await form.run()
    assert json.loads(json.dumps(form._runner.output.outputs[0])) == form._runner.output.outputs[0]


async def test_run_does_nothing_while_something_is_wrong_and_says_what(opened: Any, connection: Connection) -> None:
    form = await opened("constrained")
    sent = connection.calls
    form._run.click()
    assert not form.running
    assert "missing: even (integer)" in form.form.root.at("even")._problem.value
    with pytest.raises(ArgumentsError, match=r"missing: even \(integer\)"):
        await form.run()
    assert connection.calls == sent


async def test_an_error_of_the_tool_is_one_line_and_the_result_is_kept(opened: Any) -> None:
    form = await opened("fail_error", message="no <b>luck</b>")
    form._run.click()
    await until(lambda: form.error is not None and not form.running)
    assert form.result.is_error
    [shown] = form._runner.output.outputs
    assert (shown["output_type"], shown["ename"]) == ("error", "ToolError")
    assert len(shown["traceback"]) == 1
    assert "no <b>luck</b>" in shown["evalue"]
    assert "no &lt;b&gt;luck&lt;/b&gt;" in html(form)
    assert "<b>luck" not in html(form)
    with pytest.raises(ToolError, match="luck"):
        await form.run()


async def test_cancel_ends_the_call_at_the_server(opened: Any, connection: Connection) -> None:
    before = (await connection.call("cancellations")).data
    form = await opened("slow", seconds=600)
    form._run.click()
    await until(lambda: form._runner._report.meter.count > 0)
    assert form.running
    assert form._run.disabled
    form._stop.click()
    await until(lambda: not form.running)
    assert form.result is None
    assert "cancelled after" in form._runner.result_line.value
    assert form._run.disabled is False
    async with asyncio.timeout(60):
        while (await connection.call("cancellations")).data == before:
            await asyncio.sleep(0)
    form.set_arguments({"seconds": 0})
    assert (await form.run()).text == "waited 0 s"


@pytest.mark.parametrize("total", [True, False])
async def test_progress_is_shown_while_the_call_runs(opened: Any, total: bool) -> None:
    form = await opened("progress", steps=8, delay=0.1, total=total)
    notes: list[str] = []
    shares: list[float] = []
    form._runner._note.observe(lambda change: notes.append(change["new"]), "value")
    form._runner._bar.observe(lambda change: shares.append(change["new"]), "value")
    await form.run()
    seen = [note for note in notes if "step " in note]
    assert seen
    assert all((" of 8 (" in note) is total for note in seen)
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert len(notes) < 40, "not one message for each notification"


async def test_click_on_other_thread_runs_on_session_loop(opened: Any) -> None:
    form = await opened("defaults")
    threading.Thread(target=form._run.click).start()
    await until(lambda: form.result is not None and not form.running)
    assert form.result.data["count"] == 3


async def test_a_second_click_while_it_runs_does_nothing(opened: Any, connection: Connection) -> None:
    form = await opened("slow", seconds=600)
    form._run.click()
    await until(lambda: form._runner._report.meter.count > 0)
    sent = connection.calls
    form._run.click()
    form._run.click()
    form.cancel()
    await until(lambda: not form.running)
    assert connection.calls == sent


async def test_the_code_is_the_line_that_does_the_same(opened: Any, connection: Connection) -> None:
    form = await opened("defaults", text="it's", items=[3])
    form.copy.click()
    assert form._code in form.widget.children
    assert form._code.value == form.code
    form.form.root.at("count").input.widget.value = "5"
    assert "count=5" in form._code.value
    words = split_line(form.code.removeprefix("%mcp "))
    assert words[:2] == ["call", "showcase:defaults"]
    assert parse_arguments(words[2:], form.form.schema) == form.arguments


async def test_closing_while_it_runs_cancels_and_closes(connection: Connection) -> None:
    before = set(_instances)
    form = RequestForm(connection, await connection.find_tool("slow"))
    form.set_arguments({"seconds": 600})
    form._run.click()
    await until(lambda: form._runner._report.meter.count > 0)
    form.close()
    form.close()
    await until(lambda: not form.running)
    assert not set(_instances) - before
    assert WIDGET_VIEW not in form._repr_mimebundle_()


async def test_twenty_forms_leave_nothing(connection: Connection) -> None:
    before, comms = len(_instances), len(comm.get_comm_manager().comms)
    tool = await connection.find_tool("nested")
    for _ in range(20):
        RequestForm(connection, tool).close()
    assert len(_instances) == before
    assert len(comm.get_comm_manager().comms) == comms


async def test_form_without_widget_says_call_and_outcome(opened: Any) -> None:
    form = await opened("defaults", text="<i>x</i>")
    bundle = form._repr_mimebundle_()
    assert bundle[WIDGET_VIEW]["model_id"] == form.widget.model_id
    assert "form of showcase:defaults — not run yet" in bundle["text/plain"]
    assert "<i>x</i>" in bundle["text/plain"].partition("for example:\n%mcp call showcase:defaults ")[2]
    await form.run()
    bundle = form._repr_mimebundle_()
    assert "— done in " in bundle["text/plain"]
    assert "%mcp call showcase:defaults" in bundle["text/plain"]
    assert "some text" not in bundle["text/plain"]
    assert "&lt;i&gt;x&lt;/i&gt;" in bundle["text/html"]
    assert "<i>x" not in bundle["text/html"]
    assert len(bundle["text/html"]) < display.bytes + 20_000


async def test_without_a_valid_example_it_names_the_arguments(opened: Any) -> None:
    form = await opened("nested")  # has patterns, for which nothing is made up
    line = form._repr_mimebundle_()["text/plain"].splitlines()[-1]
    assert line == "this form needs widgets; `%mcp tool showcase:nested` has its arguments"


@pytest.mark.parametrize("tool", ["union", "enums", "nothing"])
async def test_static_form_offers_line_with_required_arguments(opened: Any, tool: str) -> None:
    form = await opened(tool)
    line = form._repr_mimebundle_()["text/plain"].splitlines()[-1]
    call, server_tool, *arguments = split_line(line)[1:]
    assert (call, server_tool) == ("call", f"showcase:{tool}")
    assert parse_arguments(arguments, form.form.schema) == example_arguments(form.form.schema)


async def test_nbconvert_shows_what_came_of_a_form_without_its_kernel(opened: Any) -> None:
    form = await opened("defaults", text="<i>x</i>")
    await form.run()
    output = nbformat.v4.new_output("display_data", data=form._repr_mimebundle_())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%mcp form", outputs=[output])])
    for exporter in (nbconvert.HTMLExporter(), nbconvert.MarkdownExporter()):
        page, _ = exporter.from_notebook_node(notebook)
        assert "form of showcase:defaults</b> — done in" in page
        assert "&lt;i&gt;x&lt;/i&gt;" in page
        assert "widget-view" not in page


async def test_what_is_kept_is_written_again_when_something_came_of_it(opened: Any) -> None:
    form = await opened("defaults")
    published: list[tuple[str, bool]] = []
    form.publish = lambda bundle, update: published.append((bundle["text/plain"], update))
    await form.run()
    assert published == [], "it was never shown"
    form._ipython_display_()
    await form.run()
    form.close()
    assert [update for _, update in published] == [False, True, True]
    assert "— done in " in published[1][0]


async def test_hostile_texts_stay_text(connection: Connection) -> None:
    tool = (await connection.find_tool("nothing")).model_copy(deep=True)
    evil = "</div></style><script>alert(1)</script><img src=x onerror=alert(1)>"
    tool.description = tool.title = evil
    tool.input_schema = {
        "type": "object",
        "title": evil,
        "properties": {
            evil: {"type": "string", "title": evil, "description": evil, "default": evil},
            "e": {"oneOf": [{"const": evil, "title": evil}, {"const": 1}]},
            "u": {"anyOf": [{"type": "object", "title": evil, "properties": {evil: {}}}, {"type": "integer"}]},
            "o": {"type": "object", "properties": {evil: {"pattern": evil, "type": "string"}}, "required": [evil]},
        },
        "required": ["o", "e"],
    }
    form = RequestForm(connection, tool)
    form.set_arguments({evil: evil, "e": evil, "u": evil, "o": {evil: 1}, "x": evil})
    form.form.submit()
    for widget in list(_instances.values()):
        if "HTML" in type(widget).__name__ and "Style" not in type(widget).__name__:
            assert "<script" not in widget.value
            assert "<img" not in widget.value
    assert "<script" not in html(form)
    assert "<img" not in html(form)
    form.close()


async def test_secrets_stay_out_of_the_code_and_of_what_is_saved() -> None:
    server = MCPServer("vault")

    @server.tool()
    def unlock(api_key: str, phrase: Annotated[str, Field(json_schema_extra={"format": "password"})], n: int) -> int:
        return n

    host = Host()
    connection = await host.connect(server, name="vault")
    with closing(RequestForm(connection, await connection.find_tool("unlock"))) as form:
        form.set_arguments({"api_key": "hunter2", "phrase": "sesame", "n": 1})
        assert form.code == "%mcp call vault:unlock n=1 api_key=$api_key phrase=$phrase"
        assert (await form.run()).data == 1
        saved = str(form._repr_mimebundle_())
        assert "hunter2" not in saved
        assert "sesame" not in saved
    await host.close()


async def test_secrets_in_arguments_become_variables_in_code(connection: Connection) -> None:
    tool = (await connection.find_tool("nothing")).model_copy(deep=True)
    pin = {"type": "string", "writeOnly": True}
    tool.input_schema = {
        "type": "object",
        "properties": {
            "x-api-key": {"type": "string"},
            "login": {"type": "object", "properties": {"user": {"type": "string"}, "pin": pin}},
            "n": {"type": "integer"},
        },
    }
    values = {"x-api-key": "hunter2", "login": {"user": "me", "pin": "998877"}, "n": 1}
    with closing(RequestForm(connection, tool)) as form:
        form.set_arguments(values)
        line = form.code
        assert line == "%mcp call showcase:nothing n=1 x-api-key=$x_api_key login=$login"
        variables = {"x_api_key": values["x-api-key"], "login": values["login"]}
        words = split_line(line.removeprefix("%mcp "))[2:]
        assert parse_arguments(words, tool.input_schema, evaluate=lambda name: variables[name]) == values
        saved = str(form._repr_mimebundle_())
        assert line in saved
        assert "hunter2" not in saved
        assert "998877" not in saved


async def test_a_form_needs_no_second_yes_unless_a_rule_says_so(opened: Any, connection: Connection) -> None:
    assert connection.consent is not None
    asked: list[str] = []

    async def approver(request: Request) -> Decision:
        asked.append(f"{request.asker} {request.name}")
        return Decision.approve({"count": 9})

    connection.consent.policy, connection.consent.approver = "deny", approver
    form = await opened("defaults", count=1)
    assert (await form.run()).data["count"] == 1
    connection.consent.add(Rule("ask", "showcase:*"))
    assert (await form.run()).data["count"] == 9
    assert asked == ["person showcase:defaults"]
    connection.consent.rules[:] = [Rule("deny", "showcase:*", reason="not <b>now</b>")]
    form._run.click()
    await until(lambda: form.error is not None and not form.running)
    [shown] = form._runner.output.outputs
    assert shown["ename"] == "DeniedError"
    assert "not &lt;b&gt;now" in html(form)


async def test_optional_nullable_text_starts_empty_when_sent(opened: Any) -> None:
    form = await opened("nullable", text="a")
    form.form.root.at("number").give()
    form.form.root.at("flag").give()
    assert form.form.draft == {"text": "a"}, "a number and a choice are there once they are entered"
    note = (await opened("defaults")).form.root.at("nothing")
    note.give()
    assert note.get() == ""
