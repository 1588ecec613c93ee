"""What a model reads of results that are too large for it: an outline, and the rest by a handle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from mcp_types import CallToolResult, ImageContent, TextContent

from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import result_of, to_content
from mcp_magic.langchain.large_results import Spill, outline, read_result
from mcp_magic.results import ToolResult
from tests.support.sampling_servers import PIXEL

CITIES = json.dumps([{"city": f"c{number}", "rain": number / 2} for number in range(200)])


def holding(*texts: str, structured: Any = None) -> ToolResult:
    raw = CallToolResult(content=[TextContent(text=text) for text in texts], structured_content=structured)
    return ToolResult(raw, server="s", tool="t")


def test_each_of_several_tables_has_a_handle():
    rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
    result = holding(structured={"users": rows, "orders": [{"id": 1, "total": 2}, {"id": 2, "total": 3}]})
    assert outline(result, "result_1").splitlines()[1:] == [
        "result_1.users: table of 3 rows x 2 columns (id, name)",
        "result_1.orders: table of 2 rows x 2 columns (id, total)",
    ]
    assert read_result(result, "orders", "1:", limit=100) == "[rows 1 to 1 of 2]\nid,total\n2,3"
    with pytest.raises(ArgumentsError, match=r"it has several tables; add one to the handle, as HANDLE\.TABLE: users"):
        read_result(result, limit=100)


def test_a_text_is_read_by_lines_and_searched():
    result = holding("\n".join(f"line {number}" for number in range(300)))
    assert outline(result, "result_1").startswith("[result_1: text of 2,589 characters, 300 lines. About 647 tokens")
    assert read_result(result, rows="-1:", limit=100) == "[lines 299 to 299 of 300]\nline 299"
    assert read_result(result, search="LINE 29", limit=40) == (
        "[11 of 300 lines have 'LINE 29', here with their numbers; rows=\"292:300\" reads on]\n"
        "29: line 29\n290: line 290\n291: line 291"
    )
    assert read_result(result, search="snow", rows="5:9", limit=100) == "[no lines with 'snow' in 5:9; there are 300]"


def test_a_read_ends_at_its_limit_and_says_how_it_goes_on():
    text = read_result(holding(CITIES), rows="3:", columns=["city"], limit=20)
    assert text == '[rows 3 to 9 of 200; rows="10:200" reads on]\ncity\nc3\nc4\nc5\nc6\nc7\nc8\nc9'
    line = read_result(holding("x" * 2000), rows="1:2", limit=10_000)
    assert line == f"[lines 1 to 1 of 4]\n{'x' * 500}"
    row = read_result(holding(json.dumps([{"a": "x" * 2000}, {"a": "y"}])), limit=100)
    assert row == f'[rows 0 to 0 of 2; rows="1:2" reads on]\na\n{"x" * 100} [cut here]'


def test_other_json_is_read_by_lines():
    result = holding(structured={"name": "x", "deep": {"list": [1, [2, [3]]], "text": "y" * 50}})
    assert "an object with name, deep as JSON" in outline(result, "result_1")
    assert '"name": "x"' in read_result(result, limit=1000)


def test_a_model_sees_the_picture_of_a_large_result():
    raw = CallToolResult(content=[TextContent(text="a\n" * 500), ImageContent(data=PIXEL, mime_type="image/png")])
    large = ToolResult(raw, server="s", tool="t")
    content: Any
    content, artifact = to_content(large, images=True, spill=Spill.above(100, "result_1"))
    assert [isinstance(part, str) or part["type"] for part in content] == [True, "image"]
    assert result_of(ToolMessage(content, tool_call_id="1", artifact=artifact)).raw == raw


def test_an_error_is_never_spilled():
    raw = CallToolResult(content=[TextContent(text="x" * 900)], is_error=True)
    content, artifact = to_content(ToolResult(raw, server="s", tool="t"), spill=Spill.above(100, "result_1"))
    assert content == "x" * 900
    assert "handle" not in artifact
