"""Forms for what real servers offer: tools of others, prompts and templates with completion."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given, settings

from mcp_magic import schema as s
from mcp_magic.errors import ArgumentsError, ProtocolError
from mcp_magic.results.content import read_line
from mcp_magic.schema import example, parse_arguments
from mcp_magic.schema.patterns import Budget
from mcp_magic.schema.words import split_line
from mcp_magic.ui.request_form import RequestForm
from tests.environments import everything_command, filesystem_command, git_command, needs_node, time_command
from tests.support import bundled
from tests.support.schema_instances import exact, instances
from tests.support.strategies import QUICK
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_types import Tool

    from mcp_magic.session.connection import Connection


@pytest.fixture
async def showcase(host):
    return await host.connect(bundled.load("showcase_server").server, name="showcase")


def check_form(connection: Connection, tool: Tool, arguments: dict[str, Any]) -> None:
    """Fill a tool's form with valid arguments, in each way that there is, and take them out in each way."""
    jsonschema.validate(arguments, tool.input_schema)
    with closing(RequestForm(connection, tool)) as form:
        form.set_arguments(arguments)
        assert exact(form.arguments) == exact(arguments)
        words = split_line(form.code.removeprefix("%mcp "))
        assert exact(parse_arguments(words[2:], tool.input_schema)) == exact(arguments)
        form.form.toggle.value = True
        written = form.form._json.widget.value
        assert exact(json.loads(written)) == exact(arguments)
        form.form.set_arguments({})
        form.form._json.widget.value = written
        assert exact(form.arguments) == exact(arguments)
        form.form.toggle.value = False
        assert exact(form.arguments) == exact(arguments)


def check_tool(connection: Connection, tool: Tool) -> None:
    @settings(QUICK, max_examples=10)
    @given(instances(dict(tool.input_schema)))
    def check(arguments: dict[str, Any]) -> None:
        check_form(connection, tool, arguments)

    check()


async def check_all(connection: Connection) -> set[str]:
    """Check the form of every tool with arguments that are valid for it; return the names of the tools."""
    tools = await connection.listing("tools")
    for tool in tools:
        check_tool(connection, tool)
    return {tool.name for tool in tools}


def full_example(field: s.Field, depth: int = 0) -> Any:
    """An instance with everything that is optional, three levels deep."""
    value = example._value(field, 0, Budget(example.MAX_VALUES))
    if field.kind == "object" and depth < 3:
        return {**{child.name: full_example(child, depth + 1) for child in field.children}, **(value or {})}
    return value


async def test_every_tool_of_the_showcase_has_a_form(showcase):
    tools = await showcase.listing("tools")
    assert len(tools) > 50
    checked = 0
    for tool in tools:
        for arguments in (s.example_arguments(tool.input_schema), full_example(s.root_field(tool.input_schema))):
            try:
                s.check_arguments(arguments, tool.input_schema)
            except ArgumentsError:
                with closing(RequestForm(showcase, tool)) as form:
                    form.set_arguments(arguments)
                    assert form.form.draft == arguments
                    assert form.form.problems
                continue
            check_form(showcase, tool, arguments)
            checked += 1
    assert checked > len(tools), "most examples are valid"


@needs_node
async def test_every_tool_of_server_everything_has_a_form(host):
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    assert {"echo", "get-annotated-message"} < await check_all(connection)


@needs_node
async def test_server_filesystem_has_forms_and_one_writes_a_file(host, tmp_path):
    connection = await host.connect(filesystem_command(tmp_path), name="fs")
    assert {"edit_file", "read_multiple_files", "directory_tree"} < await check_all(connection)
    with closing(RequestForm(connection, await connection.find_tool("write_file"))) as form:
        form.set_arguments({"path": str(tmp_path / "a.txt"), "content": "two\nlines"})
        await form.run()
    assert (tmp_path / "a.txt").read_text() == "two\nlines"


async def test_every_tool_of_the_git_server_has_a_form(host, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert {"git_log", "git_diff", "git_add"} < await check_all(await host.connect(git_command(tmp_path), name="git"))


async def test_the_time_server_answers_a_form(host):
    connection = await host.connect(time_command(), name="time")
    assert await check_all(connection) == {"convert_time", "get_current_time"}
    with closing(RequestForm(connection, await connection.find_tool("convert_time"))) as form:
        for name, text in (("source_timezone", "UTC"), ("time", "12:00"), ("target_timezone", "Asia/Tokyo")):
            form.form.root.at(name).input.widget.value = text
        assert "21:00" in str((await form.run()).raw)


# Prompts


async def prompt_form(connection: Connection, name: str) -> RequestForm:
    return RequestForm(connection, await connection.find_prompt(name))


async def test_a_prompt_is_filled_in_and_its_messages_are_shown(showcase):
    with closing(await prompt_form(showcase, "greet")) as form:
        with pytest.raises(ArgumentsError, match="missing: name"):
            await form.run()
        form.form.root.at("name").input.widget.value = "Ada"
        assert form.code == "%mcp prompt showcase:greet name=Ada"
        form.buttons.run.click()
        await until(lambda: form.result is not None and not form.running)
        assert form.result.messages[0].content == "Write a friendly greeting for Ada."
        assert form._runner.output.outputs[0]["data"] == form.result._repr_mimebundle_()
        assert "Write a friendly greeting" in form._repr_mimebundle_()["text/plain"]
    with closing(await prompt_form(showcase, "failing")) as form:
        with pytest.raises(ProtocolError, match="always fails"):
            await form.run()
        assert form._runner.output.outputs[0]["ename"] == "ProtocolError"


async def test_the_server_completes_what_is_typed(showcase):
    with closing(await prompt_form(showcase, "greet")) as form:
        tone = form.form.root.at("tone").input.widget
        await until(lambda: tone.options == ("friendly", "formal", "funny"))
        sent = showcase.calls
        for text in ("f", "fu", "fun", "funn"):
            tone.value = text
        await until(lambda: tone.options == ("funny",))
        assert showcase.calls == sent + 1, "one question, when the person pauses"
        tone.value = "gruff"
        assert form.form.draft == {"tone": "gruff"}, "what is not offered can be typed as well"
    with closing(await prompt_form(showcase, "trip")) as form:
        form.form.root.at("country").input.widget.value = "Japan"
        city = form.form.root.at("city").input.widget
        city.value = "o"
        await until(lambda: city.options == ("Osaka",))


# Templates


async def template_form(connection: Connection, uri: str) -> RequestForm:
    templates = await connection.listing("templates")
    return RequestForm(connection, next(each for each in templates if each.uri_template == uri))


async def test_a_template_is_filled_in_and_read(showcase):
    with closing(await template_form(showcase, "showcase://fruit/{name}")) as form:
        name = form.form.root.at("name").input.widget
        await until(lambda: "apple" in name.options)
        with pytest.raises(ArgumentsError, match="missing: name"):
            await form.run()
        name.value = "apple"
        assert form.code == read_line("showcase://fruit/apple", "showcase")
        assert form.code == "%mcp read showcase://fruit/apple --server showcase"
        assert (await form.run()).data == {"name": "apple", "letters": 5}
        name.value = "stone"
        with pytest.raises(ProtocolError):
            await form.run()
        assert form._runner.output.outputs[0]["output_type"] == "error"
        assert form.result is None
        form.set_arguments({"name": {"a": 1}, "more": None})
        assert form.code == "%mcp read showcase://fruit/ --server showcase", "it has no URI yet"
        assert form._repr_mimebundle_()["text/plain"]
        with pytest.raises(ArgumentsError):
            await form.run()


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("showcase://files/{+path}", {"path": "a/b c"}, "showcase://files/a/b%20c"),
        ("showcase://search{?query,limit}", {}, "showcase://search"),
        ("showcase://search{?query,limit}", {"query": "a&b"}, "showcase://search?query=a%26b"),
    ],
    ids=["path", "no query", "query"],
)
async def test_variables_are_encoded_as_rfc_6570_says(showcase, template, values, uri):
    with closing(await template_form(showcase, template)) as form:
        form.set_arguments(values)
        assert form.code == read_line(uri, "showcase")
        assert (await form.run()).uri == uri


async def test_a_uri_with_a_secret_is_not_written_as_code(showcase):
    [template] = [each for each in await showcase.listing("templates") if "{+path}" in each.uri_template]
    secret = template.model_copy(update={"uri_template": "showcase://files{?access_token}"})
    with closing(RequestForm(showcase, secret)) as form:
        form.set_arguments({"access_token": "hunter-22"})
        assert form.code.startswith("# the URI holds a secret (access_token); ")
        assert "hunter-22" not in str(form._repr_mimebundle_())
