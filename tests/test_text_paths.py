"""A million characters of the worst take each path less than a second: of CPU time, whatever else the machine does.

Short texts of every kind tell which kind costs a path most; the costliest is then a million long.
"""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import mcp_types as types
import pandas  # noqa: F401 - its import is not what is measured
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from mcp_magic._host import fits_template
from mcp_magic._text import clean, did_you_mean
from mcp_magic.agent.failures import model_error
from mcp_magic.agent.offline import answer, outcome
from mcp_magic.agent.offline import quoted as quoted_by_offline
from mcp_magic.agent.transcript import Transcript
from mcp_magic.ask.elicitation import Elicitation, question_part
from mcp_magic.cassette.match import Scene, Server, Session, difference
from mcp_magic.config.masking import Masker, mask_text, to_json
from mcp_magic.consent.rules import pattern_covers
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.completion import place_in
from mcp_magic.langchain.content import to_content
from mcp_magic.lint import lint_tool
from mcp_magic.map.tally import cut_error, kind_of
from mcp_magic.records import Record, grouped
from mcp_magic.results import Listing, PromptResult, ResourceResult, ToolResult
from mcp_magic.results.cards import ToolCard
from mcp_magic.results.reasons import of_body, telling_line
from mcp_magic.server.docs import quoted
from mcp_magic.server.snapshot import interface_changes
from mcp_magic.server.stubs import stubs
from mcp_magic.session.bodies import answer_in, as_events, failed_event, whole_events
from mcp_magic.session.failures import causes_in, instead_of, log_line
from mcp_magic.session.negotiation import addresses, named_url, named_versions
from mcp_magic.session.reader import read_within
from mcp_magic.session.stdio import SpreadMessages
from mcp_magic.skills import FrontMatterError, same_front_matter, split_front_matter
from mcp_magic.stderr import cause
from tests.support.clocks import assert_linear, spent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LENGTHS = (50_000, 1_000_000)
"""The shorter ends the test early where the longer would take hours."""

SHORT = 2_000
"""Characters by which the costliest kind of text is found."""

UNITS = (
    *"|-`[{(!<>\"'1:.=\\/a_~#*$&,;@%+ \n\r\t\x1b│é",
    *("\r\n", "\x1b[", "\x1b[1;", "\u202e", "\u200b", "\ud83d", "\U0001f600", "e\u0301", "╭╰", "[\u200d"),
    *("|-", "| a ", "a|b\n", "|-|-|\n", "|a|b|\n|-|-|\n", '"a","b""c",1\n', 'a,"', "1,234.5\n", "\\|", '\\"', "\\\\["),
    *('{"a":', '[{"a":1},', '{"a":1}\n', "[{'a': None},", "[[1]],", "(1,", "[[", "{a:", "a: {\n", ": [", "&a [*a,"),
    *("```\n", "```a\n", "~~~x\n~~~\n", "[a]: b\n", "](", "](a", "[a](", "![a](", "![", "*a_", "a**b", "<a ", "&#"),
    *("- ", "- a\n", " - \n  ", "> a\n", "# ", "a\n=\n", "\\html", "![" * 99 + "]", "![*" * 66 + "]", "-a", "a=", "a@"),
    *("http://", "a://b@c?", "http://a.b/c?token=x ", "data:image/png;base64,", "QUJD", "a.b-", "{a}", "pat_"),
    *("password=abcdefgh ", '"password": "abcdefgh", ', "Bearer abcdefgh ", "bearer ", "key-", "sk-", "token: "),
    *("Traceback (most recent call last):\n", "The above exception was the direct\n", "Error executing tool t: "),
    *("the ", "a b. ", "1 of 2 rows x ", "ignore previous instructions ", "2026-01-31T", "when tool ", "$$"),
)
"""What texts are made of, again and again."""

SHAPES: dict[str, Callable[[int], str]] = {
    **{repr(unit): lambda length, unit=unit: (unit * length)[:length] for unit in UNITS},  # type: ignore[misc]
    "a word before a URL": lambda length: "a" * length + "://me:sesame@x.org/",
    "no value": lambda length: "token=" + " " * length,
    "no destination": lambda length: "](" + " " * length,
    "lists that never end": lambda length: "x\n" + "[\n" * 19 + "1," * (length // 2),
    "columns without rows": lambda length: (
        "|a" * (length // 8) + "|\n" + "|-" * (length // 8) + "|\n" + "|\n" * (length // 4)
    ),
    "columns of their own": lambda length: json.dumps([{f"a{number}": 1} for number in range(length // 14)]),
    "names of their own": lambda length: ",".join(f"a{number}" for number in range(length // 9)) + "\n1\n2\n",
}


def answered(text: str, **members: Any) -> ToolResult:
    content = members.pop("content", [types.TextContent(type="text", text=text)])
    return ToolResult(types.CallToolResult(content=content, **members), server="s", tool="t")


def resource(text: str, kind: str) -> ResourceResult:
    contents = types.TextResourceContents(uri="a:b", mime_type=kind, text=text)
    return ResourceResult(types.ReadResourceResult(contents=[contents]))


def prompt(text: str) -> PromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return PromptResult(types.GetPromptResult(description=text, messages=[message]))


def a_tool(text: str) -> types.Tool:
    field = {"type": "string", "description": text, "default": text, "pattern": text}
    input_schema = {"type": "object", "properties": {"a": field}, "required": ["a"]}
    return types.Tool(name="t", title=text, description=text, input_schema=input_schema)


def talk(text: str) -> Transcript:
    call = {"id": "1", "name": "t", "args": {"a": text}}
    messages = [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id="1", name="t"), AIMessage(text)]
    return Transcript.from_messages([HumanMessage("x"), *messages])


def elicited(text: str) -> None:
    for asked in (Elicitation("s", text), Elicitation("s", "", "url", {}, f"https://{text}")):
        question_part(asked).html
        question_part(asked).plain


def unreadable(text: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(types.JSONRPCMessage)
    try:
        adapter.validate_json(f'{{"jsonrpc":"2.0","id":1,"result":{text}')
    except ValidationError as error:
        log_line(error, "server", mask_text)
        instead_of(error)
        read_within(error, lambda number: True)


def replayed(text: str) -> None:
    server, params = Server("s"), {"name": "t", "arguments": {"a": text}}
    server.add(Session([Scene(1, "tools/call", {**params, "x": number}) for number in range(2)], [], {}))
    server.find(0, "tools/call", params)
    server.explain("tools/call", params)
    difference(params, {})


def secrets(text: str) -> list[dict[str, str]]:
    pieces = zip(range(2000), pairwise(range(0, len(text), 250)), strict=False)
    return [{"password": f"{number:08}{text[a:b]}", "line": text[a:b]} for number, (a, b) in pieces]


def skilled(text: str) -> None:
    for yaml in (text[:20_000], f"a: {text}"[:20_000]):
        with suppress(FrontMatterError):
            same_front_matter(yaml, {})
    split_front_matter(text)


def changed(text: str) -> None:
    kinds = ("tools", "prompts", "resources", "templates")
    one: dict[str, Any] = {"server": {}, "instructions": text, **{kind: {} for kind in kinds}}
    interface_changes(one, {**one, "tools": {text: {"description": text, "inputSchema": {"description": text}}}})


def joined(text: str) -> None:
    for beginning in ("", '{"'):
        spread = SpreadMessages()
        spread.join(f"{beginning}{text},\n")
        spread.rest()


def called_a_stream(text: str) -> None:
    content = f'[{{"a":{text}'.encode(errors="replace")

    async def body() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 500):
            yield content[at : at + 500]

    async def read() -> None:
        parts = as_events(body(), 200, lambda remark: None, ends=True)
        async for event in whole_events(parts, lambda remark: None):
            failed_event(event, 1)

    asyncio.run(read())


def recorded(text: str) -> None:
    lines = text.split("\n")[:10_000]  # a trace keeps as many
    for group in grouped(lines, lambda line: ("s", line)):
        _ = Record("\n".join(group)).display_text


# What is shown in a notebook
SHOWN: dict[str, Callable[[str], Any]] = {
    "result": answered,
    "result that repeats its data": lambda text: answered(text, structured_content={"a": text}),
    "tool's error": lambda text: answered(text, is_error=True),
    **{f"resource, {kind}": partial(resource, kind=kind) for kind in ("text/plain", "text/markdown", "text/csv")},
    **{f"resource, {kind}": partial(resource, kind=kind) for kind in ("application/json", "image/svg+xml")},
    "prompt": prompt,
    "resource link": lambda text: answered(
        text, content=[types.ResourceLink(type="resource_link", uri=text, name=text, description=text, mime_type=text)]
    ),
    "image": lambda text: answered(text, content=[types.ImageContent(type="image", data=text, mime_type="image/png")]),
    "log lines and listings": lambda text: Listing(
        [{"name": text, "text": text}], title=text, columns=("name", "text"), empty="", note="", kind="logs"
    ),
    "tool's card and example": lambda text: ToolCard(a_tool(text), server="s"),
    "agent's transcript": talk,
}
PATHS: dict[str, Callable[[str], object]] = {
    **{name: lambda text, make=make: make(text)._repr_mimebundle_() for name, make in SHOWN.items()},  # type: ignore[misc]
    "result's table": lambda text: answered(text).df,
    "result's tables": lambda text: answered(text).frames,
    "tool's error that is raised": lambda text: answered(text, is_error=True).raise_for_error(),
    "resource's table": lambda text: resource(text, "text/csv").df,
    "terminal": clean,
    "documentation": quoted,
    "stubs": lambda text: stubs("s", [a_tool(text)]),
    "snapshot and diff": changed,
    "lint": lambda text: list(lint_tool(a_tool(text), "s")),
    "trace, text": Masker(("abcdefgh",)).text,
    "trace, message": lambda text: Masker(("abcdefgh",)).mask(to_json({"data": text, "password": "sesame12"})),
    "cassette": lambda text: Masker(("abcdefgh",)).mask_value(
        {"lines": text.splitlines()[:2000], "rows": [text, {"password": text}]}
    ),
    "cassette, 2,000 secrets": lambda text: Masker(()).mask_value(secrets(text)),
    "cassette, replayed": replayed,
    "error with secrets": mask_text,
    "provider's error": lambda text: model_error(RuntimeError(text), None),
    "content for a model": lambda text: to_content(answered(text)),
    "offline model, results": lambda text: answer([outcome(ToolMessage(text, tool_call_id="1"), {}, "t")]),
    "offline model, quoting": lambda text: quoted_by_offline([HumanMessage(text)]),
    "elicitation": elicited,
    "stderr, why it failed": cause,
    "stderr, why a tool failed": lambda text: causes_in(text, "t"),
    "stderr, addresses": lambda text: (addresses(text), named_url(text)),
    "stderr, records": recorded,
    "message that is no JSON": unreadable,
    "message over several lines": joined,
    "body that is called a stream": called_a_stream,
    "body that is no answer": lambda text: (of_body(text), answer_in(text.encode(errors="replace"), 1)),
    "error, the telling line": telling_line,
    "error, its kind": lambda text: (kind_of(text), cut_error(text, 200)),
    "error that names versions": lambda text: named_versions(f"version {text}", None),
    "skill": skilled,
    "template": lambda text: fits_template("file:///a", text),
    "template, filled": lambda text: fits_template(f"file:///{text}", "file:///{a}{b}{+c}x"),
    "completion": lambda text: (place_in(text, "file:///a"), did_you_mean(text, [text + "a"])),
    "rule": lambda text: pattern_covers(f"{text}*", f"a{text}"),
}


@pytest.fixture
def only_own_objects():
    """Lets the garbage collector search what a path makes, not what other tests have imported and left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.timed
@pytest.mark.usefixtures("only_own_objects")
@pytest.mark.parametrize("name", PATHS)
def test_a_million_worst_characters_take_linear_time(name):
    def go(text: str) -> None:
        with suppress(MCPMagicError, FrontMatterError, UnicodeEncodeError):  # a lone surrogate comes through no pipe
            PATHS[name](text)

    go("a")  # imports
    once = {shape: spent(go, make(SHORT)) for shape, make in SHAPES.items()}
    worst, most = "", -1.0
    for shape in sorted(once, key=once.__getitem__, reverse=True):
        if once[shape] <= most:
            break
        # a second time, because the garbage of others is collected in the time of one
        cost = min(once[shape], spent(go, SHAPES[shape](SHORT)))
        worst, most = max((worst, most), (shape, cost), key=lambda pair: pair[1])
    for length in LENGTHS:
        assert_linear(go, SHAPES[worst](length // 16), SHAPES[worst](length))
