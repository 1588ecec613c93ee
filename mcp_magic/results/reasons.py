"""Why something failed, from what a server says: the telling line for the user, and the whole for a model."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any

from mcp_magic.display.document import Budget, Part, error_label, parts_text, show_parts, tag
from mcp_magic.display.json import NOT_JSON, loads, loads_beginning
from mcp_magic.display.tables import verbatim_part
from mcp_magic.display.text import cut, one_line, shorten
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_LINE = 300  # characters of the line that a message shows of a server's reason

MAX_WHOLE = 20_000  # characters that are kept of a server's reason, as many as a model reads of one result

_READ = 200_000  # characters of an error that are searched for JSON
_LINES = 6  # most lines of an error in a message
_WORDS = ("error", "errors", "issues", "message", "msg", "title", "detail", "details", "error_description")
"""Members of a JSON error that hold readable text."""

_OPENS = re.compile(r"\{|\[\s*\{")  # where JSON may begin in an error's text
_PATHS = ("path", "loc")  # members that name the argument that an error is about: zod's and pydantic's
_DEEPEST = 5  # levels that are searched for these members

_FLAGS = ("success", "ok", "status", "is_error", "isError")

_BEGINS = "Traceback (most recent call last):"
_FRAME = re.compile(r"\s*+(?:at |\^|~|File \"|\.\.\. |\|?\s*+$)")
"""A line of a stack that names no reason: a frame of JavaScript, Java or Python, or nothing."""

_INVALID = re.compile(r"(?:.*: )?\d+ validation errors? for (?P<model>\S+)")  # the first line of pydantic's error
_KIND = re.compile(r" \[type=[^\]]*\]?.*$")
_HEADING = re.compile(r"(?:\W|fatal|internal|server|error|exception|failure)*:", re.IGNORECASE)
_NOTHING = re.compile(r"(?:\W|\d|mcp|internal|server|unknown|unexpected|request|failed|an|error|occurred)*+", re.I)
"""A message that tells nothing, such as "Internal error"."""


# Reasons in messages.


def telling_line(text: str) -> str:
    r"""Return the line of an error's text that tells most.

    >>> telling_line("\nError:\nthe database is locked"), telling_line("Cannot open it:\n  it is locked\n    at a.js:1")
    ('the database is locked', 'Cannot open it: it is locked')
    >>> telling_line('Invalid arguments for tool x: [\n{"path": ["a"], "message": "Expected number"}]')
    'Invalid arguments for tool x: a: Expected number'
    >>> telling_line(_BEGINS + '\n  File "a.py", line 1, in f\n    f()\nKeyError: 1')
    'KeyError: 1'
    >>> telling_line("1 validation error for add\na\n  Field required [type=missing, input_value={}]")
    'add: a: Field required'
    """
    text = text[:_READ].strip()
    readable, _ = _in_json(text)
    lines = [line.rstrip() for line in readable.splitlines() if line.strip()]
    if not lines:
        return ""
    if len(lines) == 1:
        return lines[0].strip()
    if _BEGINS in readable:
        return _of_traceback(readable)
    if (match := _INVALID.fullmatch(lines[0])) is not None:
        return _of_pydantic(match["model"], lines[1:])
    causes = [line.strip() for line in lines if line.startswith("Caused by: ")]  # of Java
    if causes:
        return causes[-1].removeprefix("Caused by: ")
    candidates = [line.strip() for line in lines if not _FRAME.match(line)] or [lines[0].strip()]
    while len(candidates) > 1 and _HEADING.fullmatch(candidates[0]):
        del candidates[0]
    return " ".join(candidates[:2]) if candidates[0].endswith(":") else candidates[0]


def _of_traceback(text: str) -> str:
    """Return the exception at the end of a text's last traceback."""
    after = text.rpartition(_BEGINS)[2].splitlines()
    ends = [line.strip() for line in after if line.strip() and not line[0].isspace() and not _FRAME.match(line)]
    return ends[0] if ends else text.strip().splitlines()[-1].strip()


def _of_pydantic(model: str, lines: Sequence[str]) -> str:
    """Return the problems in the text of a `ValidationError`, each with its argument."""
    problems, place = [], ""
    for line in lines:
        if not line[0].isspace():
            place = line.strip()
        elif not line.strip().startswith("For further"):
            problems.append(f"{place}: {_KIND.sub('', line.strip())}")
    return f"{model.removesuffix('Arguments')}: {'; '.join(problems)}"


def with_data(message: str, data: Any) -> str:
    """Return the telling line of a JSON-RPC error, with what its `data` says more than its message.

    >>> with_data("Internal error", "the disk is full"), with_data("No row 3", {"uri": "db://3"})
    ('Internal error: the disk is full', 'No row 3')
    >>> with_data("Internal error", {"cause": "ENOSPC"}), with_data("", {"message": "no"}), with_data("Error", None)
    ('Internal error: {"cause": "ENOSPC"}', 'no', 'Error')
    """
    line = telling_line(message)
    words = telling_line(data) if isinstance(data, str) else _words(data)
    if not words and _NOTHING.fullmatch(line) and data not in (None, "", {}, []):
        words = one_line(_as_json(data), MAX_LINE)
    if not words or words in message:
        return line
    return f"{line.rstrip(' .:')}: {telling_line(words)}" if line else telling_line(words)


def full_text(message: str, data: Any) -> str:
    """Return all that a JSON-RPC error says: its message, and its `data` as JSON where that is not in the message."""
    message = message.strip()
    if data in (None, "", {}, []):
        return message
    text = data if isinstance(data, str) else _as_json(data)
    if text in message:
        return message
    return f"{message}\ndata: {text}"


def _as_json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


_TITLE = re.compile(r"<(?:title|h1)\b[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)


def of_body(body: str) -> str:
    """Return the telling line of an HTTP error's body: of JSON its text, of HTML its title or first heading.

    >>> of_body('{"error": {"code": 7, "message": "no such project"}}'), of_body("<h1>Bad &amp; gone</h1><p>nginx")
    ('no such project', 'Bad & gone')
    >>> of_body("<html></html>"), of_body('{"id": 3}'), of_body("Host not allowed")
    ('', '', 'Host not allowed')
    """
    text = body[:_READ].strip()
    if text.startswith("<"):
        title = _TITLE.search(text)
        return unescape(title[1]).strip() if title is not None else ""
    value = loads(text)
    return telling_line(text) if value is NOT_JSON else telling_line(_words(value))


def reason(result: Any, rest: str = "…") -> str:
    """Return the text after "failed" about a `ToolResult`: six lines of its error at most, then `rest`.

    Without any text it is the result's clue.
    """
    tool, clue = result.tool, result.clue
    everything = "\n".join(text.strip() for text in _error_texts(result))
    # MCPServer and FastMCP add this prefix, but the message names the tool already.
    text = everything.removeprefix(f"Error executing tool {tool}: ").removeprefix(f"Error calling tool '{tool}': ")
    read, is_whole = _in_json(text[:_READ])
    is_whole = is_whole and len(text) <= _READ
    lines = [line.rstrip() for line in cut(read, 4000).splitlines() if line.strip()]
    if not lines or (clue and everything == f"Error executing tool {tool}"):
        return clue or " and did not say why"
    excerpt = [shorten(line, MAX_LINE) for line in lines[:_LINES]]
    is_whole = is_whole and excerpt == lines and len(read) <= 4000
    best = telling_line(read)
    if not is_whole and best and not any(best[: MAX_LINE - 1] in line for line in excerpt):
        excerpt = [shorten(best, MAX_LINE), *excerpt[: _LINES - 1]]  # as at the end of a long traceback
    return ": " + "\n".join(excerpt if is_whole else [*excerpt, rest])


def _error_texts(result: Any) -> list[str]:
    """Return the texts that may say why a tool failed: those of its blocks, else its structured content as JSON."""
    embedded = [getattr(block.resource, "text", "") for block in result.raw.content if block.type == "resource"]
    texts = [text for text in (*result.texts, *embedded) if text.strip()]
    structured = result.raw.structured_content
    return texts if texts or structured in (None, {}, []) else [_as_json(structured)]


def _in_json(text: str) -> tuple[str, bool]:
    """Return the readable text of an error that is or contains JSON, and whether it is the whole error."""
    start, end, value = 0, len(text), loads(text)
    if value is NOT_JSON and (match := _OPENS.search(text)) is not None:  # `Error calling tool "q": {"error": ...}`
        start = match.start()
        value, end = loads_beginning(text, start)
    words = _words(value)
    if not words:
        return text, True
    members = value if isinstance(value, dict) else {}
    others = [key for key, member in members.items() if key not in (*_WORDS, *_FLAGS) and member is not None]
    is_whole = not others and not text[end:].strip()
    return f"{text[:start].strip()} {words}".strip(), is_whole


def _words(value: Any, depth: int = 0) -> str:
    """Return the texts in an error's `error`, `message` or `detail`, which may be objects or lists of objects."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and depth <= _DEEPEST:
        return "; ".join(words for item in value[:_LINES] if (words := _words(item, depth + 1)))
    if not isinstance(value, dict) or depth > _DEEPEST:
        return ""
    texts = [_words(value[key], depth + 1) for key in _WORDS if key in value]
    return ": ".join(dict.fromkeys(words for words in [_path(value), *texts] if words)) if any(texts) else ""


def _path(value: dict[str, Any]) -> str:
    """Return the argument that an error is about, as `rows.0.id`, or ""."""
    parts: list[Any] = next((value[key] for key in _PATHS if isinstance(value.get(key), list)), [])
    return one_line(".".join(str(part) for part in parts if isinstance(part, str | int)), 100)


# What failed last, whole.


@dataclass(frozen=True, repr=False)
class FailedRequest:
    """A request that a server refused or that failed, with all that the server said.

    Attributes:
        error: The exception.
    """

    error: MCPMagicError

    @property
    def text(self) -> str:
        """The whole of the error."""
        return self.error.whole

    def parts(self) -> list[Part]:
        """Return the parts to display."""
        label = type(self.error).__name__
        return [Part(label, tag("p", error_label(label))), verbatim_part(self.text, Budget.full())]

    def __repr__(self) -> str:
        return f"<FailedRequest {type(self.error).__name__}: {one_line(str(self.error), 100)} (.text, .error)>"

    __str__ = parts_text
    _repr_mimebundle_ = show_parts


_last: deque[Any] = deque(maxlen=1)


def note_failure(failure: Any) -> None:
    """Keep a failed request, or the result of a tool that reported an error, for `last_failure`."""
    _last.append(failure)


def note_refusal(error: Exception) -> None:
    """Keep the error of a request for `last_failure`, if the server said more than its message."""
    if isinstance(error, MCPMagicError) and error.details:
        note_failure(FailedRequest(error))


def last_failure() -> Any:
    """Return what failed last, a `FailedRequest` or a `ToolResult`; None if nothing has."""
    return _last[-1] if _last else None
