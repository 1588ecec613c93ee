"""Schemas as public servers have them, through everything that reads one."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_types import Tool

from mcp_magic import schema as s
from mcp_magic._host import Host
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.functions import function_of, own_arguments
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.schema.validate import check_answer
from mcp_magic.server.stubs import short_stubs, stubs
from mcp_magic.ui.form import Form
from tests.support.defined_server import command
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic
from tests.support.real_schemas import REAL


def renamed(arguments: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    given = {own: name for name, own in names.items()}
    return {given.get(name, name): value for name, value in arguments.items()}


@pytest.mark.parametrize("name", REAL)
def test_what_the_server_takes_is_sent_as_it_is(name: str) -> None:
    real = REAL[name]
    assert s.prepare_arguments(real.takes, real.schema) == (real.takes, {})
    assert check_answer(real.takes, real.schema) == ""


@pytest.mark.parametrize("name", [name for name, real in REAL.items() if real.refuses is not None])
@pytest.mark.parametrize("engine", ["jsonschema_rs", "jsonschema"])
def test_what_it_refuses_is_told_by_its_cause(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "jsonschema":  # as in a browser: importing it is an ImportError; then no pattern is checked
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    real = REAL[name]
    if engine == "jsonschema" and "attern" in str(real.schema):
        return
    with pytest.raises(ArgumentsError) as caught:
        s.prepare_arguments(real.refuses or {}, dict(real.schema))
    assert str(caught.value) == real.message


@pytest.mark.parametrize("name", REAL)
def test_the_form_shows_and_returns_the_arguments(name: str) -> None:
    real = REAL[name]
    form = Form(real.schema)
    form.set_arguments(real.takes)
    assert (form.arguments, form.problems) == (real.takes, [])
    if real.refuses is not None:
        form.set_arguments(real.refuses)
        assert real.message in form.problems
    form.close()


@pytest.mark.parametrize("name", REAL)
def test_the_line_reads_back(name: str) -> None:
    real = REAL[name]
    line = s.call_line("t", real.takes, schema=real.schema)
    assert not line.startswith("#")


@pytest.mark.parametrize("name", REAL)
def test_signature_and_stub_take_the_arguments(name: str) -> None:
    real = REAL[name]
    signature = s.make_signature(real.schema)
    signature.bind(**real.takes)
    assert s.bind_arguments(signature, real.schema, (), real.takes) == real.takes
    assert s.make_docstring("t", None, None, real.schema)
    tool = Tool(name="t", input_schema=real.schema, output_schema=real.schema)
    ast.parse(stubs("server", [tool]))
    [short] = short_stubs([tool])
    ast.parse(short.code)


@pytest.mark.parametrize("name", REAL)
def test_an_example_is_valid_or_not_given(name: str) -> None:
    real = REAL[name]
    example = s.valid_example(real.schema)
    if example is not None:
        s.check_arguments(example, real.schema)


@pytest.mark.parametrize("name", REAL)
def test_providers_take_the_schema_and_the_arguments_fit_it(name: str) -> None:
    real = REAL[name]
    function = function_of("s__t", Tool(name="t", input_schema=real.schema))
    given = renamed(real.takes, function.renamed)
    assert openai_refuses([function.bound]) == ""
    assert anthropic_refuses(to_anthropic([function.bound])) == ""
    assert check_answer(given, function.bound["function"]["parameters"]) == ""
    assert own_arguments(given, function.renamed) == real.takes


async def test_all_are_listed_called_and_given_to_langchain() -> None:
    host = Host()
    host.consent.policy = "auto"
    tools = {f"t{number}": real for number, real in enumerate(REAL.values())}
    definitions = [{"name": name, "inputSchema": {**real.schema, "type": "object"}} for name, real in tools.items()]
    await host.connect(command(*definitions), name="real")
    listed = await host["real"].listing("tools")
    results = [(await host["real"].call(tool.name, tools[tool.name].takes)).data for tool in listed]
    made = langchain_tools(host["real"])
    functions = [convert_to_openai_tool(tool) for tool in made]
    answers = [await tool.ainvoke(tools[tool.metadata["tool"]].takes) for tool in made if tool.metadata]
    await host.close()
    assert results == [real.takes for real in tools.values()]
    assert len(answers) == len(tools) > 40
    assert [openai_refuses([function]) for function in functions] == [""] * len(tools)
    assert [anthropic_refuses(to_anthropic([tool])) for tool in made] == [""] * len(tools)
