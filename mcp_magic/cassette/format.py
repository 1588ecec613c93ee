"""The schema of each kind of line, checked on reading because a cassette may come from a stranger.

Further members, and lines of other kinds, are ignored: they are from a later version.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Required

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic supports the one of `typing` only from Python 3.12 on

from mcp_magic.cassette.masks import read_pattern
from mcp_magic.errors import ArgumentsError

Number = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=10**6, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=1000)]


class _Failure(TypedDict, total=False):
    code: Required[int]
    message: Required[str]


class _Status(TypedDict, total=False):
    status: Number
    said: bool
    retry_after: Seconds | None
    refused: bool
    lost: str
    failed: str
    message: str
    code: int


class _Blob(TypedDict):
    blob: Text
    base64: str


class _Head(TypedDict, total=False):
    session: Required[Number]
    server: Required[Text]
    transport: Text
    where: str
    added: bool


class _Line(TypedDict, total=False):
    session: Required[Number]
    to: str
    id: int | Text | None
    method: Text
    params: dict[str, Any] | None
    result: dict[str, Any]
    error: _Failure
    http: _Status | None
    stderr: str
    garbage: str
    ended: Any
    exited: str
    failed: Text
    message: str
    status: Number
    code: int
    pause: Seconds


class _Turn(TypedDict, total=False):
    turn: Required[Number]
    model: Text
    digest: str
    after: Annotated[list[Number], Field(min_length=2, max_length=2)]
    messages: list[dict[str, Any]]
    tools: Number | list[Any]
    stop: list[str]
    chunk: dict[str, Any]
    answer: dict[str, Any]
    done: Any
    error: str
    pause: Seconds


class _Step(TypedDict, total=False):
    step: Required[str]
    seconds: Required[Seconds | None]
    found: Required[list[Annotated[list[str], Field(min_length=2, max_length=3)]]]


class _Lint(TypedDict):
    title: str
    note: str
    empty: str


class _Report(TypedDict, total=False):
    title: Required[str]
    target: str
    call: str | None
    steps: Required[list[_Step]]
    findings: list[Annotated[list[str], Field(min_length=5, max_length=6)]]
    lint: _Lint


class _Again(TypedDict, total=False):
    again: Required[Text]
    method: Required[Text]
    params: dict[str, Any] | None
    result: dict[str, Any]
    error: _Failure


class _Mask(TypedDict, total=False):
    mask: Required[Text]
    method: Required[Text]
    name: Text
    path: Required[Text]
    types: list[Text]
    order: bool
    why: str


class _Cut(TypedDict):
    cut: Number


_KINDS: dict[str, Any] = {
    "blob": _Blob,
    "turn": _Turn,
    "server": _Head,
    "session": _Line,
    "steps": _Report,
    "again": _Again,
    "mask": _Mask,
    "cut": _Cut,
}
"""Member that tells the kind -> schema; the first match counts."""

_MARKS = ("ok", "warning", "failed", "note", "not needed", "not reached")
_SEVERITIES = ("error", "warning", "note")


@lru_cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_KINDS[kind])


def problem_of(entry: dict[str, Any]) -> str:
    """Return the problem of a line, or ""."""
    kind = next((kind for kind in _KINDS if kind in entry), None)
    if kind is None:
        return ""
    try:
        _adapter(kind).validate_python(entry, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if kind == "session":
        return _of_message(entry)
    if kind == "mask":
        return _of_mask(entry)
    return _of_report(entry) if kind == "steps" else ""


def _of_message(entry: dict[str, Any]) -> str:
    if entry.get("to") not in ("client", "server") or "method" in entry:
        return ""
    if "id" not in entry:
        return "it has neither method nor id"
    return "" if "result" in entry or "error" in entry else "it has neither result nor error"


def _of_mask(entry: dict[str, Any]) -> str:
    try:
        read_pattern(entry["path"])
    except ArgumentsError as error:
        return f"path: {error}"
    return ""


def _of_report(entry: dict[str, Any]) -> str:
    if any(remark[0] not in _MARKS for step in entry["steps"] for remark in step["found"]):
        return f"steps: expected one of {', '.join(_MARKS)} as the first of each that was found"
    if "findings" in entry and "lint" not in entry:
        return "lint: Field required"
    if any(finding[1] not in _SEVERITIES for finding in entry.get("findings", ())):
        return f"findings: expected one of {', '.join(_SEVERITIES)} as the second of each"
    return ""
