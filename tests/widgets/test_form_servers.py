"""Forms for what real servers offer: tools of others, prompts and templates with completion."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ipywidgets.widgets.widget import _instances

from mcp_magic import schema as s
from mcp_magic.core.host import Host
from mcp_magic.errors import ArgumentsError, ProtocolError
from mcp_magic.widgets.tool_form import PromptForm, TemplateForm, ToolForm
from tests.environments import everything_command, git_command, needs_node, time_command
from tests.servers import bundled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from mcp_magic.core.connection import Connection


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host, before = Host(), set(_instances)
    yield host
    await host.close()
    assert not set(_instances) - before


@pytest.fixture
async def showcase(host: Host) -> Connection:
    return await host.connect(bundled.load("showcase_server").server, name="showcase")


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def full_example(field: s.Field, depth: int = 0) -> Any:
    """An instance with everything that is optional, three levels deep."""
    if field.kind == "object" and depth < 3:
        example = s.example_value(field) or {}
        return {**{child.name: full_example(child, depth + 1) for child in field.children}, **example}
    return s.example_value(field)


async def check_all(connection: Connection) -> int:
    """Fill the form of every tool with an example of its required arguments, and of all."""
    tools = await connection.listing("tools")
    checked = 0
    for tool in tools:
        for arguments in (s.example_arguments(tool.input_schema), full_example(s.root_field(tool.input_schema))):
            with closing(ToolForm(connection, tool)) as form:
                form.set_arguments(arguments)
                assert form.form.draft == arguments
                form.form.as_json = True
                form.form.as_json = False
                assert form.form.draft == arguments
                try:
                    s.check_arguments(arguments, tool.input_schema)
                except ArgumentsError:
                    assert form.form.problems
                    continue
                assert form.arguments == arguments, tool.name
                checked += 1
    assert checked > len(tools), "most examples are valid"
    return len(tools)


async def test_every_tool_of_the_showcase_has_a_form(showcase: Connection) -> None:
    assert await check_all(showcase) > 50


@needs_node
async def test_every_tool_of_server_everything_has_a_form(host: Host) -> None:
    assert await check_all(await host.connect([*everything_command(), "stdio"], name="everything")) > 5


async def test_every_tool_of_the_git_server_has_a_form(host: Host, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert await check_all(await host.connect(git_command(tmp_path), name="git")) > 5


async def test_the_time_server_answers_a_form(host: Host) -> None:
    connection = await host.connect(time_command(), name="time")
    assert await check_all(connection) > 1
    with closing(ToolForm(connection, await connection.find_tool("convert_time"))) as form:
        for name, text in (("source_timezone", "UTC"), ("time", "12:00"), ("target_timezone", "Asia/Tokyo")):
            form.form.root.at(name).input.widget.value = text
        assert "21:00" in str((await form.run()).raw)


# Prompts


async def prompt_form(connection: Connection, name: str) -> PromptForm:
    return PromptForm(connection, await connection.find_prompt(name))


async def test_a_prompt_is_filled_in_and_its_messages_are_shown(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "greet")) as form:
        form.form.root.at("name").input.widget.value = "Ada"
        assert form.code == "%mcp prompt showcase:greet name=Ada"
        form._run.click()
        await until(lambda: form.result is not None and not form.running)
        assert form.result.messages[0].content == "Write a friendly greeting for Ada."
        assert form._runner.output.outputs[0]["data"] == form.result._repr_mimebundle_()
        assert "Write a friendly greeting" in form._repr_mimebundle_()["text/plain"]


async def test_a_prompt_that_fails_says_so(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "failing")) as form:
        with pytest.raises(ProtocolError, match="always fails"):
            await form.run()
        assert form._runner.output.outputs[0]["ename"] == "ProtocolError"


async def test_a_prompt_needs_what_it_requires(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "greet")) as form, pytest.raises(ArgumentsError, match="missing: name"):
        await form.run()


async def test_the_server_completes_what_is_typed(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "greet")) as form:
        tone = form.form.root.at("tone").input.widget
        await until(lambda: tone.options == ("friendly", "formal", "funny"))
        tone.value = "fo"
        await until(lambda: tone.options == ("formal",))
        tone.value = "gruff"
        assert form.form.draft == {"tone": "gruff"}, "what is not offered can be typed as well"


async def test_completion_knows_the_other_arguments(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "trip")) as form:
        form.form.root.at("country").input.widget.value = "Japan"
        city = form.form.root.at("city").input.widget
        city.value = "o"
        await until(lambda: city.options == ("Osaka",))


async def test_one_question_is_asked_when_the_person_pauses(showcase: Connection) -> None:
    with closing(await prompt_form(showcase, "greet")) as form:
        tone = form.form.root.at("tone").input.widget
        await until(lambda: tone.options)
        sent = showcase.calls
        for text in ("f", "fu", "fun", "funn"):
            tone.value = text
        await until(lambda: tone.options == ("funny",))
        assert showcase.calls == sent + 1


# Templates


async def template_form(connection: Connection, uri: str) -> TemplateForm:
    templates = await connection.listing("templates")
    return TemplateForm(connection, next(each for each in templates if each.uri_template == uri))


async def test_a_template_is_filled_in_and_read(showcase: Connection) -> None:
    with closing(await template_form(showcase, "showcase://fruit/{name}")) as form:
        name = form.form.root.at("name").input.widget
        await until(lambda: "apple" in name.options)
        with pytest.raises(ArgumentsError, match="missing: name"):
            await form.run()
        name.value = "apple"
        assert form.uri == "showcase://fruit/apple"
        assert form.code == "%mcp read showcase://fruit/apple --server showcase"
        assert (await form.run()).data == {"name": "apple", "letters": 5}


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("showcase://files/{+path}", {"path": "a/b c"}, "showcase://files/a/b%20c"),
        ("showcase://search{?query,limit}", {}, "showcase://search"),
        ("showcase://search{?query,limit}", {"query": "a&b"}, "showcase://search?query=a%26b"),
    ],
)
async def test_variables_are_encoded_as_rfc_6570_says(
    showcase: Connection, template: str, values: dict[str, str], uri: str
) -> None:
    with closing(await template_form(showcase, template)) as form:
        form.set_arguments(values)
        assert form.uri == uri
        assert (await form.run()).uri == uri


async def test_a_resource_that_is_not_there_is_an_error_below_the_form(showcase: Connection) -> None:
    with closing(await template_form(showcase, "showcase://fruit/{name}")) as form:
        form.set_arguments({"name": "stone"})
        with pytest.raises(ProtocolError):
            await form.run()
        assert form._runner.output.outputs[0]["output_type"] == "error"
        assert form.result is None


async def test_a_draft_of_a_template_that_is_no_text_has_no_uri_yet(showcase: Connection) -> None:
    with closing(await template_form(showcase, "showcase://fruit/{name}")) as form:
        form.set_arguments({"name": {"a": 1}, "more": None})
        assert form.code == "%mcp read showcase://fruit/ --server showcase"
        assert form._repr_mimebundle_()["text/plain"]
        with pytest.raises(ArgumentsError):
            await form.run()
