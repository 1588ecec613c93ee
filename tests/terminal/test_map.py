"""How a map ends in terminal IPython: plain lines, also of one that is over at once."""

from tests.support.kernel_servers import IMPORT_MATH

SETUP = (IMPORT_MATH, "%mcp connect math", "rows = [{'a': n, 'b': 0} for n in range(5)]")


def test_a_map_that_fails_has_a_line_with_the_reason(terminal):
    text = terminal.run("out = %mcp map math:divide --rows $rows")
    [line] = [line for line in text.splitlines() if line.startswith("✗")]
    assert line.startswith("✗ map math:divide: failed · 0 of 5 rows done · 5 failed · ")
    assert line.endswith("(5 rows)")
    assert "zero" in line
    text = terminal.run("out = %mcp map math:divide --rows $rows a={row.a} b={row.a}")
    assert "! map math:divide: 4 of 5 rows done · 1 failed · " in text
    assert "map math:divide" not in terminal.run("_ = %mcp map math:add --rows $rows").partition("\n")[2]
    text = terminal.run("out = %mcp map math:add --rows $rows a={row.aa} b=1 --skip-invalid")
    assert "5 rows of 5 do not fit math:add; nothing was sent." in text
    assert "rows 0, 1, 2, 3 and 1 more: row has no aa; it has a, b. Did you mean 'a'?" in text
