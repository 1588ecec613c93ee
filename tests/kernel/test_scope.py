from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

SERVER = """
from typing import Any
from mcp.server.mcpserver import MCPServer

mirror = MCPServer("mirror", log_level="ERROR")

@mirror.tool()
def echo(value: Any, note: str = "") -> dict[str, Any]:
    "Returns what arrived as JSON."
    return {"value": value, "note": note}

@mirror.tool()
def rows(table: list[dict[str, Any]]) -> int:
    "Counts rows."
    return len(table)
"""


@pytest.fixture(scope="module", autouse=True)
def mirror(kernel: Kernel) -> None:
    kernel.ok(SERVER)
    kernel.ok("%mcp connect mirror")
    kernel.ok(
        "import datetime, decimal, enum, pathlib\nimport pandas as pd\nimport numpy as np\n"
        "class Colour(enum.Enum):\n    RED = 'red'\n"
        "df = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\n"
        "number, text, nothing, items = 12345678901234567890123, 'two words', None, [1, 'b', {'c': None}]"
    )


def echoed(kernel: Kernel, argument: str) -> object:
    """Call `echo` with a written argument and return what reached the server."""
    cell = kernel.ok(f"import json\nr = %mcp call echo {argument}\nprint(json.dumps(r.data))")
    return json.loads(cell.stdout)["value"]


VARIABLES = {
    "value=$number": 12345678901234567890123,
    "value=$text": "two words",
    "value=$nothing": None,
    "value=$items": [1, "b", {"c": None}],
    "value=$df": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    "value={number + 1}": 12345678901234567890124,
    "value={text.upper()}": "TWO WORDS",
    "value={[n * n for n in range(3)]}": [0, 1, 4],
    "value={{'a': {'b': number}}}": {"a": {"b": 12345678901234567890123}},
    "value={items[0]}": 1,
    "value={df[df.a > 1]}": [{"a": 2, "b": None}],
    "value={df.a.sum()}": 3,
    "value={np.arange(3)}": [0, 1, 2],
    "value={Colour.RED}": "red",
    "value={datetime.date(2026, 1, 31)}": "2026-01-31",
    "value={'}' + \"{\"}": "}{",
    "value={max(1, 2)} note='and more'": 2,
    "value:=[1, 2.5, true, null]": [1, 2.5, True, None],
    "value:='{\"a b\": 1}'": {"a b": 1},
}


@pytest.mark.parametrize(("argument", "value"), VARIABLES.items(), ids=VARIABLES)
def test_variables_and_expressions_are_the_objects_themselves(kernel: Kernel, argument: str, value: object) -> None:
    assert echoed(kernel, argument) == value


TEXTS = {
    "value='costs $5'": "costs $5",
    "value=5$": "5$",
    "value=a$text": "a$text",
    "value=a{number}b": "a{number}b",
    "value='a {number} b'": "a {number} b",
    r"value=\$number": "$number",
    r"value='\$number'": "$number",
    r'value="\$number"': "$number",
    r'value="\\$number"': r"\$number",
    r"value=\{number}": "{number}",
    r"value='\{number} of'": "{number} of",
    r"value=\@note.txt": "@note.txt",
}


@pytest.mark.parametrize(("argument", "text"), TEXTS.items(), ids=TEXTS)
def test_text_that_only_looks_like_a_variable_is_text(kernel: Kernel, argument: str, text: str) -> None:
    assert echoed(kernel, f"{argument} note=x") == text


def test_a_function_sees_its_own_variables_before_the_notebooks(kernel: Kernel) -> None:
    kernel.ok(
        "def f(number, other=5):\n    inner = 'inner'\n"
        "    a = %mcp call echo value=$number\n"
        "    b = %mcp call echo value={[number, other, inner, text]}\n"
        "    return a.data['value'], b.data['value']"
    )

    assert kernel.ok("f(1)").text == "(1, [1, 5, 'inner', 'two words'])"
    assert kernel.ok("number").text == "12345678901234567890123"


def test_comprehension_in_expression_sees_local_variables(kernel: Kernel) -> None:
    kernel.ok(
        "def f(factor):\n    r = %mcp call echo value={[n * factor for n in range(3)]}\n    return r.data['value']"
    )

    assert kernel.ok("f(10)").text == "[0, 10, 20]"


def test_a_loop_variable_is_the_one_of_its_round(kernel: Kernel) -> None:
    kernel.ok("seen = []\nfor i in range(3):\n    r = %mcp call echo value=$i\n    seen.append(r.data['value'])")

    assert kernel.ok("seen").text == "[0, 1, 2]"


def test_a_data_frame_is_given_as_records(kernel: Kernel) -> None:
    assert kernel.ok("r = %mcp call rows table=$df\nr.data").text == "2"


def test_a_magic_leaves_no_variables_behind(kernel: Kernel) -> None:
    kernel.ok("before = set(globals())")
    kernel.ok("%mcp call echo value=$number")

    assert kernel.ok("sorted(n for n in set(globals()) - before - {'before'} if not n.startswith('_'))").text == "[]"


@pytest.mark.parametrize(
    ("argument", "message"),
    {
        "value=$no_such_name": "no_such_name",
        "value={no_such_name + 1}": "no_such_name",
        "value={1 / 0}": "ZeroDivisionError",
        "value={object()}": "value",
        "value=$mirror": "value",
    }.items(),
)
def test_value_that_cannot_be_sent_is_named_in_error(kernel: Kernel, argument: str, message: str) -> None:
    cell = kernel.run(f"%mcp call echo {argument}")

    assert (cell.status, cell.ename) == ("error", "ArgumentsError")
    assert message in cell.evalue
    assert len(cell.shown_error.splitlines()) <= 2


def test_a_file_is_read_from_the_notebooks_directory(kernel: Kernel) -> None:
    kernel.ok("_ = pathlib.Path('note.txt').write_text('from a file', encoding='utf-8')")

    assert echoed(kernel, "value=x note=@note.txt") == "x"
    assert kernel.ok("r.data['note']").text == "'from a file'"


def test_a_connection_is_made_to_a_server_in_a_local_variable(kernel: Kernel) -> None:
    kernel.ok(
        "def f():\n    local_server = MCPServer('local', log_level='ERROR')\n"
        "    c = %mcp connect local_server\n    return c.name"
    )

    assert kernel.ok("f()").text == "'local_server'"
    kernel.ok("%mcp disconnect local_server")
