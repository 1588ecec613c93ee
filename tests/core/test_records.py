"""Records of a server's stderr: which lines belong together, and how a traceback is shown."""

from __future__ import annotations

import pytest

from mcp_magic.records import MAX_LINES, Record, grouped, level

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
