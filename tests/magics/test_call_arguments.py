"""The arguments of a line as they arrive at a server, and what a line that cannot be read says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp_types import Tool

from mcp_magic import errors
from mcp_magic.notebook import host
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from pathlib import Path

TEXT = {"type": "string"}
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


@pytest.fixture
async def sent(magic: Any) -> Any:
    """Call a tool that answers its arguments; return them without the one that is filled in."""
    await host.connect(serving_tools(Tool(name="save", input_schema=SCHEMA)), name="db")

    async def call(words: str, cell: str | None = None, **names: Any) -> Any:
        result = await magic(f"call db:save {words}".rstrip(), cell, **names)
        assert result.filled == {"scale": "css"}
        return {name: value for name, value in eval(result.text) if name != "scale"}

    return call


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (r"x=C:\Users\me\data.csv", {"x": r"C:\Users\me\data.csv"}),
        (r'x="C:\my files\data.csv"', {"x": r"C:\my files\data.csv"}),
        (r"x=it\'s", {"x": "it's"}),
        (r"x=\$5", {"x": "$5"}),
        ("numbers=[1, 2]", {"numbers": [1, 2]}),
        ('tags=["a b", "c"] x=y', {"tags": ["a b", "c"], "x": "y"}),
        ('entities=[{"name": "A", "n": [1, 2]}]', {"entities": [{"name": "A", "n": [1, 2]}]}),
        ("x=[1, 2]", {"x": "[1, 2]"}),
        ("rows=$frame", {"rows": [["a"], [1]]}),
        ("rows={frame.to_numpy()}", {"rows": [[1]]}),
    ],
)
async def test_a_line_says_what_it_plainly_says(sent: Any, words: str, arguments: dict[str, Any]) -> None:
    assert await sent(words, frame=pd.DataFrame({"a": [1]})) == arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("x=Ada Lovelace", "cannot read 'Lovelace' as an argument; quote it: x='Ada Lovelace'"),
        ("x = Ada", "cannot read 'x' as an argument; without spaces around the =: x=Ada"),
        (r"x=two\ words", "cannot read 'words' as an argument; quote it: x='two words'"),
        ('x:="\\ud83d"', "x: character 1 is '\\ud83d', half of a surrogate pair, and JSON in UTF-8 cannot hold it; "
         "text.encode(errors='replace').decode() has ? in its place"),
    ],
)  # fmt: skip
async def test_a_line_that_cannot_be_read_says_what_to_type(sent: Any, words: str, message: str) -> None:
    with pytest.raises(errors.ArgumentsError) as caught:
        await sent(words)
    assert str(caught.value) == message


@pytest.mark.parametrize("words", ["x=Ada Lovelace", "x = Ada", "x= Ada", r"x=two\ words"])
async def test_what_is_suggested_works_when_it_is_typed(sent: Any, words: str) -> None:
    with pytest.raises((errors.ArgumentsError, errors.CommandError)) as caught:
        await sent(words)
    suggested = str(caught.value).rpartition(": ")[2]
    assert (await sent(suggested))["x"] in ("Ada Lovelace", "Ada", "two words")


@pytest.mark.parametrize("command", ["call", "assert", "form"])
async def test_a_tool_beside_its_server_is_told_how_it_is_written(magic: Any, command: str) -> None:
    with pytest.raises(errors.ArgumentsError) as caught:
        await magic(f"{command} math add a=1 b=2")
    assert str(caught.value) == "a tool is SERVER:TOOL, in one word; did you mean math:add?"
    with pytest.raises(errors.UnknownToolError, match=r"^'math' is a server; its tools are math:NAME: add, "):
        await magic(f"{command} math ad a=1 b=2")


async def test_lines_with_server_alone_explain_name_syntax(magic: Any) -> None:
    with pytest.raises(
        errors.CommandError, match=r"unrecognized arguments: add\. A tool is SERVER:TOOL, in one word\."
    ):
        await magic("tool math add")
    with pytest.raises(errors.UnknownPromptError, match=r"^'math' is a server; its prompts are math:NAME: explain$"):
        await magic("prompt math explain=1")


async def test_the_text_of_the_cell_is_an_argument(sent: Any, tmp_path: Path) -> None:
    query = 'SELECT *\n  FROM "a" -- {x} $x \\d\n'
    assert await sent("sql=@cell limit=3", query) == {"sql": query[:-1], "limit": 3}
    assert await sent("limit=@cell", "3\n") == {"limit": 3}
    assert await sent("numbers:=@cell x=y", "[1,\n 2]\n") == {"numbers": [1, 2], "x": "y"}
    assert await sent("x=y", '{"limit": 2}\n') == {"limit": 2, "x": "y"}
    (tmp_path / "cell").write_text("a file")
    assert await sent("x=@cell") == {"x": "a file"}
    assert await sent("x=@./cell sql=@cell", "text") == {"x": "a file", "sql": "text"}


async def test_a_cell_that_is_no_json_says_how_to_send_its_text(sent: Any) -> None:
    with pytest.raises(errors.ArgumentsError) as caught:
        await sent("", "SELECT 1")
    assert str(caught.value).endswith("; for its text as an argument write x=@cell")
    with pytest.raises(errors.ArgumentsError, match=r"the text of a cell needs %%mcp above it$"):
        await sent("sql=@cell")
    with pytest.raises(errors.ArgumentsError, match=r"^the cell: character 1 is '\\ud800'"):
        await sent("sql=@cell", "\ud800")


async def test_completion_offers_tools_and_arguments_with_hyphens(magic: Any) -> None:
    from mcp_magic.ipython.completion import candidates

    await host.connect(
        serving_tools(
            Tool(name="get-sum", input_schema={"type": "object", "properties": {"max-width": {"enum": ["a b", "c"]}}})
        ),
        name="s",
    )
    assert candidates("call s:get", {}).texts == ["s:get-sum"]
    assert candidates("call get-sum max", {}).texts == ["max-width="]
    assert candidates("call get-sum max-width=", {}).texts == ["max-width='a b'", "max-width=c"]
