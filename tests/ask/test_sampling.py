"""Servers that ask for a model's words in the middle of a call, on both protocol eras."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import (
    CreateMessageRequestParams,
    ImageContent,
    SamplingMessage,
    TextContent,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

from mcp_magic.ask.sampling import (
    Expected,
    Review,
    Sampled,
    reply_texts,
    request_texts,
    with_reply_texts,
    with_request_texts,
)
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, ConfigError, MCPMagicError, ModelError, ProtocolError
from tests.support import SUPPORT
from tests.support.hosts import logged
from tests.support.sampling_servers import ADD, asking_server, said, sampling_server

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.ask.sampling import SamplingRequest

STDIO = [sys.executable, str(SUPPORT / "sampling_servers.py")]
SECRET = "hunter2-hunter2-hunter2"


class Model:
    """A sampler that plays replies, and keeps what it was asked."""

    def __init__(self, *replies: Sampled | str | Exception, takes_tools: bool = True) -> None:
        self.takes_tools = takes_tools
        self._replies = list(replies)
        self.asked: list[SamplingRequest] = []

    def expected(self, asked: SamplingRequest) -> Expected:
        return Expected("tiny", ("its hints are not followed",))

    async def __call__(self, asked: SamplingRequest) -> Sampled:
        self.asked.append(asked)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Sampled.of(reply, "tiny") if isinstance(reply, str) else reply


class Person:
    """A reviewer that says what it is told to, and keeps what it was asked."""

    def __init__(self, *reviews: Review) -> None:
        self._reviews = list(reviews)
        self.requests: list[tuple[SamplingRequest, Expected]] = []
        self.replies: list[Sampled] = []

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        self.requests.append((asked, expected))
        return self._reviews.pop(0)

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        self.replies.append(reply)
        return self._reviews.pop(0)


class Away:
    """A reviewer who never says anything."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = False

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True
        return Review.approve()

    reply: Any = request


@pytest.fixture(params=["in process", "stdio"])
def writer(request: pytest.FixtureRequest) -> Any:
    return sampling_server() if request.param == "in process" else STDIO


def samples(host: Host, model: Any, person: Any = None) -> None:
    host.sampling.sampler, host.sampling.reviewer = model, person


async def test_sampling_reply_with_lone_surrogate_is_not_sent(host: Host) -> None:
    samples(host, Model("Cats are \ud83d.", "Cats are lazy."), Person(Review.approve(), Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(MCPMagicError, match="writer:summarise"):
        await connection.call("summarise")
    assert "the reply[0].text: character 10 is" in logged(connection)
    assert (await connection.call("summarise")).text == "tiny endTurn: Cats are lazy."


@pytest.mark.parametrize(
    ("writer", "era"),
    [("in process", "2026-07-28"), ("in process", "2025-11-25"), ("stdio", "2026-07-28")],
    indirect=["writer"],
)
async def test_a_reply_that_the_person_has_approved_reaches_the_tool(
    host: Host, writer: Any, era: str, request: pytest.FixtureRequest
) -> None:
    if era < "2026":
        request.getfixturevalue("handshake")
    model, person = Model("Cats are lazy."), Person(Review.approve())
    samples(host, model, person)
    connection = await host.connect(writer, name="writer")

    assert connection.protocol_version == era
    assert (await connection.call("summarise")).text == "tiny endTurn: Cats are lazy."
    [(asked, expected)] = person.requests
    assert (asked.server, asked.system_prompt, asked.max_tokens) == ("writer", "Be brief.", 100)
    assert expected == Expected("tiny", ("its hints are not followed",))
    assert model.asked == [asked]
    assert "sampling (1 message, at most 100 tokens): answered by tiny, endTurn (" in logged(connection)
    [record] = host.consent.audit.records
    assert (record.asker, record.tool, record.decision, record.by) == ("server writer", "sampling", "approve", "person")


async def test_a_refusal_ends_the_call_and_not_the_session(host: Host) -> None:
    model = Model("never", "later")
    samples(host, model, Person(Review.deny("too long"), Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match=r"User rejected sampling request: denied by you: too long") as raised:
        await connection.call("summarise")
    assert raised.value.code == -1
    assert model.asked == []
    assert "denied by you: too long" in logged(connection)
    assert host.consent.audit.records[0].decision == "deny"
    assert (await connection.call("summarise")).text == "tiny endTurn: never"


@pytest.mark.usefixtures("handshake")
async def test_handshake_server_hears_of_rejected_sampling_without_why(host: Host) -> None:
    samples(host, Model(), Person(Review.deny("a private reason")))
    connection = await host.connect(sampling_server(), name="writer")

    assert (await connection.call("refused")).text == "-1 User rejected sampling request"
    assert "denied by you: a private reason" in logged(connection)
    assert connection.state == "open"


@pytest.mark.usefixtures("handshake")
async def test_tools_go_to_the_model_and_their_results_come_back(host: Host, writer: Any) -> None:
    use = ToolUseContent(name="add", id="c1", input={"a": 3, "b": 4})
    other = ToolUseContent(name="add", id="c2", input={"a": 1, "b": 1})
    model = Model(Sampled((TextContent(text="Let me see."), use, other), "tiny", "toolUse"), "It is 7.")
    samples(host, model, Person(Review.approve(), Review.approve()))
    connection = await host.connect(writer, name="writer")

    assert (await connection.call("sums")).text == "tiny endTurn: It is 7."
    first, second = model.asked
    assert [tool.name for tool in first.usable_tools] == ["add"]
    results = second.messages[-1].content_as_list
    assert [(block.tool_use_id, block.content[0].text) for block in results] == [("c1", "7"), ("c2", "2")]


async def test_what_the_person_changes_is_what_the_model_is_asked(host: Host) -> None:
    class Editor(Person):
        async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
            return Review.approve(replace(asked, messages=(said("Dogs bark."),), system_prompt=""))

    model = Model("Woof.")
    samples(host, model, Editor())
    connection = await host.connect(sampling_server(), name="writer")

    assert (await connection.call("summarise")).text == "tiny endTurn: Woof."
    assert model.asked[0].messages == (said("Dogs bark."),)
    [record] = host.consent.audit.records
    assert (record.decision, sorted(record.changed)) == ("edit", ["messages", "systemPrompt"])


async def test_a_change_that_makes_no_sense_is_not_asked(host: Host) -> None:
    class Editor(Person):
        async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
            return Review.approve(replace(asked, messages=()))

    model = Model()
    samples(host, model, Editor())
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match="after your changes: a sampling request without messages"):
        await connection.call("summarise")
    assert model.asked == []


async def test_the_reply_is_shown_first_where_the_person_wants_that(host: Host) -> None:
    person = Person(Review.approve(show_reply=True), Review.approve(reply=Sampled.of("Mine.", "tiny")))
    samples(host, Model("Theirs."), person)
    connection = await host.connect(sampling_server(), name="writer")

    assert (await connection.call("summarise")).text == "tiny endTurn: Mine."
    assert [reply.text for reply in person.replies] == ["Theirs."]


async def test_a_reply_that_is_refused_is_not_sent(host: Host) -> None:
    samples(host, Model("Secret."), Person(Review.approve(show_reply=True), Review.deny("it says too much")))
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match="the reply was not sent: it says too much") as raised:
        await connection.call("summarise")
    assert raised.value.code == -1
    assert "Secret" not in logged(connection)


async def test_auto_answers_without_asking_and_notes_it(host: Host) -> None:
    model, person = Model("Cats."), Person()
    samples(host, model, person)
    connection = await host.connect(sampling_server(), name="writer", sampling="auto")

    assert (await connection.call("summarise")).text == "tiny endTurn: Cats."
    assert person.requests == []
    assert model.asked[0].unasked
    assert "answered by tiny, endTurn, not asked about (" in logged(connection)
    assert [record.by for record in host.consent.audit.records] == ["sampling = 'auto'"]


async def test_a_server_that_asks_and_asks_is_refused_after_a_while(host: Host) -> None:
    samples(host, Model("one", "two", "three"), Person())
    host.sampling.per_minute = 2
    connection = await host.connect(sampling_server(), name="writer", sampling="auto")

    assert [(await connection.call("summarise")).text for _ in range(2)] == ["tiny endTurn: one", "tiny endTurn: two"]
    with pytest.raises(ProtocolError, match="more than 2 requests within a minute"):
        await connection.call("summarise")


@pytest.mark.parametrize(
    ("mode", "model", "announced"),
    [
        ("ask", Model(), "sampling with tools"),
        ("auto", Model(takes_tools=False), "sampling"),
        ("off", Model(), "nothing"),
        ("ask", None, "nothing"),
    ],
)
async def test_a_session_announces_what_it_will_answer(host: Host, mode: str, model: Any, announced: str) -> None:
    samples(host, model, Person())
    connection = await host.connect(sampling_server(), name="writer", sampling=mode)

    assert (await connection.call("looked")).text == announced


@pytest.mark.parametrize(
    ("rules", "mode", "policy", "asked", "words"),
    [
        ([Rule("deny", "writer:sampling", reason="not this one")], "auto", "ask", 0, "deny writer:sampling`: not this"),
        ([Rule("deny", "*:sampling")], "ask", "ask", 0, "denied by rule"),
        ([Rule("ask", "writer:sampling")], "auto", "auto", 1, "denied by you"),
        ([Rule("allow", "writer:*")], "ask", "auto", 1, "denied by you"),
        ([Rule("allow", "writer:sampling")], "ask", "ask", 1, "denied by you"),
        ([], "ask", "deny", 0, "denied by approval = 'deny'"),
    ],
)
async def test_rules_ask_and_deny_but_never_allow(
    host: Host, rules: list[Rule], mode: str, policy: str, asked: int, words: str
) -> None:
    person = Person(Review.deny())
    samples(host, Model(), person)
    host.consent.policy = policy
    connection = await host.connect(sampling_server(), name="writer", sampling=mode)
    host.consent.rules[:] = [*rules, Rule("allow", "writer:summarise")]

    with pytest.raises(ProtocolError) as raised:
        await connection.call("summarise")
    assert len(person.requests) == asked
    assert words in logged(connection)
    assert words in str(raised.value)
    assert ("User rejected" in str(raised.value)) == bool(asked)
    assert "(-1, refused by you or your rules; fault: you)" in str(raised.value)


@pytest.mark.usefixtures("handshake")
async def test_a_server_is_told_of_a_rule_and_not_of_its_reason(host: Host) -> None:
    samples(host, Model(), Person())
    connection = await host.connect(sampling_server(), name="writer")
    host.consent.add(Rule("deny", "writer:sampling", reason="a private reason"))

    assert (await connection.call("refused")).text == "-1 sampling request denied by rule `deny writer:sampling`"
    assert "denied by rule `deny writer:sampling`: a private reason" in logged(connection)


async def test_where_nobody_can_be_asked_the_answer_is_no(host: Host) -> None:
    samples(host, Model())
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match=r"you cannot be asked: host\.sampling\.reviewer is None"):
        await connection.call("summarise")


async def test_nobody_who_answers_in_time_is_a_refusal(host: Host) -> None:
    samples(host, Model(), Away())
    host.sampling.timeout = 0.05
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match=r"denied by time-out: you did not answer within 0\.05 s"):
        await connection.call("summarise")


async def test_a_model_that_does_not_answer_in_time_fails(host: Host) -> None:
    async def hangs(asked: SamplingRequest) -> Sampled:
        await asyncio.Event().wait()
        raise AssertionError

    samples(host, hangs, Person(Review.approve()))
    host.sampling.timeout = 0.05
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match=r"the model did not answer within 0\.05 s") as raised:
        await connection.call("summarise")
    assert raised.value.code == -32603


async def test_the_time_out_stands_still_meanwhile(host: Host) -> None:
    loop = asyncio.get_running_loop()

    async def slow(asked: SamplingRequest) -> Sampled:
        until = loop.time() + 1.5  # longer than the call may take
        while loop.time() < until:
            await asyncio.wait({loop.create_future()}, timeout=0.05)
        return Sampled.of("At last.", "slow")

    samples(host, slow, Person(Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    assert (await connection.call_tool("summarise", {}, timeout=1)).text == "slow endTurn: At last."


async def test_a_call_that_is_cancelled_takes_its_question_with_it(host: Host) -> None:
    away = Away()
    samples(host, Model(), away)
    connection = await host.connect(sampling_server(), name="writer")
    call = asyncio.create_task(connection.call("summarise"))
    await asyncio.wait_for(away.started.wait(), 60)
    call.cancel()
    await asyncio.wait({call}, timeout=60)

    assert call.cancelled()
    assert away.ended


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ModelError("tiny: the key is not accepted (HTTP 401)"), "the key is not accepted"),
        (LookupError("no weights"), "the sampler failed: LookupError: no weights"),
        (TimeoutError("its own"), "the sampler failed: TimeoutError: its own"),
    ],
)
async def test_a_model_that_fails_is_an_error_of_the_call(host: Host, failure: Exception, words: str) -> None:
    samples(host, Model(failure, "later"), Person(Review.approve(), Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match="Sampling failed: no model could answer") as raised:
        await connection.call("summarise")
    assert raised.value.code == -32603
    assert words in str(raised.value)
    assert words in logged(connection)
    assert (await connection.call("summarise")).text == "tiny endTurn: later"


@pytest.mark.usefixtures("handshake")
async def test_a_server_does_not_learn_why_a_model_failed(host: Host) -> None:
    samples(host, Model(ModelError("the proxy at 10.0.0.7 is down")), Person(Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    assert (await connection.call("refused")).text == "-32603 Sampling failed: no model could answer"
    assert "10.0.0.7" in logged(connection)


async def test_what_is_no_reply_is_not_sent(host: Host) -> None:
    async def careless(asked: SamplingRequest) -> Any:
        return "text"

    samples(host, careless, Person(Review.approve()))
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match="TypeError: it returned str, not a Sampled"):
        await connection.call("summarise")


async def test_nothing_is_answered_that_cannot_be_put_on_record(host: Host, tmp_path: Path) -> None:
    model = Model("never")
    samples(host, model, Person(Review.approve()))
    host.consent.audit.file = tmp_path
    connection = await host.connect(sampling_server(), name="writer")

    with pytest.raises((ProtocolError, ConfigError), match="the audit file"):
        await connection.call("summarise")
    assert model.asked == []


def use(name: str = "add", id: str = "c1") -> ToolUseContent:
    return ToolUseContent(name=name, id=id, input={})


def gave(id: str = "c1") -> ToolResultContent:
    return ToolResultContent(tool_use_id=id, content=[TextContent(text="7")])


def message(role: Any, *content: Any) -> SamplingMessage:
    return SamplingMessage(role=role, content=list(content))


HELLO = said("Hello")
NONSENSE = {
    "a sampling request without messages": {"messages": []},
    "maxTokens must be at least 1, not 0": {"max_tokens": 0},
    "temperature must be a number from 0 on, not -1.0": {"temperature": -1.0},
    "a stop sequence must not be empty": {"stop_sequences": ["END", ""]},
    "two tools are called 'add'": {"tools": [ADD, ADD]},
    "toolChoice is 'required', but there are no tools": {"tools": [], "tool_choice": ToolChoice(mode="required")},
    "the image in message 1 is not base64": {
        "messages": [message("user", ImageContent(data='x" onerror="alert(1)', mime_type="image/png"))]
    },
    "the last message asks for tools": {"messages": [HELLO, message("assistant", use())]},
    "message 3 does not answer each tool use before it once": {
        "messages": [HELLO, message("assistant", use()), message("user", gave("c2"))]
    },
    "message 2 does not answer each tool use": {"messages": [HELLO, message("user", gave())]},
    "tool results mixed with other content in message 3": {
        "messages": [HELLO, message("assistant", use()), message("user", gave(), TextContent(text="and"))]
    },
    "a tool use in message 1, which is not from the assistant": {"messages": [message("user", use())]},
    "two tool uses of the same id in message 2": {"messages": [HELLO, message("assistant", use(), use())]},
}


@pytest.mark.parametrize("problem", NONSENSE)
async def test_nonsense_is_answered_with_an_error_and_nobody_is_asked(host: Host, problem: str) -> None:
    params = CreateMessageRequestParams(**{"messages": [HELLO], "max_tokens": 10, **NONSENSE[problem]})  # type: ignore[arg-type]
    person = Person()
    samples(host, Model(), person)
    connection = await host.connect(asking_server(params), name="asking")

    with pytest.raises(ProtocolError) as raised:
        await connection.call("ask")
    assert raised.value.code == -32602
    assert problem in str(raised.value)
    assert person.requests == []
    assert connection.state == "open"


async def test_tools_for_apps_only_are_not_shown_to_the_model(host: Host) -> None:
    model = Model("7")
    samples(host, model, Person(Review.approve()))
    app = ADD.model_copy(update={"name": "resize", "meta": {"ui": {"visibility": ["app"]}}})
    params = CreateMessageRequestParams(messages=[HELLO], max_tokens=10, tools=[ADD, app])
    connection = await host.connect(asking_server(params), name="asking")

    assert (await connection.call("ask")).text == "tiny endTurn: 7"
    [asked] = model.asked
    assert [tool.name for tool in asked.tools or ()] == ["add"]


async def test_tools_that_were_not_announced_are_an_error(host: Host) -> None:
    samples(host, Model(takes_tools=False), Person())
    params = CreateMessageRequestParams(messages=[HELLO], max_tokens=10, tools=[ADD])
    connection = await host.connect(asking_server(params), name="asking")

    with pytest.raises(ProtocolError, match=r"the capability sampling\.tools was not announced"):
        await connection.call("ask")


async def test_sampling_asks_one_by_one_and_runs_models_concurrently(
    host: Host,
) -> None:
    both = asyncio.Event()
    asked_now = models_now = 0

    class OneByOne(Person):
        async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
            nonlocal asked_now
            asked_now += 1
            for _ in range(10):
                await asyncio.sleep(0)
            assert asked_now == 1
            asked_now -= 1
            return Review.approve()

    async def echo(asked: SamplingRequest) -> Sampled:
        nonlocal models_now
        models_now += 1
        if models_now == 2:
            both.set()
        await both.wait()
        return Sampled.of(asked.messages[0].content_as_list[0].text, "echo")  # type: ignore[union-attr]

    samples(host, echo, OneByOne())
    params = [CreateMessageRequestParams(messages=[said(text)], max_tokens=10) for text in ("one", "two")]
    connection = await host.connect(asking_server(*params), name="asking")

    assert (await connection.call_tool("ask", {}, timeout=60)).text == ["echo endTurn: one", "echo endTurn: two"]


async def test_no_text_and_no_secret_gets_into_log_and_audit(host: Host, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        f"import os, sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.support import sampling_servers\n"
        "sampling_servers.said.__defaults__ = ('user',)\n"
        "async def leak():\n"
        "    from mcp.server.mcpserver import Sample\n"
        "    return Sample([sampling_servers.said('The key is ' + os.environ['API_KEY'])], max_tokens=5)\n"
        "sampling_servers._summary = leak\n"
        "sampling_servers.sampling_server().run()\n"
    )
    host.consent.audit.file = tmp_path / "audit.jsonl"
    samples(host, Model(ModelError(f"refused {SECRET}"), "fine"), Person(Review.approve(), Review.approve()))
    connection = await host.connect([sys.executable, str(server)], name="writer", env={"API_KEY": SECRET})

    with pytest.raises(ProtocolError) as raised:
        await connection.call("summarise")
    await connection.call("summarise")

    records = host.consent.audit.file.read_text()
    assert "The key is ***" in records
    assert SECRET not in "\n".join([records, logged(connection), str(raised.value), repr(connection)])
    assert "The key" not in logged(connection)


def test_an_emptied_text_is_left_out() -> None:
    from mcp_magic.ask.sampling import SamplingRequest

    image = ImageContent(data="aGk=", mime_type="image/png")
    asked = SamplingRequest("s", (HELLO, message("user", TextContent(text="Look"), image)), 10, "Be brief.")
    texts = [text.text for text in request_texts(asked)]

    assert texts == ["Be brief.", "Hello", "Look"]
    assert with_request_texts(asked, texts) is asked
    changed = with_request_texts(asked, ["", "", "See"])
    assert (changed.system_prompt, len(changed.messages)) == ("", 1)
    assert changed.messages[0].content == [TextContent(text="See"), image]
    with pytest.raises(ArgumentsError, match="no message is left"):
        with_request_texts(replace(asked, messages=(HELLO,)), ["Be brief.", ""])


def test_arguments_of_a_reply_are_changed_as_json_and_checked() -> None:
    reply = Sampled((TextContent(text="Let me see."), use()), "tiny", "toolUse")
    labels = [text.label for text in reply_texts(reply)]

    assert labels == ["reply", "arguments of add, JSON"]
    changed = with_reply_texts(reply, ["", '{"a": 1, "b": 2}'], [ADD])
    assert changed.content == (ToolUseContent(name="add", id="c1", input={"a": 1, "b": 2}),)
    assert with_reply_texts(reply, ["No.", ""], [ADD]).stop_reason == "endTurn"
    with pytest.raises(ArgumentsError, match="not JSON"):
        with_reply_texts(reply, ["x", "{"], [ADD])
    with pytest.raises(ArgumentsError, match="missing: b"):
        with_reply_texts(reply, ["x", json.dumps({"a": 1})], [ADD])
    with pytest.raises(ArgumentsError, match="nothing is left"):
        with_reply_texts(reply, ["", ""], [ADD])
