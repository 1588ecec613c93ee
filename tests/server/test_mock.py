"""Mock servers: the SDK's own client gets the recorded answers, in both protocol eras, over HTTP and stdio."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from mcp_magic import Host
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Expected, Sampled
from mcp_magic.cassette.cassette import Cassette
from mcp_magic.errors import CassetteError
from mcp_magic.server.mock import MockThread, mock_server
from tests.support.cassettes import hosting, written
from tests.support.eliciting_server import trip_server
from tests.support.persons import Scripted
from tests.support.sampling_servers import sampling_server
from tests.support.watching import Watching

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "notebooks" / "cassettes"
PLAN = {"city": "Oslo", "days": 2}


@pytest.fixture
def mock():
    with MockThread() as mocks:
        yield mocks.serve


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "tape.jsonl"


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    """The era of the SDK's client: 2026-07-28 by `server/discover`, or the handshake."""
    return request.param


async def ask(client: Client, method: str, params: dict[str, Any]) -> Any:
    if method == "tools/call":
        return await client.call_tool(params["name"], params.get("arguments"))
    if method == "resources/read":
        return await client.read_resource(params["uri"])
    if method == "prompts/get":
        return await client.get_prompt(params["name"], params.get("arguments"))
    return await getattr(client, f"list_{method.replace('resources/templates', 'resource_templates').split('/')[0]}")()


def plain(result: Any) -> Any:
    """Return a result without what only one era has."""
    dump = result if isinstance(result, dict) else result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {name: value for name, value in dump.items() if name not in ("resultType", "ttlMs", "cacheScope", "_meta")}


@pytest.mark.parametrize("tutorial", ["quickstart", "python_api", "real_servers", "documents"])
async def test_answers_of_tutorials_are_those_recorded(mock, mode, tutorial):
    file = TUTORIALS / f"{tutorial}.jsonl"
    compared = 0
    for name, server in Cassette(file, "replay").content.servers.items():
        async with Client(mock(file, name), mode=mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            assert client.server_info is not None
            for scene in (scene for session in server.sessions for scene in session.scenes):
                answer = next((step.message for step in scene.steps if step.kind == "answer"), {})
                if scene.method not in ("tools/call", "resources/read", "prompts/get", "tools/list"):
                    continue
                if "error" in answer:
                    with pytest.raises(MCPError) as failed:
                        await ask(client, scene.method, scene.params)
                    assert failed.value.error.message == answer["error"]["message"]
                elif scene.method != "tools/list":
                    result = plain(await ask(client, scene.method, scene.params))
                    assert all(result.get(part) == answer["result"][part] for part in plain(answer["result"]))
                else:
                    tools = (await client.list_tools()).tools
                    assert [tool.name for tool in tools] == [tool["name"] for tool in answer["result"]["tools"]]
                compared += 1
    assert compared > 8


async def test_request_that_is_not_recorded_names_the_nearest(mock, mode):
    url = mock(TUTORIALS / "quickstart.jsonl", "math")
    async with Client(url, mode=mode) as client:
        with pytest.raises(MCPError) as failed:
            await client.call_tool("add", {"a": 19, "b": 24})
        assert failed.value.error.code == -32603
        nearest = "the nearest is add(a=19, b=23): arguments.b is 24 here, 23 there."
        assert failed.value.error.message.startswith(f"math: add(a=19, b=24) is not in it; {nearest}")
        await client.call_tool("add", {"a": 19, "b": 23})
        with pytest.raises(MCPError, match="was recorded once, and was sent once more"):
            await client.call_tool("add", {"a": 19, "b": 23})
    async with Client(url, mode=mode) as client:  # a new session begins anew
        assert not (await client.call_tool("add", {"a": 19, "b": 23})).is_error


async def record_trip(tape: Path, era: str) -> None:
    async with hosting(tape, "record") as host:
        host.elicitation.elicitor = Scripted(Answer("accept", PLAN), Answer.decline())
        connection = await host.connect(trip_server(), name="trip", protocol=era)
        await connection.call("plan")
        await connection.call("plan")


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
async def test_recorded_question_is_asked_in_the_era_of_the_client(mock, mode, era, tape):
    await record_trip(tape, era)
    asked = []
    answers = [ElicitResult(action="accept", content=PLAN), ElicitResult(action="accept", content={"city": "Rome"})]

    async def elicited(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return answers[len(asked) - 1]

    async with Client(mock(tape), mode=mode, elicitation_callback=elicited) as client:
        result = await client.call_tool("plan", {})
        assert result.content[0].text == "accept Oslo 2"
        with pytest.raises(MCPError, match='"accept" here, "decline" there'):
            await client.call_tool("plan", {})
    assert asked == ["Where to?", "Where to?"]


@pytest.mark.parametrize(("most", "outcome"), [(2, "accept Oslo 2"), (1, "trip ended this session: 1 newer")])
async def test_sessions_without_requests_are_dropped_first(mock, tape, monkeypatch, most, outcome):
    monkeypatch.setattr("mcp_magic.server.mock.MOST_SESSIONS", most)
    await record_trip(tape, "handshake")
    url = mock(tape)

    async def elicited(context: Any, params: Any) -> ElicitResult:
        for _ in range(2):
            async with Client(url, mode="legacy") as other:
                await other.list_tools()
        return ElicitResult(action="accept", content=PLAN)

    async with Client(url, mode="legacy", elicitation_callback=elicited) as client:
        try:
            text = (await client.call_tool("plan", {})).content[0].text
        except MCPError as error:
            text = str(error)
    assert text.startswith(outcome)


class Model:
    """A sampler with one answer."""

    takes_tools = True

    def expected(self, asked: Any) -> Expected:
        return Expected("tiny", ())

    async def __call__(self, asked: Any) -> Sampled:
        return Sampled.of("Cats are fine.", "tiny")


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
async def test_any_model_may_answer_a_recorded_sampling(mock, mode, era, tape):
    async with hosting(tape, "record") as host:
        host.sampling.sampler = Model()
        connection = await host.connect(sampling_server(), name="writer", sampling="auto", protocol=era)
        recorded = (await connection.call("summarise")).text
    asked = []

    async def sampled(context: Any, params: Any) -> CreateMessageResult:
        asked.append(params.system_prompt)
        return CreateMessageResult(role="assistant", content=TextContent(text="Something else."), model="other")

    async with Client(mock(tape), mode=mode, sampling_callback=sampled) as client:
        assert (await client.call_tool("summarise", {})).content[0].text == recorded
    assert asked == ["Be brief."]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_progress_and_logs_come_before_the_answer(mock, mode, era, tape):
    async with hosting(tape, "record") as host:
        host.reports.reporter = Watching()
        program = [sys.executable, "-m", "tests.support.reporting_server", "--era", era]
        connection = await host.connect(program, name="reports")
        await connection.call("burst", count=2)
        await connection.call("log", level="info", data="half")
    reports, logs = [], []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async def logged(params: Any) -> None:
        logs.append(params.data)

    async with Client(mock(tape), mode=mode, logging_callback=logged) as client:
        result = await client.call_tool("burst", {"count": 2}, progress_callback=progressed)
        assert result.content[0].text == "2 reports"
        await client.call_tool("log", {"level": "info", "data": "half"})
    assert reports == [(1, 2, "step 1"), (2, 2, "step 2")]
    assert logs == ([] if mode == "auto" else ["half"])  # since 2026-07-28 only for requests that want them


STDIO = """
import asyncio, sys
from pathlib import Path
from mcp_magic.server.mock import serve_stdio
asyncio.run(serve_stdio(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_mock_answers_over_stdio(mode):
    arguments = ["-c", STDIO, str(TUTORIALS / "quickstart.jsonl"), "math"]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments)), mode=mode) as client:
        result = await client.call_tool("add", {"a": 19, "b": 23})
        assert result.structured_content == {"result": 42}
        with pytest.raises(MCPError, match="the nearest is"):
            await client.call_tool("add", {"a": 19})


def session(server: str, *messages: dict[str, Any], number: int = 1) -> list[dict[str, Any]]:
    head = {"session": number, "server": server, "transport": "stdio", "where": "x"}
    return [head, *({"session": number, **message} for message in messages)]


def exchange(number: int, method: str, params: dict[str, Any], **answer: Any) -> list[dict[str, Any]]:
    request = {"to": "server", "id": number, "method": method, "params": params}
    return [request, {"to": "client", "id": number, **answer}] if answer else [request]


SHAKEN = exchange(1, "initialize", {}, result={"serverInfo": {"name": "old", "version": "1"}, "capabilities": {}})
SHAKEN += exchange(9, "tools/list", {}, result={"tools": []})
CALLS = [exchange(n, "tools/call", {"name": name}, result={"content": []}) for n, name in ((2, "a"), (3, "b"))]
HEADER = {"cassette": 1, "by": "hand"}


async def test_server_that_ended_goes_on_in_its_next_session(mock, mode, tape):
    died = exchange(4, "tools/call", {"name": "die"})
    first = session("old", *SHAKEN, *CALLS[0], *died, {"ended": True})
    written(tape, HEADER, *first, *session("old", *SHAKEN, *CALLS[1], number=2))
    async with Client(mock(tape), mode=mode) as client:
        assert client.server_info.name == "old"
        await client.call_tool("a")
        with pytest.raises(MCPError, match="old ended the session here when it was recorded"):
            await client.call_tool("die")
        await client.call_tool("b")


ODD = [{"serverInfo": "odd", "capabilities": [1], "instructions": 7}, {"_meta": "odd", "capabilities": None}]


@pytest.mark.parametrize("opening", ODD, ids=["handshake", "meta"])
async def test_odd_opening_leaves_the_name_of_the_server(mock, mode, tape, opening):
    written(tape, HEADER, *session("old", *exchange(1, "initialize", {}, result=opening), *SHAKEN[2:], *CALLS[0]))
    async with Client(mock(tape), mode=mode) as client:
        assert (client.server_info.name, client.instructions) == ("old", None)
        await client.call_tool("a")


@pytest.mark.parametrize("requests", [[1], {"q": "?"}, {"q": {}}, {"q": {"method": []}}], ids=str)
async def test_recorded_question_that_is_none_is_an_error(mock, tape, requests):
    asking = {"resultType": "input_required", "inputRequests": requests}
    written(tape, HEADER, *session("old", *SHAKEN, *exchange(2, "tools/call", {"name": "a"}, result=asking)))
    async with Client(mock(tape), mode="legacy") as client:
        with pytest.raises(MCPError, match=r"old: what was recorded as the question \w+ is none"):
            await client.call_tool("a")
        assert (await client.list_tools()).tools == []


async def test_clients_do_not_take_the_answers_of_others(mock, tape):
    written(tape, HEADER, *session("old", *SHAKEN, *CALLS[0]))
    url = mock(tape)
    async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as other, Client(url) as third:
        await asyncio.gather(*(client.call_tool("a") for client in (one, other, third)))


async def test_this_host_is_a_client_of_a_mock(mock):
    async with Host() as host:
        notes = await host.connect(mock(TUTORIALS / "quickstart.jsonl", "notes"), name="notes")
        assert (await notes.call("keep", text="2 cities compared")).text
        old = await host.connect(mock(TUTORIALS / "real_servers.jsonl", "time"), name="time")
        assert "get_current_time" in [tool.name for tool in await old.listing("tools")]


@pytest.mark.parametrize(
    ("lines", "name", "message"),
    [
        (
            [*session("a", *SHAKEN), *session("b", *SHAKEN, number=2)],
            None,
            "has several servers, a, b: name one, as",
        ),
        (session("weather", *SHAKEN), "wether", r"wether is not in .* Did you mean 'weather'\? It has weather\."),
        ([], None, "has no server to answer as"),
        (session("a", {"failed": "ConnectError", "message": "no"}), None, "a could not be opened when"),
    ],
    ids=["several", "misspelt", "none", "failed"],
)
def test_cassette_must_say_who_answers(tape, lines, name, message):
    written(tape, HEADER, *lines)
    with pytest.raises(CassetteError, match=message):
        mock_server(tape, name)
