"""What one call shows about a server: the faults in its answer, by the arguments' schema.

A tool that reports an error, such as "no such city", is right. It is a fault if the error is one of validation although
the schema allows the arguments. `format` only describes a value: a tool may refuse a text for its format and may take
it. Where it is not known whether arguments fit (the schema had to be repaired, a pattern was not checked), neither
"refuses" nor "accepts" is said.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic._text import clause, clean
from mcp_magic.calls.call import Call
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    AuthorizationError,
    CallCancelledError,
    ConnectError,
    InvalidResponseError,
    ProtocolError,
    RequestTimeoutError,
    SessionClosedError,
)
from mcp_magic.flight.request import Limits
from mcp_magic.protocol import BUSY, INTERNAL_ERROR
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.engine import CompiledSchema
from mcp_magic.schema.patterns import unchecked
from mcp_magic.schema.repair import repair, repairs_text
from mcp_magic.schema.validate import path_text
from mcp_magic.session.reader import Reader, UnreadableError
from mcp_magic.trace.trace import IN, Tap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_types import Tool

    from mcp_magic.calls.caller import Caller
    from mcp_magic.results.results import ToolResult
    from mcp_magic.session.connection import Connection

DIES, HANGS, INTERNAL, TRACEBACK, EXCEPTION = "dies", "hangs", "internal error", "traceback", "exception"
OUTPUT, PROTOCOL, REFUSES, ACCEPTS = "output", "protocol", "refuses", "accepts"

KINDS = {
    DIES: "the server ends, or closes the connection",
    HANGS: "no answer in time",
    INTERNAL: "JSON-RPC error -32603, or HTTP 500",
    TRACEBACK: "a traceback in an answer",
    EXCEPTION: "an error of the tool's program, such as IndexError, in an answer or in the server's log",
    OUTPUT: "an answer that does not fit the tool's output schema",
    PROTOCOL: "an answer that breaks the protocol",
    REFUSES: "arguments that the schema allows are called invalid",
    ACCEPTS: "arguments that the schema forbids are taken",
}
"""Each kind of fault, and what it means."""

SECONDS = 10.0  # that a call may take where nothing is known about the tool

_INVALID_PARAMS = -32602

_TRACEBACK = re.compile(
    r"""Traceback\ \(most\ recent\ call\ last\)       # Python
    | ^\s+at\ .{1,300}\(.{1,300}:\d+(:\d+)?\)\s*$     # JavaScript, Java, Kotlin
    | ^\s+at\ \S{1,300}:\d+:\d+\s*$                   # JavaScript without a function's name
    | ^\s+at\ .{1,300}\ in\ .{1,300}:line\ \d+        # C#
    | ^goroutine\ \d+\ \[ | ^\S{1,300}\.rs:\d+:\d+:?$ | thread\ '[^']{1,80}'\ panicked\ at  # Go, Rust
    | ^\S{1,300}\.rb:\d+:in\ [`'] | ^\#\d+\ \S{1,300}\.php\(\d+\)  # Ruby, PHP
    """,
    re.VERBOSE | re.MULTILINE,
)

_MISTAKE = re.compile(
    r"""\b(?:Index|Key|Type|Attribute|Name|UnboundLocal|ZeroDivision|Overflow|Recursion|Assertion)Error:\ .*  # Python
    | \bUnicode(?:De|En)codeError:\ .* | \b(?:Reference|Range)Error:\ .*                                   # JavaScript
    | \bCannot\ read\ propert(?:y|ies)\ of\ (?:undefined|null).* | \bis\ not\ (?:a\ function|iterable)$
    | \bNullPointerException\b.* | \bnil\ pointer\ dereference | \bindex\ out\ of\ range\b.*             # Java, Go
    """,
    re.VERBOSE | re.MULTILINE,
)
"""An exception by which no author says that arguments are wrong."""

_VALIDATION = re.compile(
    r"""\d+\ validation\ errors?\ for\ | \[type=(?!value_error|assertion_error)\w+,\ input_  # pydantic
    | "code":\ ?"(?:invalid_\w+|too_small|too_big|unrecognized_keys)"                       # zod
    | \bMCP\ error\ -32602 | Invalid\ arguments\ for\ tool | Input\ validation\ error
    | is\ not\ of\ type\ ' | is\ a\ required\ property | Additional\ properties\ are\ not\ allowed  # jsonschema
    | \bmust\ (?:NOT\ )?(?:be\ (?:string|number|integer|boolean|array|object|equal\ to)|have\ required\ property)  # Ajv
    | cannot\ unmarshal\ \w+\ into | json:\ unknown\ field                                    # Go
    | invalid\ type:\ \w+.{0,80},\ expected | (?:missing|unknown)\ (?:field|variant)\ `       # Rust
    """,
    re.VERBOSE,
)
_DOMAIN = re.compile(r"\[type=(?:value_error|assertion_error)\b")  # a rule of the tool itself, in pydantic's words

_VARYING = re.compile(r"0x[0-9a-f]+|'[^']*'|\"[^\"]*\"|`[^`]*`|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\x00-\x7f]+")


class Fault(NamedTuple):
    """One fault: its kind, what happened, and a key that is equal for the same fault."""

    kind: str
    text: str
    key: str


def fault(kind: str, text: str, key: str | None = None, echoes: Iterable[str] = ()) -> Fault:
    """Return a fault; its key is the text without what varies: numbers, what stands in quotes, and values sent."""
    key = one_line(text, 300) if key is None else key
    for echo in sorted(echoes, key=len, reverse=True):
        key = key.replace(echo, "_")
    return Fault(kind, one_line(clean(text), 300), f"{kind}: {_VARYING.sub('_', key)[:160]}")


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in arguments, as an error may repeat them."""
    if isinstance(value, str) and value:
        yield from (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], one_line(value, 300))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts_in(inner)


class BusyError(Exception):
    """The server got too many requests; `wait` is how many seconds it asks for, or None."""

    def __init__(self, wait: float | None) -> None:
        super().__init__()
        self.wait = wait


class ArgumentsJudge:
    """Tells whether a schema allows arguments.

    Attributes:
        unsure: Why that cannot be told, or "".
    """

    def __init__(self, source: Mapping[str, Any]) -> None:
        repaired = repair(source).schema
        self._strict = CompiledSchema(repaired)
        self._lenient = CompiledSchema(repaired, formats=False)
        self.unsure = repairs_text(source) or self._strict.invalid

    def allows(self, arguments: Mapping[str, Any]) -> bool | None:
        """Return whether arguments fit; None if that is not known, or depends on a `format`."""
        if self.unsure:
            return None
        with unchecked() as patterns:
            is_fit = self._strict.fits(arguments)
        if patterns or self._strict.is_endless or self._strict.invalid:
            return None
        if is_fit:
            return True
        return None if self._lenient.fits(arguments) else False

    def broken(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the first keyword that arguments do not fit, and its place."""
        failures = self._lenient.failures(arguments)
        return (failures[0].keyword or "false", path_text(failures[0].path)) if failures else ("", "")


class Answers(Tap):
    """Keeps the last answer of a connection, as it came.

    Attributes:
        result: The result, or None.
    """

    def __init__(self) -> None:
        self.result: Any = None

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Keep the result of an answer."""
        if direction == IN and "result" in message:
            self.result = message["result"]


@contextmanager
def answers_of(connection: Connection) -> Iterator[Answers]:
    """Keep the last answer of a connection while the context is open."""
    answers = Answers()
    connection.trace.add(answers)
    try:
        yield answers
    finally:
        connection.trace.remove(answers)


async def judge_call(caller: Caller, call: Call, arguments: ArgumentsJudge, answers: Answers) -> list[Fault]:
    """Send a prepared call, and return the faults that it shows.

    Raises:
        AuthorizationError: The server wants a log-in.
        BusyError: The server wants to be left alone for a while.
        DeniedError: Consent refused the call.
    """
    answers.result = None
    limits = replace(call.limits, may_repeat=False, waits_if_busy=False, max_total=4 * (call.limits.timeout or SECONDS))
    try:
        result = await caller.send(replace(call, limits=limits))
    except RequestTimeoutError:
        return [fault(HANGS, f"no answer within {call.limits.timeout or SECONDS:.3g} s", "")]
    except AuthorizationError:
        raise
    except CallCancelledError:  # the server has cancelled its task
        return []
    except (SessionClosedError, ConnectError) as error:
        return [fault(DIES, _told(call, error))]
    except InvalidResponseError as error:
        return [fault(PROTOCOL, _told(call, error))]
    except ProtocolError as error:
        return _of_error(call, arguments, error)
    return _of_result(call, arguments, result, answers.result)


def _of_result(call: Call, arguments: ArgumentsJudge, result: ToolResult, raw: Any) -> list[Fault]:
    faults: list[Fault] = []
    if result.unfit:
        faults.append(fault(OUTPUT, result.unfit))
    faults += [fault(PROTOCOL, text) for text in _oddities(call, raw)]
    text = "\n".join(result.texts)
    if trace := _TRACEBACK.search(text):
        faults.append(fault(TRACEBACK, _around(text, trace)))
    elif result.is_error and (mistake := _MISTAKE.search(f"{text}\n{result.clue}")):
        echoes = _texts_in(call.arguments)
        faults.append(fault(EXCEPTION, mistake[0].partition(" (`%mcp logs ")[0], echoes=echoes))
    is_refusal = _VALIDATION.search(text) is not None and not _DOMAIN.search(text)
    allowed = arguments.allows(call.arguments)
    if allowed is False and not result.is_error and not is_refusal:
        keyword, place = arguments.broken(call.arguments)
        what = "a name that is not listed" if "Properties" in keyword else f"what breaks `{keyword}`"
        faults.append(fault(ACCEPTS, f"takes {what}{f' of {place}' if place else ''}", keyword))
    if allowed and result.is_error and is_refusal:
        faults.append(fault(REFUSES, text, echoes=_texts_in(call.arguments)))
    return faults


def _of_error(call: Call, arguments: ArgumentsJudge, error: ProtocolError) -> list[Fault]:
    if error.status in BUSY:
        raise BusyError(error.retry_after)
    text = error.whole
    faults = []
    if error.code == INTERNAL_ERROR or (error.status or 0) == 500:
        faults.append(fault(INTERNAL, _told(call, error)))
    if trace := _TRACEBACK.search(text):
        faults.append(fault(TRACEBACK, _around(text, trace)))
    is_refusal = error.code == _INVALID_PARAMS and error.status != 413
    if is_refusal and arguments.allows(call.arguments):
        faults.append(fault(REFUSES, _told(call, error), echoes=_texts_in(call.arguments)))
    return faults


def _told(call: Call, error: Exception) -> str:
    """Return what an error says, without the name of the tool and advice."""
    first, *rest = str(error).splitlines()
    stderr = [line.strip() for line in rest if line.strip().startswith("stderr: ")]
    problem = first.removeprefix(f"{call.name}: ").partition("; `%mcp ")[0]
    return "; ".join([clause(problem), *stderr[-1:]])


def _around(text: str, match: re.Match[str]) -> str:
    """Return the line with a traceback, and the last line, which mostly has the exception."""
    lines = [line.strip() for line in text[match.start() :].splitlines() if line.strip()]
    return " … ".join(dict.fromkeys((lines[0], lines[-1])))


def _oddities(call: Call, raw: Any) -> list[str]:
    """Return what is odd in an answer, as the reader of the session says it."""
    if not isinstance(raw, dict) or raw.get("resultType") not in (None, "complete"):
        return []
    texts: list[str] = []
    try:
        Reader(texts.append).call_result(call.tool, raw)
    except UnreadableError as error:
        texts.append(str(error))
    return texts


async def check_call(
    connection: Connection, tool: str, arguments: Mapping[str, Any], *, timeout: float = SECONDS
) -> None:
    """Call a tool, and fail if the answer shows a fault. The arguments are sent as they are.

    Raises:
        CheckFailedError: It does; this is an AssertionError.
        DeniedError: Consent refused the call.
        UnknownToolError: The server has no such tool.
    """
    definition: Tool = await connection.find_tool(tool)
    call = Call(connection, tool, schema.json_arguments(arguments), definition, limits=Limits(timeout), is_shown=False)
    call = await connection.caller.authorize(call)
    with answers_of(connection) as answers:
        faults = await judge_call(connection.caller, call, ArgumentsJudge(definition.input_schema), answers)
    if faults:
        raise CheckFailedError(f"{call.name}: " + "; ".join(f"{kind}: {text}" for kind, text, _ in faults))
