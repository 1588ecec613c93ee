"""Schemas as public servers have them, through everything that reads one."""

from __future__ import annotations

import ast
import sys

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
from tests.support.raising import said
from tests.support.real_schemas import REAL

REFUSES = {name: real for name, real in REAL.items() if real.refuses is not None}


@pytest.mark.parametrize("name", REAL)
def test_what_a_server_takes_is_sent_and_written_as_it_is(name):
    schema, takes, *_ = REAL[name]
    assert s.prepare_arguments(takes, schema) == (takes, {})
    assert check_answer(takes, schema) == ""
    assert not s.call_line("t", takes, schema=schema).startswith("#")
    signature = s.make_signature(schema)
    signature.bind(**takes)
    assert s.bind_arguments(signature, schema, (), takes) == takes
    assert s.make_docstring("t", None, None, schema)
    tool = Tool(name="t", input_schema=schema, output_schema=schema)
    ast.parse(stubs("server", [tool]))
    [short] = short_stubs([tool])
    ast.parse(short.code)
    example = s.valid_example(schema)
    if example is not None:
        s.check_arguments(example, schema)


@pytest.mark.parametrize("name", REFUSES)
def test_the_message_names_the_cause_of_a_refusal(name):
    schema, _, refuses, message = REFUSES[name]
    assert said(ArgumentsError, s.prepare_arguments, refuses, dict(schema)) == message


@pytest.mark.parametrize("name", REFUSES)
def test_a_browser_refuses_the_same(name, monkeypatch):
    schema, _, refuses, _ = REFUSES[name]
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)  # importing it is an ImportError
    with pytest.raises(ArgumentsError):
        s.prepare_arguments(refuses, dict(schema))


@pytest.mark.parametrize("name", REAL)
def test_the_form_shows_and_returns_the_arguments(name):
    schema, takes, refuses, message = REAL[name]
    form = Form(schema)
    form.set_arguments(takes)
    assert (form.arguments, form.problems) == (takes, [])
    if refuses is not None:
        form.set_arguments(refuses)
        assert message in form.problems
    form.close()


@pytest.mark.parametrize("name", REAL)
def test_providers_take_the_schema_and_the_arguments_fit_it(name):
    schema, takes, *_ = REAL[name]
    function = function_of("s__t", Tool(name="t", input_schema=schema))
    renamed = {own: name for name, own in function.renamed.items()}
    sent = {renamed.get(name, name): value for name, value in takes.items()}
    assert openai_refuses([function.openai_tool]) == ""
    assert anthropic_refuses(to_anthropic([function.openai_tool])) == ""
    assert check_answer(sent, function.openai_tool["function"]["parameters"]) == ""
    assert own_arguments(sent, function.renamed) == takes


async def test_all_are_listed_called_and_given_to_langchain():
    host = Host()
    host.consent.policy = "auto"
    tools = {f"t{number}": real for number, real in enumerate(REAL.values())}
    definitions = [{"name": name, "inputSchema": {**real.schema, "type": "object"}} for name, real in tools.items()]
    connection = await host.connect(command(*definitions), name="real")
    listing = await connection.listing("tools")
    results = [(await connection.call(tool.name, tools[tool.name].takes)).data for tool in listing]
    made = langchain_tools(connection)
    functions = [convert_to_openai_tool(tool) for tool in made]
    answers = [await tool.ainvoke(tools[tool.metadata["tool"]].takes) for tool in made if tool.metadata]
    await host.close()
    assert results == [real.takes for real in tools.values()]
    assert len(answers) == len(tools) > 40
    assert [openai_refuses([function]) for function in functions] == [""] * len(tools)
    assert [anthropic_refuses(to_anthropic([tool])) for tool in made] == [""] * len(tools)
