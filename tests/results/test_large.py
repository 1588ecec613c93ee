"""What is large is recognised before any work is done on it."""

from __future__ import annotations

import json
import time

import pytest
from mcp_types import CallToolResult

from mcp_magic.display.tables import describe
from mcp_magic.results import ToolResult


def test_a_large_svg_is_not_encoded_to_find_that_it_is_too_large():
    text = "<svg>" + "<g/>" * 1_000_000 + "</svg>"
    resource = {"uri": "plot://1", "mimeType": "image/svg+xml", "text": text}
    result = ToolResult(CallToolResult.model_validate({"content": [{"type": "resource", "resource": resource}]}))
    plain = result._repr_mimebundle_()["text/plain"]
    assert plain == "plot://1\n[image/svg+xml, 4.0 MB, too large to be kept in the notebook: .resources]"


def test_a_small_svg_is_shown():
    resource = {"uri": "plot://1", "mimeType": "image/svg+xml", "text": "<svg></svg>"}
    result = ToolResult(CallToolResult.model_validate({"content": [{"type": "resource", "resource": resource}]}))
    assert '<img src="data:image/svg+xml;base64,' in result._repr_mimebundle_()["text/html"]


def test_big_object_is_described_by_its_first_members():
    members = {f"member\x1b[2J {number}": number for number in range(200_000)}
    started = time.thread_time()
    described = describe(members)
    assert described.startswith(r"an object with member\x1b[2J 0, ")
    assert described.endswith(" and 199995 more")
    assert time.thread_time() - started < 5


BLOCKS = {
    "long strings in JSON": json.dumps({"a": "x" * 20_000}),
    "emoji in JSON": json.dumps({"a": "\U0001f600" * 20_000}, ensure_ascii=False),
    "emoji": "\U0001f600" * 20_000,
    "empty lines": "\n" * 20_000,
    "quotation marks": '"\\' * 20_000,
    "markup": "<&" * 20_000,
    "CSV": "a,b\n" + "1,&\n" * 10_000,
    "nested lists": json.dumps([[[]]] * 5_000),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_many_blocks_together_stay_small_in_a_saved_notebook(name):
    blocks = [{"type": "text", "text": BLOCKS[name]}] * 100
    shown = ToolResult(CallToolResult.model_validate({"content": blocks}))._repr_mimebundle_()
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < 200_000
    assert " more: .text, .artifacts" in shown["text/plain"]


def test_an_integer_that_python_does_not_write_is_described():
    structured = {"n": 10**5000, "rows": [{"digits": 10**5000}]}
    result = ToolResult(CallToolResult.model_validate({"content": [], "structuredContent": structured}))
    bundle = result._repr_mimebundle_()
    assert "an integer of about 5,000 digits" in bundle["text/plain"]
    assert "an integer of about 5,000 digits" in bundle["text/html"]
    assert result.data == structured
