"""`%mcp call --answers FILE` replies to what servers ask models for, where you cannot be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import CreateMessageRequestParams, ToolChoice

from mcp_magic.errors import ArgumentsError, ProtocolError
from mcp_magic.notebook import host
from tests.support.eliciting_server import trip_server
from tests.support.hosts import logged
from tests.support.sampling_servers import ADD, asking_server, said, sampling_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_magic.ask.sampling import Sampled, SamplingRequest

SUMMARY = "Cats sleep, purr and eat."


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    """The kernel's host announces a model that must not be asked, and no person."""

    async def never(asked: SamplingRequest) -> Sampled:
        raise AssertionError("no model is to be asked")

    async def declines(asked: Any) -> Any:
        raise AssertionError("nobody is to be asked")

    before = host.sampling.sampler, host.sampling.reviewer, host.elicitor
    host.sampling.sampler, host.sampling.reviewer, host.elicitor = never, None, declines
    yield
    host.sampling.sampler, host.sampling.reviewer, host.elicitor = before


async def called(magic: Any, folder: Path, answers: Any, tool: str = "writer:summarise") -> Any:
    (folder / "answers.json").write_text(json.dumps(answers))
    return await magic(f"call {tool} --answers answers.json")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (SUMMARY, f"answers.json endTurn: {SUMMARY}"),
        ({"server": "writ*", "message": "Summarise*", "reply": SUMMARY}, f"answers.json endTurn: {SUMMARY}"),
        ({"reply": SUMMARY, "model": "gpt-x"}, f"gpt-x endTurn: {SUMMARY}"),
        ({"reply": "x" * 500}, f"answers.json maxTokens: {'x' * 400}"),
    ],
)
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_a_text_is_the_reply(
    magic: Any, tmp_path: Path, era: str, reply: Any, text: str, request: pytest.FixtureRequest
) -> None:
    if era < "2026":
        request.getfixturevalue("handshake")
    connection = await host.connect(sampling_server(), name="writer")

    assert (await called(magic, tmp_path, {"sampling": [reply]})).text == text
    assert connection.protocol_version == era
    [record] = host.consent.audit.records
    assert (record.decision, record.by) == ("approve", "answers.json")


async def test_texts_serve_once_in_order_and_patterns_again_and_again(magic: Any, tmp_path: Path) -> None:
    asked = [
        CreateMessageRequestParams(messages=[said(text)], max_tokens=50) for text in ("one", "sky?", "two", "sky!")
    ]
    await host.connect(asking_server(*asked), name="asking")
    replies = ["first", {"message": "sky*", "reply": "blue"}, "second"]

    found = await called(magic, tmp_path, {"sampling": replies}, "asking:ask")

    assert [text.rpartition(" ")[2] for text in found.text] == ["first", "blue", "second", "blue"]


async def test_the_limits_of_the_request_hold(magic: Any, tmp_path: Path) -> None:
    asked = [
        CreateMessageRequestParams(messages=[said("Count")], max_tokens=50, stop_sequences=[" three"]),
        CreateMessageRequestParams(
            messages=[said("Add")], max_tokens=50, tools=[ADD], tool_choice=ToolChoice(mode="required")
        ),
    ]
    connection = await host.connect(asking_server(*asked), name="asking")
    replies = [{"message": "Count", "reply": "one two three four"}, {"message": "Add", "reply": "7"}]

    found = await called(magic, tmp_path, {"sampling": replies}, "asking:ask")

    assert found.text == ["answers.json stopSequence: one two", "answers.json endTurn: 7"]
    assert "no tool is called, which the server required" in logged(connection)


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([], "denied by answers.json: answers.json has no reply to 'Summarise this: .*' of writer"),
        ([{"server": "other", "reply": "x"}], "answers.json has no reply to"),
        ([{"deny": "not this one"}], "denied by answers.json: not this one"),
    ],
)
async def test_what_has_no_reply_or_is_denied_is_refused(magic: Any, tmp_path: Path, replies: Any, why: str) -> None:
    await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match=f"writer:summarise: sampling request .*{why}"):
        await called(magic, tmp_path, {"sampling": replies})
    assert host.consent.audit.records[-1].decision == "deny"


@pytest.mark.usefixtures("handshake")
async def test_missing_reply_is_told_despite_tolerant_tool(magic: Any, tmp_path: Path) -> None:
    await host.connect(sampling_server(), name="writer")

    with pytest.raises(ArgumentsError, match=r"^answers\.json has no reply to 'Hello' of writer$"):
        await called(magic, tmp_path, {"sampling": []}, "writer:refused")


async def test_a_rule_that_denies_stands_above_the_file(magic: Any, tmp_path: Path) -> None:
    await host.connect(sampling_server(), name="writer")
    await magic("deny writer:sampling")

    with pytest.raises(ProtocolError, match="denied by rule `deny writer:sampling`"):
        await called(magic, tmp_path, {"sampling": [SUMMARY]})


async def test_without_the_section_it_is_as_it_was(magic: Any, tmp_path: Path) -> None:
    await host.connect(sampling_server(), name="writer")

    with pytest.raises(ProtocolError, match="you cannot be asked"):
        await called(magic, tmp_path, [])


@pytest.mark.parametrize(
    "answers",
    [
        {"sampling": [], "Where to?": {"city": "Oslo"}},
        {"sampling": [], "elicitation": {"Where to?": {"city": "Oslo"}}},
        {"sampling": [], "elicitation": [{"city": "Oslo"}]},
    ],
)
async def test_answers_to_elicitations_stand_beside(magic: Any, tmp_path: Path, answers: Any) -> None:
    await host.connect(trip_server(), name="trip")

    assert (await called(magic, tmp_path, answers, "trip:plan")).text == "accept Oslo 3"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"sampling": [7]}, "answers.json: a reply is a text or an object, not 7"),
        ({"sampling": [{"replay": "x"}]}, "answers.json: a reply has no 'replay'. Did you mean 'reply'"),
        ({"sampling": [{"server": "x"}]}, 'answers.json: a reply has either "reply", the text, or "deny", the reason'),
        ({"sampling": [{"reply": 7}]}, "answers.json: 'reply' of a reply must be a text, not 7"),
        ({"sampling": [], "elicitation": [], "x": 1}, """answers.json: 'x' is beside "sampling" and"""),
    ],
)
async def test_a_file_that_is_wrong_sends_nothing(magic: Any, tmp_path: Path, answers: Any, problem: str) -> None:
    connection = await host.connect(sampling_server(), name="writer")
    before = connection.calls

    with pytest.raises(ArgumentsError) as raised:
        await called(magic, tmp_path, answers)
    assert str(raised.value).startswith(problem)
    assert connection.calls == before
