"""Records of a server's stderr: which lines belong together, and how a traceback is shown."""

from __future__ import annotations

import pytest

from mcp_magic.records import MAX_APART, MAX_LINES, Record, grouped, level

LIBRARY = "/venv/lib/python3.11/site-packages/mcp/server.py"
ANOTHER = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
CHAIN = f"""\
ERROR:root:the report failed
Traceback (most recent call last):
  File "/home/ann/shop.py", line 3, in price
    prices[city]
    ~~~~~~^^^^^^
KeyError: 'Oslo'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{LIBRARY}", line 30, in call
    return await run()
  File "/home/ann/shop.py", line 9, in total
    raise ValueError("no price") from error
ValueError: no price
  of Oslo{ANOTHER}Traceback (most recent call last):
  File "{LIBRARY}", line 50, in call_tool
    raise ToolError(name)
mcp.ToolError: total"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/ann/shop.py", line 8, in <module>
  |     asyncio.run(main())
  |   File "/lib/python3.11/asyncio/runners.py", line 190, in run
  |     return runner.run(main)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/ann/shop.py", line 5, in price
    |     raise ValueError("no such city")
    | ValueError: no such city
    +------------------------------------"""
SYNTAX = """\
  File "/home/ann/shop.py", line 3
    def price(
             ^
SyntaxError: '(' was never closed"""
TRACEBACK = 'Traceback (most recent call last):\n  File "/home/ann/shop.py", line 3, in price\n    check()\n'
PYDANTIC = """\
2 validation errors for Shop
name
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.11/v/missing
rows.0.1
  Input should be a valid integer [type=int_type, input_value='x', input_type=str]"""
SQLALCHEMY = """\
sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: shops
[SQL: SELECT name FROM shops]
[parameters: (1,)]
(Background on this error at: https://sqlalche.me/e/20/e3q8)"""
JSONSCHEMA = """\
jsonschema.exceptions.ValidationError: 'name' is a required property

Failed validating 'required' in schema:
    {'required': ['name']}

On instance:
    {}"""
ONE = {
    "chain": CHAIN,
    "chain alone": CHAIN.partition("\n")[2],
    "no level": CHAIN.replace("ERROR:root:", ""),
    "Node": "Error: boom\n    at run (server.js:3:1)\n    at main (server.js:9:1)",
    "group": GROUP,
    "logged group": f"ERROR: it failed\n{GROUP}",
    "group after a chain": f"{CHAIN}{ANOTHER}{GROUP}",
    "syntax": SYNTAX,
    "pydantic": f"{TRACEBACK}pydantic_core._pydantic_core.ValidationError: {PYDANTIC}",
    "logged": f"ERROR:root:Error executing tool add: {PYDANTIC}",
    "logged with traceback": f"ERROR:root:Error executing tool add: {PYDANTIC}\n{TRACEBACK}ValueError: x",
    "sqlalchemy": f"{TRACEBACK}{SQLALCHEMY}",
    "jsonschema": f"{TRACEBACK}{JSONSCHEMA}",
    "colon": f"{TRACEBACK}ValueError: these are wrong:\nname",
    "warning": f"{TRACEBACK}Warning: the class of an error, not a level",
}


def records(text: str) -> list[str]:
    return ["\n".join(lines) for lines in grouped(text.split("\n"), lambda line: ("server", line))]


@pytest.mark.parametrize("text", ONE.values(), ids=ONE)
def test_an_exception_of_several_lines_is_one_record(text):
    assert records(text) == [text]
    for after in ("ready", "INFO: ready\n  at 8000", "2026-11-28 ready\n  at 8000", '{"up": 1}'):
        assert records(f"{text}\n{after}") == [text, after]


def test_records_next_to_each_other_stay_apart_and_are_bounded():
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x'
    texts = ["INFO: ready", traceback, traceback, "INFO: done", "bye"]
    assert records("\n".join(texts)) == texts
    first, second = records("\n".join(["begin", *["  x"] * MAX_LINES]))
    assert first.count("\n") + 1 == MAX_LINES
    assert second == "  x"


def test_a_traceback_shows_the_authors_line_first():
    shown = Record(CHAIN).display_text.split("\n")
    assert shown[0] == "shop.py, line 9, total: ValueError: no price"
    assert "ERROR:root:the report failed" in shown
    assert shown.count("  … 1 frame of mcp") == 2
    assert not any(LIBRARY in line or "~~" in line for line in shown)
    assert "  of Oslo" in shown
    assert shown[-1] == "mcp.ToolError: total"
    plain = "INFO: ready\n  at 8000"
    assert Record(plain).display_text == plain, "without a traceback it is shown as it is"


def test_headlines_and_levels_are_those_of_the_error():
    city = "shop.py, line 5, price: ValueError: no such city"
    headlines = {"group": city, "logged group": city, "syntax": "shop.py, line 3: SyntaxError: '(' was never closed"}
    for name, headline in headlines.items():
        assert (level(ONE[name]), Record(ONE[name]).headline) == ("error", headline)
    assert level(f"Error executing tool add: {PYDANTIC}\n{TRACEBACK}ValueError: x") == "error"


# Lines between others

FIRST, SECOND, THIRD = TRACEBACK.splitlines()
ROWS: dict[str, tuple[list[str | int], list[list[str | int]]]] = {
    "messages": (
        [FIRST, 1, SECOND, 2, 3, THIRD, "ValueError: x", 4, "name", "  is empty", 5, "ready"],
        [[FIRST, SECOND, THIRD, "ValueError: x", "name", "  is empty"], *([n] for n in range(1, 6)), ["ready"]],
    ),
    "another thread": (
        [FIRST, "INFO: a", SECOND, THIRD, "INFO: b", "ValueError: x", "ready"],
        [[FIRST, SECOND, THIRD, "ValueError: x"], ["INFO: a"], ["INFO: b"], ["ready"]],
    ),
    "two tracebacks": (
        [FIRST, SECOND, FIRST, THIRD, "KeyError: 1", "ValueError: x"],
        [[FIRST, SECOND, "ValueError: x"], [FIRST, THIRD, "KeyError: 1"]],
    ),
    "a text": (["ready", 1, "  at 8000"], [["ready"], [1], ["  at 8000"]]),
}


def rows(*items: str | int) -> list[list[str | int]]:
    """Return the rows of lines and of messages, which are numbers."""
    return grouped(items, lambda item: ("server", item) if isinstance(item, str) else None)


@pytest.mark.parametrize("name", ROWS)
def test_lines_inside_a_traceback_are_shown_after_it(name):
    items, expected = ROWS[name]
    assert rows(*items) == expected


def test_servers_and_far_lines_stay_apart():
    two = grouped([("a", FIRST), ("b", "  b"), ("a", SECOND)], lambda item: item)
    assert two == [[("a", FIRST), ("a", SECOND)], [("b", "  b")]]
    assert [FIRST, SECOND] in rows(FIRST, *range(MAX_APART), SECOND)
    assert [FIRST, SECOND] not in rows(FIRST, *range(MAX_APART + 1), SECOND)
