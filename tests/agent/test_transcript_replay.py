"""Messages made elsewhere, or kept by a checkpointer, told again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.transcript import Asked, Said, Transcript
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.notebook import NotebookHost
from tests.support.showcase import showcase
from tests.support.telling import answer, called, decided, definition, result, texts, told, turn, usage


async def thread() -> list[BaseMessage]:
    approval = {"decision": "edit", "by": "person", "reason": ""}
    first = AIMessage("I add.", id="m1", tool_calls=[{"id": "1", "name": "showcase__add", "args": {"a": 3, "b": 4}}])
    return [
        SystemMessage("Be brief."),
        HumanMessage("Add 3 and 4"),
        first,
        answer("1", await called("add", a=3, b=5), approval=approval, arguments={"a": 3, "b": 5}),
        turn("It is **8**.", id="m2", tokens=usage(100, 5)),
    ]


async def test_a_thread_reads_like_the_run_that_made_it() -> None:
    messages = await thread()
    replayed = Transcript.from_messages(messages)
    live = told(
        {"kind": "asked", "text": "Be brief.", "role": "system"},
        {"kind": "asked", "text": "Add 3 and 4"},
        {"kind": "said", "message": messages[2]},
        {"kind": "call", "id": "1", "server": "showcase", "tool": "add", "arguments": {"a": 3, "b": 4}, "turn": 1},
        decided("1", arguments={"a": 3, "b": 5}),
        {"kind": "started", "id": "1"},
        result("1", messages[3]),  # type: ignore[arg-type]
        {"kind": "said", "message": messages[4]},
    )
    assert replayed._repr_mimebundle_() == live._repr_mimebundle_()


async def test_a_run_of_the_graph_and_its_messages_read_the_same() -> None:
    host = NotebookHost()
    try:
        await host.connect(showcase(), name="showcase")
        host.consent.approver = decide
        script = [
            [("showcase:add", {"a": 3, "b": 4}), ("showcase:cities", {})],
            [("showcase:csv", {}), ("showcase:fails", {}), ("showcase:nope", {}), ("showcase:add", {"a": "x"})],
            [("showcase:mixed", {})],
            "The sum is **8**.",
        ]
        graph = build_graph(ScriptedModel(script), host, checkpointer=InMemorySaver())
        run = await run_agent(graph, host, "add", thread="t")
        tools = {f"showcase:{tool.name}": tool for tool in host["showcase"].catalog.cached("tools")}
    finally:
        await host.close()
    assert [one.status for one in run.transcript.calls] == ["ok", "ok", "denied", "error", "error", "error", "ok"]
    replayed = Transcript.from_messages(run.messages, definitions=tools)
    assert replayed._repr_mimebundle_() == run.transcript._repr_mimebundle_()


async def decide(request: Request) -> Decision:
    if request.tool == "csv":
        return Decision.deny("no files")
    return Decision.approve({"a": 3, "b": 5} if request.tool == "add" else None)


async def test_a_thread_is_the_same_after_the_checkpointer() -> None:
    messages = [*await thread(), *(answer("2", await called("mixed")), answer("3", await called("pixel")))]
    serializer = JsonPlusSerializer()
    kept = serializer.loads_typed(serializer.dumps_typed(messages))
    assert Transcript.from_messages(kept)._repr_mimebundle_() == Transcript.from_messages(messages)._repr_mimebundle_()


def test_arguments_that_are_no_json_are_shown_as_they_came() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{oops"}}]
    replayed = Transcript.from_messages([AIMessage("", additional_kwargs={"tool_calls": calls})])
    assert replayed.calls[0].arguments == {"arguments": "{oops"}


def test_dicts_in_openais_format_are_understood() -> None:
    function = {"name": "math__add", "arguments": json.dumps({"a": 3})}
    replayed = Transcript.from_messages(
        [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "1", "content": "7"},
            ("ai", "Seven."),
        ]
    )
    assert str(replayed).startswith("> add\n\n✓ ok math:add(a=3)\n    7\n\nSeven.")


@pytest.mark.parametrize(
    ("message", "status", "error"),
    [
        (ToolMessage("7", tool_call_id="1"), "ok", ""),
        (ToolMessage("no such city", tool_call_id="1", status="error"), "error", "no such city"),
        (ToolMessage("Error: no such city", tool_call_id="1"), "error", "Error: no such city"),
        (ToolMessage("An Error: in a sentence", tool_call_id="1"), "ok", ""),
    ],
)
def test_errors_are_known_by_status_or_by_their_first_word(message: ToolMessage, status: str, error: str) -> None:
    replayed = Transcript.from_messages([turn("", "1=add"), message])
    assert (replayed.calls[0].status, replayed.calls[0].error) == (status, error)


def test_tool_message_without_artifact_keeps_text_and_pictures() -> None:
    content: Any = [
        "a",
        {"type": "text", "text": "b"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aGk="}},
        {"type": "strange"},
    ]
    replayed = Transcript.from_messages([turn("", "1=add"), ToolMessage(content, tool_call_id="1")])
    found = replayed.calls[0].result
    assert found is not None
    assert found.text == ["a", "b", "[strange, not shown]"]
    assert [image.mime_type for image in found.images] == ["image/png", "image/jpeg", "image/gif"]


def test_a_call_without_an_answer_is_cut_off() -> None:
    replayed = Transcript.from_messages([turn("", "1=add", "2=add"), answer("1", texts("7", tool="add"))])
    assert [one.status for one in replayed.calls] == ["ok", "cut off"]
    assert "– cut off showcase:add()" in str(replayed)  # noqa: RUF001


def test_an_answer_without_a_call_is_shown_all_the_same() -> None:
    replayed = Transcript.from_messages([ToolMessage("7", tool_call_id="9", name="math__add")])
    assert str(replayed).startswith("✓ ok math:add()\n    7")


def test_a_denial_is_read_from_the_artifact() -> None:
    approval = {"decision": "deny", "by": "person", "reason": "too dear"}
    message = answer("1", texts("not called", is_error=True), approval=approval)
    replayed = Transcript.from_messages([turn("", "1=add"), message])
    assert "⊘ denied" in str(replayed)
    assert "⊘ denied showcase:add() (by you: too dear)" in str(replayed)


def test_turns_without_ids_do_not_run_together() -> None:
    replayed = Transcript.from_messages([AIMessage("a"), HumanMessage("x"), AIMessage("b")])
    assert [entry.text for entry in replayed.entries if isinstance(entry, (Asked, Said))] == ["a", "x", "b"]


def test_pictures_are_counted_and_instructions_folded() -> None:
    asked = HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "x"}}])
    assert str(Transcript.from_messages([SystemMessage("Be brief."), asked])) == (
        "(instructions, 9 characters)\n\n> What is it?\n> [1 image]"
    )


def test_definitions_hide_what_only_the_schema_calls_secret() -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
    message = AIMessage("", tool_calls=[{"id": "1", "name": "showcase__add", "args": {"pin": "1234"}}])
    known = {"showcase:add": definition("add", schema, read_only_hint=True)}
    shown = str(Transcript.from_messages([message], definitions=known))
    assert "pin=***" in shown
