"""`%mcp call --answers FILE`: answers to what servers ask you and models for, where you cannot be asked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp_types import CreateMessageRequestParams, ToolChoice

from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.errors import ArgumentsError, ConfigError, ProtocolError
from mcp_magic.ipython.ask import Answers
from mcp_magic.notebook import host
from tests.support.eliciting_server import trip_server, url_server
from tests.support.hosts import logged
from tests.support.sampling_servers import ADD, asking_server, said, sampling_server

SUMMARY = "Cats sleep, purr and eat."


@pytest.fixture(autouse=True)
def nobody():
    """The kernel's host announces a model, which must not be asked, and a person, who answers nothing."""

    async def never(asked: Any) -> Any:
        raise AssertionError("no model is to be asked")

    async def declines(asked: Elicitation) -> Answer:
        return Answer.decline("nobody")

    before = host.sampling.sampler, host.sampling.reviewer, host.elicitor
    host.sampling.sampler, host.sampling.reviewer, host.elicitor = never, None, declines
    yield
    host.sampling.sampler, host.sampling.reviewer, host.elicitor = before


@pytest.fixture
def answers(magic):
    """Call a tool with a file of answers; with a kind of error, return the text of that."""

    async def call(tool: str, answers: Any, error: type[Exception] | None = None) -> Any:
        (magic.folder / "answers.json").write_text(json.dumps(answers))
        line = f"call {tool} --answers answers.json"
        return await (magic(line) if error is None else magic.error(error, line))

    return call


# What you are asked


async def test_file_answers_what_the_server_asks_you(answers):
    await host.connect(trip_server(), name="trip")
    await host.connect(url_server("https://pay.example.org/"), name="pay")
    for written, text in (
        ([{"city": "Oslo", "days": 1}], "accept Oslo 1"),
        ([{"action": "accept", "content": {"city": "Rome"}}], "accept Rome 3"),
        (["decline"], "decline"),
        (["cancel"], "cancel"),
        ({"other": "cancel", "Where to?": {"city": "Paris"}}, "accept Paris 3"),
        ({"sampling": [], "Where to?": {"city": "Oslo"}}, "accept Oslo 3"),
        ({"sampling": [], "elicitation": {"Where to?": {"city": "Oslo"}}}, "accept Oslo 3"),
        ({"sampling": [], "elicitation": [{"city": "Oslo"}]}, "accept Oslo 3"),
    ):
        assert (await answers("trip:plan", written)).text == text
    assert (await answers("pay:pay", ["accept"])).text == "accept"


async def test_answer_that_is_missing_or_wrong_is_an_error(magic, answers):
    connection = await host.connect(trip_server(), name="trip")
    for written, message in (
        ([], "answers.json has no answer to 'Where to?'"),
        ({"What?": "cancel"}, "answers.json has no answer to 'Where to?'"),
        ([{"city": "O"}], "the answer to 'Where to?' in answers.json does not fit: city: "),
        ([7], 'answers.json: an answer is "accept", "decline", "cancel" or an object, not 7'),
        ("yes", "answers.json must hold a list of answers, or an object with an answer for each message"),
    ):
        assert (await answers("trip:plan", written, ArgumentsError)).startswith(message)
    before = connection.calls
    error = await magic.error(ConfigError, "call trip:plan --answers none.json")
    assert "none.json: cannot be read: No such file or directory" in error
    assert connection.calls == before


async def test_log_says_that_nobody_could_be_asked(magic):
    await host.connect(trip_server(), name="trip")
    assert (await magic("call trip:plan")).text == "decline"
    [row] = (await magic("logs trip")).rows
    assert row["source"] == "mcp_magic"
    assert str(row["text"]).startswith("elicitation 'Where to?': decline: nobody (")


async def test_answers_by_message_serve_again_and_in_order_once():
    asked = Elicitation("trips", "Where to?", "form", {"type": "object", "properties": {}})
    by_message, in_order = Answers({"Where to?": "cancel"}, "a"), Answers(["cancel"], "a")
    assert [(await by_message.elicit(asked)).action for _ in range(2)] == ["cancel", "cancel"]
    assert [(await in_order.elicit(asked)).action for _ in range(2)] == ["cancel", "decline"]


# What models are asked


async def test_text_of_the_file_is_the_reply(answers):
    await host.connect(sampling_server(), name="writer")
    for reply, text in (
        (SUMMARY, f"answers.json endTurn: {SUMMARY}"),
        ({"server": "writ*", "message": "Summarise*", "reply": SUMMARY}, f"answers.json endTurn: {SUMMARY}"),
        ({"reply": SUMMARY, "model": "gpt-x"}, f"gpt-x endTurn: {SUMMARY}"),
        ({"reply": "x" * 500}, f"answers.json maxTokens: {'x' * 400}"),
    ):
        assert (await answers("writer:summarise", {"sampling": [reply]})).text == text
        record = host.consent.audit.records[-1]
        assert (record.decision, record.by) == ("approve", "answers.json")


def asks(text: str, **more: Any) -> CreateMessageRequestParams:
    return CreateMessageRequestParams(messages=[said(text)], max_tokens=50, **more)


async def test_texts_serve_once_and_patterns_again_within_limits(answers):
    await host.connect(asking_server(*map(asks, ("one", "sky?", "two", "sky!"))), name="asking")
    replies: list[Any] = ["first", {"message": "sky*", "reply": "blue"}, "second"]
    result = await answers("asking:ask", {"sampling": replies})
    assert [text.rpartition(" ")[2] for text in result.text] == ["first", "blue", "second", "blue"]
    required = asks("Add", tools=[ADD], tool_choice=ToolChoice(mode="required"))
    connection = await host.connect(asking_server(asks("Count", stop_sequences=[" three"]), required), name="limits")
    replies = [{"message": "Count", "reply": "one two three four"}, {"message": "Add", "reply": "7"}]
    result = await answers("limits:ask", {"sampling": replies})
    assert result.text == ["answers.json stopSequence: one two", "answers.json endTurn: 7"]
    assert "no tool is called, which the server required" in logged(connection)


async def test_request_without_a_reply_is_refused(magic, answers):
    await host.connect(sampling_server(), name="writer")
    for replies, why in (
        ([], "denied by answers.json: answers.json has no reply to 'Summarise this: .*' of writer"),
        ([{"server": "other", "reply": "x"}], "answers.json has no reply to"),
        ([{"deny": "not this one"}], "denied by answers.json: not this one"),
    ):
        error = await answers("writer:summarise", {"sampling": replies}, ProtocolError)
        assert re.match(f"writer:summarise: sampling request .*{why}", error)
        assert host.consent.audit.records[-1].decision == "deny"
    error = await answers("writer:summarise", [], ProtocolError)
    assert "you cannot be asked" in error, "without that section it is as it was"
    await magic("deny writer:sampling")
    error = await answers("writer:summarise", {"sampling": [SUMMARY]}, ProtocolError)
    assert "denied by rule `deny writer:sampling`" in error, "a rule stands above the file"


@pytest.mark.usefixtures("handshake")
async def test_missing_reply_is_told_despite_tolerant_tool(answers):
    await host.connect(sampling_server(), name="writer")
    error = await answers("writer:refused", {"sampling": []}, ArgumentsError)
    assert error == "answers.json has no reply to 'Hello' of writer"


async def test_file_that_is_wrong_sends_nothing(answers):
    connection = await host.connect(sampling_server(), name="writer")
    for written, problem in (
        ({"sampling": [7]}, "answers.json: a reply is a text or an object, not 7"),
        ({"sampling": [{"replay": "x"}]}, "answers.json: a reply has no 'replay'. Did you mean 'reply'"),
        ({"sampling": [{"server": "x"}]}, 'answers.json: a reply has either "reply", the text, or "deny", the reason'),
        ({"sampling": [{"reply": 7}]}, "answers.json: 'reply' of a reply must be a text, not 7"),
        ({"sampling": [], "elicitation": [], "x": 1}, """answers.json: 'x' is beside "sampling" and"""),
    ):
        assert (await answers("writer:summarise", written, ArgumentsError)).startswith(problem)
    assert connection.calls == 0
