"""Verification: what a recording of a server says about the next version, over all transports and in both eras."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, Completion, ListToolsResult, PromptReference, TextContent, Tool

from mcp_magic import Host
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Review, Sampled
from mcp_magic.cassette.cassette import deck
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, CassetteError, UnknownServerError
from mcp_magic.results.results import CheckFailedError
from mcp_magic.server.verification import verifier
from tests.support import shop_server as shop
from tests.support.asgi import serving
from tests.support.cassettes import hosting, lines, written
from tests.support.eliciting_server import trip_server
from tests.support.persons import Scripted as Elicitor
from tests.support.sampling_servers import sampling_server
from tests.support.scripted_tasks import Scripted, done, form, state
from tests.support.shop_server import READ_ONLY, shop_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "shop.jsonl"


@asynccontextmanager
async def target(transport: str, version: int):
    """What `connect` takes for a version of the shop."""
    if transport == "stdio":
        yield [sys.executable, "-m", shop.__name__, str(version)]
    elif transport == "in-process":
        yield shop_server(version)
    else:
        async with serving(shop_server(version).streamable_http_app()) as url:
            yield f"{url}/mcp"


CALLS = [
    ("price", {"item": "tea"}),
    ("price", {"item": "gold"}),
    ("search", {"text": "tea"}),
    ("stock", {"item": "tea"}),
    ("hours", {}),
    ("buy", {"item": "tea"}),
]


async def visit(host: Host, where: Any, *calls: tuple[str, dict[str, Any]], name: str = "shop", **options: Any) -> None:
    connection = await host.connect(where, name=name, **options)
    for tool, arguments in calls:
        await connection.call_tool(tool, arguments)


async def record(tape, where: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> None:
    async with hosting(tape, "record") as host:
        await visit(host, where, *calls, **options)


def outcomes(verification) -> dict[str, tuple[str, str]]:
    """Return the outcomes but those that are the same."""
    rows = [row for row in verification if row["status"] != "same"]
    return {row["request"]: (row["status"], row["difference"]) for row in rows}


@pytest.fixture
async def host():
    async with Host() as host:
        yield host


@pytest.mark.parametrize("protocol", ["2026-07-28", "handshake"])
@pytest.mark.parametrize("transport", ["in-process", "stdio", "http"])
async def test_next_version_differs_where_it_can_break_callers(tape, transport, protocol, host):
    async with target(transport, 1) as where:
        async with hosting(tape, "record") as recorder:
            await visit(recorder, where, *CALLS, protocol=protocol)
            await recorder.read("shop://about")
            await recorder.prompt("shop:pitch", {"item": "tea"})
        connection = await host.connect(where, name="shop", protocol=protocol)
        verification = await host.verify(tape)
        assert verification.ok
        assert verification.check() is verification
        buy = {'buy(item="tea")': ("skipped", "buy is not read-only; --all sends it, if you approve")}
        assert outcomes(verification) == buy
        assert len(verification) == 4 + len(CALLS) + 2
        await host.disconnect(connection.name)
    async with target(transport, 2) as where:
        await host.connect(where, name="shop", protocol=protocol)
        verification = await host.verify(tape)
        assert not verification.ok
        differences = outcomes(verification)
        status, failure = differences.pop('stock(item="tea")')
        assert (status, failure.startswith("answer -> tool error: ")) == ("other status", True)
        assert "the store room is locked" in failure
        assert differences == {
            "tools/list": ("changed schema", "tool hours: is gone"),
            'price(item="tea")': ("changed value", "result.structuredContent.result: 3.0 -> 4.0"),
            'search(text="tea")': ("changed shape", 'result.structuredContent.rows[0].id: 1 -> "1"'),
            "hours()": ("other status", "the tool hours is gone"),
            "prompts/get pitch": (
                "changed value",
                'result.messages[0].content.text: "Sell tea in one sentence" -> "Sell tea in three words"',
            ),
            **buy,
        }


async def test_new_tools_and_texts_are_no_difference(tape, host):
    await record(tape, shop_server(1), ("price", {"item": "milk"}))
    server = shop_server(1)

    @server.tool()
    def gift() -> str:
        return "wrapped"

    await host.connect(server, name="shop")
    verification = await host.verify(tape)
    assert verification.ok
    assert outcomes(verification) == {"tools/list": ("ignored", "tool gift: is new")}


async def test_second_recording_shows_what_varies(tape, host):
    calls = [("status", {}), ("shuffled", {}), ("price", {"item": "tea"})]
    await record(tape, shop_server(), *calls)
    before = lines(tape)
    await host.connect(shop_server(), name="shop")
    first = outcomes(await host.verify(tape))
    assert {request: status for request, (status, _) in first.items()} == dict.fromkeys(["status()"], "changed value")
    varies = await host.record_again(tape)
    assert [(row["tool"], row["path"], row["types"], row["why"]) for row in varies] == [
        ("shop:status", "result.content[0].text.at", "string", "a time"),
        ("shop:status", "result.content[0].text.visit", "number", "a number"),
        ("shop:status", "result.content[0].text.id", "string", "an id"),
        ("shop:shuffled", "result.structuredContent.result", "array", "a list of varying order"),
    ]
    assert varies.note == "3 answers added"
    after = lines(tape)
    assert after[: len(before)] == before
    assert {next(iter(line)) for line in after[len(before) :]} == {"again", "mask"}
    for _ in range(2):
        verification = await host.verify(tape)
        assert verification.ok
        assert outcomes(verification)["status()"][0] == "ignored"
    assert "ignored in shop:status: result.content[0].text.visit (a number)" in verification.note
    assert len(await host.record_again(tape)) == 0
    async with hosting(tape, "replay") as replayed:  # replays are as they were
        await visit(replayed, ["gone"], *calls)
        with pytest.raises(CassetteError):
            await visit(replayed, ["gone"], calls[0])


async def test_paths_are_ignored_by_hand(tape, host):
    await record(tape, shop_server(1), ("search", {"text": "tea"}), ("price", {"item": "tea"}))
    await host.connect(shop_server(2), name="shop")
    verification = await host.verify(tape, ignore=["rows[*].id", "structuredContent.result", "row[*].id"])
    assert {request: status for request, (status, _) in outcomes(verification).items()} == {
        "tools/list": "changed schema",
        'search(text="tea")': "ignored",
        'price(item="tea")': "ignored",
    }
    assert "ignored in shop:search: result.structuredContent.rows[0].id (--ignore)" in verification.note
    assert verification.note.endswith("\n--ignore row[*].id: no answer differs there")
    with pytest.raises(ArgumentsError, match="'rows\\[' is no path in an answer"):
        await host.verify(tape, ignore=["rows["])


async def test_calls_that_are_not_read_only_are_asked_about_once(tape, host):
    await record(tape, shop_server(), ("buy", {"item": "tea"}), ("price", {"item": "tea"}), ("buy", {"item": "milk"}))
    await host.connect(shop_server(), name="shop")
    assert len(outcomes(await host.verify(tape))) == 2
    asked = []

    class Plans:
        async def __call__(self, request: Any) -> Decision:
            raise AssertionError("it is asked once")

        async def plan(self, calls: Any) -> dict[int, Decision]:
            asked.append([(call.request.asker, call.request.name, call.request.arguments) for call in calls])
            return {0: Decision.approve(), 1: Decision.deny("one is enough")}

    host.approver = Plans()
    verification = await host.verify(tape, every=True)
    assert asked == [[("verify", "shop:buy", {"item": "tea"}), ("verify", "shop:buy", {"item": "milk"})]]
    assert outcomes(verification) == {
        'buy(item="milk")': ("denied", "shop:buy was not called; denied by the user: one is enough.")
    }
    assert not verification.ok
    assert [(record.asker, record.decision) for record in host.consent.audit.records] == [
        ("verify", "approve"),
        ("verify", "deny"),
    ]


async def test_calls_that_nobody_can_approve_are_denied(tape, host):
    await record(tape, shop_server(), ("buy", {"item": "tea"}), ("price", {"item": "tea"}))
    await host.connect(shop_server(), name="shop")
    [(status, why)] = outcomes(await host.verify(tape, every=True)).values()
    assert (status, "you cannot be asked here" in why) == ("denied", True)
    host.consent.add(Rule("deny", "shop:price", reason="closed"))
    outcome = outcomes(await host.verify(tape))['price(item="tea")']
    assert outcome[0] == "denied"
    assert "closed" in outcome[1]


async def test_hints_must_say_twice_that_a_tool_is_read_only(tape, host):
    def server(annotations: Any) -> Server[Any]:
        async def tools(context: Any, params: Any) -> ListToolsResult:
            tool = Tool(name="add", input_schema={"type": "object"}, annotations=annotations)
            return ListToolsResult(tools=[tool])

        async def call(context: Any, params: Any) -> CallToolResult:
            return CallToolResult(content=[TextContent(text="3")])

        return Server("sums", on_list_tools=tools, on_call_tool=call)

    for before, now, why in ((READ_ONLY, None, "add is no longer"), (None, READ_ONLY, "add was not")):
        await record(tape, server(before), ("add", {}), name="sums")
        await host.connect(server(now), name="sums")
        difference = f"{why} read-only; --all sends it, if you approve"
        assert outcomes(await host.verify(tape))["add()"] == ("skipped", difference)


async def test_answer_that_breaks_its_schema_differs(tape, host):
    def server(answer: Any) -> Server[Any]:
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

        async def tools(context: Any, params: Any) -> ListToolsResult:
            arguments: dict[str, Any] = {"type": "object"}
            tool = Tool(name="add", input_schema=arguments, output_schema=schema, annotations=READ_ONLY)
            return ListToolsResult(tools=[tool])

        async def call(context: Any, params: Any) -> CallToolResult:
            return CallToolResult(content=[TextContent(text=json.dumps(answer))], structured_content=answer)

        return Server("sums", on_list_tools=tools, on_call_tool=call)

    await record(tape, server({"sum": 3}), ("add", {}), name="sums")
    for strict in (False, True):
        host.outputs.strict = strict
        await host.connect(server({"sum": "three"}), name="sums")
        status, difference = outcomes(await host.verify(tape))["add()"]
        assert status == "broken schema"
        assert difference.startswith("the answer does not fit the tool's output schema: sum")


@pytest.mark.parametrize("live", ["2026-07-28", "handshake"])
@pytest.mark.parametrize("recorded", ["2026-07-28", "handshake"])
async def test_questions_get_the_recorded_answers(tape, recorded, live, host):
    async def sampler(request: Any) -> Sampled:
        return Sampled.of("They nap.", "cat-1")

    class Approves:
        async def request(self, request: Any, expected: Any) -> Review:
            return Review.approve()

        async def reply(self, request: Any, reply: Any) -> Review:
            return Review.approve()

    async with hosting(tape, "record") as recorder:
        recorder.elicitation.elicitor = Elicitor(Answer.accept({"city": "Oslo", "days": 2}), Answer.decline())
        recorder.sampling.sampler, recorder.sampling.reviewer = sampler, Approves()
        await visit(recorder, trip_server(), ("plan", {}), ("plan", {}), name="trip", protocol=recorded)
        await visit(recorder, sampling_server(), ("summarise", {}), name="cats", protocol=recorded)
    never = Elicitor()
    host.elicitation.elicitor, host.sampling.sampler = never, sampler
    host.consent.policy = "auto"
    await host.connect(trip_server(), name="trip", protocol=live)
    await host.connect(sampling_server(), name="cats", protocol=live)
    verification = await host.verify(tape, every=True)
    assert outcomes(verification) == {}
    requests = [row["request"] for row in verification if not row["request"].endswith("/list")]
    assert requests == ["plan()", "plan()", "summarise()"]


async def test_task_and_its_question_are_verified(tape, host, own_data):
    steps = [*[state("input_required", inputRequests={"branch": form()})] * 2, state()]
    async with serving(Scripted(*steps, done("built main"))) as url, hosting(tape, "record") as recorder:
        recorder.elicitation.elicitor = Elicitor(Answer.accept({"branch": "main"}))
        await visit(recorder, f"{url}/mcp", ("build", {}), name="ci")
    host.elicitation.elicitor, host.consent.policy = Elicitor(), "auto"
    live = Scripted(*steps, done("built next"))
    async with serving(live) as url:
        await host.connect(f"{url}/mcp", name="ci")
        verification = await host.verify(tape, every=True)
        await host.close()
    difference = 'result.content[0].text: "built main" -> "built next"'
    assert outcomes(verification) == {"build()": ("changed value", difference)}
    [answers] = [params["inputResponses"] for params in live.params("tasks/update")]
    assert answers["branch"]["content"] == {"branch": "main"}


async def test_question_that_was_not_recorded_is_refused_and_said(tape, host):
    quiet = MCPServer("trip", log_level="ERROR")

    @quiet.tool()
    def plan() -> str:
        return "decline"

    await record(tape, quiet, ("plan", {}), name="trip")
    host.elicitation.elicitor, host.consent.policy = Elicitor(), "auto"
    await host.connect(trip_server(), name="trip")
    verification = await host.verify(tape, every=True)
    assert outcomes(verification)["plan()"] == ("other status", "it asks 'Where to?', which was not recorded")


async def test_question_that_nobody_can_be_asked_is_skipped(tape, host):
    async with hosting(tape, "record") as recorder:
        recorder.elicitation.elicitor = Elicitor(Answer.accept({"city": "Oslo", "days": 2}))
        await visit(recorder, trip_server(), ("plan", {}), name="trip")
    await host.connect(trip_server(), name="trip")
    why = "it asks a question, and there was no host.elicitor when the session opened"
    assert outcomes(await host.verify(tape, every=True)) == {"plan()": ("skipped", why)}


async def test_answers_of_both_recordings_are_right(tape, host):
    def server(failing: bool) -> MCPServer:
        made = MCPServer("moody", log_level="ERROR")

        @made.tool(annotations=READ_ONLY)
        def mood() -> str:
            if failing:
                raise ToolError("not today")
            return "fine"

        return made

    await record(tape, server(False), ("mood", {}), name="moody")
    await host.connect(server(True), name="moody")
    before = ("other status", "answer -> tool error: Error executing tool mood: not today")
    assert outcomes(await host.verify(tape))["mood()"] == before
    assert len(await host.record_again(tape)) == 0
    for failing in (True, False):
        await host.connect(server(failing), name="moody")
        assert (await host.verify(tape)).ok


async def test_masks_of_later_recordings_are_joined(tape, host):
    answers = iter([1, 2, "three", 4, "five", True])

    def server() -> MCPServer:
        made = MCPServer("moody", log_level="ERROR")

        @made.tool(annotations=READ_ONLY)
        def mood() -> dict[str, Any]:
            return {"now": next(answers)}

        return made

    await record(tape, server(), ("mood", {}), name="moody")
    await host.connect(server(), name="moody")
    assert [row["types"] for row in await host.record_again(tape)] == ["number"]
    difference = "result.structuredContent.now: number -> string"
    assert outcomes(await host.verify(tape))["mood()"] == ("changed shape", difference)
    assert len(await host.record_again(tape)) == 0
    assert [row["types"] for row in await host.record_again(tape)] == ["number or string"]
    difference = "result.structuredContent.now: number or string -> boolean"
    assert outcomes(await host.verify(tape))["mood()"] == ("changed shape", difference)


async def test_completions_are_compared(tape, host):
    def server(*values: str) -> MCPServer:
        made = MCPServer("atlas", log_level="ERROR")

        @made.prompt()
        def visit(city: str) -> str:
            return city

        @made.completion()
        async def complete(ref: Any, argument: Any, context: Any) -> Completion:
            return Completion(values=list(values))

        return made

    async with hosting(tape, "record") as recorder:
        connection = await recorder.connect(server("Oslo", "Rome"), name="atlas")
        assert await connection.complete(PromptReference(name="visit"), "city", "o") == ["Oslo", "Rome"]
    await host.connect(server("Oslo"), name="atlas")
    [(status, difference)] = outcomes(await host.verify(tape)).values()
    assert (status, difference) == ("changed value", "result.completion.values: 2 items -> 1")


async def test_texts_of_a_hostile_server_are_cut_and_cleaned(tape, host):
    def server(answer: dict[str, Any]) -> MCPServer:
        made = MCPServer("evil", log_level="ERROR")

        @made.tool(annotations=READ_ONLY)
        def spell() -> dict[str, Any]:
            return answer

        return made

    await record(tape, server({"a": 1}), ("spell", {}), name="evil")
    await host.connect(server({"a": "\x1b[31m<script>" * 1000, "b" * 5000: 1, "\x1b[2J": 2}), name="evil")
    verification = await host.verify(tape)
    _, difference = outcomes(verification)["spell()"]
    assert len(difference) < 1000
    bundle = verification._repr_mimebundle_()
    assert "<script>" not in bundle["text/html"]
    with pytest.raises(CheckFailedError) as failed:
        verification.check()
    assert "\x1b" not in bundle["text/plain"] + str(failed.value) + verification.junit()


async def test_replayed_session_is_verified_and_said(tape, host):
    await record(tape, [sys.executable, "-m", shop.__name__], ("price", {"item": "tea"}))
    with deck.holding(tape, "replay"):
        await host.connect(["gone"], name="shop")
        verification = await host.verify(tape)
        assert verification.ok
        await host.close()
        assert verification.note == "shop is replayed: its answers are recorded ones"


async def test_secret_of_a_request_is_skipped_or_given(tape, host):
    def server() -> Any:
        made = shop_server()

        @made.tool(annotations=READ_ONLY)
        def account(token: str) -> str:
            return "welcome" if token == "sesame-1234" else f"no entry with {token}"

        return made

    await record(tape, server(), ("account", {"token": "sesame-1234"}))
    with tape.open("a") as file:  # a request without an answer has its own reason
        params = {"name": "account", "arguments": {"token": "***", "n": 1}}
        line = {"session": 1, "to": "server", "id": 99, "method": "tools/call", "params": params}
        file.write(json.dumps(line) + "\n")
    assert "sesame" not in tape.read_text()
    await host.connect(server(), name="shop")
    request = 'account(token="***")'
    text = "the cassette has *** in place of a secret; --set NAME=$VALUE gives it"
    unanswered = {'account(token="***", n=1)': ("skipped", "its recording has no answer")}
    assert outcomes(await host.verify(tape)) == {request: ("skipped", text), **unanswered}
    assert outcomes(await host.verify(tape, secrets={"token": "sesame-1234"})) == unanswered
    status, difference = outcomes(await host.verify(tape, secrets={"token": "wrong-1234"}))[request]
    assert status == "changed value"
    assert difference == 'result.structuredContent.result: "welcome" -> "no entry with ***"'
    _, difference = outcomes(await host.verify(tape, secrets={"token": "e"}))[request]
    assert difference == 'result.structuredContent.result: "welcome" -> "no entry with e"'  # no letter is masked
    with pytest.raises(ArgumentsError, match=r"has no masked argument 'toke'\. Did you mean 'token'\? It has token\."):
        await host.verify(tape, secrets={"toke": "sesame-1234"})


async def test_cassette_with_wrong_lines_is_read_as_far_as_it_can_be(tape, host):
    await record(tape, shop_server(), ("price", {"item": "tea"}), ("price", {"item": "milk"}))
    text = tape.read_text().splitlines()
    odd = ["{not JSON", '{"session": "one", "to": "client"}', '{"mask": "shop", "method": "x", "path": "a["}']
    tape.write_text("\n".join([*text[:3], *odd, *text[3:], '{"session": 1, "to"']))
    await host.connect(shop_server(), name="shop")
    verification = await host.verify(tape)
    assert verification.ok
    assert len(verification) == 6
    assert [line.partition(": ")[0].rpartition(", ")[2] for line in verification.note.splitlines()] == [
        "line 4",
        "line 5",
        "line 6",
    ]


ODD: tuple[Any, ...] = (None, [], {}, "x", 7, [None], {"a": []})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all members and items."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*path, name)
        yield from places(item, (*path, name))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """Return a copy with another value at a path."""
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], odd)
    return copy


async def test_odd_values_in_a_cassette_fail_no_verification(tape, host):
    async with hosting(tape, "record") as recorder:
        recorder.elicitation.elicitor = Elicitor(Answer.accept({"city": "Oslo", "days": 2}))
        await visit(recorder, trip_server(), ("plan", {}), name="trip")
    host.elicitation.elicitor, host.consent.policy = Elicitor(), "auto"
    await host.connect(trip_server(), name="trip")
    recorded = lines(tape)
    at = [number for number, line in enumerate(recorded) if "tools/call" in json.dumps(line) or "plan" in str(line)]
    for number in [*at, len(recorded) - 1]:
        for turn, path in enumerate(places(recorded[number])):
            line = replaced(recorded[number], path, ODD[turn % len(ODD)])
            written(tape, *recorded[:number], line, *recorded[number + 1 :])
            try:
                verification = await host.verify(tape, every=True, timeout=30)
            except CassetteError:
                continue
            verification.parts()


async def test_servers_are_named_where_names_differ(tape, host):
    async with hosting(tape, "record") as recorder:
        await visit(recorder, shop_server(), ("price", {"item": "tea"}))
    both = tape.with_name("both.jsonl")
    async with hosting(both, "record") as recorder:
        await visit(recorder, trip_server(), name="trip")
        await visit(recorder, shop_server())
    with pytest.raises(UnknownServerError) as failed:
        await host.verify(tape)
    text = "shop is not connected; `%mcp connect TARGET --name shop` opens a session. No server is connected."
    assert str(failed.value) == text
    await host.connect(shop_server(), name="shop_next")
    with pytest.raises(UnknownServerError, match=r"verify shop.jsonl shop=NAME` takes another session: shop_next"):
        await host.verify(tape)
    for names in (["shop=shop_next"], ["shop_next"]):
        verification = await host.verify(tape, *names)
        assert [row["tool"] for row in verification][-1] == "shop_next:price"
        assert verification.ok
    with pytest.raises(CassetteError, match=r"shop_next is not in .*Did you mean 'shop'\? It has trip, shop"):
        await host.verify(both, "shop_next")
    assert (await host.verify(str(both), "shop=shop_next")).ok


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "there is no cassette", id="missing"),
        pytest.param("no cassette", "is not a cassette", id="text"),
        pytest.param('{"cassette": 9}\n', "of format 9", id="newer"),
        pytest.param('{"cassette": 1}\n', "has no server", id="empty"),
    ],
)
async def test_file_that_is_no_cassette_is_an_error(tape, content, problem, host):
    if content is not None:
        tape.write_text(content)
    with pytest.raises(CassetteError, match=problem):
        await host.verify(tape)


async def test_request_that_is_not_answered_in_time_differs(tape, host):
    waiting = False

    def server() -> Any:
        made = shop_server()

        @made.tool(annotations=READ_ONLY)
        async def think() -> str:
            if waiting:
                await asyncio.Event().wait()
            return "done"

        return made

    await record(tape, server(), ("think", {}), ("price", {"item": "tea"}))
    waiting = True
    await host.connect(server(), name="shop")
    [(status, difference)] = outcomes(await host.verify(tape, timeout=0.2)).values()
    assert status == "other status"
    assert difference.startswith("answer -> no answer: shop:think: timed out")


async def test_failure_is_an_assertion_with_what_differs(tape, host):
    await record(tape, shop_server(1), *CALLS)
    await host.connect(shop_server(2), name="shop")
    verification = await host.verify(tape)
    with pytest.raises(AssertionError) as failed:
        verification.check()
    assert isinstance(failed.value, CheckFailedError)
    assert failed.value.result is verification
    first, *details = str(failed.value).splitlines()
    assert first == (
        "5 of 10 requests of shop.jsonl: 1 changed schema, 1 changed value, 1 changed shape, 2 other status"
    )
    assert details[1] == '  price(item="tea"): changed value: result.structuredContent.result: 3.0 -> 4.0'
    assert list(verification.df.columns) == ["request", "tool", "status", "difference"]
    assert verification.df["status"].tolist()[4] == "changed value"
    assert verification.counts == {
        "same": 4,
        "changed value": 1,
        "changed shape": 1,
        "changed schema": 1,
        "other status": 2,
        "skipped": 1,
    }
    shown = verification._repr_mimebundle_()
    assert "changed schema" in shown["text/plain"].splitlines()[2]  # what differs comes first
    assert "mcp-badge" in shown["text/html"]
    [suite] = ElementTree.fromstring(verification.junit().encode())
    assert {name: suite.attrib[name] for name in ("name", "tests", "failures", "skipped")} == {
        "name": "verify shop.jsonl",
        "tests": "10",
        "failures": "5",
        "skipped": "1",
    }
    failure = suite.find("testcase[@name='price(item=\"tea\")']/failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("changed value: result.structuredContent.result")


async def test_file_in_use_cannot_be_recorded_on_again(tape, host):
    await host.connect(shop_server(), name="shop")
    async with hosting(tape, "record") as recorder:
        await visit(recorder, shop_server(), ("price", {"item": "tea"}))
        with pytest.raises(CassetteError, match="another kernel is recording on it"):
            await host.record_again(tape)
    assert (await host.record_again(tape)).note == "1 answer added"


async def test_texts_of_strangers_are_written_out(tape, host):
    await record(tape, shop_server(), ("price", {"item": "tea"}))
    call = {"session": 1, "to": "server", "id": 90, "method": "tools/call", "params": {"name": "\x1b[2J\ud800"}}
    answer = {"session": 1, "to": "client", "id": 90, "result": {"content": [{"type": "text", "text": "\u202e\ud800"}]}}
    written(tape, {"cassette": 1}, *lines(tape)[1:], call, answer)
    await host.connect(shop_server(), name="shop")
    verification = await host.verify(tape)
    assert verification[-1]["tool"] == "shop:\\x1b[2J\\ud800"
    assert verification.df["request"].tolist()[-1] == "\\x1b[2J\\ud800()"


async def test_interrupt_before_the_first_request_is_said(tape, host):
    reached: list[asyncio.Event] = []

    async def tools(context: Any, params: Any) -> ListToolsResult:
        if reached:
            reached[0].set()
            await asyncio.Event().wait()
        return ListToolsResult(tools=[Tool(name="add", input_schema={"type": "object"}, annotations=READ_ONLY)])

    async def call(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text="3")])

    server: Server[Any] = Server("sums", on_list_tools=tools, on_call_tool=call)
    await record(tape, server, ("add", {}), name="sums")
    await host.connect(server, name="sums")
    reached.append(asyncio.Event())
    run = verifier(tape, (), host.connections, None)
    running = asyncio.create_task(run.run())
    await reached[0].wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not run.has_ended
    assert run.verification.note == "interrupted: the other requests were not sent"
