"""Records of a server's stderr: which lines belong together, and how a traceback is shown."""

from __future__ import annotations

import pytest

from mcp_magic.records import MAX_APART, MAX_LINES, Record, grouped, level

LIBRARY = "/venv/lib/python3.11/site-packages/mcp/server.py"
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
  of Oslo

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "{LIBRARY}", line 50, in call_tool
    raise ToolError(name)
mcp.ToolError: total"""


def records(text: str) -> list[str]:
    """Return the records of a text."""
    return ["\n".join(lines) for lines in grouped(text.split("\n"), lambda line: ("server", line))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CHAIN, id="chain"),
        pytest.param(CHAIN.partition("\n")[2], id="chain alone"),
        pytest.param(CHAIN.replace("ERROR:root:", ""), id="message without a level"),
        pytest.param("Error: boom\n    at run (server.js:3:1)\n    at main (server.js:9:1)", id="Node"),
    ],
)
def test_an_exception_is_one_record(text: str) -> None:
    assert records(text) == [text]


def test_records_next_to_each_other_stay_apart() -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x'
    texts = ["INFO: ready", traceback, traceback, "INFO: done", "bye"]
    assert records("\n".join(texts)) == texts


def test_a_record_has_a_bound() -> None:
    first, second = records("\n".join(["begin", *["  x"] * MAX_LINES]))
    assert first.count("\n") + 1 == MAX_LINES
    assert second == "  x"


def test_a_traceback_shows_the_authors_line_first() -> None:
    shown = Record(CHAIN).shown.split("\n")
    assert shown[0] == "shop.py, line 9, total: ValueError: no price"
    assert "ERROR:root:the report failed" in shown
    assert shown.count("  … 1 frame of mcp") == 2
    assert not any(LIBRARY in line or "~~" in line for line in shown)
    assert "  of Oslo" in shown
    assert shown[-1] == "mcp.ToolError: total"


def test_a_record_without_a_traceback_is_shown_as_it_is() -> None:
    assert Record("INFO: ready\n  at 8000").shown == "INFO: ready\n  at 8000"


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


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (GROUP, "shop.py, line 5, price: ValueError: no such city"),
        (f"ERROR: it failed\n{GROUP}", "shop.py, line 5, price: ValueError: no such city"),
        (SYNTAX, "shop.py, line 3: SyntaxError: '(' was never closed"),
    ],
    ids=["group", "logged group", "syntax error"],
)
def test_a_group_and_a_syntax_error_are_one_record(text: str, headline: str) -> None:
    record, after = records(f"{text}\nready")

    assert (record, after) == (text, "ready")
    assert level(record) == "error"
    assert Record(record).headline == headline


def test_a_group_after_a_chain_is_one_record() -> None:
    text = f"{CHAIN}\n\nDuring handling of the above exception, another exception occurred:\n\n{GROUP}"

    assert records(f"{text}\nready") == [text, "ready"]


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


@pytest.mark.parametrize(
    "text",
    [
        f"{TRACEBACK}pydantic_core._pydantic_core.ValidationError: {PYDANTIC}",
        f"ERROR:root:Error executing tool add: {PYDANTIC}",
        f"ERROR:root:Error executing tool add: {PYDANTIC}\n{TRACEBACK}ValueError: x",
        f"{TRACEBACK}{SQLALCHEMY}",
        f"{TRACEBACK}{JSONSCHEMA}",
        f"{TRACEBACK}ValueError: these are wrong:\nname",
        f"{TRACEBACK}Warning: the class of an error, not a level",
    ],
    ids=["pydantic", "logged", "logged with traceback", "sqlalchemy", "jsonschema", "colon", "warning"],
)
@pytest.mark.parametrize("after", ["ready", "INFO: ready\n  at 8000", "2026-11-28 ready\n  at 8000", '{"up": 1}'])
def test_an_error_of_several_lines_is_one_record(text: str, after: str) -> None:
    assert records(f"{text}\n{after}") == [text, after]


def test_the_level_of_a_traceback_below_a_long_message_is_error() -> None:
    assert level(f"Error executing tool add: {PYDANTIC}\n{TRACEBACK}ValueError: x") == "error"


def rows(*items: str | int) -> list[list[str | int]]:
    """Return the rows of lines and of messages, which are numbers."""
    return grouped(items, lambda item: ("server", item) if isinstance(item, str) else None)


def test_messages_between_lines_of_a_traceback_stand_after_it() -> None:
    first, second, third = TRACEBACK.splitlines()
    assert rows(first, 1, second, 2, 3, third, "ValueError: x", 4, "name", "  is empty", 5, "ready") == [
        [first, second, third, "ValueError: x", "name", "  is empty"],
        *([n] for n in range(1, 6)),
        ["ready"],
    ]


def test_lines_of_another_thread_stand_after_a_traceback() -> None:
    first, second, third = TRACEBACK.splitlines()
    assert rows(first, "INFO: a", second, third, "INFO: b", "ValueError: x", "ready") == [
        [first, second, third, "ValueError: x"],
        ["INFO: a"],
        ["INFO: b"],
        ["ready"],
    ]


def test_two_tracebacks_at_once_keep_their_lines() -> None:
    first, second, third = TRACEBACK.splitlines()
    assert rows(first, second, first, third, "KeyError: 1", "ValueError: x") == [
        [first, second, "ValueError: x"],
        [first, third, "KeyError: 1"],
    ]


def test_servers_and_far_lines_stay_apart() -> None:
    first, second, _ = TRACEBACK.splitlines()
    two = grouped([("a", first), ("b", "  b"), ("a", second)], lambda item: item)
    assert two == [[("a", first), ("a", second)], [("b", "  b")]]
    assert [first, second] in rows(first, *range(MAX_APART), second)
    assert [first, second] not in rows(first, *range(MAX_APART + 1), second)
    assert rows("ready", 1, "  at 8000") == [["ready"], [1], ["  at 8000"]], "a text is no traceback"
