"""Addresses that servers want a person to open, and forms that ask for what no form may ask for."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import ipywidgets
import pytest
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from mcp_magic.ask.elicitation import (
    Answer,
    Elicitation,
    answer_of,
    elicitation_question,
    question_part,
    secrets_marked,
)
from mcp_magic.ask.question import Reply, outcome_bundle
from mcp_magic.auth.login import CallbackServer, login_html, login_text
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import AuthorizationError, ToolError
from mcp_magic.ipython.ask import InputAsker
from mcp_magic.ui.form import Form
from tests.support.authorization_server import Behaviour
from tests.support.clocks import cpu_time
from tests.support.eliciting_server import url_server
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server
from tests.support.widgets import widgets

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.auth.login import LogIn

NEVER_SHOWN = {
    "javascript:alert(document.cookie)": "is not an http(s) URL",
    "data:text/html,<script>alert(1)</script>": "is not an http(s) URL",
    "file:///etc/passwd": "is not an http(s) URL",
    "https://github.com@evil.example/login": "has a user name, which looks like the host: 'github.com@'",
    "https://github.com%2Flogin@evil.example/": "has a user name, which looks like the host: 'github.com%2Flogin@'",
    "http://intranet.example/login": "has no https, so others on the network could read what you type there",
    "http://127.0.0.1.evil.example/": "has no https, so others on the network could read what you type there",
    "https://evil.example/?" + "a" * 20_000: "has more than 8,000 characters",
}
SHOWN_AS = {
    "https://\u0430pple.com/login": "xn--pple-43d.com",
    "https://xn--pple-43d.com/login": "xn--pple-43d.com",
    "https://evil.example/\u202emoc.buhtig//:sptth": "evil.example",
    "https://evil.example/https://github.com/login": "evil.example",
    "https://github.com.evil.example/": "github.com.evil.example",
}


def log_of(host: Host, name: str) -> str:
    return "\n".join(str(message.data) for message in host[name].notices.messages)


@pytest.mark.parametrize("url", NEVER_SHOWN, ids=lambda url: url[:30])
async def test_a_page_whose_address_deceives_is_not_shown(host: Host, url: str) -> None:
    asked: list[Elicitation] = []

    async def elicitor(what: Elicitation) -> Answer:
        asked.append(what)
        return Answer.accept()

    host.elicitation.elicitor = elicitor
    connection = await host.connect(url_server(url), name="pay")
    assert (await connection.call("pay")).text == "decline"
    assert asked == []
    assert f"a page whose address {NEVER_SHOWN[url]}" in log_of(host, "pay")


@pytest.mark.parametrize("url", SHOWN_AS)
def test_a_page_is_shown_with_the_host_that_it_leads_to(url: str) -> None:
    asked = Elicitation("pay", "Log in to GitHub", "url", url=url)
    for shown in (question_part(asked).html, question_part(asked).plain):
        assert "\u202e" not in shown.replace(f'href="{url}"', "")
    assert f'<b style="font-size:1.15em">{SHOWN_AS[url]}</b>' in question_part(asked).html
    assert f"open a page at {SHOWN_AS[url]}\n" in question_part(asked).plain


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("https://github.com@evil.example/authorize", "has a user name, which looks like the host: 'github.com@'"),
        ("http://127.0.0.1.evil.example/authorize", "has no https"),
        ("https://evil.example/" + "a" * 20_000, "has more than 8,000 characters"),
    ],
)
async def test_a_log_in_at_an_address_that_deceives_is_not_begun(host: Host, endpoint: str, why: str) -> None:
    person = logging_in(host)
    async with protected_server(Behaviour(endpoints={"authorization_endpoint": endpoint})) as protected:
        with pytest.raises(AuthorizationError, match="it was not opened") as caught:
            await host.connect(protected.url, name="notes")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 400
    assert person.shown == []


async def test_a_log_in_names_its_host_in_ascii(host: Host) -> None:
    shown: list[str] = []

    async def authorizer(login: LogIn) -> None:
        shown.extend([login_html(login), login_text(login)])
        login.cancel()
        await login.answered()

    logging_in(host)
    host.logins.authorizer = authorizer
    endpoints = {"authorization_endpoint": "https://\u0430pple.com/authorize"}
    async with protected_server(Behaviour(endpoints=endpoints)) as protected:
        with pytest.raises(AuthorizationError, match=r"the log-in at xn--pple-43d\.com was cancelled"):
            await host.connect(protected.url, name="notes")
    assert '<b style="font-size:1.15em">xn--pple-43d.com</b>' in shown[0]
    assert "log in at xn--pple-43d.com." in shown[1]


def test_idle_connections_do_not_block_the_callback() -> None:
    callback = CallbackServer()
    callback.expect(lambda url: "done" if url.endswith("?code=1") else "stale")
    idle = []
    try:
        for _ in range(100):
            idle.append(socket.create_connection(("127.0.0.1", callback.server_port), timeout=9))
        answer = httpx2.get(f"{callback.redirect_uri}?code=1", timeout=9)
        assert "Logged in" in answer.text
        assert threading.active_count() < 90
        for method, path in (("POST", "/callback?code=1"), ("GET", "/callback?code=2"), ("GET", "/" + "a" * 60_000)):
            assert (
                httpx2.request(method, f"http://127.0.0.1:{callback.server_port}{path}", timeout=9).status_code >= 400
            )
        rebound = httpx2.get(f"{callback.redirect_uri}?code=1", headers={"Host": "evil.example"}, timeout=9)
        assert rebound.status_code == 404
    finally:
        callback.close()
        for connection in idle:
            connection.close()


# Forms

SECRETS = {
    "password": {"type": "string"},
    "value": {"type": "string", "title": "Your API key"},
    "answer": {"type": "string", "description": "The number on your credit card"},
    "pin": {"type": "integer"},
    "key": {"type": "string", "format": "password"},
}
ENTERED: dict[str, Any] = {
    "password": "hunter2-hunter2",
    "value": "sk-0123456789",
    "answer": "4111111111111111",
    "pin": 9753,
    "key": "s3cr3t-s3cr3t",
}


def asking_server(properties: dict[str, Any], message: str = "Who are you?") -> Server[Any]:
    """Return a low-level server that asks for these, and repeats in its answer what texts it got."""

    def got(content: dict[str, Any]) -> CallToolResult:
        texts = [value for value in content.values() if isinstance(value, str)]
        return CallToolResult(content=[TextContent(type="text", text=f"got {len(content)}: {texts}")])

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        schema = {"type": "object", "properties": properties}
        if context.session.protocol_version != "2026-07-28":
            return got((await context.session.elicit_form(message, schema)).content)
        if params.input_responses:
            return got(params.input_responses["form"].content)
        asked = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
        return InputRequiredResult(input_requests={"form": asked}, request_state="s")

    return Server("asker", on_list_tools=tools, on_call_tool=call)


@pytest.mark.parametrize("protocol", ["handshake", "2026-07-28"])
async def test_form_secrets_cause_a_warning_and_are_not_recorded(host: Host, tmp_path: Path, protocol: str) -> None:
    shown: list[str] = []

    async def elicitor(asked: Elicitation) -> Answer:
        answer = Answer.accept(ENTERED)
        outcome = elicitation_question(asked).outcome(Reply("accept", ENTERED), 1.0)
        shown.extend([question_part(asked).html, question_part(asked).plain, json.dumps(outcome_bundle([outcome]))])
        return answer

    host.elicitation.elicitor = elicitor
    with deck.holding(tmp_path / "cassette.jsonl", "record"):
        connection = await host.connect(asking_server(SECRETS), name="asker", protocol=protocol)
        assert (await connection.call("ask")).text.startswith("got 5: ['hunter2-hunter2'")
        await host.close()
    for text in shown[:2]:
        assert "This seems to ask for a secret: password, value, answer, pin, key" in text
        assert "Decline, unless you know why it asks." in text
    recorded = [(tmp_path / "cassette.jsonl").read_text(), json.dumps([e.message for e in connection.trace.entries])]
    for text in [*recorded, shown[2]]:
        assert "***" in text
        for value in ENTERED.values():
            assert str(value) not in text


@pytest.mark.parametrize(
    ("message", "field", "secret"),
    [
        ("Enter your one-time code", {"type": "string"}, True),
        ("Your PIN, please", {"type": "string"}, True),
        ("Paste your GitHub personal access token", {"type": "string"}, True),
        ("Which city?", {"type": "string"}, False),
        ("How many tokens at most?", {"type": "integer", "title": "Max tokens"}, False),
        ("Pin which tab?", {"type": "string", "description": "Its name"}, False),
    ],
)
async def test_what_a_form_asks_for_is_told_by_its_words(
    host: Host, message: str, field: dict[str, Any], secret: bool
) -> None:
    seen: list[Elicitation] = []

    async def elicitor(asked: Elicitation) -> Answer:
        seen.append(asked)
        return Answer.decline()

    host.elicitation.elicitor = elicitor
    connection = await host.connect(asking_server({"it": field}, message), name="asker", protocol="handshake")
    with pytest.raises(ToolError):
        await connection.call("ask")
    assert bool(seen[0].secrets) is secret
    assert ("MCP forbids" in question_part(seen[0]).plain) is secret


async def test_in_a_terminal_a_secret_is_typed_unseen() -> None:
    words = "Enter your API key"
    asked = Elicitation("asker", words, "form", secrets_marked({"properties": {"it": {"type": "string"}}}, words))
    written: list[str] = []
    lines = iter(["f", "s"])
    asker = InputAsker(lambda prompt: next(lines), written.append, read_secret=lambda prompt: "sk-0123456789")
    answer = answer_of(asked, await asker.ask(elicitation_question(asked)))
    assert answer == Answer.accept({"it": "sk-0123456789"})
    assert "MCP forbids" in written[0]


@pytest.mark.parametrize("word", ["a", "pass ", "api key ", "card-", "(?<", "\u202e"])
def test_a_long_message_takes_no_time(word: str) -> None:
    with cpu_time() as cost:
        properties = {str(number): {"type": "string", "description": word * 1000} for number in range(200)}
        secrets_marked({"properties": properties}, word * 300_000)
    assert cost.seconds < 1.0


def test_panel_masks_a_field_that_asks_for_a_secret() -> None:
    asked = secrets_marked({"type": "object", "properties": {"value": {"type": "string", "title": "Your PIN"}}}, "")
    form = Form(asked)
    assert form.draft == {}
    form.set_arguments({"value": "sk-0123456789"})
    kinds = {type(widget) for widget in widgets(form.widget, ipywidgets.Text)}
    assert ipywidgets.Password in kinds
    form.close()
