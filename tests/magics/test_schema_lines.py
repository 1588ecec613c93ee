"""What a typed line makes of odd schemas: values, the card, Tab and strict checks."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from mcp_magic import errors
from mcp_magic.ipython.extension import completer
from mcp_magic.notebook import host
from mcp_magic.results.results import CheckFailedError
from tests.support.defined_server import command

SCHEMA = {
    "type": "object",
    "properties": {
        "v": {},
        "w": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        "n": {"type": "integer", "default": "many"},
    },
}
PRICE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
async def defined(magic: Any) -> Any:
    tools = [
        {"name": "echo", "inputSchema": SCHEMA},
        {"name": "price", "inputSchema": {"type": "object"}, "outputSchema": PRICE},
    ]
    answer = {"content": [{"type": "text", "text": "three"}], "structuredContent": {"n": "three"}}
    await host.connect(command(*tools, answers={"price": answer}), name="s")
    yield magic
    host.outputs.strict = False


@pytest.mark.parametrize(
    ("typed", "value", "reading"),
    [
        ('v={"a": 1}', {"v": {"a": 1}}, 'v was read as JSON, an object; for the text write \'v:="{\\"a\\": 1}"\''),
        ("w=5", {"w": 5}, "w was read as JSON, a number; for the text write 'w:=\"5\"'"),
        ('w=["a"]', {"w": ["a"]}, 'w was read as JSON, a list; for the text write \'w:="[\\"a\\"]"\''),
        ("w=Oslo v=5 n=1_000", {"w": "Oslo", "v": "5", "n": 1000}, ""),
        ('v:={"a": 1}', {"v": {"a": 1}}, ""),
    ],
)
async def test_typed_json_is_a_value_and_the_card_says_so(defined: Any, typed: str, value: Any, reading: str) -> None:
    result = await defined(f"call s:echo {typed}")

    assert (result.data, result.readings) == (value, reading)
    assert reading in str(result)
    if reading:
        again = reading.partition("write ")[2]
        assert isinstance(next(iter((await defined(f"call s:echo {again}")).data.values())), str)


async def test_strict_output_is_a_setting(defined: Any) -> None:
    assert "does not fit the tool's output schema" in str(await defined("call s:price"))

    defined.settings.strict_output = True
    with pytest.raises(errors.InvalidResponseError) as caught:
        await defined("call s:price")
    assert caught.value.result.data == {"n": "three"}
    defined.settings.strict_output = False
    assert (await defined("call s:price")).data == {"n": "three"}


async def test_assert_by_the_output_schema_has_the_result(defined: Any) -> None:
    with pytest.raises(CheckFailedError, match="n: expected integer, got 'three'") as caught:
        await defined("assert s:price --schema output")
    assert caught.value.result.data == {"n": "three"}


@pytest.mark.parametrize(
    ("line", "offered"),
    [("%mcp call s:echo v=", ["v="]), ("%mcp call s:echo v=pri", ["v=pri"]), ("r = %mcp call s:echo n=", ["n="])],
)
async def test_tab_after_a_value_offers_nothing_of_python(defined: Any, line: str, offered: list[str]) -> None:
    shell = InteractiveShell()
    shell.Completer.custom_matchers.append(completer(shell, defined.settings))

    with provisionalcompleter():
        assert [match.text for match in shell.Completer.completions(line, len(line))] == offered
