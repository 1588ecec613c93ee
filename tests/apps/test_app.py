"""What an app may do in this kernel, through a page that shows it."""

from __future__ import annotations

import asyncio
import base64
import gc
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.apps import Apps, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic._host import Host
from mcp_magic.apps.app import MAX_MESSAGES, MAX_PENDING, App
from mcp_magic.apps.calls import CallView, views_of
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from tests.support.app_pages import Page
from tests.support.dash_server import HTML
from tests.support.walks import modules, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.consent.consent import Request


def decisions(host: Host) -> list[tuple[str, str, str, str]]:
    return [(each.asker, each.tool, each.decision, each.by) for each in host.consent.audit.records]


async def test_a_page_gets_the_view_the_arguments_and_the_result(page):
    view = await page.shown()
    assert (view["label"], view["title"]) == ("app dash", "dash:sales")
    assert view["html"] == HTML
    assert view["arguments"] == {"region": "US"}
    assert view["outcome"]["method"] == "ui/notifications/tool-result"
    assert view["outcome"]["params"]["content"][0]["text"] == "US: 42"
    assert view["tool"]["name"] == "sales"
    assert view["border"] is True


async def test_the_host_says_that_it_shows_views():
    apps, server = Apps(), MCPServer("asks")

    @server.tool()
    def shows(context: Context[Any]) -> bool:
        return client_supports_apps(context)

    async with Host() as host:
        await host.connect(server, name="asks")
        assert (await host.call("asks:shows")).data is True
    assert apps.identifier == "io.modelcontextprotocol/ui"


async def test_a_call_of_an_app_is_approved_in_its_name_and_recorded(host, page, asked):
    answer = await page.ask("tools/call", name="refresh", arguments={"step": 2})
    assert answer["result"]["content"][0]["text"] == "step 2 done"
    answer = await page.ask("resources/read", uri="data://regions")
    assert answer["result"]["contents"][0]["text"] == "EU, US"
    host.consent.rules.append(Rule("deny", "dash:refresh"))
    answer = await page.ask("tools/call", name="refresh", arguments={"step": 2})
    assert answer["error"]["message"].startswith("dash:refresh was not called; denied by rule `deny dash:refresh`.")
    assert [(each.name, each.asker, dict(each.arguments)) for each in asked] == [
        ("dash:refresh", "app dash", {"step": 2}),
        ("dash:resources/read", "app dash", {"uri": "data://regions"}),
    ]
    assert decisions(host) == [
        ("app dash", "refresh", "approve", "person"),
        ("app dash", "resources/read", "approve", "person"),
        ("app dash", "refresh", "deny", "rule `deny dash:refresh`"),
    ]


async def test_a_call_of_an_app_enters_few_functions(host, page):
    host.consent.rules.append(Rule("allow", "dash:refresh"))
    await page.ask("tools/call", name="refresh", arguments={"step": 2})
    host.trace.settle()
    with walk() as entries:
        await page.ask("tools/call", name="refresh", arguments={"step": 2})
    assert len(entries) <= 330
    assert len(modules(entries)) <= 44


async def test_what_is_not_for_apps_is_refused_unasked(page, asked):
    tools = (await page.ask("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["sales", "refresh"]
    for name in ("secret", "missing"):
        answer = await page.ask("tools/call", name=name, arguments={})
        assert answer["error"]["message"] == f"dash offers no tool '{name}' to apps"
    answer = await page.ask("tools/call", name="refresh", arguments={"step": "two"})
    assert "step" in answer["error"]["message"]
    answer = await page.ask("kernel/execute", code="1")
    assert answer["error"] == {"code": -32601, "message": "Method not found: kernel/execute"}
    for url in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://", 7):
        assert (await page.ask("ui/open-link", url=url))["error"]["code"] == -32602
    assert asked == []
    assert [each for each in page.messages if each["kind"] == "ask"] == []


async def test_a_link_is_opened_only_after_a_click(host, page):
    host.consent.policy = "auto"
    asking = page.begin("ui/open-link", url="https://example.com/a?b=1")
    question = await page.answer("yes")
    assert question["text"] == "app dash wants to open https://example.com/a?b=1"
    assert question["link"] == "https://example.com/a?b=1"
    assert (await page.reply(asking))["result"] == {}
    asking = page.begin("ui/open-link", url="https://example.com/")
    await page.answer("no")
    assert (await page.reply(asking))["error"]["message"] == "ui/open-link was denied by the user"
    host.consent.rules.append(Rule("deny", "dash:ui/*", reason="no windows"))
    answer = await page.ask("ui/open-link", url="https://example.com")
    assert answer["error"]["message"] == "ui/open-link was denied by rule `deny 'dash:ui/*'`: no windows"
    assert [each[2] for each in decisions(host)] == ["approve", "deny", "deny"]


async def test_reloaded_page_repeats_question(app, page):
    asking = page.begin("ui/open-link", url="https://example.com/")
    first = await page.kind("ask")
    again = Page(app, "again")
    await again.shown()
    assert (await again.answer("yes"))["id"] == first["id"]
    assert (await page.reply(asking))["result"] == {}
    assert (await page.kind("answered"))["id"] == first["id"]


async def test_a_question_of_a_view_that_is_closed_is_denied(host, page):
    page.begin("ui/open-link", url="https://example.com/")
    await page.kind("ask")
    page.tell(kind="gone")
    while not host.consent.audit.records:
        await asyncio.sleep(0)
    [record] = host.consent.audit.records
    assert (record.decision, record.by, record.reason) == ("deny", "default", "the view was closed")


async def test_a_file_is_saved_only_after_a_click(page):
    resource = {"uri": "file:///../../a b.csv", "mimeType": "text/csv", "text": "x,y"}
    asking = page.begin("ui/download-file", contents=[{"type": "resource", "resource": resource}])
    question = await page.answer("yes")
    assert question["text"] == "app dash wants to save the file a_b.csv (3 bytes)"
    file = await page.kind("download")
    assert (file["name"], base64.b64decode(file["data"])) == ("a_b.csv", b"x,y")
    assert (await page.reply(asking))["result"] == {}


async def test_what_the_model_should_know_is_kept_and_cut(app, page):
    await page.ask("ui/update-model-context", content=[{"type": "text", "text": "EU"}], structuredContent={"n": 1})
    assert app.context == 'EU\n{"n": 1}'
    await page.ask("ui/update-model-context", content=[{"type": "text", "text": "x" * 100_000}])
    assert len(app.context) < 21_000


async def test_a_message_waits_for_you(host, app, page):
    params = {"role": "user", "content": {"type": "text", "text": "Why did EU fall?"}}
    assert (await page.ask("ui/message", **params))["result"] == {}
    shown = await page.kind("message")
    assert shown["text"] == "Why did EU fall?"
    assert [each.text for each in app.messages] == ["Why did EU fall?"]
    assert [each["text"] for each in (await page.shown())["messages"]] == ["Why did EU fall?"]
    page.tell(kind="message", id=shown["id"], how="dismiss")
    await page.ask("tools/list")
    assert app.messages == []
    assert decisions(host) == [("app dash", "ui/message", "deny", "person")]
    for _ in range(MAX_MESSAGES):
        await page.ask("ui/message", content={"type": "text", "text": "a\u202eb"})
    assert (await page.kind("message"))["text"] == "a\\u202eb"
    assert "too many messages" in (await page.ask("ui/message", **params))["error"]["message"]


async def test_permissions_are_given_only_when_you_allow_them(page):
    view = await page.shown()
    assert (view["allow"], view["wants"]) == ("", ["geolocation"])
    page.tell(kind="grant")
    question = await page.answer("yes")
    assert question["text"] == "app dash wants to use your geolocation"
    again = await page.kind("view")
    assert (again["allow"], again["wants"]) == ("geolocation", [])


async def test_requests_beyond_a_number_are_refused(host, page):
    waits = asyncio.Event()

    async def wait(request: Request) -> Decision:
        await waits.wait()
        return Decision.approve()

    host.consent.approver = wait
    begun = [page.begin("tools/call", name="refresh", arguments={"step": n}) for n in range(MAX_PENDING + 5)]
    refused = await page.reply(begun[-1])
    assert refused["error"]["message"] == f"{MAX_PENDING} requests are pending; wait for their answers"
    waits.set()
    assert "result" in await page.reply(begun[0])


async def test_cancelled_request_drops_question_and_gets_no_answer(host, page):
    withdrawn = page.begin("ui/open-link", url="https://example.com/")
    question = await page.kind("ask")
    page.tell(kind="cancel", id=str(withdrawn))  # another id
    page.tell(kind="cancel", id=withdrawn)
    assert (await page.kind("answered"))["id"] == question["id"]
    page.tell(kind="cancel", id=withdrawn)
    assert "result" in await page.ask("tools/list")
    assert [each["id"] for each in page.messages if each["kind"] == "reply"] == [withdrawn + 1]
    assert decisions(host) == []


async def test_a_call_that_an_app_cancels_is_cancelled_at_the_server(host):
    apps, begun, ended = Apps(), asyncio.Event(), asyncio.Event()

    @apps.tool(resource_uri="ui://slow/view")
    async def look(wait: bool = False) -> str:
        try:
            begun.set()
            await asyncio.sleep(3600 if wait else 0)
        except asyncio.CancelledError:
            ended.set()
            raise
        return "figures"

    apps.add_html_resource("ui://slow/view", "<p>")
    await host.connect(MCPServer("slow", extensions=[apps]), name="slow")
    host.consent.policy = "auto"
    app = (await host.call("slow:look")).app
    assert isinstance(app, App)
    begun.clear()
    page = Page(app)
    await page.shown()
    slow = page.begin("tools/call", name="look", arguments={"wait": True})
    async with asyncio.timeout(20):
        await begun.wait()
        page.tell(kind="cancel", id=slow)
        await ended.wait()
    answer = await page.ask("tools/call", name="look", arguments={})
    assert answer["result"]["content"][0]["text"] == "figures"
    assert len([each for each in page.messages if each["kind"] == "reply"]) == 1


async def test_reloaded_page_gets_view_and_others_keep_theirs(app):
    first, second = Page(app, "first"), Page(app, "second")
    await first.shown()
    first.tell(kind="size", height=300)
    view = await second.shown()
    assert view["height"] == 300
    await first.ask("tools/list")
    assert [each for each in second.messages if each["kind"] == "reply"] == []


async def test_a_lost_session_is_said_in_the_view(host, page):
    await host["dash"].close()
    assert (await page.kind("status"))["text"] == "the session of dash is closed"
    answer = await page.ask("tools/call", name="refresh", arguments={"step": 1})
    assert "dash" in answer["error"]["message"]
    await host.reconnect("dash")
    await page.until(lambda each: each["kind"] == "status" and each["text"] == "")


async def test_a_large_view_comes_whole(host):
    apps = Apps()

    @apps.tool(resource_uri="ui://large/view")
    def look() -> str:
        return "text"

    html = "<!doctype html>" + base64.b64encode(bytes(range(256)) * 4000).decode()
    apps.add_html_resource("ui://large/view", html)
    await host.connect(MCPServer("large", extensions=[apps]), name="large")
    result = await host.call("large:look")
    assert isinstance(result.app, App)
    assert (await Page(result.app).shown())["html"] == html


async def test_a_view_is_under_way_as_long_as_a_page_shows_it(host, app):
    first, second = Page(app, "first"), Page(app, "second")
    following = host["dash"].events()
    await first.shown()
    await second.shown()
    assert [(event.kind, event.name, event.text) for _, event in host.events.under_way()] == [
        ("app", 'sales {"region": "US"}', "shown")
    ]
    first.tell(kind="gone")
    second.tell(kind="gone")
    async with asyncio.timeout(20):
        events = [await anext(following) for _ in range(2)]
    assert [(event.text, event.ended) for event in events] == [("shown", False), ("hidden", True)]
    assert host.events.under_way() == []


async def test_view_of_running_call_gets_result_or_reason(host):
    apps, go = Apps(), asyncio.Event()

    @apps.tool(resource_uri="ui://slow/view")
    async def look() -> str:
        await go.wait()
        return "figures"

    apps.add_html_resource("ui://slow/view", "<p>")
    slow = await host.connect(MCPServer("slow", extensions=[apps]), name="slow")
    shown: list[App] = []
    calls = [asyncio.create_task(slow.caller.call(Call(slow, "look", {}), CallView(shown.append))) for _ in range(2)]
    while len(shown) < 2:
        await asyncio.sleep(0)
    pages = [Page(app, "a") for app in shown]
    for page in pages:
        assert (await page.shown())["outcome"] == {}
    calls[1].cancel()
    assert (await pages[1].kind("outcome"))["method"] == "ui/notifications/tool-cancelled"
    go.set()
    outcome = await pages[0].kind("outcome")
    assert outcome["params"]["content"][0]["text"] == "figures"
    assert (await calls[0]).app is shown[0]
    with pytest.raises(asyncio.CancelledError):
        await calls[1]


async def test_view_gets_only_the_approved_input(host):
    shown: list[App] = []

    async def change(request: Request) -> Decision:
        assert (shown, list(views_of(host["dash"]))) == ([], [])
        return Decision.approve({"region": "US"})

    host.consent.approver = change
    call = Call(host["dash"], "sales", {"region": "secret"}, asker="agent")
    await host.caller.call(call, CallView(shown.append))
    [app] = shown
    assert (await Page(app).shown())["arguments"] == {"region": "US"}


async def test_a_copy_of_a_result_has_no_view(host):
    result = await host.call("dash:sales")
    copied = pickle.loads(pickle.dumps(result))
    assert (copied.app, copied.text) == (None, "EU: 42")


async def test_views_that_nobody_holds_are_forgotten(host):
    await host.call("dash:sales")
    held = await host.call("dash:sales")
    gc.collect()
    assert list(views_of(host["dash"])) == [held.app]


async def test_failing_channel_loses_view_but_keeps_session(host, app):
    class Broken(Page):
        def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
            raise ConnectionResetError("gone")

    Broken(app).tell(kind="hello")
    while len(host["dash"].notices.messages) < 2:
        await asyncio.sleep(0)
    assert "app dash: its view is lost: ConnectionResetError: gone" in str(host["dash"].notices.messages)
    assert not app.is_shown
    await host["dash"].ping()
