"""The bodies of HTTP answers: read by what they are, whatever their headers say.

The SDK goes by the content type and the status. What it would not read although it is an answer gets the status and
the content type that it should have, with a remark. What is cut off stays so: it is no answer.
"""

from __future__ import annotations

import codecs
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic_core import ValidationError

from mcp_magic.display.text import one_line
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.protocol import note_said
from mcp_magic.results.reasons import of_body
from mcp_magic.session import stdio
from mcp_magic.session.failures import is_part_of_answer
from mcp_magic.session.reader import Batch, as_one, read_again, read_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from httpx2 import Response

    from mcp_magic.session.reader import Remark

JSON, EVENTS = "application/json", "text/event-stream"

_USUAL = (JSON, f"{JSON};charset=utf-8")  # content types of a document that needs no second look

_OF_THE_BODY = ("content-encoding", "content-length", "content-type", "transfer-encoding")

_BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte-order mark, and spaces

_EVENT = re.compile(rb"(?:event|data|id|retry)? *:")  # begins an event stream

_END = re.compile(rb"\r?\n\r?\n|\r\r")  # the empty line after an event

_NAME = re.compile(rb"^event: ?(.*?)\r?$", re.MULTILINE)


class TooLargeError(httpx2.RequestError):
    """An answer has more than `MAX_MESSAGE` bytes; the rest was not read."""


def is_stream(response: Response) -> bool:
    """Whether an answer is an event stream, by its content type."""
    return kind_of(response) == EVENTS and response.status_code < 400


def kind_of(response: Response) -> str:
    """Return the content type of an answer, without parameters, or ""."""
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


async def read_whole(response: Response) -> Response:
    """Read an answer, in parts if it is compressed or has no length; return it, or an equal one, with its content.

    A megabyte of gzip can hold gigabytes.

    Raises:
        TooLargeError: The answer is too large.
    """
    limit, headers = stdio.MAX_MESSAGE, response.headers
    size = headers.get("content-length", "")
    if "content-encoding" not in headers and size.isascii() and size.isdigit() and int(size) <= limit:
        await response.aread()
        return response
    parts, length = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        length += len(part)
        if length > limit:
            await response.aclose()
            raise TooLargeError(f"the answer has more than {limit:,} bytes, and was not read to its end")
    return _with(response, response.status_code, headers.get("content-type", ""), b"".join(parts))


def _with(response: Response, status: int, kind: str, content: bytes) -> Response:
    """Return an answer with another status, content type and content."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _OF_THE_BODY]
    answer = httpx2.Response(
        status,
        headers=[*headers, *([("content-type", kind)] if kind else [])],
        content=content,
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )
    answer.next_request = response.next_request
    return answer


def has_end(response: Response) -> bool:
    """Whether a body that has ended can be told from one that was cut with its connection."""
    return response.status_code == 204 or bool(response.headers.keys() & {"content-length", "transfer-encoding"})


async def read_answer(response: Response, remark: Remark) -> Response:
    """Read the answer to a POST, and return it as the SDK reads it. Raises TooLargeError."""
    ends = has_end(response)
    response = await read_whole(response)
    status, content = response.status_code, response.content
    kind = response.headers.get("content-type", "").replace(" ", "").lower()
    if status == 200 and content[:1] == b"{" and kind in _USUAL:
        return response
    if 300 <= status < 400 or (number := number_of(response.request)) is None:
        return response
    charset = response.charset_encoding
    beginning = content.lstrip(_BLANK)
    if not beginning:
        is_empty = ends and status != 202 and status < 300  # of a 202 the SDK says so
        return _with(response, 200, EVENTS, _empty(status)) if is_empty else response
    if charset is not None and not _is_utf8(charset):
        with suppress(LookupError, UnicodeError):
            content = content.decode(charset).encode()
            remark(f"its answers are in {one_line(charset, 40)}, where UTF-8 is right")
            response = _with(response, status, kind_of(response), content)
    if _EVENT.match(beginning):
        return _stream(response, number, remark)
    return _document(response, number, remark) if beginning[:1] in (b"{", b"[") else response


def _document(response: Response, number: Any, remark: Remark) -> Response:
    """Return an answer whose body is JSON."""
    status, kind = response.status_code, kind_of(response)
    if status < 400 and status != 202 and kind == JSON:
        return response
    answer = answer_in(response.content, number)
    if answer is None:
        return response
    if kind != JSON:
        _remark_kind(kind, "JSON", remark)
    return _with_answer(response, answer, remark)


def _stream(response: Response, number: Any, remark: Remark) -> Response:
    """Return an answer whose body is an event stream."""
    status, kind, content = response.status_code, kind_of(response), response.content
    answers = (answer_in(data, number) for data in _events(content))
    answer = next(filter(None, answers), None)
    if answer is None:
        return response
    if status >= 400:
        return _with_answer(response, answer, remark)
    if status == 202:
        _remark_status(status, remark)
    if kind != EVENTS:
        _remark_kind(kind, "an event stream", remark)
    return _with(response, 200, EVENTS, content.removeprefix(codecs.BOM_UTF8))


def _with_answer(response: Response, answer: dict[str, Any], remark: Remark) -> Response:
    """Return an answer whose status suits it; one with a status of failures has only the answer as body."""
    status, content = response.status_code, response.content
    if status >= 400:
        content = json.dumps(answer).encode()
    if status == 202 or (status >= 400 and answer.get("error") is None):
        _remark_status(status, remark)
        status = 200
    return _with(response, status, JSON, content)


def _remark_kind(kind: str, form: str, remark: Remark) -> None:
    labelled = f"the content type {one_line(kind, 60)}" if kind else "no content type"
    remark(f"its answers have {labelled}, and are {form}; they are read as that")


def _remark_status(status: int, remark: Remark) -> None:
    remark(f"it answers a request with HTTP {status} and the answer as body, where 200 is right")


def _events(content: bytes) -> list[bytes]:
    """Return the data of the events in a stream that has ended."""
    return [data_of(event) for event in _END.split(content.lstrip(_BLANK))]


def data_of(event: bytes | bytearray) -> bytes:
    """Return the data of an event."""
    return b"\n".join(re.findall(rb"(?m)^data: ?(.*?)\r?$", event))


def answer_in(content: bytes, number: Any) -> dict[str, Any] | None:
    """Return the answer to a request in JSON, alone or in a list: that with its id, or an error without one."""
    try:
        value = json.loads(content.lstrip(_BLANK))
    except (ValueError, RecursionError):
        return None
    values = value if isinstance(value, list) else [value]
    messages = [message for message in values if isinstance(message, dict) and "method" not in message]
    answers = [message for message in messages if {"result", "error"} & message.keys()]
    mine = [answer for answer in answers if answer.get("id") == number]
    usable = mine or [answer for answer in answers if "jsonrpc" in answer or answer.get("id") is not None]
    return usable[0] if usable else None


def number_of(request: Any) -> Any:
    """Return the id of the JSON-RPC request that was posted, or None."""
    with suppress(ValueError, RecursionError, httpx2.RequestNotRead):
        message = json.loads(request.content)
        return message.get("id") if isinstance(message, dict) and "method" in message else None
    return None


def _is_utf8(charset: str) -> bool:
    with suppress(LookupError):
        return codecs.lookup(charset).name in ("utf-8", "ascii")
    return True


def _empty(status: int) -> bytes:
    """Return an event with the error for an empty body; the SDK gives it the id of the request."""
    message = f"Failed to parse the answer: HTTP {status} with an empty body"
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": message}}
    return f"data: {json.dumps(error)}\n\n".encode()


def accept(response: Response, remark: Remark) -> None:
    """Let the SDK read a stream that has the answer to a request, and the status of one without."""
    if response.status_code == 202 and number_of(response.request) is not None:
        _remark_status(202, remark)
        response.status_code = 200


async def as_events(stream: Any, status: int, remark: Remark, *, ends: bool) -> AsyncIterator[bytes]:
    """Pass an event stream on. A body that is JSON becomes an event, and one that is empty an error.

    `ends` is whether the end of the body can be told from a connection that was cut.
    """
    parts = aiter(stream)
    beginning = b""
    async for part in parts:
        beginning += part
        if beginning.lstrip(_BLANK) or len(beginning) > stdio.BEGINNING:
            break
    else:
        yield _empty(status) if ends and not beginning else beginning
        return
    beginning = beginning.removeprefix(codecs.BOM_UTF8)
    if beginning.lstrip(_BLANK)[:1] in (b"{", b"["):
        beginning = await _json_of(beginning, parts, remark)
    yield beginning
    async for part in parts:
        yield part


async def _json_of(beginning: bytes, parts: AsyncIterator[bytes], remark: Remark) -> bytes:
    """Return a body that is JSON as one event, or what was read of it if it is none."""
    read, size, brackets = [beginning], len(beginning), stdio.OpenBrackets()
    while brackets.add(read[-1].decode("latin-1")) > 0 and size <= stdio.MAX_MESSAGE:
        if (part := await anext(parts, None)) is None:
            break
        read.append(part)
        size += len(part)
    body = b"".join(read)
    if answer_in(body, None) is None:
        return body
    _remark_kind(EVENTS, "JSON", remark)
    return b"".join(b"data: %b\n" % line for line in body.lstrip(_BLANK).splitlines()) + b"\n"


def name_of(event: bytes) -> str:
    """Return the name of an event, or ""."""
    name = _NAME.search(event)
    return name[1].decode("utf-8", "replace") if name is not None else ""


async def whole_events(parts: AsyncIterator[bytes], remark: Remark) -> AsyncIterator[bytes]:
    """Pass an event stream on, one event at a time; one at the end that lacks its empty line too, if it is an answer.

    One that was cut is not passed on: its id would count as read when the stream is resumed.
    """
    buffer = bytearray()
    async for part in parts:
        start = max(0, len(buffer) - 3)
        buffer += part
        while (end := _END.search(buffer, start)) is not None:
            yield bytes(buffer[: end.end()])
            del buffer[: end.end()]
            start = 0
        if len(buffer) > stdio.MAX_MESSAGE:  # the SDK says that it is too large
            yield bytes(buffer)
            buffer.clear()
    if answer_in(data_of(buffer), None) is not None:
        remark("its last event has no empty line after it, and is read")
        yield bytes(buffer.rstrip()) + b"\n\n"


def failed_event(event: bytes, number: Any) -> bytes:
    """Return an event; in place of one that is named "error", the error of JSON-RPC that ends the request."""
    if name_of(event) != "error":
        return event
    data = data_of(event)
    if answer_in(data, number) is None:
        text = data.decode("utf-8", "replace")
        message = of_body(text) or "the server ended the stream with an event named error"
        error = {"code": -32000, "message": message, "data": text}
        data = json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()
    return b"data: " + b"\ndata: ".join(data.splitlines()) + b"\n\n"


# What the SDK's client parses.


class TolerantAdapter:
    """Takes the place of the SDK's adapter for JSON-RPC messages.

    It also reads what is almost a message, and marks the errors that the server sent.
    """

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def validate_json(self, data: str | bytes, **options: Any) -> Any:
        """Return the message in a text. Raises ValidationError if it has none."""
        try:
            message = self._usual.validate_json(data, **options)
        except ValidationError as error:
            message = read_again(error)
            if message is None:
                several = read_batch(error)
                if several is None and isinstance(data, str) and not is_part_of_answer(error):
                    several = [error]  # an event before the answer: its session reads on
                if several is None:
                    raise
                message = as_one(several)
        for part in message.messages if isinstance(message, Batch) else (message,):
            if _is_of_request(part):
                note_said(part)
        return message


def _is_of_request(message: Any) -> bool:
    """Whether an answer has the id of the request that was posted: others may come from what is before the server."""
    number, attempt = getattr(message, "id", None), current_attempt.get()
    posted = attempt.awaited if attempt is not None else None
    return number is not None and (posted is None or str(number) == str(posted.number))
