"""`%mcp call`, `read`, `prompt`, `raw`, `assert` and `last`, and what servers get of the arguments in a line."""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from typing import Any

import pandas as pd
import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool

from mcp_magic import errors
from mcp_magic.errors import ArgumentsError, CommandError, RequestTimeoutError
from mcp_magic.ipython.commands import COMMANDS
from mcp_magic.notebook import host
from mcp_magic.results import reasons
from mcp_magic.results.results import CheckFailedError
from tests.support.bundled import load
from tests.support.defined_server import command
from tests.support.doctors import SICK
from tests.support.lowlevel import serving_tools
from tests.support.schemas import TEXT
from tests.support.waiting_server import Waiting, waiting_server
from tests.support.walks import modules, walk

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": TEXT,
        "sql": TEXT,
        "limit": {"type": "integer"},
        "tags": {"type": "array", "items": TEXT},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "entities": {"type": "array", "items": {"type": "object"}},
        "rows": {"type": "array", "items": {"type": "array"}},
        "scale": {**TEXT, "default": "css"},
    },
    "required": ["scale"],
}


# Arguments


@pytest.fixture
async def sent(magic):
    """Call a tool that answers its arguments; return them without the one that is filled in."""
    await host.connect(serving_tools(Tool(name="save", input_schema=SCHEMA)), name="db")

    async def call(words: str, cell: str | None = None, **names: Any) -> Any:
        result = await magic(f"call db:save {words}".rstrip(), cell, **names)
        assert result.filled == {"scale": "css"}
        return {name: value for name, value in eval(result.text) if name != "scale"}

    return call


async def test_arguments_are_what_a_line_plainly_says(sent):
    for words, arguments in {
        r"x=C:\Users\me\data.csv": {"x": r"C:\Users\me\data.csv"},
        r'x="C:\my files\data.csv"': {"x": r"C:\my files\data.csv"},
        r"x=it\'s": {"x": "it's"},
        r"x=\$5": {"x": "$5"},
        "numbers=[1, 2]": {"numbers": [1, 2]},
        'tags=["a b", "c"] x=y': {"tags": ["a b", "c"], "x": "y"},
        'entities=[{"name": "A", "n": [1, 2]}]': {"entities": [{"name": "A", "n": [1, 2]}]},
        "x=[1, 2]": {"x": "[1, 2]"},
        "rows=$frame": {"rows": [["a"], [1]]},
        "rows={frame.to_numpy()}": {"rows": [[1]]},
    }.items():
        assert await sent(words, frame=pd.DataFrame({"a": [1]})) == arguments


async def test_line_that_cannot_be_read_says_what_to_type(magic, sent):
    for words, message, text in (
        ("x=Ada Lovelace", "cannot read 'Lovelace' as an argument; quote it: x='Ada Lovelace'", "Ada Lovelace"),
        ("x = Ada", "cannot read 'x' as an argument; without spaces around the =: x=Ada", "Ada"),
        ("x= Ada", "cannot read 'Ada' as an argument; without spaces around the =: x=Ada", "Ada"),
        (r"x=two\ words", "cannot read 'words' as an argument; quote it: x='two words'", "two words"),
    ):
        error = await magic.error(errors.MCPMagicError, f"call db:save {words}")
        assert error == message
        assert (await sent(error.rpartition(": ")[2]))["x"] == text
    assert await magic.error(ArgumentsError, 'call db:save x:="\\ud83d"') == (
        "x: character 1 is '\\ud83d', half of a surrogate pair, and JSON in UTF-8 cannot hold it; "
        "text.encode(errors='replace').decode() has ? in its place"
    )


@pytest.mark.parametrize("name", ["class", "1x", "a.b"])
async def test_bad_variable_is_refused_before_the_call(magic, name):
    before = len(host.trace)
    error = await magic.error(CommandError, f"call math:add a=1 b=2 -o {name}")
    problem = f"argument -o/--out: expected a variable's name, got {name!r}"
    assert error == f"%mcp call: {problem}. `%mcp call --help` shows what it takes."
    assert len(host.trace) == before, "nothing was sent"


async def test_tool_beside_its_server_is_told_how_it_is_written(magic):
    for subcommand in ("call", "assert", "form"):
        error = await magic.error(ArgumentsError, f"{subcommand} math add a=1 b=2")
        assert error == "a tool is SERVER:TOOL, in one word; did you mean math:add?"
        error = await magic.error(errors.UnknownToolError, f"{subcommand} math ad a=1 b=2")
        assert error.startswith("'math' is a server; its tools are math:NAME: add, ")
    error = await magic.error(CommandError, "tool math add")
    assert "unrecognized arguments: add. A tool is SERVER:TOOL, in one word." in error
    error = await magic.error(errors.UnknownPromptError, "prompt math explain=1")
    assert error == "'math' is a server; its prompts are math:NAME: explain"


async def test_text_of_the_cell_is_an_argument(magic, sent):
    query = 'SELECT *\n  FROM "a" -- {x} $x \\d\n'
    assert await sent("sql=@cell limit=3", query) == {"sql": query[:-1], "limit": 3}
    assert await sent("limit=@cell", "3\n") == {"limit": 3}
    assert await sent("numbers:=@cell x=y", "[1,\n 2]\n") == {"numbers": [1, 2], "x": "y"}
    assert await sent("x=y", '{"limit": 2}\n') == {"limit": 2, "x": "y"}
    (magic.folder / "cell").write_text("a file")
    assert await sent("x=@cell") == {"x": "a file"}
    assert await sent("x=@./cell sql=@cell", "text") == {"x": "a file", "sql": "text"}
    (magic.folder / "cell").unlink()
    for words, cell, says in (
        ("", "SELECT 1", r".*; for its text as an argument write x=@cell"),
        ("", "{numbers", "the cell below %%mcp call is not JSON: Expecting.*"),
        ("", "[1]", ".*must be a JSON object, not list.*"),
        ("sql=@cell", None, ".*the text of a cell needs %%mcp above it"),
        ("sql=@cell", "\ud800", r"the cell: character 1 is '\\ud800'.*"),
    ):
        error = await magic.error(ArgumentsError, f"call db:save {words}", cell)
        assert re.fullmatch(says, error, re.DOTALL)


# Results


async def test_call_returns_a_value_or_a_dataframe(magic):
    assert (await magic("call math:add a=1 b=2")).data == 3
    frame = await magic("call math:statistics numbers=1 numbers=3 --df")
    assert frame["mean"][0] == 2
    assert (await magic("call math:statistics", '{"numbers": [1, 3]}')).data["mean"] == 2
    assert (await magic("read math://constants")).data["pi"] > 3
    assert (await magic("read $uri --server math", uri="math://table/2")).df is not None
    prompt = await magic("prompt math:explain topic=primes level=beginner")
    assert "primes" in prompt.messages[0].content


async def test_one_line_enters_few_functions(magic):
    await host.connect(load("math_server").server, name="math")
    await magic("call math:add a=1 b=2")
    host.trace.settle()
    with walk() as entries:
        await magic("call math:add a=1 b=2")
    assert len(entries) <= 240
    assert len(modules(entries)) <= 38


async def test_read_that_is_kept_says_so_and_refresh_asks_again(magic):
    await magic("connect orchard --name orchard", orchard=load("orchard_server").server)
    prices = await magic("read orchard://prices")
    kept = await magic("read orchard://prices")
    assert (prices.age, kept.data) == (None, prices.data)
    assert "`%mcp read orchard://prices --server orchard --refresh` asks the server" in str(kept).splitlines()[0]
    assert (await magic("read orchard://prices --refresh")).age is None
    rows = await magic("trace orchard --method resources/read")
    assert [row["way"] for row in rows] == ["→", "←", "kept", "→", "←"]
    [row] = [row for row in await magic("servers") if row["server"] == "orchard"]
    assert row["kept"].startswith("tools for ")
    assert row["kept"].endswith(", 1 read resource")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("call waiting:never", "waiting:never"),
        ("read waiting://never", "waiting: waiting://never"),
        ("prompt waiting:never", "waiting:never"),
        ('raw waiting tools/call {"name":"never"}', "waiting: tools/call"),
    ],
    ids=["call", "read", "prompt", "raw"],
)
async def test_requests_take_time_outs(magic, line, what):
    await host.connect(waiting_server(Waiting()), name="waiting")
    error = await magic.error(RequestTimeoutError, f"{line} --timeout 0.1")
    assert error.startswith(f"{what}: timed out: no answer within 0.1 s. The call was cancelled.")
    error = await magic.error(RequestTimeoutError, f"{line} --timeout 9 --max-total-timeout 0.1")
    assert error.startswith(f"{what}: timed out: no answer within 0.1 s in total")
    magic.settings.call_timeout = 0.1
    assert "within 0.1 s" in await magic.error(RequestTimeoutError, line)


async def test_last_shows_a_refused_request_whole(magic, monkeypatch):
    monkeypatch.setattr(reasons, "_last", deque(maxlen=1))
    assert "no server has answered with an error yet" in await magic.error(CommandError, "last")
    refused = {"error": {"message": "Invalid:\n[]", "code": -32602}}
    told = json.dumps(
        {"tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}, "tools/call": refused}
    )
    await magic(f"connect --name shop -- {sys.executable} {SICK} $told", told=told)
    assert "`%mcp last` shows the whole text" in await magic.error(errors.ProtocolError, "call shop:add")
    shown = await magic("last")
    assert "Invalid:\n[]" in str(shown._repr_mimebundle_()["text/plain"])
    assert shown.error.code == -32602


# Odd schemas

PRICE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
async def defined(magic):
    properties = {
        "v": {},
        "w": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        "n": {"type": "integer", "default": "many"},
    }
    tools = [
        {"name": "echo", "inputSchema": {"type": "object", "properties": properties}},
        {"name": "price", "inputSchema": {"type": "object"}, "outputSchema": PRICE},
    ]
    answer = {"content": [{"type": "text", "text": "three"}], "structuredContent": {"n": "three"}}
    await host.connect(command(*tools, answers={"price": answer}), name="s")
    yield magic
    host.outputs.strict = False


async def test_typed_json_is_a_value_and_the_card_says_so(defined):
    for typed, value, reading in (
        ('v={"a": 1}', {"v": {"a": 1}}, 'v was read as JSON, an object; for the text write \'v:="{\\"a\\": 1}"\''),
        ("w=5", {"w": 5}, "w was read as JSON, a number; for the text write 'w:=\"5\"'"),
        ('w=["a"]', {"w": ["a"]}, 'w was read as JSON, a list; for the text write \'w:="[\\"a\\"]"\''),
        ("w=Oslo v=5 n=1_000", {"w": "Oslo", "v": "5", "n": 1000}, ""),
        ('v:={"a": 1}', {"v": {"a": 1}}, ""),
    ):
        result = await defined(f"call s:echo {typed}")
        assert (result.data, result.readings) == (value, reading)
        assert reading in str(result)
        if reading:
            again = reading.partition("write ")[2]
            assert isinstance(next(iter((await defined(f"call s:echo {again}")).data.values())), str)


async def test_result_that_does_not_fit_its_schema_is_kept(defined):
    assert "does not fit the tool's output schema" in str(await defined("call s:price"))
    defined.settings.strict_output = True
    with pytest.raises(errors.InvalidResponseError) as caught:
        await defined("call s:price")
    assert caught.value.result.data == {"n": "three"}
    defined.settings.strict_output = False
    assert (await defined("call s:price")).data == {"n": "three"}
    with pytest.raises(CheckFailedError, match="n: expected integer, got 'three'") as failed:
        await defined("assert s:price --schema output")
    assert failed.value.result.data == {"n": "three"}


# assert

LIST = {"type": "array", "items": {"type": "integer"}}
STATISTICS = '{"count": 1, "total": 1, "mean": 1, "median": 1, "stdev": null, "minimum": 1, "maximum": 1}'


async def test_answer_that_is_as_expected_is_a_list_of_checks(magic):
    (magic.folder / "list.json").write_text(json.dumps(LIST))
    for line, checks in {
        "math:add a=3 b=4": 1,
        "math:add a=3 b=4 --equals 7 --under 60000 --contains 7": 4,
        "math:primes n=10 --equals '[2, 3, 5, 7]' --schema output": 3,
        "math:primes n=10 --equals $wanted --schema $schema": 3,
        "math:primes n=10 --equals {wanted[:4]}": 2,
        "math:primes n=10 --schema list.json": 2,
        f"math:statistics numbers:=[1] --equals '{STATISTICS}'": 2,
        "math:divide a=1 b=0 --error": 1,
        "math:divide a=1 b=0 --error zero": 1,
    }.items():
        listing = await magic(f"assert {line}", wanted=[2, 3, 5, 7], schema=LIST)
        assert len(listing) == checks
        assert all(row["check"].startswith("✓ ") for row in listing)


async def test_answer_that_is_not_fails_with_the_difference(magic):
    assert issubclass(CheckFailedError, AssertionError)
    for line, says in {
        "math:add a=3 b=4 --equals 8": "equals: it differs:\n  --- expected\n  +++ got\n  @@ -1 +1 @@\n  -8\n  +7",
        "math:add a=3 b=4 --contains 8": "contains '8': no '8' in '7'",
        "math:add a=3 b=4 --under 0.000001": "under 1e-06 ms: it took",
        "math:add a=3 b=4 --schema $schema": "schema: it does not fit the schema: data: expected list of integer",
        "math:add a=3 b=4 --error": "error: no error; it answered '7'",
        "math:divide a=1 b=0": "no error: the tool reported an error",
        "math:divide a=1 b=0 --error banana": "the error does not contain 'banana'",
    }.items():
        error = await magic.error(CheckFailedError, f"assert {line}", schema=LIST)
        assert error.startswith(f"{line.split()[0]}: ")
        assert says in error
    error = await magic.error(CheckFailedError, "assert math:primes n=500 --equals $other", other=[])
    assert len(error.splitlines()) < 25


async def test_line_that_cannot_be_checked_is_no_failed_check(magic):
    (magic.folder / "odd.json").write_text("[]")
    for line, kind, says in (
        ("math:add a=1 b=2 --schema none.json", errors.ConfigError, "No such file"),
        ("math:add a=x b=2", ArgumentsError, "expected"),
        ("math:add a=1 b=2 --schema odd.json", ArgumentsError, "does not hold a JSON object"),
    ):
        assert not issubclass(kind, AssertionError)
        assert says in await magic.error(kind, f"assert {line}")


async def test_check_that_is_written_as_an_argument_is_an_error(magic):
    server = MCPServer("kind", log_level="ERROR")

    @server.tool()
    def fails(error: str = "") -> str:
        return error

    @server.tool()
    def nothing() -> int:
        return 5

    await magic("connect kind", kind=server)
    await magic("assert fails error=x --equals x")
    for line, says in {
        "math:add a=3 b=4 equals=7": "'equals' is not an argument of math:add; write --equals 7",
        "math:add a=3 b=4 contains='7 of'": "'contains' is not an argument of math:add; write --contains '7 of'",
        "math:add a=3 b=4 == 7": "'==' is not an argument of math:add; write --equals 7",
        "math:add a=3 b=4 ==7": "'==' is not an argument of math:add; write --equals 7",
        "math:add a=3 b=4 equals 7": "'equals' is not an argument of math:add; write --equals 7",
        "math:add error b=4": "'error' is not an argument of math:add; write --error",
        "math:add a=3 b=4 error": "'error' is not an argument of math:add; write --error",
        "nothing equals=6": "'equals' is not an argument of kind:nothing; write --equals 6",
    }.items():
        assert await magic.error(CommandError, f"assert {line}") == f"%mcp assert: {says}"
    error = await magic.error(ArgumentsError, "assert nothing more=6")
    assert "unknown argument 'more'. It takes no arguments" in error


# raw


async def test_raw_sends_what_is_typed_and_returns_what_came(magic):
    answer = await magic('raw math tools/call {"name": "add", "arguments": {"a": 2, "b": 40}}')
    assert answer["structuredContent"] == {"result": 42}
    assert {tool["name"] for tool in (await magic("raw math tools/list"))["tools"]} >= {"add", "divide"}
    body = '{"name": "add", "arguments": {"a": "two"}}'
    assert (await magic("raw math tools/call", body))["isError"] is True, "nothing is checked before it is sent"
    assert (await magic("raw math resources/read $what", what={"uri": "math://constants"}))["contents"]
    assert await magic('raw math notifications/cancelled {"requestId": "x-1"} --notify') is None
    *_, row = await magic("trace --method notifications/cancelled")
    assert row["way"] == "→"
    with pytest.raises(errors.ProtocolError, match=r"math: no/such.*-32601, method not found") as caught:
        await magic("raw math no/such")
    assert caught.value.code == -32601
    before = len(host.trace)
    for line, says in (
        ("raw math tools/list [1]", "the params must be a JSON object, .* not list"),
        ("raw math tools/list '{oops'", "the params are not JSON"),
        ("raw nobody tools/list", "nobody"),
    ):
        assert re.search(says, await magic.error(errors.MCPMagicError, line))
    assert len(host.trace) == before, "nothing was sent"


@pytest.mark.parametrize("name", ["call", "prompt", "read", "assert", "tool", "map"])
async def test_help_has_examples_that_the_bundled_servers_answer(magic, name):
    await host.connect(load("weather_server").server, name="weather")
    examples = [
        line.partition("%mcp ")[2] for line in COMMANDS[name].implementation.examples if "--journal" not in line
    ]
    bundled = [line for line in examples if re.match(r"\w+ (math|weather):", line)]
    assert bundled
    for line in bundled:
        await magic(line, cities=pd.DataFrame({"city": ["Berlin"]}))
