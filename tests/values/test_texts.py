"""Texts as tables: lines and rows are looked for once, and secrets are masked where they are read."""

from __future__ import annotations

import random
import re

import pytest
from mcp_types import CallToolResult, TextContent

from mcp_magic.config.masking import Masker
from mcp_magic.display import tables
from mcp_magic.results import ToolResult
from mcp_magic.values import texts
from mcp_magic.values.reading import Reader
from mcp_magic.values.tables import table_of
from mcp_magic.values.texts import BLOCK, EDGE, LINE, LONG, MAX_TEXT, Lines

SECRET = "sesame-4711"


def hide(text: str) -> str:
    return text.replace(SECRET, "***").replace("first\nsecond", "***")


def lines_of(text: str, mask=hide) -> list[str]:
    """Return all lines of a text, read in pages of 100."""
    table = Lines(text, mask)
    pages = [range(start, min(start + 100, len(table))) for start in range(0, len(table), 100)]
    return [line for page in pages for line in Lines(text, mask).cells(0, page)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_text_and_long_ones_are_broken(end):
    text = end.join(["a", "", "x" * (2 * LINE), "y" * (2 * LINE + 1), "b", ""])
    assert lines_of(text) == ["a", "", "x" * LINE, "x" * LINE, "y" * LINE, "y" * LINE, "y", "b"]
    assert lines_of("") == []
    assert lines_of(text * 200) == lines_of(text) * 200  # of several blocks


@pytest.mark.parametrize("place", [BLOCK, 3 * BLOCK, 2 * BLOCK + LINE])
@pytest.mark.parametrize("line", [61, LINE - 7, 10**9])
def test_a_secret_across_the_edge_of_what_is_read_is_masked(place, line):
    """Each start of the secret around the edge of a block, in lines and in one line without an end."""
    for start in range(place - len(SECRET) - 1, place + 2):
        plain = "".join("\n" if at % line == line - 1 else "x" for at in range(4 * BLOCK))
        text = plain[:start] + SECRET + plain[start:]
        read = lines_of(text)
        assert "***" in "".join(read)
        for length in range(5, len(SECRET)):
            assert SECRET[:length] not in "".join(read)
            assert SECRET[-length:] not in "".join(read)
        assert "".join(read).count("x") >= plain.count("x")


def test_a_secret_of_several_lines_is_masked_between_pages():
    lines = [f"line {number}" for number in range(20_000)]
    for at in range(5, len(lines), 611):
        lines[at : at + 2] = ["first", "second"]
    read = "\n".join(lines_of("\n".join(lines)))
    assert "first" not in read
    assert "second" not in read
    assert [line for line in read.split("\n") if line and line != "***"] == [
        line for line in lines if line not in ("first", "second")
    ]


def test_the_value_of_a_named_secret_is_masked_at_any_length():
    value = "".join(random.Random(1).choices("abcdefghijk", k=5 * BLOCK))
    text = "\n".join(["start", f'{{"client_secret": "{value}", "n": 1}}', "end"])
    read = "".join(lines_of(text, Masker(()).text))
    assert not any(value[at : at + 8] in read for at in range(0, len(value) - 8, 97))
    assert read.startswith("start")
    assert read.endswith("end")


def test_lines_with_masks_are_those_of_the_masked_text():
    lines = [f"see https://x.example/{n}#part or https://me:pw{n}@h.example/?token=t{n}&page={n}" for n in range(5_000)]
    masker = Masker(())
    assert lines_of("\n".join(lines), masker.text) == [masker.text(line) for line in lines]


def test_a_page_masks_what_it_shows_and_what_is_around_it(monkeypatch: pytest.MonkeyPatch):
    text = "\n".join(f"line {number} of a text" for number in range(200_000))
    masked: list[int] = []
    searched: list[int] = []

    def count(part: str) -> str:
        masked.append(len(part))
        return part

    def find(text: str):
        searched.append(len(text))
        return line_starts(text)

    line_starts = texts.line_starts
    texts._kept_lines.cache_clear()
    monkeypatch.setattr(texts, "_kept_lines", texts.lru_cache(maxsize=2)(find))
    reader = Reader(hide=count)
    for start in (0, 100_000, 199_000):
        masked.clear()
        assert f"line {start} of a text" in reader.read(text, rows=f"{start}:{start + 500}")
        assert max(masked) <= BLOCK + LINE + 2 * EDGE
        assert sum(size for size in masked if size > LINE) <= 3 * (BLOCK + 2 * EDGE)
    assert searched == [len(text)]


def test_a_query_over_lines_finds_no_half_of_a_secret():
    text = "\n".join(["x" * (LINE - 4) + SECRET + "x" * LINE] * 300)
    reader = Reader(hide=hide)
    for half in (SECRET[:4], SECRET[4:]):
        assert reader.read(text, query=f'"{half}" in line').startswith("[no lines that fit the query")
    assert re.match(r"\[30\d of 900 lines fit the query", reader.read(text, query='"***" in line'))


def test_a_text_is_cut_at_a_limit():
    table = Lines("x" * (MAX_TEXT + 1))
    assert len(table) == MAX_TEXT // LINE + 1
    assert table.cells(0, [len(table) - 1]) == [f"[cut here; it has {MAX_TEXT + 1:,} characters]"]


# Delimited text.


def of_text(text: str) -> ToolResult:
    return ToolResult(CallToolResult(content=[TextContent(text=text)]))


CSV = "id,city,zip,note\n" + "".join(f'{n},"c, {n}",00{n},{"" if n % 2 else n / 4}\n' for n in range(20_000))


def test_all_rows_of_a_long_csv_are_read():
    result = of_text(CSV)
    reader = Reader()
    assert (
        reader.read(result, rows="19999")
        == '[rows 19999 to 19999 of 20,000]\nid,city,zip,note\n19999,"c, 19999",0019999,'
    )
    assert reader.read(result, query="id > 19996 and note > 1", columns=["id"]) == (
        "[1 of 20,000 rows fit the query, here with their numbers]\nrow,id\n19998,19998"
    )
    assert reader.read(result, query='zip == "0017"', columns=["zip"]).endswith("row,zip\n17,0017")
    assert reader.read(result, query='note is null and "1" in city', rows=":20", columns=["id"]).endswith(
        "row,id\n1,1\n11,11\n13,13\n15,15\n17,17\n19,19"
    )
    description = reader.describe(result, "result_1")
    assert "\nid: str, 0 to 19999, mean 9999.5\n" in description
    assert "\nnote: str, 10,000 missing, 0 to 4999.5, mean " in description


def test_rows_of_delimited_text_may_have_line_ends():
    table = table_of(tables.Delimited(values='a;a;c\r\n\r\n1;"x\r\ny";3\r\n4\r\n5;6;7;8', delimiter=";"))
    assert table is not None
    assert table.columns == ["a", "a_2", "c", "Unnamed: 3"]
    assert [table.cells(position, range(3)) for position in range(4)] == [
        ["1", "4", "5"],
        ["x\r\ny", None, "6"],
        ["3", None, "7"],
        [None, None, "8"],
    ]
    assert table.cells(0, [0, 2]) == ["1", "5"]


def test_a_result_is_searched_for_tables_once(monkeypatch: pytest.MonkeyPatch):
    searched: list[int] = []
    passages = tables.passages

    def count(text: str):
        searched.append(len(text))
        return passages(text)

    monkeypatch.setattr("mcp_magic.results.results.passages", count)
    result = of_text(CSV)
    reader = Reader()
    for start in range(0, 20_000, 5_000):
        reader.read(result, rows=f"{start}:{start + 10}")
    reader.describe(result, "result_1")
    assert len(result.df) == 20_000
    assert searched == [len(CSV)]
    assert len(CSV) > LONG
