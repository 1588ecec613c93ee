"""Servers that ask for a model's words in the middle of a call, on both protocol eras."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
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
    SamplingRequest,
    reply_texts,
    request_texts,
    with_reply_texts,
    with_request_texts,
)
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, ModelError, ProtocolError
from tests.environments import ROOT
from tests.support.clocks import jump
from tests.support.hosts import logged
from tests.support.sampling_servers import ADD, asking_server, said, sampling_server

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SECRET = "hunter2-hunter2-hunter2"
HELLO = said("Hello")
YES = Review.approve()


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
    """A reviewer that says what it is told to, and keeps what it was asked; `changes` are made to the request."""

    def __init__(self, *reviews: Review, **changes: Any) -> None:
        self._reviews = list(reviews)
        self._changes = changes
        self.requests: list[tuple[SamplingRequest, Expected]] = []
        self.replies: list[Sampled] = []

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        self.requests.append((asked, expected))
        return Review.approve(replace(asked, **self._changes)) if self._changes else self._reviews.pop(0)

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
        return YES

    reply: Any = request


def samples(host: Host, model: Any, person: Any = None) -> None:
    host.sampling.sampler, host.sampling.reviewer = model, person


async def writer(host: Host, model: Any, person: Any = None, **options: Any) -> Connection:
    """Connect a server that asks for a summary, with who answers it."""
    samples(host, model, person)
    return await host.connect(sampling_server(), name="writer", **options)


async def refused(connection: Connection, tool: str = "summarise") -> ProtocolError:
    with pytest.raises(ProtocolError) as raised:
        await connection.call(tool)
    return raised.value


async def asking(host: Host, model: Any, person: Any, *requests: dict[str, Any]) -> Connection:
    """Connect a server that asks for all of these at once."""
    samples(host, model, person)
    params = [CreateMessageRequestParams(**{"messages": [HELLO], "max_tokens": 10, **request}) for request in requests]
    return await host.connect(asking_server(*params), name="asking")


# What the person decides


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_approved_reply_reaches_the_tool(host, era, request):
    if era < "2026":
        request.getfixturevalue("handshake")
    model, person = Model("Cats are lazy."), Person(YES)
    connection = await writer(host, model, person)
    assert connection.protocol_version == era
    assert (await connection.call("summarise")).text == "tiny endTurn: Cats are lazy."
    [(asked, expected)] = person.requests
    assert (asked.server, asked.system_prompt, asked.max_tokens) == ("writer", "Be brief.", 100)
    assert expected == Expected("tiny", ("its hints are not followed",))
    assert model.asked == [asked]
    assert "sampling (1 message, at most 100 tokens): answered by tiny, endTurn (" in logged(connection)
    [record] = host.consent.audit.records
    assert (record.asker, record.tool, record.decision, record.by) == ("server writer", "sampling", "approve", "person")


async def test_refusal_ends_the_call_and_not_the_session(host):
    model = Model("never", "later")
    connection = await writer(host, model, Person(Review.deny("too long"), YES))
    error = await refused(connection)
    assert "User rejected sampling request: denied by you: too long" in str(error)
    assert error.code == -1
    assert model.asked == []
    assert "denied by you: too long" in logged(connection)
    assert host.consent.audit.records[0].decision == "deny"
    assert (await connection.call("summarise")).text == "tiny endTurn: never"


@pytest.mark.usefixtures("handshake")
async def test_tools_go_to_the_model_and_their_results_come_back(host):
    use = ToolUseContent(name="add", id="c1", input={"a": 3, "b": 4})
    other = ToolUseContent(name="add", id="c2", input={"a": 1, "b": 1})
    model = Model(Sampled((TextContent(text="Let me see."), use, other), "tiny", "toolUse"), "It is 7.")
    connection = await writer(host, model, Person(YES, YES))
    assert (await connection.call("sums")).text == "tiny endTurn: It is 7."
    first, second = model.asked
    assert [tool.name for tool in first.usable_tools] == ["add"]
    results = second.messages[-1].content_as_list
    assert [(block.tool_use_id, block.content[0].text) for block in results] == [("c1", "7"), ("c2", "2")]


async def test_model_is_asked_what_the_person_made_of_the_request(host):
    model = Model("Woof.")
    connection = await writer(host, model, Person(messages=(said("Dogs bark."),), system_prompt=""))
    assert (await connection.call("summarise")).text == "tiny endTurn: Woof."
    assert model.asked[0].messages == (said("Dogs bark."),)
    [record] = host.consent.audit.records
    assert (record.decision, sorted(record.changed)) == ("edit", ["messages", "systemPrompt"])
    host.sampling.reviewer = Person(messages=())
    assert "after your changes: a sampling request without messages" in str(await refused(connection))
    assert len(model.asked) == 1


async def test_reply_is_shown_first_where_the_person_wants_that(host):
    show, mine = Review.approve(show_reply=True), Review.approve(reply=Sampled.of("Mine.", "tiny"))
    person = Person(show, mine, show, Review.deny("it says too much"))
    connection = await writer(host, Model("Theirs.", "Secret."), person)
    assert (await connection.call("summarise")).text == "tiny endTurn: Mine."
    assert [reply.text for reply in person.replies] == ["Theirs."]
    error = await refused(connection)
    assert "the reply was not sent: it says too much" in str(error)
    assert error.code == -1
    assert "Secret" not in logged(connection)


async def test_questions_come_one_by_one_and_models_run_at_once(host):
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
            return YES

    async def echo(asked: SamplingRequest) -> Sampled:
        nonlocal models_now
        models_now += 1
        if models_now == 2:
            both.set()
        await both.wait()
        return Sampled.of(asked.messages[0].content_as_list[0].text, "echo")  # type: ignore[union-attr]

    connection = await asking(host, echo, OneByOne(), {"messages": [said("one")]}, {"messages": [said("two")]})
    assert (await connection.call_tool("ask", {}, timeout=60)).text == ["echo endTurn: one", "echo endTurn: two"]


async def test_cancelled_call_takes_its_question_with_it(host):
    away = Away()
    connection = await writer(host, Model(), away)
    call = asyncio.create_task(connection.call("summarise"))
    await asyncio.wait_for(away.started.wait(), 60)
    call.cancel()
    await asyncio.wait({call}, timeout=60)
    assert call.cancelled()
    assert away.ended


# What decides without the person


async def test_auto_answers_unasked_notes_it_and_has_a_limit(host):
    model, person = Model("Cats.", "two"), Person()
    host.sampling.per_minute = 2
    connection = await writer(host, model, person, sampling="auto")
    assert (await connection.call("summarise")).text == "tiny endTurn: Cats."
    assert person.requests == []
    assert model.asked[0].unasked
    assert "answered by tiny, endTurn, not asked about (" in logged(connection)
    assert [record.by for record in host.consent.audit.records] == ["sampling = 'auto'"]
    assert (await connection.call("summarise")).text == "tiny endTurn: two"
    assert "more than 2 requests within a minute" in str(await refused(connection))


@pytest.mark.parametrize(
    ("mode", "model", "announced"),
    [
        ("ask", Model(), "sampling with tools"),
        ("auto", Model(takes_tools=False), "sampling"),
        ("off", Model(), "nothing"),
        ("ask", None, "nothing"),
    ],
    ids=["ask", "auto", "off", "no model"],
)
async def test_session_announces_what_it_will_answer(host, mode, model, announced):
    connection = await writer(host, model, Person(), sampling=mode)
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
    ids=["deny one", "deny all", "ask", "allow all", "allow one", "policy"],
)
async def test_rules_ask_and_deny_but_never_allow(host, rules, mode, policy, asked, words):
    person = Person(Review.deny())
    host.consent.policy = policy
    connection = await writer(host, Model(), person, sampling=mode)
    host.consent.rules[:] = [*rules, Rule("allow", "writer:summarise")]
    error = str(await refused(connection))
    assert len(person.requests) == asked
    assert words in logged(connection)
    assert words in error
    assert ("User rejected" in error) == bool(asked)
    assert "(-1, refused by you or your rules; fault: you)" in error


@pytest.mark.usefixtures("handshake")
async def test_server_learns_that_it_was_refused_and_not_why(host):
    model = Model(ModelError("the proxy at 10.0.0.7 is down"))
    connection = await writer(host, model, Person(Review.deny("a private reason"), YES))
    assert (await connection.call("refused")).text == "-1 User rejected sampling request"
    assert "denied by you: a private reason" in logged(connection)
    assert connection.state == "open"
    assert (await connection.call("refused")).text == "-32603 Sampling failed: no model could answer"
    assert "10.0.0.7" in logged(connection)
    host.consent.add(Rule("deny", "writer:sampling", reason="another reason"))
    assert (await connection.call("refused")).text == "-1 sampling request denied by rule `deny writer:sampling`"
    assert "denied by rule `deny writer:sampling`: another reason" in logged(connection)


# What goes wrong


async def hangs(asked: SamplingRequest) -> Sampled:
    await asyncio.Event().wait()
    raise AssertionError


async def careless(asked: SamplingRequest) -> Any:
    return "text"


@pytest.mark.parametrize(
    ("model", "person", "code", "words"),
    [
        (Model(), None, -1, "you cannot be asked: host.sampling.reviewer is None"),
        (Model(), Away(), -1, "denied by time-out: you did not answer within 0.05 s"),
        (hangs, Person(YES), -32603, "the model did not answer within 0.05 s"),
        (careless, Person(YES), -32603, "TypeError: it returned str, not a Sampled"),
    ],
    ids=["nobody", "away", "hangs", "careless"],
)
async def test_without_an_answer_the_call_says_why(host, model, person, code, words):
    host.sampling.timeout = 0.05
    connection = await writer(host, model, person)
    error = await refused(connection)
    assert words in str(error)
    assert error.code == code


async def test_time_out_stands_still_while_a_model_answers(host):
    async def slow(asked: SamplingRequest) -> Sampled:
        jump(100)  # longer than the call may take
        await asyncio.sleep(0.01)
        return Sampled.of("At last.", "slow")

    connection = await writer(host, slow, Person(YES))
    assert (await connection.call_tool("summarise", {}, timeout=60)).text == "slow endTurn: At last."


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ModelError("tiny: the key is not accepted (HTTP 401)"), "the key is not accepted"),
        (LookupError("no weights"), "the sampler failed: LookupError: no weights"),
        (TimeoutError("its own"), "the sampler failed: TimeoutError: its own"),
    ],
    ids=["key", "weights", "time-out"],
)
async def test_model_that_fails_is_an_error_of_the_call(host, failure, words):
    connection = await writer(host, Model(failure, "later"), Person(YES, YES))
    error = await refused(connection)
    assert "Sampling failed: no model could answer" in str(error)
    assert error.code == -32603
    assert words in str(error)
    assert words in logged(connection)
    assert (await connection.call("summarise")).text == "tiny endTurn: later"


async def test_reply_that_cannot_be_sent_or_recorded_is_not_sent(host, tmp_path):
    model = Model("Cats are \ud83d.", "Cats are lazy.")
    connection = await writer(host, model, Person(YES, YES, YES))
    assert "no model could answer: the reply[0].text: character 10 is" in str(await refused(connection))
    assert "the reply[0].text: character 10 is" in logged(connection)
    host.consent.audit.file = tmp_path
    assert f"the audit file '{tmp_path}' cannot be written" in str(await refused(connection))
    assert len(model.asked) == 1, "no model is asked"
    host.consent.audit.file = None
    assert (await connection.call("summarise")).text == "tiny endTurn: Cats are lazy."


LEAK = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support import sampling_servers
async def leak():
    from mcp.server.mcpserver import Sample
    return Sample([sampling_servers.said('The key is ' + os.environ['API_KEY'])], max_tokens=5)
sampling_servers._summary = leak
sampling_servers.sampling_server().run()
"""


async def test_no_text_and_no_secret_gets_into_log_and_audit(host, tmp_path):
    server = tmp_path / "server.py"
    server.write_text(LEAK)
    host.consent.audit.file = tmp_path / "audit.jsonl"
    samples(host, Model(ModelError(f"refused {SECRET}"), "fine"), Person(YES, YES))
    connection = await host.connect([sys.executable, str(server)], name="writer", env={"API_KEY": SECRET})
    error = str(await refused(connection))
    await connection.call("summarise")
    records = host.consent.audit.file.read_text()
    assert "The key is ***" in records
    assert SECRET not in "\n".join([records, logged(connection), error, repr(connection)])
    assert "The key" not in logged(connection)


# Requests that make no sense


def use(name: str = "add", id: str = "c1") -> ToolUseContent:
    return ToolUseContent(name=name, id=id, input={})


def gave(id: str = "c1") -> ToolResultContent:
    return ToolResultContent(tool_use_id=id, content=[TextContent(text="7")])


def message(role: Any, *content: Any) -> SamplingMessage:
    return SamplingMessage(role=role, content=list(content))


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
async def test_nonsense_is_an_error_and_nobody_is_asked(host, problem):
    person = Person()
    connection = await asking(host, Model(), person, NONSENSE[problem])
    error = await refused(connection, "ask")
    assert error.code == -32602
    assert problem in str(error)
    assert (person.requests, connection.state) == ([], "open")


async def test_tools_for_apps_and_unannounced_ones_are_not_given(host):
    model = Model("7")
    app = ADD.model_copy(update={"name": "resize", "meta": {"ui": {"visibility": ["app"]}}})
    connection = await asking(host, model, Person(YES), {"tools": [ADD, app]})
    assert (await connection.call("ask")).text == "tiny endTurn: 7"
    assert [tool.name for tool in model.asked[0].tools or ()] == ["add"]
    await host.disconnect("asking")
    connection = await asking(host, Model(takes_tools=False), Person(), {"tools": [ADD]})
    assert "the capability sampling.tools was not announced" in str(await refused(connection, "ask"))


# Texts that the person edits


def test_emptied_text_of_a_request_is_left_out():
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


def test_arguments_in_a_reply_are_edited_as_json_and_checked():
    reply = Sampled((TextContent(text="Let me see."), use()), "tiny", "toolUse")
    assert [text.label for text in reply_texts(reply)] == ["reply", "arguments of add, JSON"]
    changed = with_reply_texts(reply, ["", '{"a": 1, "b": 2}'], [ADD])
    assert changed.content == (ToolUseContent(name="add", id="c1", input={"a": 1, "b": 2}),)
    assert with_reply_texts(reply, ["No.", ""], [ADD]).stop_reason == "endTurn"
    for texts, problem in (
        (["x", "{"], "not JSON"),
        (["x", json.dumps({"a": 1})], "missing: b"),
        (["", ""], "nothing is left"),
    ):
        with pytest.raises(ArgumentsError, match=problem):
            with_reply_texts(reply, texts, [ADD])
