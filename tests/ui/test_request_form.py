"""Forms that call tools of a live server."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from typing import Annotated, Any

import comm
import nbconvert
import nbformat
import pytest
from anywidget import AnyWidget
from ipywidgets.widgets.widget import _instances
from mcp.server.mcpserver import MCPServer
from mcp_types import Completion
from pydantic import Field

from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from mcp_magic.display.document import display
from mcp_magic.errors import ArgumentsError, ToolError
from mcp_magic.schema import example_arguments, parse_arguments
from mcp_magic.schema.words import split_line
from mcp_magic.ui.request_form import RequestForm
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support import bundled, dash_server
from tests.support.waiting import until
from tests.support.widgets import receive, widgets


@pytest.fixture
async def connection(host):
    return await host.connect(bundled.load("showcase_server").server, name="showcase")


@pytest.fixture
async def opened(connection):
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


def plain(form: RequestForm) -> str:
    return form._repr_mimebundle_()["text/plain"]


async def ended(form: RequestForm) -> None:
    await until(lambda: (form.result is not None or form.error is not None) and not form.running)


async def under_way(form: RequestForm) -> None:
    """Click on Run, and wait until the server has reported progress."""
    form.buttons.run.click()
    await until(lambda: form._runner._report.meter.count > 0)


@pytest.mark.lowest
async def test_run_shows_the_result_as_the_call_would(opened, connection):
    form = await opened("defaults", count=7)
    assert form.result is None
    form.buttons.run.click()
    await ended(form)
    assert form.result.data["count"] == 7
    called = await connection.call("defaults", count=7)
    [shown] = form._runner.output.outputs
    assert shown == {"output_type": "display_data", "data": called._repr_mimebundle_(), "metadata": {}}
    assert "done in " in form._runner.result_line.value
    form.set_arguments({"count": 3})
    thread = threading.Thread(target=form.buttons.run.click)
    thread.start()
    thread.join()
    await until(lambda: form.running or (form.result and form.result.data["count"] == 3))
    await ended(form)
    assert form.result.data["count"] == 3


@pytest.mark.parametrize("tool", ["image_png", "audio_wav", "mixed", "structured", "embedded_binary"])
async def test_what_is_shown_can_be_sent_to_the_page(opened, tool):
    form = await opened(tool)
    await form.run()
    assert json.loads(json.dumps(form._runner.output.outputs[0])) == form._runner.output.outputs[0]


async def test_run_does_nothing_while_something_is_wrong_and_says_what(opened, connection):
    form = await opened("constrained")
    sent = connection.calls
    form.buttons.run.click()
    assert not form.running
    assert "missing: even (integer)" in form.form.root.at("even")._problem.value
    with pytest.raises(ArgumentsError, match=r"missing: even \(integer\)"):
        await form.run()
    assert connection.calls == sent


async def test_an_error_of_the_tool_is_one_line_and_the_result_is_kept(opened):
    form = await opened("fail_error", message="no <b>luck</b>")
    form.buttons.run.click()
    await ended(form)
    assert form.result.is_error
    [shown] = form._runner.output.outputs
    assert (shown["output_type"], shown["ename"]) == ("error", "ToolError")
    assert len(shown["traceback"]) == 1
    assert "no <b>luck</b>" in shown["evalue"]
    assert "no &lt;b&gt;luck&lt;/b&gt;" in html(form)
    assert "<b>luck" not in html(form)
    with pytest.raises(ToolError, match="luck"):
        await form.run()


async def test_cancel_ends_the_call_at_the_server(opened, connection):
    before = (await connection.call("cancellations")).data
    form = await opened("slow", seconds=600)
    await under_way(form)
    assert form.running
    assert form.buttons.run.disabled
    sent = connection.calls
    form.buttons.run.click()
    assert connection.calls == sent, "a click while it runs does nothing"
    form.buttons.cancel.click()
    await until(lambda: not form.running)
    assert form.result is None
    assert "cancelled after" in form._runner.result_line.value
    assert form.buttons.run.disabled is False
    async with asyncio.timeout(60):
        while (await connection.call("cancellations")).data == before:
            await asyncio.sleep(0)
    form.set_arguments({"seconds": 0})
    assert (await form.run()).text == "waited 0 s"


@pytest.mark.parametrize("total", [True, False])
async def test_progress_is_shown_while_the_call_runs(opened, total):
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


async def test_copied_code_is_the_equivalent_line(opened):
    form = await opened("defaults", text="it's", items=[3])
    form.copy.button.click()
    assert form.copy.field in form.widget.children
    assert form.copy.field.value == form.code
    form.form.root.at("count").input.widget.value = "5"
    assert "count=5" in form.copy.field.value
    words = split_line(form.code.removeprefix("%mcp "))
    assert words[:2] == ["call", "showcase:defaults"]
    assert parse_arguments(words[2:], form.form.schema) == form.arguments


async def test_closing_while_it_runs_cancels_and_leaves_nothing(connection):
    before, comms = set(_instances), len(comm.get_comm_manager().comms)
    nested = await connection.find_tool("nested")
    for _ in range(3):
        RequestForm(connection, nested).close()
    form = RequestForm(connection, await connection.find_tool("slow"))
    form.set_arguments({"seconds": 600})
    await under_way(form)
    form.close()
    form.close()
    await until(lambda: not form.running)
    assert not set(_instances) - before
    assert len(comm.get_comm_manager().comms) == comms
    assert WIDGET_VIEW not in form._repr_mimebundle_()


# Without its kernel


async def test_form_without_widget_says_call_and_outcome(opened):
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

    output = nbformat.v4.new_output("display_data", data=bundle)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%mcp form", outputs=[output])])
    for exporter in (nbconvert.HTMLExporter(), nbconvert.MarkdownExporter()):
        page, _ = exporter.from_notebook_node(notebook)
        assert "form of showcase:defaults</b> — done in" in page
        assert "&lt;i&gt;x&lt;/i&gt;" in page
        assert "widget-view" not in page


@pytest.mark.parametrize("tool", ["union", "enums", "nothing", "nested"])
async def test_static_form_offers_line_with_required_arguments(opened, tool):
    form = await opened(tool)
    line = plain(form).splitlines()[-1]
    if tool == "nested":  # has patterns, for which nothing is made up
        assert line == "this form needs widgets; `%mcp tool showcase:nested` has its arguments"
        return
    call, server_tool, *arguments = split_line(line)[1:]
    assert (call, server_tool) == ("call", f"showcase:{tool}")
    assert parse_arguments(arguments, form.form.schema) == example_arguments(form.form.schema)


async def test_form_output_is_updated_after_a_run_and_on_close(opened):
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


# What may not be shown, sent, kept


async def test_hostile_texts_stay_text(connection):
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
    with closing(RequestForm(connection, tool)) as form:
        form.set_arguments({evil: evil, "e": evil, "u": evil, "o": {evil: 1}, "x": evil})
        form.form.submit()
        kinds = {each: type(each).__name__ for each in _instances.values()}
        shown = [each.value for each, kind in kinds.items() if "HTML" in kind and "Style" not in kind]
        assert len(shown) > 10
        assert not [text for text in (*shown, html(form)) if "<script" in text or "<img" in text]


async def test_secrets_stay_out_of_the_code_and_of_what_is_saved(host, connection):
    server = MCPServer("vault")

    @server.tool()
    def unlock(api_key: str, phrase: Annotated[str, Field(json_schema_extra={"format": "password"})], n: int) -> int:
        return n

    vault = await host.connect(server, name="vault")
    with closing(RequestForm(vault, await vault.find_tool("unlock"))) as form:
        form.set_arguments({"api_key": "hunter2", "phrase": "sesame", "n": 1})
        assert form.code == "%mcp call vault:unlock n=1 api_key=$api_key phrase=$phrase"
        assert (await form.run()).data == 1
        saved = str(form._repr_mimebundle_())
        assert "hunter2" not in saved
        assert "sesame" not in saved

    tool = (await connection.find_tool("nothing")).model_copy(deep=True)
    login = {"user": {"type": "string"}, "pin": {"type": "string", "writeOnly": True}}
    names = {"x-api-key": {"type": "string"}, "login": {"type": "object", "properties": login}}
    tool.input_schema = {"type": "object", "properties": {**names, "n": {"type": "integer"}}}
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


async def test_a_form_needs_no_second_yes_unless_a_rule_says_so(opened, connection):
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
    form.buttons.run.click()
    await until(lambda: form.error is not None and not form.running)
    [shown] = form._runner.output.outputs
    assert shown["ename"] == "DeniedError"
    assert "not &lt;b&gt;now" in html(form)


async def test_optional_nullable_text_starts_empty_when_sent(opened):
    form = await opened("nullable", text="a")
    form.form.root.at("number").give()
    form.form.root.at("flag").give()
    assert form.form.draft == {"text": "a"}, "a number and a choice are there once they are entered"
    note = (await opened("defaults")).form.root.at("nothing")
    note.give()
    assert note.get() == ""


async def test_a_form_shows_the_view_of_its_result_until_it_runs_again(host):
    connection = await host.connect(dash_server.server, name="dash")
    with closing(RequestForm(connection, await connection.find_tool("sales"))) as form:
        for _ in range(2):
            await form.run()
            *_, view = widgets(form.widget, AnyWidget)  # after the form's own
            sent: list[dict[str, object]] = []
            view.send = lambda content, buffers=None, sent=sent: sent.append(content)
            receive(view, {"kind": "hello", "view": "a"})
            await until(lambda sent=sent: sent)
            assert sent[0]["html"] == dash_server.HTML


# Completion by a server that is slow, fails, or goes away


async def test_completion_is_of_what_is_typed_now_and_never_in_the_way(host):
    asked: list[tuple[str, dict[str, str]]] = []
    slow = asyncio.Event()
    server = MCPServer("completing", log_level="CRITICAL")

    @server.prompt()
    def ask(word: str, language: str = "") -> str:
        return word

    @server.completion()
    async def complete(reference: Any, argument: Any, context: Any) -> Completion:
        asked.append((argument.value, dict(context.arguments or {}) if context else {}))
        if argument.value.startswith("slow"):
            await slow.wait()
        if argument.value.startswith("bad"):
            raise ValueError("no")
        return Completion(values=[f"{argument.value}er", f"{argument.value}est"])

    connection = await host.connect(server, name="completing")
    with closing(RequestForm(connection, await connection.find_prompt("ask"))) as form:
        word, language = (form.form.root.at(name).input.widget for name in ("word", "language"))
        await until(lambda: word.options == ("er", "est"))
        for text, offered in (("bad", ()), ("good", ("gooder", "goodest")), ("slow", None)):
            word.value = text
            await until(lambda text=text: text in dict(asked))
            if offered is not None:
                await until(lambda offered=offered: word.options == offered)
        language.value = "en"
        async with asyncio.timeout(60):
            assert (await form.run()).messages[0].content == "slow", "what waits for an answer keeps nobody from it"
        word.value = "fast"
        await until(lambda: word.options == ("faster", "fastest"))
        assert ("fast", {"language": "en"}) in asked
        slow.set()
        word.value = "new"
        await until(lambda: word.options == ("newer", "newest"))
        await connection.close()
        word.value = "x"
        await until(lambda: word.options == ())
