"""Answers that are none: what the request that waits for one is told instead.

The SDK drops what it cannot read, and the request would wait as long as it is let. Over HTTP the SDK answers in the
server's place; over the streams of stdio, SSE and WebSocket this module does.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from mcp_magic.results.safe import one_line

__all__ = ["Unreadable", "bad_item", "instead_of", "instead_of_strange", "unreadable", "whole_answer"]

_PARSE_ERROR = -32700

_SDK_SAYS = re.compile(r"Failed to parse |Unexpected content type|server answered a request with 202 |Redirect to ")
"""How errors begin that the SDK gives in the place of an answer, with codes that would blame the request."""

_LISTS = {"tools": "tool", "resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
"""The members of answers that are lists of what a server offers -> what one of it is called."""

_NAMES = ("name", "uri", "uriTemplate")

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


def unreadable(error: BaseException) -> str:
    """Return why an answer could not be read, if that is what an error of the SDK is about; else ""."""
    text = str(error).partition("\n")[0]
    return _COUNT.sub("", text).rstrip(": ") if _SDK_SAYS.match(text) else ""


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


def instead_of_strange(number: int | str, said: str) -> Any:
    """Return the error with which a request ends whose answer came with another id.

    Args:
        number: The id of the request.
        said: How it came.
    """
    return _error(number, f"it came {said}; {json.dumps(number)} was asked")


def whole_answer(problem: Exception) -> dict[str, Any] | None:
    """Return what could not be read, if it is an answer as far as one can see."""
    # A request would need a method: of whatever has none the reader tells that, with the whole of it.
    found = (d["input"] for d in _details(problem) if d["type"] == "missing" and len(d["loc"]) == 2)
    whole = next(found, None)
    return whole if isinstance(whole, dict) and "method" not in whole else None


def _details(problem: Exception) -> list[Any]:
    return problem.errors() if hasattr(problem, "errors") else []


def _error(number: int | str, reason: str) -> Any:
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    said = ErrorData(code=_PARSE_ERROR, message=f"Failed to parse the answer: {reason}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=said))


def _reason(details: list[Any], whole: dict[str, Any]) -> str:
    """Return what is wrong with the member that the answer has: its result or its error."""
    for member in ("error", "result"):
        for detail in details if member in whole else ():
            if member in detail["loc"]:
                where = ".".join(str(part) for part in detail["loc"][1:])
                return f"{where}: {detail['msg']}"
    return "it has neither a result nor an error" if not {"result", "error"} & whole.keys() else "it is no JSON-RPC 2.0"
