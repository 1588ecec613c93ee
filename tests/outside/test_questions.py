"""Questions of a server during a call of an outside agent: its client answers what it can, the person the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CreateMessageResult, ElicitResult, Implementation, TextContent
from pydantic import BaseModel

from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Sampled
from mcp_magic.outside.gateway import KernelServer
from tests.support.eliciting_server import trip_server
from tests.support.hosts import host as host
from tests.support.hosts import logged
from tests.support.outside import served
from tests.support.outside_kernel import HANDSHAKE, MODERN, Bare
from tests.support.persons import Scripted
from tests.support.sampling_servers import said, sample, sampling_server, shown
from tests.support.waiting import until


class Login(BaseModel):
    password: str


KEY = "sk-0123456789abcdef"

FORMS = {"elicitation": {"form": {}}}


def telling_server() -> MCPServer:
    """A server whose questions have its secret."""
    server = MCPServer("tells", log_level="ERROR")

    class City(BaseModel):
        city: str

    class Fixed(BaseModel):
        city: str = KEY

    @server.tool()
    async def form(context: Context, is_fixed: bool) -> str:
        return (await context.elicit(f"Near {KEY}?", Fixed if is_fixed else City)).action

    @server.tool()
    async def reply(context: Context) -> str:
        prompt = f"system {KEY}"
        return shown(
            await sample(context, [said(f"key {KEY}")], max_tokens=10, system_prompt=prompt, metadata={"a": KEY})
        )

    return server


def asking_server() -> MCPServer:
    server = MCPServer("asks", log_level="ERROR")

    @server.tool()
    async def secret(context: Context) -> str:
        answer = await context.elicit("Log in", Login)
        return answer.data.password if answer.action == "accept" else answer.action

    return server


@pytest.fixture
async def trips(host):
    """A host whose person answers elicitations, and whose calls are allowed."""
    host.consent.policy = "auto"
    host.elicitation.elicitor = Scripted(Answer.accept({"city": "Bergen", "days": 1}))
    await host.connect(trip_server(), name="trip")
    return host


def texts(result) -> str:
    return "".join(block.text for block in result.content)


async def test_client_that_takes_forms_is_asked(trips, mode):
    asked = []

    async def elicit(context, params):
        asked.append((params.message, list(params.requested_schema["properties"])))
        return ElicitResult(action="accept", content={"city": "Oslo", "days": 2})

    async with served(KernelServer(trips)) as url, Client(url, mode=mode, elicitation_callback=elicit) as client:
        assert texts(await client.call_tool("trip__plan", {})) == "accept Oslo 2"
        assert texts(await client.call_tool("trip__two", {})) == "accept accept"
    assert asked == [(question, ["city", "days"]) for question in ("Where to?", "Where to?", "And then?")]
    assert trips.elicitation.elicitor.asked == []


async def test_person_is_asked_for_a_client_that_takes_no_forms(trips, mode):
    async with Client(KernelServer(trips).server, mode=mode) as client:
        assert texts(await client.call_tool("trip__plan", {})) == "accept Bergen 1"
    assert [elicitation.message for elicitation in trips.elicitation.elicitor.asked] == ["Where to?"]


async def test_refusal_and_failure_of_a_client_reach_the_server(trips, mode):
    answers = [ElicitResult(action="decline"), ElicitResult(action="cancel")]

    async def elicit(context, params):
        return answers.pop(0)

    async with Client(KernelServer(trips).server, mode=mode, elicitation_callback=elicit) as client:
        assert texts(await client.call_tool("trip__plan", {})) == "decline"
        assert texts(await client.call_tool("trip__plan", {})) == "cancel"


async def test_person_is_asked_for_secrets(host, mode):
    async def elicit(context, params):
        raise AssertionError("a client is asked for a password")

    host.consent.policy = "auto"
    host.elicitation.elicitor = Scripted(Answer.accept({"password": "hunter2"}))
    await host.connect(asking_server(), name="asks", protocol="handshake")
    async with Client(KernelServer(host).server, mode=mode, elicitation_callback=elicit) as client:
        assert texts(await client.call_tool("asks__secret", {})) == "hunter2"


async def test_model_of_the_client_answers_sampling(host, mode):
    async def nobody(request):
        raise AssertionError("the model of the person is asked")

    async def sample(context, params):
        assert params.messages[0].content.text.startswith("Summarise this")
        assert (params.max_tokens, params.system_prompt) == (100, "Be brief.")
        return CreateMessageResult(role="assistant", content=TextContent(text="Cats."), model="outside-1")

    host.consent.policy = "auto"
    host.sampling.sampler = nobody
    await host.connect(sampling_server(), name="writer")
    async with served(KernelServer(host)) as url, Client(url, mode=mode, sampling_callback=sample) as client:
        assert "outside-1 endTurn: Cats." in texts(await client.call_tool("writer__summarise", {}))
    record = host.consent.audit.records[-1]
    assert (record.asker, record.by) == ("server writer", "outside mcp")


async def test_model_of_the_person_answers_for_others(host, mode):
    async def sample(request):
        return Sampled.of("Dogs.", "inside-1")

    host.consent.policy = "auto"
    host.sampling.sampler = sample
    await host.connect(sampling_server(), name="writer", sampling="auto")
    async with Client(KernelServer(host).server, mode=mode) as client:
        assert "inside-1 endTurn: Dogs." in texts(await client.call_tool("writer__summarise", {}))


async def test_client_is_asked_without_the_secrets_of_the_server(host, mode):
    asked = []

    async def elicit(context, params):
        asked.append(params.model_dump_json())
        return ElicitResult(action="accept", content={"city": "Oslo"})

    async def answer(context, params):
        asked.append(params.model_dump_json())
        return CreateMessageResult(role="assistant", content=TextContent(text="Cats."), model="outside-1")

    async def nobody(request):
        raise AssertionError("the model of the person is asked")

    host.consent.policy = "auto"
    host.elicitation.elicitor = Scripted(Answer.decline())
    host.sampling.sampler = nobody
    connection = await host.connect(telling_server(), name="tells", protocol="handshake")
    connection.spec.secret_values.add([KEY])
    options = {"elicitation_callback": elicit, "sampling_callback": answer}
    async with served(KernelServer(host)) as url, Client(url, mode=mode, **options) as client:
        assert texts(await client.call_tool("tells__form", {"is_fixed": False})) == "accept"
        assert "Cats." in texts(await client.call_tool("tells__reply", {}))
        assert host.elicitation.elicitor.asked == []
        assert texts(await client.call_tool("tells__form", {"is_fixed": True})) == "decline", "the person is asked"
    assert len(asked) == 2
    assert "Near ***?" in asked[0]
    for part in ("system ***", "key ***", '"a":"***"'):
        assert part in asked[1]
    assert KEY not in f"{asked}"


async def test_only_the_client_that_was_asked_goes_on_with_its_call(trips):
    """Since 2026-07-28 a question ends the request, and another request goes on with the call."""

    def client(name):
        return Client(url, client_info=Implementation(name=name, version="1"), elicitation_callback=refuse)

    async def refuse(context, params):
        raise AssertionError("the test answers itself")

    gone = "the question is no longer open, and its call was cancelled; call again"
    async with served(KernelServer(trips)) as url, client("one") as one, client("two") as two:
        asked = await one.session.call_tool("trip__plan", {}, allow_input_required=True)
        [question] = asked.input_requests
        answers = {question: ElicitResult(action="accept", content={"city": "Oslo", "days": 2})}
        state = {"request_state": asked.request_state, "input_responses": answers}
        with pytest.raises(MCPError, match=gone):
            await two.session.call_tool("trip__plan", {}, **state)
        assert texts(await one.session.call_tool("trip__plan", {}, **state)) == "accept Oslo 2"
        with pytest.raises(MCPError, match=gone):
            await one.session.call_tool("trip__plan", {}, **state)


def plan(client: Bare) -> dict[str, Any]:
    """A call whose server asks; the client says that it takes forms."""
    message = client.message("tools/call", {"name": "trip__plan", "arguments": {}})
    if client.version == MODERN:
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = FORMS
    return message


def ask_and_go(url: str, version: str) -> None:
    """Let a client call, be asked, and end its connections without an answer."""
    with Bare(url, "", "gone", version, mcp_magic_client="proxy-1") as client:
        if version == MODERN:
            assert client.request("tools/call", **plan(client)["params"])["result"]["inputRequests"]
            return
        params = {"protocolVersion": HANDSHAKE, "capabilities": FORMS, "clientInfo": {"name": "gone", "version": "1"}}
        session = client.post(client.message("initialize", params)).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
        client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
        with client.http.stream("POST", url, json=plan(client), headers=headers) as response:
            next(line for line in response.iter_lines() if "elicitation/create" in line)


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_question_left_open_holds_up_nobody(trips, version):
    async def elicit(context, params):
        return ElicitResult(action="accept", content={"city": "Oslo", "days": 2})

    async with served(KernelServer(trips)) as url, asyncio.timeout(60):
        await asyncio.to_thread(ask_and_go, url, version)
        async with Client(url, elicitation_callback=elicit) as other:
            assert texts(await other.call_tool("trip__plan", {})) == "accept Oslo 2"
        assert (await trips.call("trip:plan")).text == "accept Bergen 1"


async def test_question_ends_when_its_proxy_leaves(trips):
    kernel = KernelServer(trips)
    async with served(kernel) as url:
        await asyncio.to_thread(ask_and_go, url, MODERN)
        [client] = kernel.clients
        assert (client.running, trips["trip"].in_flight) == (1, 1)
        with Bare(url, "", "gone", MODERN, mcp_magic_client="proxy-1") as proxy:
            await asyncio.to_thread(proxy.http.delete, url)
        await until(lambda: client.running == trips["trip"].in_flight == 0)
        assert "decline: outside gone does not answer: it has gone" in logged(trips["trip"])


async def test_question_ends_with_the_stream_of_its_request(trips):
    kernel = KernelServer(trips)
    async with served(kernel) as url:
        await asyncio.to_thread(ask_and_go, url, HANDSHAKE)
        [client] = kernel.clients
        await until(lambda: client.running == trips["trip"].in_flight == 0)
        assert "decline: outside gone does not answer: the stream of its request has ended" in logged(trips["trip"])
