"""Makes tables of hostile texts with little memory, and says what each gave."""

from __future__ import annotations

import json
import resource

import mcp_types as types
import pandas  # noqa: F401 - its import takes memory, too

from mcp_magic.errors import NoTableError
from mcp_magic.results import ResourceResult, ToolResult

MEMORY = 2 << 30

WIDE = ",".join(f"a{number}" for number in range(4_999))

TEXTS = {
    "rows of Python": "[" + "{'a': None, 'b': 'hello'}, " * 800_000 + "]",
    "values of Python": "[" + "1," * 10_000_000 + "]",
    "Python in a fence": "here:\n```\n[" + "(1, 2), " * 2_500_000 + "]\n```\n",
    "rows without common columns": json.dumps([{f"a{number}": 1} for number in range(80_000)]),
    "lines without common columns": "\n".join(json.dumps({f"a{number}": 1}) for number in range(80_000)),
    "Markdown without cells": "|a" * 100_000 + "|\n" + "|-" * 100_000 + "|\n" + "|\n" * 200_000,
    "ragged": json.dumps({"columns": ["a", "b"], "rows": [[1] * 4_000, *[[1]] * 400_000]}),
    "HTML spans": "<table><tr><th>a<tr>" + "<td rowspan=60000 colspan=1000>x" * 1_000 + "<tr>" * 100_000 + "</table>",
    "HTML columns": "<table><tr><th>a<tr>" + "<td>x" * 100_000 + "</table>",
    "HTML left open": "<table><tr><td a='" * 100_000 + "<!--" * 100_000,
    "columns": json.dumps([list(range(100_000))] * 2),
}
FILES = {"columns of CSV": "a," * 500_000, "CSV without cells": f"{WIDE}\n" + "1\n" * 400_000}


def answered(text: str) -> ToolResult:
    return ToolResult(types.CallToolResult(content=[types.TextContent(type="text", text=text)]))


def read(text: str) -> ResourceResult:
    contents = types.TextResourceContents(uri="a:b", mime_type="text/csv", text=text)
    return ResourceResult(types.ReadResourceResult(contents=[contents]))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, text in {**TEXTS, **FILES}.items():
        result = answered(text) if name in TEXTS else read(text)
        result._repr_mimebundle_()
        if isinstance(result, ToolResult):
            assert result.frames == {}
        try:
            gave = str(result.df.shape)
        except NoTableError as error:
            gave = str(error)
        print("\nTABLE", json.dumps([name, gave]), flush=True)


if __name__ == "__main__":
    main()
