"""However large an answer is, what reaches the page stays small, and making it stays quick."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import CallToolResult, ImageContent, ReadResourceResult, TextContent, TextResourceContents

from mcp_magic.display.document import size_text
from mcp_magic.results import ResourceResult, ToolResult, display
from tests.support.clocks import cpu_time
from tests.support.showcase import bundle, text_result

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 50_000_000
PAGE = 200_000
SECONDS = 1.5
"""A generous bound for loaded machines; the goal is 0.3 s and is measured by the benchmark."""


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": "hello & goodbye"} for i in range(count)]


def _json_text() -> str:
    text = json.dumps(_rows(20))
    return "[" + ",".join([text[1:-1]] * (LARGE // len(text))) + "]"


CASES: dict[str, Callable[[], Any]] = {
    "text": lambda: text_result("x" * LARGE),
    "text that escaping makes longer": lambda: text_result("&<" * (LARGE // 2)),
    "text of hidden characters": lambda: text_result("\U000e0041" * (LARGE // 10)),
    "JSON as text": lambda: text_result(_json_text()),
    "JSON as text that is just read": lambda: text_result(json.dumps({"a": [[i] for i in range(140_000)]})),
    "structured rows": lambda: text_result(structured_content=_rows(1_000_000)),
    "a structured tree": lambda: text_result(structured_content={str(i): {"x": ["&" * 1000]} for i in range(50_000)}),
    "one structured string": lambda: text_result(structured_content={"a": {"b": "x" * LARGE}}),
    "wide rows": lambda: text_result(structured_content=[{f"c{i}": "&" * 1000 for i in range(3000)}] * 30),
    "CSV as text": lambda: text_result("a,b\n" + "1,2\n" * (LARGE // 4)),
    "many texts": lambda: text_result(*["&" * 9000] * 5000),
    "an image": lambda: ToolResult(CallToolResult(content=[ImageContent(data="A" * LARGE, mime_type="image/png")])),
    "a CSV resource": lambda: ResourceResult(
        ReadResourceResult(
            contents=[TextResourceContents(uri="a:b", mime_type="text/csv", text="a,b\n" + "1,2\n" * (LARGE // 4))]
        )
    ),
    "a Markdown resource": lambda: ResourceResult(
        ReadResourceResult(
            contents=[TextResourceContents(uri="a:b", mime_type="text/markdown", text="<b" * (LARGE // 2))]
        )
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_large_answer_is_shown_small_and_quickly(name: str) -> None:
    value = CASES[name]()
    with cpu_time() as cost:
        shown = bundle(value)
    assert sum(len(part.encode()) for part in shown.values()) < PAGE
    assert cost.seconds < SECONDS
    assert len(shown["text/plain"]) > 10


def test_a_cut_text_says_its_length_and_where_the_whole_is() -> None:
    shown = bundle(text_result("x" * 20_000))["text/plain"]
    assert shown.endswith("x\n… 10,000 of 20,000 characters: .text has all of them")


def test_a_cut_table_says_its_size_and_where_the_whole_is() -> None:
    shown = bundle(text_result(structured_content=_rows(100_000)))["text/plain"]
    assert shown.endswith("\n20 of 100,000 rows x 2 columns: .df has all of them")
    assert shown.count("\n") == 21


def test_a_large_image_is_a_line_that_says_how_to_get_it() -> None:
    shown = bundle(CASES["an image"]())
    assert shown["text/plain"] == "[image/png, 37.5 MB, too large to be kept in the notebook: .images]"
    assert "image/png" not in shown


def test_images_share_one_limit() -> None:
    image = ImageContent(data="A" * 1_200_000, mime_type="image/png")
    shown = bundle(ToolResult(CallToolResult(content=[image] * 5)))
    assert shown["text/html"].count("<img") == 2
    assert shown["text/html"].count("too large") == 3


def test_what_does_not_fit_is_counted() -> None:
    content = [TextContent(text=str(i) + " x") for i in range(80)]
    shown = bundle(ToolResult(CallToolResult(content=content)))["text/plain"]
    assert shown.endswith("49 x\n\n… 30 more: .text, .artifacts")


def test_the_limits_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "rows", 3)
    monkeypatch.setattr(display, "characters", 5)
    assert "3 of 10 rows" in bundle(text_result(structured_content=_rows(10)))["text/plain"]
    assert bundle(text_result("hello world"))["text/plain"].startswith("hello\n…")


def test_values_are_never_cut() -> None:
    result = text_result("x" * 1_000_000)
    bundle(result)
    assert len(result.text) == 1_000_000


@pytest.mark.timed
def test_making_a_result_costs_next_to_nothing() -> None:
    raw = CallToolResult(content=[])
    count = 20_000
    with cpu_time() as cost:
        for _ in range(count):
            ToolResult(raw, server="s", tool="t", seconds=0.1)
    assert cost.seconds / count < 20e-6


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (2_500_000_000, "2.5 GB")],
)
def test_sizes_are_written_as_people_write_them(size: int, text: str) -> None:
    assert size_text(size) == text
