"""`%mcp assert`, `docs` and `stubs` as lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import ArgumentsError, CommandError, ConfigError
from mcp_magic.results.results import CheckFailedError

if TYPE_CHECKING:
    from pathlib import Path

LIST = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    "line",
    [
        "math:add a=3 b=4",
        "math:add a=3 b=4 --equals 7 --under 60000 --contains 7",
        "math:primes n=10 --equals '[2, 3, 5, 7]' --schema output",
        "math:primes n=10 --equals $wanted --schema $schema",
        "math:primes n=10 --equals {wanted[:4]}",
        "math:statistics numbers:=[1] --equals '"
        '{"count": 1, "total": 1, "mean": 1, "median": 1, "stdev": null, "minimum": 1, "maximum": 1}\'',
        "math:divide a=1 b=0 --error",
        "math:divide a=1 b=0 --error zero",
    ],
)
async def test_an_answer_that_is_as_it_must_be_is_a_list_of_checks(magic: Any, line: str) -> None:
    listing = await magic(f"assert {line}", wanted=[2, 3, 5, 7], schema=LIST)
    assert len(listing) >= 1
    assert all(row["check"].startswith("✓ ") for row in listing)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("math:add a=3 b=4 --equals 8", "equals: it differs:\n  --- expected\n  +++ got\n  @@ -1 +1 @@\n  -8\n  +7"),
        ("math:add a=3 b=4 --contains 8", "contains '8': no '8' in '7'"),
        ("math:add a=3 b=4 --under 0.000001", "under 1e-06 ms: it took"),
        ("math:add a=3 b=4 --schema $schema", "schema: it does not fit the schema: data: expected list of integer"),
        ("math:add a=3 b=4 --error", "error: no error; it answered '7'"),
        ("math:divide a=1 b=0", "no error: the tool reported an error"),
        ("math:divide a=1 b=0 --error banana", "the error does not contain 'banana'"),
    ],
)
async def test_an_answer_that_is_not_fails_with_the_difference(magic: Any, line: str, said: str) -> None:
    with pytest.raises(CheckFailedError) as failed:
        await magic(f"assert {line}", schema=LIST)
    assert isinstance(failed.value, AssertionError)
    assert str(failed.value).startswith(f"{line.split()[0]}: ")
    assert said in str(failed.value)


async def test_a_long_difference_is_cut(magic: Any) -> None:
    with pytest.raises(CheckFailedError) as failed:
        await magic("assert math:primes n=5000 --equals $other", other=[])
    assert len(str(failed.value).splitlines()) < 25


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("assert math:add a=1 b=2 --schema none.json", ConfigError, "No such file"),
        ("assert math:add a=x b=2", ArgumentsError, "expected"),
        ("assert math:add a=1 b=2 --schema odd.json", ArgumentsError, "does not hold a JSON object"),
    ],
)
async def test_what_cannot_be_checked_is_no_failed_check(
    magic: Any, tmp_path: Path, line: str, kind: type[Exception], said: str
) -> None:
    (tmp_path / "odd.json").write_text("[]")
    with pytest.raises(kind, match=said) as error:
        await magic(line)
    assert not isinstance(error.value, AssertionError)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("math:add a=3 b=4 equals=7", "'equals' is not an argument of math:add; write --equals 7"),
        ("math:add a=3 b=4 contains='7 of'", "'contains' is not an argument of math:add; write --contains '7 of'"),
        ("math:add a=3 b=4 == 7", "'==' is not an argument of math:add; write --equals 7"),
        ("math:add a=3 b=4 ==7", "'==' is not an argument of math:add; write --equals 7"),
        ("math:add a=3 b=4 equals 7", "'equals' is not an argument of math:add; write --equals 7"),
        ("math:add error b=4", "'error' is not an argument of math:add; write --error"),
        ("math:add a=3 b=4 error", "'error' is not an argument of math:add; write --error"),
    ],
)
async def test_a_check_that_is_written_as_an_argument_is_an_error(magic: Any, line: str, said: str) -> None:
    with pytest.raises(CommandError, match=rf"^%mcp assert: {re.escape(said)}$"):
        await magic(f"assert {line}")


async def test_an_argument_that_is_called_like_a_check_is_an_argument(magic: Any) -> None:
    server = MCPServer("kind", log_level="ERROR")

    @server.tool()
    def fails(error: str = "") -> str:
        return error

    @server.tool()
    def nothing() -> int:
        return 5

    await magic("connect kind", kind=server)
    await magic("assert fails error=x --equals x")
    with pytest.raises(CommandError, match="'equals' is not an argument of kind:nothing; write --equals 6"):
        await magic("assert nothing equals=6")
    with pytest.raises(ArgumentsError, match=r"unknown argument 'more'\. It takes no arguments"):
        await magic("assert nothing more=6")


async def test_a_schema_may_be_a_file(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps(LIST))
    assert len(await magic("assert math:primes n=10 --schema list.json")) == 2


async def test_a_page_and_a_module_are_shown_or_written(magic: Any, tmp_path: Path) -> None:
    shown = (await magic("docs math"))._repr_mimebundle_()
    assert "### `add`" in shown["text/markdown"]
    assert "text/html" not in shown
    assert "math.md: " in str(await magic("docs math -o math.md"))
    assert (tmp_path / "math.md").read_text() == shown["text/markdown"]
    assert "async def add(" in str(await magic("stubs math"))
    await magic("stubs math -o made.py")
    assert (tmp_path / "made.py").read_text() == str(await magic("stubs math"))
    with pytest.raises(ConfigError, match=r"math\.md cannot be written: No such file"):
        await magic("docs math -o nowhere/math.md")


async def test_missing_snapshot_names_line_that_writes_it(magic: Any) -> None:
    with pytest.raises(ConfigError, match=r"`%mcp snapshot math -o math\.mcp\.json` writes one"):
        await magic("diff math")
    assert "8 tools, 1 prompt, 1 resource, 1 template; " in str(await magic("snapshot math -o math.mcp.json"))
    assert len(await magic("diff math")) == 0


async def test_help_says_what_a_diff_without_a_file_compares_with(magic: Any) -> None:
    text = " ".join(str(await magic("diff --help")).split())
    assert "Without FILE it compares with SERVER.mcp.json, which `%mcp snapshot SERVER` wrote in the working" in text
