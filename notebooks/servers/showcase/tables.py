"""Tools that return tables, in each of the ways that servers in use return them, and much text."""

import csv
import io
import json
from typing import Annotated

from mcp_types import EmbeddedResource, TextResourceContents
from pydantic import Field
from typing_extensions import TypedDict  # pydantic cannot read typing's before Python 3.12

from showcase.app import READS, server

KB = 1000
"""Bytes of a kilobyte as the tools here count."""

RowCount = Annotated[int, Field(description="How many rows", ge=0, le=500_000)]


class Row(TypedDict):
    """A row of the tables."""

    id: int
    name: str
    price: float | None
    in_stock: bool
    added: Annotated[str, Field(json_schema_extra={"format": "date"})]


def make_rows(count: int) -> list[Row]:
    """Return rows with a text, a number that is sometimes missing, a truth value and a date."""
    return [
        Row(
            id=i,
            name=f"item {i}",
            price=None if i % 5 == 4 else round(1.25 * i, 2),
            in_stock=i % 2 == 0,
            added=f"2026-{i % 12 + 1:02}-{i % 28 + 1:02}",
        )
        for i in range(count)
    ]


def separated(rows: list[Row], delimiter: str = ",") -> str:
    """Return rows as CSV (RFC 4180, but with bare newlines) or with another delimiter."""
    file = io.StringIO()
    table = csv.DictWriter(file, list(Row.__annotations__), delimiter=delimiter, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


@server.tool(annotations=READS)
def table_structured(rows: RowCount = 10) -> list[Row]:
    """Return rows as structured content with an output schema, and as one text block each."""
    return make_rows(rows)


@server.tool(annotations=READS, structured_output=False)
def table_json(rows: RowCount = 10) -> str:
    """Return rows as a JSON array of objects in one text block."""
    return json.dumps(make_rows(rows))


@server.tool(annotations=READS, structured_output=False)
def table_wrapped(rows: RowCount = 10) -> str:
    """Return rows inside of a JSON object, as web services do."""
    return json.dumps({"status": "ok", "total": rows, "items": make_rows(rows), "next": None})


@server.tool(annotations=READS)
def table_columns(rows: RowCount = 10) -> dict[str, list[int | float | str | bool | None]]:
    """Return a table as an object with one array a column."""
    table = make_rows(rows)
    return {name: [row[name] for row in table] for name in Row.__annotations__}  # type: ignore[literal-required]


@server.tool(annotations=READS, structured_output=False)
def table_csv(rows: RowCount = 10) -> str:
    """Return a table as CSV text."""
    return separated(make_rows(rows))


@server.tool(annotations=READS, structured_output=False)
def table_tsv(rows: RowCount = 10) -> str:
    """Return a table as text separated by tabulators."""
    return separated(make_rows(rows), "\t")


@server.tool(annotations=READS, structured_output=False)
def table_markdown(rows: RowCount = 10) -> str:
    """Return a table as Markdown, with a sentence before and after it."""
    names = list(Row.__annotations__)
    lines = [names, ["---"] * len(names), *([str(value) for value in row.values()] for row in make_rows(rows))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Here is the table:\n\n{table}\n\nThat was all of it.\n"


@server.tool(annotations=READS)
def table_embedded(rows: RowCount = 10) -> EmbeddedResource:
    """Return a table as an embedded CSV resource."""
    text = separated(make_rows(rows))
    return EmbeddedResource(
        resource=TextResourceContents(uri="showcase://embedded/table.csv", mime_type="text/csv", text=text)
    )


@server.tool(annotations=READS, structured_output=False)
def table_nested() -> str:
    """Return rows of JSON that hold objects and arrays."""
    return json.dumps(
        [
            {"city": "Berlin", "at": {"lat": 52.52, "lon": 13.41}, "tags": ["capital", "river"]},
            {"city": "Lima", "at": {"lat": -12.05, "lon": -77.04}, "tags": []},
        ]
    )


@server.tool(annotations=READS, structured_output=False)
def markdown() -> str:
    """Return Markdown without a table."""
    return "# Title\n\nSome *emphasis*, `code` and a list:\n\n1. one\n2. two\n\n```python\nprint('hello')\n```\n"


@server.tool(annotations=READS, structured_output=False)
def unicode_text() -> str:
    """Return text in many scripts: emoji, right to left, Chinese, combining marks, and beyond the first plane."""
    return "\n".join(
        (
            "emoji: 👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇺🇳 👍🏽",
            "Hebrew: שלום עולם",
            "Arabic: مرحبا بالعالم",
            "Chinese: 你好世界",
            "Japanese: こんにちは世界",
            "Korean: 안녕하세요",
            "Hindi: नमस्ते दुनिया",
            "combining: Z\u0351\u0343\u0302a\u0301\u0323l\u0334g\u0360o\u0301 e\u0301 n\u0303",
            "beyond the first plane: 𠀋 𓂀",
            "spaces: [\u00a0] [\u2003] [\u200b] [\ufeff]",
        )
    )


@server.tool(annotations=READS, structured_output=False)
def large(
    kilobytes: Annotated[int, Field(description="Size of the text; 1 kB is 1000 bytes", ge=1, le=60_000)] = 1000,
) -> str:
    """Return one large text of numbered lines of 100 bytes."""
    return "".join(f"{number:08} {'x' * 90}\n" for number in range(kilobytes * KB // 100))
