"""What the events of a run become, and messages that were made elsewhere or kept by a checkpointer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mcp_magic.agent.entries import CallEntry, NoteEntry, RequestEntry, TurnEntry
from mcp_magic.agent.events import (
    CallEvent,
    DecisionEvent,
    NoteEvent,
    ProgressEvent,
    RequestEvent,
    StartEvent,
    TextEvent,
    TurnEvent,
)
from mcp_magic.agent.transcript import Transcript
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.notebook import NotebookHost
from tests.support.agents import Agent, ask
from tests.support.showcase import showcase
from tests.support.telling import answer, call, called, decided, definition, result, texts, told, turn, usage

STARTED = StartEvent("1")


def said(message: AIMessage) -> dict[str, Any]:
    return TurnEvent(message)


def piece(text: str, id: str = "m") -> dict[str, Any]:
    return TextEvent(id, text)


def words(transcript: Transcript) -> list[str]:
    return [entry.text for entry in transcript.entries if isinstance(entry, (RequestEntry, TurnEntry))]


def only_call(transcript: Transcript) -> CallEntry:
    (one,) = transcript.calls
    return one


# Events


def test_entries_are_requests_notes_text_and_calls_in_order():
    first, last = turn("I add.", "1=add", id="m1"), turn("7", id="m2")
    note = NoteEvent("offline", level="info")
    transcript = told(RequestEvent("add"), note, said(first), call("1"), said(last))
    assert [type(entry) for entry in transcript.entries] == [RequestEntry, NoteEntry, TurnEntry, CallEntry, TurnEntry]
    assert transcript.answer == "7"


def test_text_grows_and_is_replaced_by_the_whole_turn():
    transcript = told(piece("Hel"), piece("lo"))
    (growing,) = transcript.entries
    assert isinstance(growing, TurnEntry)
    assert (growing.text, growing.complete) == ("Hello", False)
    transcript.on_event(said(turn("Hello.", id="m", tokens=usage(3, 2))))
    assert (growing.text, growing.complete, growing.usage["total_tokens"]) == ("Hello.", True, 5)
    assert len(transcript.entries) == 1
    assert words(told(piece("Hi", "run-1"), said(turn("Hi", id="msg_2")))) == ["Hi"], "whatever its id"
    assert words(told(said(AIMessage("a")), said(AIMessage("b")))) == ["a", "b"], "turns without an id are two"


async def test_a_call_goes_from_waiting_over_running_to_its_result():
    transcript = told(call("1", arguments={"a": 3, "b": 4}))
    one = only_call(transcript)
    statuses = [one.status]
    progress = ProgressEvent(id="1", progress=3, total=10, message="reading")
    for event in (decided("1"), STARTED, progress, result("1", await called("add", a=3, b=4))):
        transcript.on_event(event)
        statuses.append(one.status)
        assert ("3 of 10 (30 %) reading" in str(transcript)) is (event is progress)
    assert statuses == ["waiting", "waiting", "running", "running", "ok"]
    assert (one.name, one.seconds, one.by) == ("showcase:add", 0.12, "person")
    assert one.result is not None
    assert one.result.data == 7
    assert transcript.results == [one.result]


async def test_the_end_of_a_call_is_known_by_its_answer():
    refused = ToolMessage("showcase:add was not called", tool_call_id="1", status="error")
    interrupted = ToolMessage("no answer", tool_call_id="1", status="error", artifact={"interrupted": True})
    for events, status, error in (
        ([call("1", "fails"), result("1", await called("fails"))], "error", "no such city: <Atlantis>"),
        ([call("1"), decided("1", False, reason="too dear"), result("1", refused)], "denied", "too dear"),
        ([call("1"), result("1", interrupted)], "interrupted", None),
    ):
        one = only_call(told(*events))
        assert (one.status, one.error if error else None) == (status, error)
        assert (one.decision is not None and not one.decision.approved) == (status == "denied")


def test_arguments_are_kept_as_asked_and_as_sent():
    one = only_call(told(call("1", arguments={"a": 1}), decided("1", arguments={"a": 2})))
    assert (one.arguments, one.final_arguments) == ({"a": 1}, {"a": 2})
    note = "[the user changed the arguments to {'token': 'secret'}]"
    message = answer("1", texts("7"))
    message = message.model_copy(update={"content": f"{note}\n{message.content}"})
    one = only_call(told(call("1"), result("1", message)))
    assert one.result is not None
    assert one.result.text == "7", "the note about it is not in the result"


def test_an_end_marks_only_unfinished_calls():
    events = [call("1"), call("2"), call("3"), result("1", texts("7")), StartEvent("2")]
    transcript = told(*events, piece("I was about"))
    transcript.interrupted()
    assert [one.status for one in transcript.calls] == ["ok", "interrupted", "interrupted"]
    assert transcript.entries[-1].interrupted  # type: ignore[attr-defined]
    transcript.on_event(ProgressEvent(id="2", progress=1))
    assert transcript.calls[1].progress is None
    transcript = told(*events)
    transcript.finish()
    assert [one.status for one in transcript.calls] == ["ok", "cut off", "cut off"]


def test_results_find_their_calls():
    assert len(told(call("1"), call("1"), result("1", texts("7"))).calls) == 1, "repeated by a resumed graph"
    again = told(call("c0"), result("c0", texts("7")), call("c0", "cities"), result("c0", texts("Oslo")))
    assert [(one.tool, one.result.text) for one in again.calls if one.result] == [("add", "7"), ("cities", "Oslo")]
    parallel = told(*(call(str(n)) for n in range(5)), *(result(str(n), texts(f"r{n}")) for n in (3, 0, 4, 1, 2)))
    assert [one.result.text for one in parallel.calls if one.result] == ["r0", "r1", "r2", "r3", "r4"]


def test_turns_are_counted_and_usage_summed():
    a, b = said(turn("", "1=add", id="1", tokens=usage(10, 2))), said(turn("x", id="2", tokens=usage(20, 3)))
    transcript = told(RequestEvent("a"), a, b, RequestEvent("b"), said(turn("y", id="3")))
    assert [entry.turn for entry in transcript.entries if isinstance(entry, TurnEntry)] == [1, 2, 1]
    assert transcript.usage == usage(30, 5)
    assert told(said(turn("a", id="1"))).usage == {}
    for event in ({}, {"kind": "other"}, StartEvent("?"), ProgressEvent("?", 1), DecisionEvent("?", approved=True)):
        assert told(event).entries == (), "foreign, or of an unknown call"


# Messages


async def thread() -> list[BaseMessage]:
    approval = {"decision": "edit", "by": "person", "reason": ""}
    first: Any = {"id": "1", "name": "showcase__add", "args": {"a": 3, "b": 4}}
    return [
        SystemMessage("Be brief."),
        HumanMessage("Add 3 and 4"),
        AIMessage("I add.", id="m1", tool_calls=[first]),
        answer("1", await called("add", a=3, b=5), approval=approval, arguments={"a": 3, "b": 5}),
        turn("It is **8**.", id="m2", tokens=usage(100, 5)),
    ]


async def test_a_thread_reads_like_the_run_that_made_it():
    messages: Any = [*await thread(), answer("2", await called("mixed")), answer("3", await called("pixel"))]
    live = told(
        RequestEvent("Be brief.", role="system"),
        RequestEvent("Add 3 and 4"),
        said(messages[2]),
        CallEvent(id="1", server="showcase", tool="add", arguments={"a": 3, "b": 4}, turn=1),
        decided("1", arguments={"a": 3, "b": 5}),
        STARTED,
        result("1", messages[3]),
        said(messages[4]),
    )
    assert Transcript.from_messages(messages[:5])._repr_mimebundle_() == live._repr_mimebundle_()
    serializer = JsonPlusSerializer()
    kept = serializer.loads_typed(serializer.dumps_typed(messages))
    assert Transcript.from_messages(kept)._repr_mimebundle_() == Transcript.from_messages(messages)._repr_mimebundle_()


async def test_a_run_of_the_graph_and_its_messages_read_the_same():
    def decide(request: Request) -> Decision:
        if request.tool == "csv":
            return Decision.deny("no files")
        return Decision.approve({"a": 3, "b": 5} if request.tool == "add" else None)

    script = [
        [("showcase:add", {"a": 3, "b": 4}), ("showcase:cities", {})],
        [("showcase:csv", {}), ("showcase:fails", {}), ("showcase:nope", {}), ("showcase:add", {"a": "x"})],
        [("showcase:mixed", {})],
        "The sum is **8**.",
    ]
    async with NotebookHost() as host:
        await host.connect(showcase(), name="showcase")
        ask(host, decide)
        agent = Agent(host, *script)
        run = await agent.run("add", model="")
        tools = {f"showcase:{tool.name}": tool for tool in host["showcase"].catalog.cached("tools")}
    assert [one.status for one in run.transcript.calls] == ["ok", "ok", "denied", "error", "error", "error", "ok"]
    replayed = Transcript.from_messages(run.messages, definitions=tools)
    assert replayed._repr_mimebundle_() == run.transcript._repr_mimebundle_()


def openai_calls(name: str, arguments: str) -> list[dict[str, Any]]:
    return [{"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}]


def test_messages_in_openais_format_are_understood():
    wanted = openai_calls("math__add", json.dumps({"a": 3}))
    replayed = Transcript.from_messages(
        [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": "", "tool_calls": wanted},
            {"role": "tool", "tool_call_id": "1", "content": "7"},
            ("ai", "Seven."),
        ]
    )
    assert str(replayed).startswith("> add\n\n✓ ok math:add(a=3)\n    7\n\nSeven.")
    broken = AIMessage("", additional_kwargs={"tool_calls": openai_calls("add", "{oops")})
    assert Transcript.from_messages([broken]).calls[0].arguments == {"arguments": "{oops"}


@pytest.mark.parametrize(
    ("text", "state", "status", "error"),
    [
        ("7", "success", "ok", ""),
        ("no such city", "error", "error", "no such city"),
        ("Error: no such city", "success", "error", "Error: no such city"),
        ("An Error: in a sentence", "success", "ok", ""),
    ],
)
def test_errors_show_by_status_or_first_word(text, state, status, error):
    replayed = Transcript.from_messages([turn("", "1=add"), ToolMessage(text, tool_call_id="1", status=state)])
    assert (replayed.calls[0].status, replayed.calls[0].error) == (status, error)


def test_an_answer_without_artifact_keeps_text_and_pictures():
    content: Any = [
        "a",
        {"type": "text", "text": "b"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aGk="}},
        {"type": "strange"},
    ]
    value = Transcript.from_messages([turn("", "1=add"), ToolMessage(content, tool_call_id="1")]).calls[0].result
    assert value is not None
    assert value.text == ["a", "b", "[strange, not shown]"]
    assert [image.mime_type for image in value.images] == ["image/png", "image/jpeg", "image/gif"]


def test_calls_and_answers_without_the_other_are_shown():
    replayed = Transcript.from_messages([turn("", "1=add", "2=add"), answer("1", texts("7", tool="add"))])
    assert [one.status for one in replayed.calls] == ["ok", "cut off"]
    assert "– cut off showcase:add()" in str(replayed)  # noqa: RUF001
    alone = Transcript.from_messages([ToolMessage("7", tool_call_id="9", name="math__add")])
    assert str(alone).startswith("✓ ok math:add()\n    7")
    approval = {"decision": "deny", "by": "person", "reason": "too dear"}
    denied = answer("1", texts("not called", is_error=True), approval=approval)
    shown = str(Transcript.from_messages([turn("", "1=add"), denied]))
    assert "⊘ denied showcase:add() (by you: too dear)" in shown


def test_turns_pictures_and_instructions_of_messages():
    assert words(Transcript.from_messages([AIMessage("a"), HumanMessage("x"), AIMessage("b")])) == ["a", "x", "b"]
    asked = HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "x"}}])
    assert str(Transcript.from_messages([SystemMessage("Be brief."), asked])) == (
        "(instructions, 9 characters)\n\n> What is it?\n> [1 image]"
    )


def test_definitions_hide_what_only_the_schema_calls_secret():
    schema = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
    message = AIMessage("", tool_calls=[{"id": "1", "name": "showcase__add", "args": {"pin": "1234"}}])
    tools = {"showcase:add": definition("add", schema, read_only_hint=True)}
    assert "pin=***" in str(Transcript.from_messages([message], definitions=tools))
