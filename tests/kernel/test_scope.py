"""What a line of a cell sees: the variables of the notebook and of a function, expressions, files and plain text."""

import json

from tests.support.kernel_servers import LOAD

SERVER = """
import json, pathlib
from typing import Any
import pandas as pd
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

df = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
number, text, nothing, items = 12345678901234567890123, "two words", None, [1, "b", {"c": None}]
_ = pathlib.Path("note.txt").write_text("from a file", encoding="utf-8")
"""
SETUP = [LOAD, SERVER, "%mcp connect mirror"]
SENT = {
    "value=$number": 12345678901234567890123,
    "value=$text": "two words",
    "value=$nothing": None,
    "value=$items": [1, "b", {"c": None}],
    "value=$df": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    "value={number + 1}": 12345678901234567890124,
    "value={[n * n for n in range(3)]}": [0, 1, 4],
    "value={{'a': {'b': number}}}": {"a": {"b": 12345678901234567890123}},
    "value={df[df.a > 1]}": [{"a": 2, "b": None}],
    "value={'}' + \"{\"}": "}{",
    "value={max(1, 2)} note='and more'": 2,
    "value:=[1, 2.5, true, null]": [1, 2.5, True, None],
    "value:='{\"a b\": 1}'": {"a b": 1},
    # text that only looks like a variable
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
"""What is written, and what reaches the server."""


def test_what_is_written_reaches_the_server(kernel):
    for argument, value in SENT.items():
        cell = kernel.ok(f"r = %mcp call echo {argument}\nprint(json.dumps(r.data['value']))")
        assert json.loads(cell.stdout) == value, argument
    kernel.ok("r = %mcp call echo value=x note=@note.txt")
    assert kernel.ok("r.data").text == "{'value': 'x', 'note': 'from a file'}"
    assert kernel.ok("r = %mcp call rows table=$df\nr.data").text == "2"


def test_a_function_sees_its_own_variables_before_the_notebooks(kernel):
    kernel.ok(
        "def f(number, other=5):\n    inner = 'inner'\n"
        "    a = %mcp call echo value=$number\n"
        "    b = %mcp call echo value={[number, other, inner, text]}\n"
        "    c = %mcp call echo value={[n * number for n in range(3)]}\n"
        "    local_server = MCPServer('local', log_level='ERROR')\n"
        "    d = %mcp connect local_server\n"
        "    return a.data['value'], b.data['value'], c.data['value'], d.name"
    )
    assert kernel.ok("f(10)").text == "(10, [10, 5, 'inner', 'two words'], [0, 10, 20], 'local_server')"
    assert kernel.ok("number").text == "12345678901234567890123"
    kernel.ok("seen = []\nfor i in range(3):\n    r = %mcp call mirror:echo value=$i\n    seen.append(r.data['value'])")
    assert kernel.ok("seen").text == "[0, 1, 2]"
    kernel.ok("%mcp disconnect local_server")


def test_a_magic_leaves_no_variables_behind(kernel):
    kernel.ok("before = set(globals())")
    kernel.ok("%mcp call echo value=$number")
    assert kernel.ok("sorted(n for n in set(globals()) - before - {'before'} if not n.startswith('_'))").text == "[]"


def test_value_that_cannot_be_sent_is_named_in_error(kernel):
    for argument, message in {
        "value=$no_such_name": "no_such_name",
        "value={no_such_name + 1}": "no_such_name",
        "value={1 / 0}": "ZeroDivisionError",
        "value={object()}": "value",
        "value=$mirror": "value",
    }.items():
        cell = kernel.run(f"%mcp call echo {argument}")
        assert (cell.status, cell.ename) == ("error", "ArgumentsError"), argument
        assert message in cell.evalue
        assert len(cell.shown_error.splitlines()) <= 2
