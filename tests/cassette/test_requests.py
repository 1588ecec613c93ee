"""The requests of a cassette that can be sent again: their final answers, and why others cannot."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_magic.cassette.requests import Recording
from tests.support.cassettes import written

CALL = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
THREE: dict[str, Any] = {"content": [{"type": "text", "text": "3"}]}
FORM = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object"}}}
YES = {"action": "accept", "content": {"sure": True}}


def sent(number: int, **members: Any) -> dict[str, Any]:
    return {"session": 1, "to": "server", "id": number, **members}


def came(number: int, **members: Any) -> dict[str, Any]:
    return {"session": 1, "to": "client", "id": number, **members}


def recording(tape, *messages: dict[str, Any]) -> Recording:
    head = {"session": 1, "server": "sums", "transport": "stdio", "where": "x"}
    return Recording(written(tape, {"cassette": 1}, head, *messages))


def with_round(responses: Any) -> dict[str, Any]:
    params = {**CALL["params"], "inputResponses": responses, "requestState": "s"}
    return {"method": "tools/call", "params": params}


@pytest.mark.parametrize(
    ("messages", "answers", "questions"),
    [
        pytest.param([sent(1, **CALL), came(1, result=THREE)], [{"result": THREE}], [], id="answer"),
        pytest.param(
            [sent(1, **CALL), came(1, error={"code": -32602, "message": "no"})],
            [{"error": {"code": -32602, "message": "no"}}],
            [],
            id="error",
        ),
        pytest.param(
            [
                sent(1, **CALL),
                came(1, result={"resultType": "input_required", "requestState": "s", "inputRequests": {"q": FORM}}),
                sent(2, **with_round({"q": YES})),
                came(2, result=THREE),
            ],
            [{"result": THREE}],
            [("elicitation/create", "Sure?", YES)],
            id="round",
        ),
        pytest.param(
            [
                sent(1, **CALL),
                came(7, **FORM),
                {"session": 1, "to": "server", "id": 7, "result": YES},
                came(1, result=THREE),
            ],
            [{"result": THREE}],
            [("elicitation/create", "Sure?", YES)],
            id="question",
        ),
        pytest.param(
            [
                sent(1, **CALL),
                came(1, result={"resultType": "task", "taskId": "t", "status": "working"}),
                sent(2, method="tasks/get", params={"taskId": "t"}),
                came(2, result={"taskId": "t", "status": "working"}),
                sent(3, method="tasks/get", params={"taskId": "t"}),
                came(3, result={"taskId": "t", "status": "completed", "result": THREE}),
            ],
            [{"result": THREE}],
            [],
            id="task",
        ),
        pytest.param(
            [sent(1, **CALL), came(1, result=THREE), {"again": "sums", **CALL, "result": {"content": []}}],
            [{"result": THREE}, {"result": {"content": []}}],
            [],
            id="again",
        ),
    ],
)
def test_final_answers_and_questions_are_read(tmp_path, messages, answers, questions):
    [request] = recording(tmp_path / "a.jsonl", *messages).requests("sums")
    assert (request.problem, request.text, request.answers) == ("", "add(a=1)", answers)
    assert [(asked.method, asked.message, asked.result) for asked in request.questions] == questions


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        pytest.param([sent(1, **CALL)], "its recording has no answer", id="no answer"),
        pytest.param(
            [sent(1, **CALL), came(1, error={"code": 1, "message": "x"}, http={"status": 429})],
            "its recording is a failure of the transport: HTTP 429",
            id="status",
        ),
        pytest.param(
            [sent(1, **CALL), came(1, error={"code": 1, "message": "x"}, http={"lost": "reset"})],
            "its recording is a failure of the transport: the connection",
            id="connection",
        ),
        pytest.param(
            [sent(1, **CALL), came(1, result={"resultType": "task", "taskId": "t", "status": "working"})],
            "the end of its task was not recorded",
            id="task",
        ),
        pytest.param(
            [sent(1, **CALL), came(1, result={"resultType": "input_required", "inputRequests": {"q": FORM}})],
            "its recording ends with a question",
            id="question",
        ),
        pytest.param(
            [
                sent(1, **CALL),
                came(1, result={"resultType": "input_required", "requestState": "s", "inputRequests": {"q": FORM}}),
                sent(2, **with_round({"q": {"action": "accept", "content": {"pin": "***"}}})),
                came(2, result=THREE),
            ],
            "the cassette has *** in place of a secret that the user entered",
            id="secret answer",
        ),
    ],
)
def test_requests_that_cannot_be_sent_say_why(tmp_path, messages, problem):
    other = [sent(90, method="ping", params={}), came(90, result={})]
    [request] = recording(tmp_path / "a.jsonl", *messages, *other).requests("sums")
    assert request.problem == problem


def test_pages_of_the_latest_listing_are_joined(tmp_path):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("old", "add", "sub")]
    listed = recording(
        tmp_path / "a.jsonl",
        sent(1, method="tools/list", params={}),
        came(1, result={"tools": tools[:1]}),
        sent(2, method="tools/list", params={}),
        came(2, result={"tools": tools[1:2], "nextCursor": "2"}),
        sent(3, method="tools/list", params={"cursor": "2"}),
        came(3, result={"tools": [*tools[2:], "odd", {"name": 3}]}),
    )
    assert list(listed.definitions("sums", "tools/list")) == ["add", "sub"]
    assert [request.text for request in listed.requests("sums")] == ["tools/list"]


def test_wrong_lines_are_left_out_and_said(tmp_path):
    odd = [{"session": 1, "to": "client"}, {"mask": "sums", "method": "m", "path": "a["}, {"again": 1, "method": "m"}]
    messages = [sent(1, **CALL), came(1, result=THREE), {"mask": "sums", "method": "m", "path": "a.b", "why": "a time"}]
    found = recording(tmp_path / "a.jsonl", *odd, *messages)
    assert [text.split(": ")[0].split(", ")[-1] for text in found.odd] == ["line 3", "line 4", "line 5"]
    assert len(found.requests("sums")) == 1
    assert [mask.path for mask in found.masks["sums", "m", ""]] == ["a.b"]
