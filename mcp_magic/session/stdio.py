"""A reader of lines from a server's standard output, in time linear in their length.

The SDK's reader joins all parts of a line again with every 64 kB. A line of 100 MB, which a result with an image or a
table may have, would take it minutes, during which the kernel does nothing else.

`_sdk.patch_line_reader` lets the SDK's stdio client use it.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MESSAGE = 2**28
"""Maximum number of bytes of one message: over stdio a line, over HTTP an event of a stream or the unpacked body of an
answer. An endless message must not fill the memory."""

BEGINNING, END = 1000, 300  # characters at the beginning and the end of a text in which to look for its id

_SCALAR = r'(?:"(?:[^"\\]|\\.){0,1000}+"|null|true|false|-?\d{1,15}(?:\.\d{1,5})?)'
_FIRST = re.compile(rf'[\ufeff\s]*\{{((?:\s*"\w+"\s*:\s*{_SCALAR}\s*,)*+)\s*"(\w+)"\s*:')
"""The members at the beginning of a message that are neither objects nor lists, and the name of the next."""

_MEMBER = re.compile(rf'"(\w+)"\s*:\s*({_SCALAR})')
_LAST_ID = re.compile(rf',\s*"id"\s*:\s*({_SCALAR})\s*\}}\s*$')  # where the TypeScript SDK writes it


def identify(beginning: str, end: str) -> dict[str, Any] | None:
    r"""Return the id and the kind of a message whose text is no JSON, or too long; None if it is no message.

    >>> text = '{"jsonrpc": "2.0", "id": 3, "result": {"id": 4, "text": "half an emoji: \\ud83d"}}'
    >>> identify(text, text)
    {'id': 3, 'result': None}
    >>> identify('{"result": {"a": [[[', '{"result": {"a": [[['), identify("Loading the model", "")
    ({'result': None}, None)
    """
    first = _FIRST.match(beginning[:BEGINNING])
    if first is None:
        return None
    members = dict(_MEMBER.findall(first[1]))
    last = _LAST_ID.search(end[-END:])
    number = members.get("id") or (last[1] if last is not None else "")
    identity: dict[str, Any] = {}
    with suppress(ValueError):  # an id that is no JSON counts as none
        identity["id"] = json.loads(number, strict=False)
    kinds = {name: None for name in ("method", "result", "error") if name in (*members, first[2])}
    return {**identity, **kinds} if kinds else None


def read_whole_lines(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader of whole lines in place of anyio's `TextReceiveStream`."""

    def read(stream: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            return usual(stream, encoding=encoding, errors=errors)
        return _WholeLines(stream, errors)

    return read


# Messages that are spread over several lines: pretty-printed JSON.

MAX_LINES = 100_000  # maximum number of lines of one message

remark_spread: ContextVar[Callable[[str], None]] = ContextVar("mcp_magic_spread", default=lambda text: None)
"""Takes a remark about the server whose output is read in this context."""

_OPENS = re.compile(r'[\ufeff\s]*[{\[]\s*(?:$|["{])')  # a line that may begin such a message
_GOES_ON = re.compile(r'\s*(?:$|["{}\[\],]|-?\d|true\b|false\b|null\b)')  # a line that may be in the middle of one


_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)  # to its end, or to that of the text
_OTHERS = re.compile(r"[^{}\[\]]+")


class OpenBrackets:
    r"""Counts the brackets that are open outside of strings, in steps that grow with the text alone.

    >>> brackets = OpenBrackets()
    >>> [brackets.add(part) for part in ('{"a": "[{', '\\', '"[", "b"', ": [1", "]}")]
    [1, 1, 1, 2, 0]
    >>> brackets.is_in_string
    False
    """

    def __init__(self) -> None:
        self.is_in_string = False
        self._depth = 0
        self._escape = ""  # a backslash at the end of a part

    def add(self, part: str) -> int:
        """Add a part; return how many brackets are open after it."""
        text = '"' * self.is_in_string + self._escape + part
        self._escape = "\\" * ((len(text) - len(text.rstrip("\\"))) % 2)
        text = text.removesuffix(self._escape)
        self.is_in_string = False
        bare = _OTHERS.sub("", _STRING.sub(self._end, text))
        self._depth += 2 * (bare.count("{") + bare.count("[")) - len(bare)
        return self._depth

    def _end(self, string: re.Match[str]) -> str:
        self.is_in_string = not string[1]
        return ""


class SpreadMessages:
    r"""Joins the lines of messages that are spread over several; other lines pass as they are.

    Lines are kept back only while they may be such a message. A whole message on a line of its own ends that.

    >>> spread = SpreadMessages()
    >>> spread.join('{\n  "jsonrpc": "2.0",\n')
    ''
    >>> spread.join('  "id": 1, "result": {}\n}\nLoading\n')
    '{ "jsonrpc": "2.0", "id": 1, "result": {} }\nLoading\n'
    """

    def __init__(self, remark: Callable[[str], None] = lambda text: None) -> None:
        self._remark = remark
        self._lines: list[str] = []
        self._size = 0
        self._brackets = OpenBrackets()

    def join(self, text: str) -> str:
        """Return the lines of a text, each with its end, that pass now."""
        lines = text.removesuffix("\n").split("\n")
        if not self._lines and not any(map(_opens, lines)):
            return text  # the usual case
        return "".join(map(self._next, lines))

    def rest(self) -> str:
        """Return the lines that were kept back: nothing more comes."""
        lines, self._lines, self._size, self._brackets = self._lines, [], 0, OpenBrackets()
        return "".join(f"{line}\n" for line in lines)

    def _next(self, line: str) -> str:
        if not self._lines:
            if not _opens(line):
                return f"{line}\n"
        elif not self._fits(line):
            return self.rest() + self._next(line)
        depth = self._brackets.add(line)
        self._lines.append(line)
        self._size += len(line)
        if self._brackets.is_in_string or len(self._lines) > MAX_LINES or self._size > MAX_MESSAGE:
            return self.rest()
        if depth > 0:
            return ""
        if not any('"jsonrpc"' in line for line in self._lines):
            return self.rest()
        self._remark("it spreads a message over several lines; MCP over stdio has one message on each")
        return " ".join(line.strip() for line in self.rest().split("\n")).rstrip() + "\n"

    def _fits(self, line: str) -> bool:
        """Whether a line may follow those that were kept back: it is no message itself, and no text of a program."""
        is_whole = line.startswith("{") and line.rstrip().endswith("}") and '"jsonrpc"' in line
        wants_name = self._lines[-1].rstrip().endswith("{") and line.lstrip()[:1] not in ('"', "}", "")
        return _GOES_ON.match(line) is not None and not is_whole and not wants_name


def _opens(line: str) -> bool:
    return line.rstrip()[-1:] in ("{", "[", ",", ":") and _OPENS.match(line) is not None


class _WholeLines:
    """Iterates over texts of whole lines; replaces a line that is too long by an error."""

    def __init__(self, stream: Any, errors: str) -> None:
        from anyio import EndOfStream

        self._end_of_stream = EndOfStream
        self._stream = stream
        self._errors = errors
        self._parts: list[bytes] = []
        self._size = 0
        self._begun = self._end = b""
        self._spread = SpreadMessages(remark_spread.get())

    def __aiter__(self) -> _WholeLines:
        return self

    async def __anext__(self) -> str:
        while True:
            try:
                chunk: bytes = await self._stream.receive()
            except self._end_of_stream:
                if lines := self._spread.rest():
                    return lines
                raise StopAsyncIteration from None
            stand_in = ""
            if self._begun:  # the rest of a line that is too long
                rest, newline, chunk = chunk.partition(b"\n")
                self._end = (self._end + rest)[-END:]
                if not newline:
                    continue
                stand_in, self._begun = _too_long(self._begun, self._end), b""
            complete, newline, rest = chunk.rpartition(b"\n")
            self._size += len(chunk)
            if newline:
                text = b"".join([*self._parts, complete, newline])
                self._parts, self._size = [rest], len(rest)
                if lines := self._spread.join(stand_in + text.decode("utf-8", self._errors)):
                    return lines
                continue
            self._parts.append(chunk)
            if stand_in and (lines := self._spread.join(stand_in)):
                return lines
            if self._size > MAX_MESSAGE:
                self._begun, self._end = b"".join(self._parts[:2])[:BEGINNING], b"".join(self._parts[-2:])[-END:]
                self._parts, self._size = [], 0


def _too_long(start: bytes, end: bytes) -> str:
    """Return what stands for a line that is too long: an error for the request that it answers, or its beginning."""
    beginning = start.decode("utf-8", "replace")
    members = identify(beginning, end.decode("utf-8", "replace")) or {}
    if "id" not in members or "method" in members:
        return beginning[:200] + "\n"
    message = f"the answer has more than {MAX_MESSAGE:,} bytes in its line, and was not read to its end"
    return json.dumps({"jsonrpc": "2.0", "id": members["id"], "error": {"code": -32000, "message": message}}) + "\n"
