"""Over stdio a server's question does not name its call: a client gets it only if no other party calls."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp_types import CreateMessageResult, ElicitResult, Implementation, TextContent

from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Sampled
from mcp_magic.outside.gateway import KernelServer
from tests.support.hosts import host as host
from tests.support.outside import served
from tests.support.persons import Scripted

PROGRAM = """
import asyncio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

class Sure(BaseModel):
    sure: bool

server = MCPServer("old", log_level="ERROR")
begun, asked = asyncio.Event(), asyncio.Event()

@server.tool()
async def delete(ctx: Context) -> str:
    await begun.wait()
    answer = await ctx.elicit("Really delete?", Sure)
    asked.set()
    return f"{answer.action} {getattr(answer, 'data', None)}"

@server.tool()
async def summarise(ctx: Context, text: str) -> str:
    await begun.wait()
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    answer = await ctx.session.create_message(messages=[message], max_tokens=10)
    asked.set()
    return answer.content.text

@server.tool()
async def idle() -> str:
    begun.set()
    await asked.wait()
    return "idle"

@server.resource("old://slow")
async def slow() -> str:
    begun.set()
    await asked.wait()
    return "slow"

server.run()
"""


@pytest.fixture
async def old(host, tmp_path):
    """A host with a session of the handshake era over stdio, whose person declines and has a model."""

    async def model(request):
        return Sampled.of("of the person", "inside-1")

    host.consent.policy = "auto"
    host.elicitation.elicitor = Scripted(Answer.decline("no"))
    host.sampling.sampler = model
    program = tmp_path / "old.py"
    program.write_text(PROGRAM)
    await host.connect([sys.executable, str(program)], name="old", protocol="handshake", sampling="auto")
    return host


@asynccontextmanager
async def agents(old, mode):
    """Two clients that answer what they are asked, and the list of what that was."""
    asked = []

    def client(name, url):
        async def elicit(context, params):
            asked.append((name, params.message))
            return ElicitResult(action="accept", content={"sure": True})

        async def sample(context, params):
            asked.append((name, params.messages[0].content.text))
            return CreateMessageResult(role="assistant", content=TextContent(text="of the agent"), model="outside-1")

        about = Implementation(name=name, version="1")
        return Client(url, mode=mode, elicitation_callback=elicit, sampling_callback=sample, client_info=about)

    async with served(KernelServer(old)) as url, client("one", url) as one, client("two", url) as two:
        yield one, two, asked


def texts(result) -> str:
    return "".join(block.text for block in result.content)


async def both(asking, beside):
    """Await two requests; return the answer to the first, which asks once the other is under way."""
    async with asyncio.timeout(60):
        answer, _ = await asyncio.gather(asking, beside)
    return answer


async def test_person_is_asked_while_an_agent_calls(old, mode):
    async with agents(old, mode) as (one, _, asked):
        assert (await both(old.call("old:delete"), one.call_tool("old__idle", {}))).text == "decline None"
        assert (asked, len(old.elicitation.elicitor.asked)) == ([], 1)


async def test_model_of_the_person_answers_while_an_agent_calls(old, mode):
    async with agents(old, mode) as (one, _, asked):
        salary = old.call("old:summarise", text="The salary is 12345.")
        assert (await both(salary, one.call_tool("old__idle", {}))).text == "of the person"
        assert asked == []
        record = old.consent.audit.records[-1]
        assert (record.asker, record.by) == ("server old", "sampling = 'auto'")


async def test_person_is_asked_while_two_agents_call(old, mode):
    async with agents(old, mode) as (one, two, asked):
        result = await both(one.call_tool("old__delete", {}), two.call_tool("old__idle", {}))
        assert texts(result) == "decline None"
        assert (asked, len(old.elicitation.elicitor.asked)) == ([], 1)


async def test_person_is_asked_while_the_person_reads(old, mode):
    async with agents(old, mode) as (one, _, asked):
        result = await both(one.call_tool("old__delete", {}), old["old"].read("old://slow"))
        assert texts(result) == "decline None"
        assert (asked, len(old.elicitation.elicitor.asked)) == ([], 1)


async def test_agent_is_asked_while_it_alone_calls(old, mode):
    async with agents(old, mode) as (one, _, asked):
        result = await both(one.call_tool("old__delete", {}), one.call_tool("old__idle", {}))
        assert texts(result) == "accept sure=True"
        assert (asked, old.elicitation.elicitor.asked) == ([("one", "Really delete?")], [])
