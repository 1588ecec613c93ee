"""Lines of a cassette that a stranger has written, each with something that is missing or of another type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_magic.errors import CassetteError
from tests.support.cassettes import play, written

HEADER: dict[str, Any] = {"cassette": 1, "by": "a stranger"}
HEAD: dict[str, Any] = {"session": 1, "server": "s", "transport": "stdio", "where": "x"}
ASKED: dict[str, Any] = {"session": 1, "to": "server", "id": 1, "method": "tools/call", "params": {"name": "t"}}
ANSWER: dict[str, Any] = {"session": 1, "to": "client", "id": 1, "result": {}, "pause": 0.1, "http": {"status": 200}}
FAILED: dict[str, Any] = {"session": 1, "to": "client", "id": 1, "error": {"code": 1, "message": "m"}}
TURN: dict[str, Any] = {"turn": 1, "model": "m", "after": [0, 0], "messages": [{}], "tools": [], "stop": ["x"]}
STEP: dict[str, Any] = {"step": "a", "seconds": 0.1, "found": [["ok", "b"]]}
REPORT: dict[str, Any] = {"doctor": 1, "title": "a", "target": "b", "call": None, "steps": [STEP], "findings": []}
REPORT["lint"] = {"title": "a", "note": "b", "empty": "c"}
LINES: dict[str, dict[str, Any]] = {
    "head": HEAD,
    "asked": ASKED,
    "answer": ANSWER,
    "failed": FAILED,
    "noise": {"session": 1, "garbage": "x", "id": 1, "error": {"code": 1, "message": "m"}},
    "last": {"session": 1, "failed": "ServerExitedError", "message": "m"},
    "stderr": {"session": 1, "stderr": "x"},
    "exited": {"session": 1, "exited": "x"},
    "turn": TURN,
    "chunk": {"turn": 1, "chunk": {"content": "a"}, "pause": 0.1},
    "report": REPORT,
    "blob": {"blob": "b", "base64": "A" * 2000},
}
DEEP = json.loads("[" * 400 + "]" * 400)
VALUES: list[Any] = [None, True, -1, 10**4000, 1.5, float("nan"), float("inf"), "x", [1], {"a": 1}, DEEP]


@pytest.mark.parametrize("kind", LINES)
def test_odd_members_are_read_or_refused_with_their_place(kind, tmp_path):
    path, line = tmp_path / "a.jsonl", LINES[kind]
    before = [HEADER, *(other for name, other in LINES.items() if name != kind)]
    play(written(path, *before, line))
    less = [{inner: value for inner, value in line.items() if inner != name} for name in line]
    for odd in [*less, *(line | {name: value} for name in line for value in VALUES)]:
        try:
            play(written(path, *before, odd))
        except CassetteError as error:
            text = str(error)
            assert text.startswith(f"{path}, ")
            assert text.endswith(f". `%mcp record {path} --mode record` records it again.")
            assert len(text) < 1000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (HEAD | {"session": "1"}, "session: Input should be a valid integer"),
        ({"server": "s"}, "session: Field required"),
        (ASKED | {"params": [1]}, "params: Input should be a valid dictionary"),
        (ANSWER | {"pause": float("nan")}, "pause: Input should be a finite number"),
        (ANSWER | {"pause": 1e300}, "pause: Input should be less than or equal to 1000000"),
        ({"session": 1, "to": "client", "id": 1}, "it has neither result nor error"),
        ({"session": 1, "to": "server"}, "it has neither method nor id"),
        (FAILED | {"error": {"code": "x"}}, "error.code: Input should be a valid integer"),
        (REPORT | {"steps": [{"step": "a"}]}, "steps.0.seconds: Field required"),
        (REPORT | {"steps": [STEP | {"found": [["?", "b"]]}]}, "steps: expected one of ok, warning, failed"),
        (TURN | {"after": [1]}, "after: List should have at least 2 items"),
        (ANSWER | {"result": {"a": {"$blob": "none"}}}, '{"$blob": ...} names no line {"blob": ..., "base64": ...}'),
        (ANSWER | {"result": {"a": DEEP}}, "nested deeper than 250 levels"),
    ],
)
def test_bad_line_error_has_its_number_and_a_remedy(line, problem, tmp_path):
    path = written(tmp_path / "a.jsonl", HEADER, line)
    with pytest.raises(CassetteError) as caught:
        play(path)
    assert str(caught.value).startswith(f"{path}, line 2: {problem}")


def test_turn_with_parts_of_no_model_is_refused_with_its_number(tmp_path):
    head = {"turn": 7, "model": "m", "messages": [{"role": "human", "content": "x"}]}
    chunk = {"turn": 7, "chunk": {"content": 5}}
    path = written(tmp_path / "a.jsonl", HEADER, head, chunk, {"turn": 7, "done": True})
    with pytest.raises(CassetteError, match=r"a\.jsonl, turn 7: the reply is not a model's answer"):
        play(path)
