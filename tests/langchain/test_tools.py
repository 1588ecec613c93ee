from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.tools import ToolException

from mcp_magic.notebook import NotebookHost
from tests.servers.bundled import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def host() -> AsyncIterator[NotebookHost]:
    host = NotebookHost()
    host.consent.policy = "auto"
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("showcase_server").server, name="show")
    yield host
    await host.close()


async def test_the_tools_of_all_open_sessions_or_of_one_are_langchain_tools(host: NotebookHost) -> None:
    names = [tool.name for tool in host.langchain_tools()]
    assert len(names) == len(set(names))
    assert "math__add" in names
    assert "show__slow" in names
    assert {tool.metadata["server"] for tool in host.langchain_tools("math")} == {"math"}  # type: ignore[index]


async def test_a_tool_has_the_schema_as_it_is_and_answers_text_with_the_result_as_artifact(host: NotebookHost) -> None:
    add = next(tool for tool in host.langchain_tools("math") if tool.name == "math__add")
    assert add.args_schema == host["math"].tools.add.definition.input_schema
    message = await add.ainvoke({"type": "tool_call", "id": "1", "name": add.name, "args": {"a": 1, "b": 2}})
    assert message.content == "3"
    assert message.artifact.data == 3


async def test_an_error_of_the_tool_is_a_tool_exception(host: NotebookHost) -> None:
    divide = next(tool for tool in host.langchain_tools("math") if tool.name == "math__divide")
    with pytest.raises(ToolException, match="Cannot divide by zero"):
        await divide.ainvoke({"a": 1, "b": 0})


async def test_without_consent_the_model_is_told_why(host: NotebookHost) -> None:
    host.consent.policy = "deny"
    add = next(tool for tool in host.langchain_tools("math") if tool.name == "math__add")
    sent = host["math"].calls
    with pytest.raises(ToolException, match=r"math:add was not called; denied by approval = 'deny'\."):
        await add.ainvoke({"a": 1, "b": 2})
    assert host["math"].calls == sent
