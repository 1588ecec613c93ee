"""A server's schemas: whatever they say, every door ends soon, and what it raises is an error in words."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from IPython.core.interactiveshell import InteractiveShell
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

from mcp_magic import schema as s
from mcp_magic._host import Host
from mcp_magic.consent.consent import Decision
from mcp_magic.display import document
from mcp_magic.errors import ArgumentsError, InvalidResponseError, MCPMagicError
from mcp_magic.ipython.commandline import Tab
from mcp_magic.ipython.completion import tool_arguments
from mcp_magic.ipython.extension import MCPMagics
from mcp_magic.langchain.functions import function_of
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.lint import lint_tool
from mcp_magic.notebook import host
from mcp_magic.schema.patterns import MAX_NODES
from mcp_magic.schema.validate import check_answer, check_arguments
from mcp_magic.server.snapshot import schema_changes
from mcp_magic.ui.request_form import RequestForm
from tests.support.calling import model_call
from tests.support.schema_server import MANY, SCHEMAS, UNREADABLE, doubling, of
from tests.support.schemas import INTEGER, TEXT
from tests.support.telling import call as planned
from tests.support.telling import result as ended
from tests.support.telling import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


async def outcome(door: Callable[..., Any], *args: Any) -> str:
    """Say what is wrong with how a door ends; "" where it gives a result or an error in a few words."""
    try:
        with bounded():
            value = door(*args)
            shown(await value if hasattr(value, "__await__") else value)
    except MCPMagicError as error:
        lines = str(error).splitlines()
        return "" if len(lines) <= 8 and all(len(line) < 2_000 for line in lines) else f"long: {str(error)[:200]}"
    except Endless:
        return "does not end"
    except Exception as error:  # what is looked for
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def shown(value: Any) -> None:
    getattr(value, "_repr_mimebundle_", dict)()
    repr(value)


def form(on: Any, name: str) -> None:
    form = RequestForm(on.connection, on.tools[f"takes_{name}"])
    shown(form.code)
    form.set_arguments(json.loads(JSON))
    shown(form.form.problems)
    form.close()


def complete(on: Any, name: str) -> None:
    for fragment in ("", "p1", "a=", "a.", "a.left.p1."):
        tool_arguments(Tab(fragment, [f"s:takes_{name}"]))


def changes(on: Any, name: str) -> None:
    schema = SCHEMAS[name]
    schema_changes(schema, {**schema, "minProperties": 1, "properties": {**schema.get("properties", {}), "z": {}}})


def described(on: Any, name: str) -> None:
    function = on.connection.tools[f"takes_{name}"]
    shown((function.__doc__, str(function.__signature__)))


DOORS: dict[str, Callable[[Any, str], Any]] = {
    "tool": lambda on, name: on.line(f"tool s:takes_{name}"),
    "form": form,
    "tab": complete,
    "help": described,
    "call": lambda on, name: on.line(f"call s:takes_{name} a=1"),
    "call with objects": lambda on, name: on.line(f"call s:takes_{name} {JSON}"),
    "call with lists": lambda on, name: on.line(f"call s:takes_{name} a:=[[1],[{{}}]]"),
    "call with a wrong name": lambda on, name: on.line(f"call s:takes_{name} nowhere.p1=1"),
    "call without": lambda on, name: on.line(f"call s:takes_{name}"),
    "answer": lambda on, name: on.line(f"call s:answers_{name}"),
    "model": lambda on, name: json.dumps(function_of("x", on.tools[f"takes_{name}"]).openai_tool),
    "changes": changes,
    "lint": lambda on, name: list(lint_tool(on.tools[f"takes_{name}"], "s")),
    "langchain": lambda on, name: convert_to_openai_tool(on.functions[f"takes_{name}"]) and None,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked():
    """A session with a server of all schemas, and what a person does with its tools."""
    magics: Any = MCPMagics(InteractiveShell())
    connection = await host.connect([sys.executable, "-m", "tests.support.schema_server"], name="s")
    tools = {tool.name: tool for tool in await connection.listing("tools")}
    functions = {tool.metadata["tool"]: tool for tool in langchain_tools(connection) if tool.metadata}
    yield SimpleNamespace(
        connection=connection, tools=tools, functions=functions, line=lambda line: magics.run(None, line, None, {})
    )
    await host.close()


@pytest.mark.parametrize("where", DOORS)
@in_the_session
async def test_every_door_ends_with_a_result_or_words(attacked, where):
    wrong = {name: await outcome(DOORS[where], attacked, name) for name in SCHEMAS}
    assert {name: said for name, said in wrong.items() if said} == {}


FILES = ("docs s -o {0}/d.md", "stubs s -o {0}/s.py", "snapshot s -o {0}/s.json", "diff s {0}/s.json")


@in_the_session
async def test_lists_and_files_of_all_schemas_end(attacked, tmp_path):
    for command in ("tools", "tools --bound", "tools s", *FILES):
        began = time.process_time()
        value = await attacked.line(command.format(tmp_path))
        shown(value)
        assert time.process_time() - began < 40
    assert list(value) == []  # nothing differs from the snapshot


@pytest.mark.parametrize("name", UNREADABLE)
@in_the_session
async def test_an_unreadable_schema_is_said_in_words(name):
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


@in_the_session
async def test_fields_past_the_budget_are_counted_and_taken(attacked):
    schema, last, rest = SCHEMAS["properties"], f"p{MANY - 1}", MANY - MAX_NODES
    assert f"… {rest:,} more" in s.make_docstring("t", None, None, schema)
    assert list(s.make_signature(schema).parameters)[-1] == "arguments"
    bound = parameters(schema)
    assert len(bound["properties"]) == MAX_NODES
    assert bound["description"] == f"({rest:,} more properties are not listed)"
    assert f"… {MANY - document.display.listing_rows:,} more" in str(await attacked.line("tool s:takes_properties"))
    [row] = [row for row in (await attacked.line("tools s")).rows if row["tool"] == "s:takes_properties"]
    assert f"… {rest:,} more" in row["arguments"]
    # by name
    assert s.parse_arguments([f"{last}=x"], schema) == {last: "x"}
    assert s.bind_arguments(s.make_signature(schema), schema, (), {last: "x"}) == {last: "x"}
    with pytest.raises(ArgumentsError, match=rf"^{last}: expected string, got 1$"):
        check_arguments({last: 1}, schema)


def parameters(schema: Any) -> Any:
    """What a model gets of a schema."""
    return function_of("t", Tool(name="t", input_schema=schema)).openai_tool["function"]["parameters"]


def test_an_enum_too_long_for_a_model_is_told_in_words():
    bound = parameters(SCHEMAS["enum"])["properties"]["a"]
    assert bound["description"].startswith('(one of 10,000 values, such as "value 0", "value 1"')
    assert "enum" not in bound
    few = of({"enum": [f"v{n}" for n in range(1_000)]})
    assert parameters(few)["properties"] == few["properties"]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_doctor_reports_that_doubling_references_are_unchecked(keyword):
    tool = Tool(name="t", input_schema=doubling(keyword))
    assert "schema-steps" in {finding.code for finding in lint_tool(tool, "s")}


UNCHECKED = [
    (doubling("anyOf"), "not wholly checked against the schema, which takes too many steps"),
    (of({**TEXT, "pattern": "("}), "not checked against the pattern ("),
]


async def test_results_and_cards_explain_unchecked_parts():
    tools = [Tool(name="plain", input_schema=of({**TEXT, "pattern": "^x"}))]
    for number, (unchecked, _) in enumerate(UNCHECKED):
        tools.append(Tool(name=f"takes_{number}", input_schema=unchecked))
        tools.append(Tool(name=f"answers_{number}", input_schema={"type": "object"}, output_schema=unchecked))

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": "x"})

    own = Host()
    try:
        connection = await own.connect(Server("s", on_list_tools=list_tools, on_call_tool=call_tool), name="s")
        for number, (_, why) in enumerate(UNCHECKED):
            for tool, remark in (
                (f"takes_{number}", f"the arguments were {why}"),
                (f"answers_{number}", f"the answer was {why}"),
            ):
                for _ in range(2):  # the second call knows from the first that the steps do not suffice
                    result = await connection.call(tool, {"a": "x"})
                    assert remark in str(result)
                    assert remark in result._repr_mimebundle_()["text/html"]
                    assert repr(result).endswith(f"; {remark}>")
                content, artifact = await model_call(connection, tool, {"a": "x"}, decision=Decision.approve())
                message = ToolMessage(content, tool_call_id="1", name=f"s__{tool}", artifact=artifact)
                card = told(planned("1", tool, server="s"), ended("1", message))
                assert remark in " ".join(str(card).split())
                assert remark in card._repr_mimebundle_()["text/html"]
        plain = await connection.call("plain", {"a": "x"})
    finally:
        await own.close()
    assert (plain.unchecked, "checked" in f"{plain}{plain!r}") == ("", False)


def test_ordinary_schemas_refuse_as_ever():
    tree = {**of({"$ref": "#/$defs/T"}), "$defs": {"T": {"type": "object", "properties": {}}}}
    tree["$defs"]["T"]["properties"] = {"n": INTEGER, "t": {"$ref": "#/$defs/T"}}
    deep: Any = {"n": "x"}
    for _ in range(50):
        deep = {"n": 1, "t": deep}
    with pytest.raises(ArgumentsError, match="expected integer, got 'x'"):
        check_arguments({"a": deep}, tree)
    rows = {"rows": [{"n": number} for number in range(20_000)] + [{"n": "x"}]}
    table = {"properties": {"rows": {"items": {"not": {"required": ["m"]}, "properties": {"n": INTEGER}}}}}
    with pytest.raises(ArgumentsError, match=r"rows\[20000\]\.n: expected integer, got 'x'"):
        check_arguments(rows, table)
    with pytest.raises(ValueError, match=r"^a: expected one of 1, 2, got 3$"):
        check_answer({"a": 3}, of({"enum": [1, 2], "not": {"const": 9}}))
    with pytest.raises(ValueError, match="no duplicates"):
        check_answer({"a": [{"n": 1}, {"n": 1.0}]}, of({"uniqueItems": True}))
    check_answer({"a": [1, True]}, of({"uniqueItems": True}))
