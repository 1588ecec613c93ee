"""Answers that are none: what the request that waits for one is told instead.

The SDK drops what it cannot read, and the request would wait as long as it is let. Over HTTP the SDK answers in the
server's place; over the streams of stdio, SSE and WebSocket this module does. Text that is no JSON is read just far
enough to know what it was to be.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    *(
        "SpreadOut",
        "Unreadable",
        "bad_item",
        "instead_of",
        "instead_of_strange",
        "log_line",
        "refusal_of",
        "unreadable",
    ),
    *("stand_in_line", "unread_text", "whole_answer"),
]

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(rf'[^"{{}}\[\]]*+({_STRING}|[{{}}\[\]])', re.DOTALL)
"""The next string or bracket of a text that is meant to be JSON."""

_MAX_TOKENS = 100_000
"""Strings and brackets that are looked at in a text that is no JSON: a twentieth of a second."""

_ID_VALUE = r'\s*("(?:[^"\\]|\\.){0,100}"|null|-?\d{1,15}(?:\.\d{1,5})?)\s*'
_VALUE = re.compile(rf"\s*:{_ID_VALUE}[,}}]")
_LAST_ID = re.compile(rf'"id"\s*:{_ID_VALUE}\}}\s*$')
"""The id at the end of a text, where some SDKs write it."""

_KEY = re.compile(r"\s*:")
_BEGINNING, _TAIL = 1000, 300
"""Characters at both ends of a text that are looked at."""

_MAX_LINES = 10_000
"""Lines of one answer that are remembered."""

_KNOWN_BY = ("id", "method", "result", "error")
"""The members that say what a message is."""

_SDK_SAYS = re.compile(r"Failed to parse |Unexpected content type|server answered a request with 202 |Redirect to ")
"""How errors begin that the SDK gives in the place of an answer, with codes that would blame the request."""

_LISTS = {"tools": "tool", "resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
"""The members of answers that are lists of what a server offers -> what one of it is called."""

_NAMES = ("name", "uri", "uriTemplate")

_INVALID_JSON = re.compile(r"^ *(Invalid JSON: .*?) \[type=json_invalid", re.MULTILINE)
_COUNT = re.compile(r": \d+ validation errors? for .*")


class Unreadable(Exception):
    """Something that was no message when it was recorded.

    Args:
        text: It.
        instead: The `SessionMessage` that a request got in its place, or None.
    """

    def __init__(self, text: str, instead: Any = None) -> None:
        super().__init__(text)
        self.instead = instead


def unreadable(error: BaseException | str) -> str:
    """Return why an answer could not be read, if that is what an error of the SDK is about; else ""."""
    whole = str(error)
    text = whole.partition("\n")[0]
    if not _SDK_SAYS.match(text):
        return ""
    why = _INVALID_JSON.search(whole[:_BEGINNING])
    return _COUNT.sub("", text).rstrip(": ") + (f": {one_line(why[1], 200)}" if why else "")


def bad_item(problem: BaseException, result: Any) -> str:
    """Name the listed item that a `ValidationError` is about, as ` (the tool 'add')`; "" if it is about none.

    Args:
        problem: The error.
        result: The result that could not be read, as it came.
    """
    details = problem.errors() if hasattr(problem, "errors") else []
    path = details[0]["loc"] if details else ()
    for member, number in pairwise(path):
        if member in _LISTS and isinstance(number, int) and isinstance(result, dict):
            item = result[member][number]
            known = [item[key] for key in _NAMES if key in item] if isinstance(item, dict) else []
            return f" (the {_LISTS[member]} {one_line(str(known[0]), 80)!r})" if known else ""
    return ""


def unread_text(problem: Exception) -> str:
    """Return what the server wrote that could not be read."""
    details = _details(problem)
    found = details[0].get("input", "") if details else str(problem)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def stand_in_line(message: Any) -> str:
    """Say for the log that an answer came which could not be read, if a message is what the SDK gives in its place."""
    error = message.__dict__.get("error")
    said = unreadable(error.message) if error is not None else ""
    return f"The server sent an answer that cannot be read ({said})" if said else ""


def log_line(problem: Exception, masked: Callable[[str], str]) -> str:
    """Say for the log what came that could not be read; "" for text that does not look like a message.

    Args:
        problem: Why it could not.
        masked: Takes secrets out of a text.
    """
    text = masked(unread_text(problem)[:_BEGINNING]).strip()
    if not text.startswith("{") and '"jsonrpc"' not in text:
        return ""
    details = _details(problem)
    why = f" ({details[0]['msg']})" if details and details[0]["type"] == "json_invalid" else ""
    return f"The server sent a message that cannot be read{why}: {one_line(text, 100)}"


def instead_of(problem: Exception) -> Any:
    """Return the JSON-RPC error with which a request ends whose answer cannot be read.

    Args:
        problem: The `ValidationError` that the SDK's reader gives for what is no message.

    Returns:
        A `SessionMessage` with the id of the unreadable answer, or None if it is not known to be an answer.
    """
    if isinstance(problem, Unreadable):
        return problem.instead
    whole = whole_answer(problem)
    if whole is None:
        return None
    number = whole.get("id")
    if not isinstance(number, int | str) or isinstance(number, bool):
        return None
    return _error(number, _reason(_details(problem), whole))


class SpreadOut:
    """An answer that is written on several lines, each of which stdio takes for a message."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def took(self, line: str) -> Any:
        """Take a line that is no message; return the JSON-RPC error with which a request ends, or None."""
        line = line.rstrip("\r\n")
        if line.rstrip() == "{":
            self._lines = []
        elif not self._lines or len(self._lines) >= _MAX_LINES:
            self._lines = []
            return None
        self._lines.append(line)
        if line.rstrip() != "}":
            return None
        whole, self._lines = _members_of("\n".join(self._lines)) or {}, []
        number = whole.get("id")
        if "method" in whole or len(whole) < 2 or not isinstance(number, int | str) or isinstance(number, bool):
            return None
        return _error(number, "it is written on several lines; over stdio a message is one line")


def refusal_of(problem: Exception) -> Any:
    """Return the JSON-RPC error for the server if what cannot be read is a request of it, which it waits for.

    Returns:
        A `SessionMessage` with the id of the request, or None.
    """
    whole = _whole(problem) or {}
    number = whole.get("id")
    if "method" not in whole or not isinstance(number, int | str) or isinstance(number, bool):
        return None
    details = _details(problem)
    if details[0]["type"] == "json_invalid":
        return _error(number, details[0]["msg"], "the request")
    return _error(number, "it is no JSON-RPC 2.0", "the request", _INVALID_REQUEST)


def instead_of_strange(number: int | str, said: str) -> Any:
    """Return the error with which a request ends whose answer came with another id.

    Args:
        number: The id of the request.
        said: How it came.
    """
    return _error(number, f"it came {said}; {json.dumps(number)} was asked")


def whole_answer(problem: Exception) -> dict[str, Any] | None:
    """Return what could not be read, if it is an answer as far as one can see."""
    whole = _whole(problem)
    return whole if whole is not None and "method" not in whole else None


def _whole(problem: Exception) -> dict[str, Any] | None:
    """Return the members of a message that could not be read; of text that is no JSON those that it is known by."""
    details = _details(problem)
    if details and details[0]["type"] == "json_invalid":
        return _members_of(unread_text(problem))
    # An answer would need no method and a request no result: what misses either is told with the whole of it.
    found = (d["input"] for d in details if d["type"] == "missing" and len(d["loc"]) == 2)
    whole = next(found, None)
    return whole if isinstance(whole, dict) else None


def _members_of(text: str) -> dict[str, Any] | None:
    r"""Return the members by which a message is known, from text that is no JSON; None if it is no message.

    >>> _members_of('{"jsonrpc": "2.0", "id": 3, "result": {"id": 4, "text": "half an emoji: \\ud83d"}}')
    {'id': 3, 'result': None}
    >>> _members_of('{"result": {"a": [[[')
    {'result': None}
    >>> _members_of("Loading the model"), _members_of('{"a": }')
    (None, None)
    """
    found: dict[str, Any] = {}
    for name, end in _keys(text):
        if name == "id":
            _take_id(found, _VALUE.match(text, end))
        elif name in _KNOWN_BY:
            found[name] = None
        if "id" in found and len(found) > 1:
            return found
    if found and "id" not in found:
        _take_id(found, _LAST_ID.search(text, max(0, len(text) - _TAIL)))
    return found if found.keys() - {"id"} else None


def _keys(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names of an object's members as far as the text can be read, and where each name ends."""
    begin = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    depth, end = 0, begin if text.startswith("{", begin) else len(text)
    for _ in range(_MAX_TOKENS):
        if (token := _TOKEN.match(text, end)) is None:
            return
        end = token.end()
        first = text[token.start(1)]
        if first == '"':
            if depth == 1 and _KEY.match(text, end):
                yield token[1][1:-1], end
        elif first in "{[":
            depth += 1
        elif depth == 1:
            return
        else:
            depth -= 1


def _take_id(found: dict[str, Any], value: re.Match[str] | None) -> None:
    try:
        if value is not None:
            found["id"] = json.loads(value[1], strict=False)
    except ValueError:
        return  # an id that is no JSON itself is as good as none


def _details(problem: Exception) -> list[Any]:
    return problem.errors() if hasattr(problem, "errors") else []


def _error(number: int | str, reason: str, what: str = "the answer", code: int = _PARSE_ERROR) -> Any:
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    said = ErrorData(code=code, message=f"Failed to parse {what}: {reason}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=said))


def _reason(details: list[Any], whole: dict[str, Any]) -> str:
    """Return why an answer cannot be read: it is no JSON, or what is wrong with its result or its error."""
    if details[0]["type"] == "json_invalid":
        return str(details[0]["msg"])
    for member in ("error", "result"):
        for detail in details if member in whole else ():
            if member in detail["loc"]:
                where = ".".join(str(part) for part in detail["loc"][1:])
                return f"{where}: {detail['msg']}"
    return "it has neither a result nor an error" if not {"result", "error"} & whole.keys() else "it is no JSON-RPC 2.0"
