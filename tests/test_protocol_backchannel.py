"""Tools that ask by a request in the middle of the call: an error on 2026-07-28, and what works everywhere."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context, ElicitationResult, ListRoots, MCPServer, Resolve
from mcp_types import CreateMessageResult, ListRootsResult  # noqa: TC002 - the SDK evaluates annotations

from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.ask.sampling import Review, Sampled
from mcp_magic.errors import ProtocolError
from mcp_magic.trace.trace import fault
from tests.support.eliciting_server import Trip, where_to
from tests.support.sampling_servers import _summary, said, sample


async def _roots() -> ListRoots:
    return ListRoots()


def asking_server() -> MCPServer:
    """A server whose tools ask by requests, and whose tools `*_parameter` have parameters that ask."""
    server = MCPServer("asks", log_level="ERROR")

    @server.tool()
    async def elicit(ctx: Context) -> str:
        return (await ctx.elicit("Where to?", Trip)).action

    @server.tool()
    async def sampling(ctx: Context) -> str:
        return str((await sample(ctx, [said("Hello")], max_tokens=10)).content.text)

    @server.tool()
    async def roots(ctx: Context) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated since 2026-07-28
            asking = ctx.session.list_roots()
        return len((await asking).roots)

    @server.tool()
    async def elicit_parameter(trip: Annotated[ElicitationResult[Trip], Resolve(where_to)]) -> str:
        return trip.action

    @server.tool()
    async def sampling_parameter(reply: Annotated[CreateMessageResult, Resolve(_summary)]) -> str:
        return reply.content.text  # type: ignore[union-attr]

    @server.tool()
    async def roots_parameter(listed: Annotated[ListRootsResult, Resolve(_roots)]) -> int:
        return len(listed.roots)

    return server


@pytest.fixture
def answered(host, tmp_path):
    """A host that answers whatever is asked."""

    async def elicitor(asked: Elicitation) -> Answer:
        return Answer.accept({"city": "Oslo"})

    async def sampler(asked: Any) -> Sampled:
        return Sampled.of("Meow", "tiny")

    class Reviewer:
        async def request(self, asked: Any, expected: Any) -> Review:
            return Review.approve()

        reply: Any = None

    host.elicitation.elicitor, host.sampling.sampler, host.sampling.reviewer = elicitor, sampler, Reviewer()
    return host


@pytest.mark.parametrize(
    ("tool", "does", "parameter"),
    [
        ("elicit", "asks the user by `ctx.elicit`", "answer: Annotated[ElicitationResult[Model], Resolve(ask)]"),
        ("sampling", "asks a model by `create_message`", "reply: Annotated[CreateMessageResult, Resolve(ask)]"),
        ("roots", "asks for roots by `list_roots`", "roots: Annotated[ListRootsResult, Resolve(ask)]"),
    ],
    ids=["elicit", "sampling", "roots"],
)
async def test_error_of_asking_by_request_suggests_a_parameter(answered, tool, does, parameter):
    connection = await answered.connect(asking_server(), name="asks")
    with pytest.raises(ProtocolError) as caught:
        await connection.call(tool)
    wrong, advice = str(caught.value).splitlines()
    assert wrong == (
        f"asks:{tool}: the server {does} in the middle of the call, which 2026-07-28 does not have (fault: the server)"
    )
    assert f"A parameter of the tool can ask: `{parameter}`" in advice
    assert fault(connection.trace.entries[-1]) == "the server"


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_parameters_that_ask_work_on_all_versions(answered, tmp_path, era, request):
    if era < "2026":
        request.getfixturevalue("handshake")
    connection = await answered.connect(asking_server(), name="asks")
    await connection.roots.set(str(tmp_path))

    assert connection.protocol_version == era
    assert (await connection.call("elicit_parameter")).text == "accept"
    assert (await connection.call("sampling_parameter")).text == "Meow"
    assert (await connection.call("roots_parameter")).data == 1
    if era < "2026":
        assert (await connection.call("elicit")).text == "accept"
        assert (await connection.call("sampling")).text == "Meow"
        assert (await connection.call("roots")).data == 1
