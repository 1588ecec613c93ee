"""What the events of a run become."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from mcp_magic.agent.transcript import Asked, Called, Note, Said, Transcript
from tests.support.telling import answer, call, called, decided, definition, result, texts, told, turn, usage


def only_call(transcript: Transcript) -> Called:
    (found,) = transcript.calls
    return found


def test_entries_are_requests_notes_text_and_calls_in_order() -> None:
    transcript = told(
        {"kind": "asked", "text": "add"},
        {"kind": "note", "text": "offline", "level": "info"},
        {"kind": "said", "message": turn("I add.", "1=add", id="m1")},
        call("1"),
        {"kind": "said", "message": turn("7", id="m2")},
    )
    assert [type(entry) for entry in transcript.entries] == [Asked, Note, Said, Called, Said]
    assert transcript.answer == "7"


def test_text_grows_and_is_replaced_by_the_whole_turn() -> None:
    transcript = told({"kind": "text", "id": "m", "text": "Hel"}, {"kind": "text", "id": "m", "text": "lo"})
    (said,) = transcript.entries
    assert isinstance(said, Said)
    assert (said.text, said.complete) == ("Hello", False)
    transcript.on_event({"kind": "said", "message": turn("Hello.", id="m", tokens=usage(3, 2))})
    assert (said.text, said.complete, said.usage["total_tokens"]) == ("Hello.", True, 5)
    assert len(transcript.entries) == 1


def test_whole_turn_with_another_id_is_shown_once() -> None:
    transcript = told(
        {"kind": "text", "id": "run-1", "text": "Hi"}, {"kind": "said", "message": turn("Hi", id="msg_2")}
    )
    assert [entry.text for entry in transcript.entries if isinstance(entry, Said)] == ["Hi"]


def test_turns_without_an_id_are_turns_of_their_own() -> None:
    transcript = told({"kind": "said", "message": AIMessage("a")}, {"kind": "said", "message": AIMessage("b")})
    assert [entry.text for entry in transcript.entries if isinstance(entry, Said)] == ["a", "b"]


async def test_a_call_goes_from_waiting_over_running_to_its_result() -> None:
    transcript = told(call("1", arguments={"a": 3, "b": 4}))
    one = only_call(transcript)
    seen = [one.status]
    for event in (decided("1"), {"kind": "started", "id": "1"}, result("1", await called("add", a=3, b=4))):
        transcript.on_event(event)
        seen.append(one.status)
    assert seen == ["waiting", "waiting", "running", "ok"]
    assert (one.name, one.seconds, one.by) == ("showcase:add", 0.12, "person")
    assert one.result is not None
    assert one.result.data == 7
    assert transcript.results == [one.result]


async def test_an_error_of_the_tool_is_the_error_of_the_call() -> None:
    one = only_call(told(call("1", "fails"), result("1", await called("fails"))))
    assert (one.status, one.error) == ("error", "no such city: <Atlantis>")


def test_a_denied_call_stays_denied_when_its_message_comes() -> None:
    refused = ToolMessage("showcase:add was not called", tool_call_id="1", status="error")
    one = only_call(told(call("1"), decided("1", False, reason="too dear"), result("1", refused)))
    assert (one.status, one.error, one.approved) == ("denied", "too dear", False)


def test_transcript_separates_asked_and_sent_arguments() -> None:
    one = only_call(told(call("1", arguments={"a": 1}), decided("1", arguments={"a": 2})))
    assert (one.arguments, one.sent) == ({"a": 1}, {"a": 2})


def test_progress_is_kept_until_the_result() -> None:
    event = {"kind": "progress", "id": "1", "progress": 3, "total": 10, "message": "reading"}
    transcript = told(call("1"), {"kind": "started", "id": "1"}, event)
    assert "3 of 10 (30 %) reading" in str(transcript)
    transcript.on_event(result("1", texts("done")))
    assert "reading" not in str(transcript)


def test_interruption_marks_only_unfinished_calls() -> None:
    transcript = told(
        call("1"),
        call("2"),
        call("3"),
        result("1", texts("7")),
        {"kind": "started", "id": "2"},
        {"kind": "text", "id": "m", "text": "I was about"},
    )
    transcript.interrupted()
    assert [one.status for one in transcript.calls] == ["ok", "interrupted", "interrupted"]
    assert transcript.entries[-1].interrupted  # type: ignore[attr-defined]
    transcript.on_event({"kind": "progress", "id": "2", "progress": 1})
    assert transcript.calls[1].progress is None


def test_finish_marks_calls_of_which_nothing_was_heard_again() -> None:
    transcript = told(call("1"))
    transcript.finish()
    assert only_call(transcript).status == "cut off"


def test_a_message_that_says_that_it_was_interrupted_is_no_error() -> None:
    message = ToolMessage("no answer", tool_call_id="1", status="error", artifact={"interrupted": True})
    assert only_call(told(call("1"), result("1", message))).status == "interrupted"


def test_call_repeated_by_a_resumed_graph_is_shown_once() -> None:
    assert len(told(call("1"), call("1"), result("1", texts("7"))).calls) == 1


def test_an_id_that_comes_back_after_its_result_is_another_call() -> None:
    transcript = told(call("c0"), result("c0", texts("7")), call("c0", "cities"), result("c0", texts("Oslo")))
    assert [(one.tool, one.result.text) for one in transcript.calls if one.result] == [("add", "7"), ("cities", "Oslo")]


def test_parallel_results_find_their_calls_whatever_their_order() -> None:
    transcript = told(*(call(str(n)) for n in range(5)), *(result(str(n), texts(f"r{n}")) for n in (3, 0, 4, 1, 2)))
    assert [one.result.text for one in transcript.calls if one.result] == ["r0", "r1", "r2", "r3", "r4"]


def test_steps_count_the_turns_of_each_request() -> None:
    transcript = told(
        {"kind": "asked", "text": "a"},
        {"kind": "said", "message": turn("", "1=add", id="1")},
        {"kind": "said", "message": turn("x", id="2")},
        {"kind": "asked", "text": "b"},
        {"kind": "said", "message": turn("y", id="3")},
    )
    assert [entry.turn for entry in transcript.entries if isinstance(entry, Said)] == [1, 2, 1]


def test_usage_sums_the_turns_or_is_empty() -> None:
    transcript = told({"kind": "said", "message": turn("a", id="1", tokens=usage(10, 2))})
    transcript.on_event({"kind": "said", "message": turn("b", id="2", tokens=usage(20, 3))})
    assert transcript.usage == usage(30, 5)
    assert told({"kind": "said", "message": turn("a", id="1")}).usage == {}


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"kind": "other"},
        {"kind": "started", "id": "?"},
        {"kind": "progress", "id": "?"},
        {"kind": "decided", "id": "?"},
    ],
)
def test_foreign_events_and_unknown_calls_are_ignored(event: dict[str, object]) -> None:
    assert told(event).entries == ()


def test_note_about_edited_arguments_is_not_in_the_result() -> None:
    note = "[the user changed the arguments to {'token': 'secret'}]"
    message = answer("1", texts("7"))
    message = message.model_copy(update={"content": f"{note}\n{message.content}"})
    one = only_call(told(call("1"), result("1", message)))
    assert one.result is not None
    assert one.result.text == "7"


def test_badges_come_from_the_definition() -> None:
    tool = definition("add", read_only_hint=True, title="Add numbers")
    assert "[○ read-only]" in str(told(call("1", definition=tool)))
