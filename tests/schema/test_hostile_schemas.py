"""A server's schemas: whatever they say, each door ends soon, and what it raises is an error in words."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from IPython.core.interactiveshell import InteractiveShell
from langchain_core.messages import ToolMessage
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

from mcp_magic import schema as s
from mcp_magic._host import Host
from mcp_magic.config.parsing import write_text
from mcp_magic.consent.consent import Decision
from mcp_magic.display import document
from mcp_magic.errors import ArgumentsError, ConfigError, InvalidResponseError, MCPMagicError
from mcp_magic.ipython.commandline import Tab
from mcp_magic.ipython.completion import tool_arguments
from mcp_magic.ipython.extension import MCPMagics
from mcp_magic.langchain.calls import call
from mcp_magic.langchain.functions import function_of
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.lint import lint_tool
from mcp_magic.notebook import host
from mcp_magic.schema.diff import schema_changes
from mcp_magic.schema.patterns import MAX_NODES
from mcp_magic.schema.validate import check_answer, check_arguments
from mcp_magic.ui.request_form import RequestForm
from tests.support.schema_server import MANY, SCHEMAS, UNREADABLE, doubling, of
from tests.support.telling import call as planned
from tests.support.telling import result as ended
from tests.support.telling import told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

in_the_session = pytest.mark.asyncio(loop_scope="module")

SECONDS = 6.0
"""CPU time of one schema at one door. The worst takes one; without a budget they take hours, or all memory."""

JSON = '{"a":{"a":{},"b":{}},"b":{}}'


class Endless(BaseException):
    """A door did not end in time."""


@contextmanager
def bounded() -> Iterator[None]:
    """Raise `Endless` in what takes more than `SECONDS` of CPU time."""

    def end(*_: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


async def outcome(door: Callable[[], Any]) -> str:
    """Say what is wrong with how a door ends; "" where it gives a result or an error in a few words."""
    try:
        with bounded():
            given = door()
            given = await given if hasattr(given, "__await__") else given
            shown(given)
    except MCPMagicError as error:
        lines = str(error).splitlines()
        return "" if len(lines) <= 8 and all(len(line) < 2_000 for line in lines) else f"long: {str(error)[:200]}"
    except Endless:
        return "does not end"
    except Exception as error:  # what is looked for
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def shown(value: Any) -> None:
    mime = getattr(value, "_repr_mimebundle_", None)
    if mime is not None:
        mime()
    repr(value)


class Attacked:
    """A session with a server of all schemas, and what a person does with one of its tools."""

    def __init__(self, connection: Any, tools: dict[str, Any], magics: Any, folder: Path) -> None:
        self.connection = connection
        self.tools = tools
        self.magics = magics
        self.folder = folder

    def line(self, line: str) -> Awaitable[Any]:
        awaited: Awaitable[Any] = self.magics.run(None, line, None, {})
        return awaited

    def form(self, name: str) -> None:
        form = RequestForm(self.connection, self.tools[f"takes_{name}"])
        shown(form.code)
        form.set_arguments(json.loads(JSON))
        shown(form.form.problems)
        form.close()

    def complete(self, name: str) -> None:
        for fragment in ("", "p1", "a=", "a.", "a.left.p1."):
            tool_arguments(Tab(fragment, [f"s:takes_{name}"]))

    def help(self, name: str) -> None:
        function = self.connection.tools[f"takes_{name}"]
        shown((function.__doc__, str(function.__signature__)))

    def model(self, name: str) -> None:
        tool = self.tools[f"takes_{name}"]
        json.dumps(function_of("x", tool).bound)

    def changes(self, name: str) -> None:
        schema = SCHEMAS[name]
        schema_changes(schema, {**schema, "minProperties": 1, "properties": {**schema.get("properties", {}), "z": {}}})

    def lint(self, name: str) -> None:
        list(lint_tool(self.tools[f"takes_{name}"], "s"))


DOORS: dict[str, Callable[[Attacked, str], Any]] = {
    "tool": lambda on, name: on.line(f"tool s:takes_{name}"),
    "form": Attacked.form,
    "tab": Attacked.complete,
    "help": Attacked.help,
    "call": lambda on, name: on.line(f"call s:takes_{name} a=1"),
    "call with objects": lambda on, name: on.line(f"call s:takes_{name} {JSON}"),
    "call with lists": lambda on, name: on.line(f"call s:takes_{name} a:=[[1],[{{}}]]"),
    "call with a wrong name": lambda on, name: on.line(f"call s:takes_{name} nowhere.p1=1"),
    "call without": lambda on, name: on.line(f"call s:takes_{name}"),
    "answer": lambda on, name: on.line(f"call s:answers_{name}"),
    "model": Attacked.model,
    "changes": Attacked.changes,
    "lint": Attacked.lint,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Attacked]:
    folder = tmp_path_factory.mktemp("schemas")
    magics = MCPMagics(InteractiveShell())
    connection = await host.connect([sys.executable, "-m", "tests.support.schema_server"], name="s")
    tools = {tool.name: tool for tool in await connection.listing("tools")}
    yield Attacked(connection, tools, magics, folder)
    await host.close()


@pytest.mark.parametrize("where", DOORS)
@in_the_session
async def test_every_door_ends_with_a_result_or_an_error_in_words(attacked: Attacked, where: str) -> None:
    wrong = {name: await outcome(lambda name=name: DOORS[where](attacked, name)) for name in SCHEMAS}  # type: ignore[misc]
    assert {name: said for name, said in wrong.items() if said} == {}


@pytest.mark.parametrize("line", ["tools", "tools --bound", "tools s", "docs s -o {0}/d.md", "stubs s -o {0}/s.py"])
@in_the_session
async def test_lists_and_files_of_all_schemas_end(attacked: Attacked, line: str) -> None:
    began = time.process_time()
    shown(await attacked.line(line.format(attacked.folder)))
    assert time.process_time() - began < 40


@in_the_session
async def test_a_snapshot_of_all_schemas_is_compared(attacked: Attacked) -> None:
    began = time.process_time()
    await attacked.line(f"snapshot s -o {attacked.folder}/s.json")
    changes = await attacked.line(f"diff s {attacked.folder}/s.json")
    assert list(changes) == []
    assert time.process_time() - began < 40


@in_the_session
async def test_tools_for_langchain_end(attacked: Attacked) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    wrong = {}
    for tool in langchain_tools(attacked.connection):
        if said := await outcome(lambda tool=tool: convert_to_openai_tool(tool) and None):  # type: ignore[misc]
            wrong[tool.name] = said
    assert wrong == {}


@pytest.mark.parametrize("name", UNREADABLE)
@in_the_session
async def test_what_is_no_schema_at_all_is_said_in_words(name: str) -> None:
    server = [sys.executable, "-m", "tests.support.schema_server", f"unreadable_{name}"]
    connection = await host.connect(server, name=name)
    if name == "too_deep":
        with pytest.raises(InvalidResponseError, match="the server's answer breaks the protocol"):
            await connection.listing("tools")
    else:
        await connection.listing("tools")
        assert connection.info().remarks
        assert bool(connection.catalog.unusable["tools"]) is (name in ("false", "list", "number"))
    await host.disconnect(name)


def test_what_is_past_the_budget_is_counted_where_it_is_shown() -> None:
    schema = SCHEMAS["properties"]
    rest = MANY - MAX_NODES
    assert f"… {rest:,} more" in s.make_docstring("t", None, None, schema)
    assert list(s.make_signature(schema).parameters)[-1] == "arguments"
    bound = function_of("t", _tool(schema)).bound["function"]["parameters"]
    assert len(bound["properties"]) == MAX_NODES
    assert bound["description"] == f"({rest:,} more properties are not listed)"


@in_the_session
async def test_a_tool_s_card_and_list_count_what_they_leave_out(attacked: Attacked) -> None:
    card = str(await attacked.line("tool s:takes_properties"))
    listing = await attacked.line("tools s")
    assert f"… {MANY - document.display.listing_rows:,} more" in card
    assert (
        f"… {MANY - MAX_NODES:,} more" in {row["tool"]: row["arguments"] for row in listing.rows}["s:takes_properties"]
    )


def test_arguments_past_the_budget_are_known_by_name() -> None:
    schema = SCHEMAS["properties"]
    last = f"p{MANY - 1}"
    assert s.parse_arguments([f"{last}=x"], schema) == {last: "x"}
    assert s.bind_arguments(s.make_signature(schema), schema, (), {last: "x"}) == {last: "x"}
    with pytest.raises(ArgumentsError, match=rf"^{last}: expected string, got 1$"):
        check_arguments({last: 1}, schema)


def test_an_enum_too_long_for_a_model_is_told_in_words() -> None:
    bound = function_of("t", _tool(SCHEMAS["enum"])).bound["function"]["parameters"]
    assert bound["properties"]["a"]["description"].startswith('(one of 10,000 values, such as "value 0", "value 1"')
    assert "enum" not in bound["properties"]["a"]
    few = of({"enum": [f"v{n}" for n in range(1_000)]})
    assert function_of("t", _tool(few)).bound["function"]["parameters"]["properties"] == few["properties"]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_doctor_reports_that_doubling_references_are_unchecked(keyword: str) -> None:
    assert "schema-steps" in {finding.code for finding in lint_tool(_tool(doubling(keyword)), "s")}


UNCHECKED = [
    (doubling("anyOf"), "not wholly checked against the schema, which takes too many steps"),
    (of({"type": "string", "pattern": "("}), "not checked against the pattern ("),
]


async def test_result_and_agent_card_explain_unchecked_parts() -> None:
    nothing = {"type": "object"}
    tools = [Tool(name="plain", input_schema=of({"type": "string", "pattern": "^x"}))]
    for number, (unchecked, _) in enumerate(UNCHECKED):
        tools.append(Tool(name=f"takes_{number}", input_schema=unchecked))
        tools.append(Tool(name=f"answers_{number}", input_schema=nothing, output_schema=unchecked))

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": "x"})

    own = Host()
    try:
        connection = await own.connect(Server("s", on_list_tools=list_tools, on_call_tool=call_tool), name="s")
        for number, (_, why) in enumerate(UNCHECKED):
            for tool, subject in ((f"takes_{number}", "the arguments were"), (f"answers_{number}", "the answer was")):
                for _ in range(2):  # the second call knows from the first that the steps do not suffice
                    result = await connection.call(tool, {"a": "x"})
                    assert f"{subject} {why}" in str(result)
                    assert f"{subject} {why}" in result._repr_mimebundle_()["text/html"]
                    assert repr(result).endswith(f"; {subject} {why}>")
                content, artifact = await call(connection, tool, {"a": "x"}, decision=Decision.approve())
                message = ToolMessage(content, tool_call_id="1", name=f"s__{tool}", artifact=artifact)
                card = told(planned("1", tool, server="s"), ended("1", message))
                assert f"{subject} {why}" in " ".join(str(card).split())
                assert f"{subject} {why}" in card._repr_mimebundle_()["text/html"]
        plain = await connection.call("plain", {"a": "x"})
    finally:
        await own.close()
    assert (plain.unchecked, "checked" in f"{plain}{plain!r}") == ("", False)


def test_what_an_ordinary_schema_refuses_is_refused_still() -> None:
    tree = {
        **of({"$ref": "#/$defs/T"}),
        "$defs": {"T": {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"$ref": "#/$defs/T"}}}},
    }
    deep: Any = {"n": "x"}
    for _ in range(50):
        deep = {"n": 1, "t": deep}
    with pytest.raises(ArgumentsError, match="expected integer, got 'x'"):
        check_arguments({"a": deep}, tree)
    rows = {"rows": [{"n": number} for number in range(20_000)] + [{"n": "x"}]}
    table = {"properties": {"rows": {"items": {"not": {"required": ["m"]}, "properties": {"n": {"type": "integer"}}}}}}
    with pytest.raises(ArgumentsError, match=r"rows\[20000\]\.n: expected integer, got 'x'"):
        check_arguments(rows, table)
    with pytest.raises(ValueError, match=r"^a: expected one of 1, 2, got 3$"):
        check_answer({"a": 3}, of({"enum": [1, 2], "not": {"const": 9}}))
    with pytest.raises(ValueError, match="no duplicates"):
        check_answer({"a": [{"n": 1}, {"n": 1.0}]}, of({"uniqueItems": True}))
    check_answer({"a": [1, True]}, of({"uniqueItems": True}))


def test_unencodable_file_is_written_or_a_readable_error(tmp_path: Path) -> None:
    write_text(tmp_path / "page.md", "Zo\u00eb \ud83d")
    assert (tmp_path / "page.md").read_bytes() == b"Zo\xc3\xab \\ud83d"
    with pytest.raises(ConfigError, match="cannot be written: embedded null byte"):
        write_text(tmp_path / "a\0b", "x")


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(name="t", input_schema=schema)
