"""However large an answer is, what reaches the page stays small, and making it takes linear time at most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, ReadResourceResult, TextResourceContents

from mcp_magic.display.document import size_text
from mcp_magic.display.tables import describe
from mcp_magic.results import ResourceResult, ToolResult, display
from tests.support.clocks import assert_linear
from tests.support.showcase import bundle, text_result

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 50_000_000
PAGE = 200_000


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": "hello & goodbye"} for i in range(count)]


def _json_text(length: int) -> str:
    text = json.dumps(_rows(20))
    return "[" + ",".join([text[1:-1]] * (length // len(text))) + "]"


def _resource(kind: str, text: str) -> ResourceResult:
    contents = TextResourceContents(uri="a:b", mime_type=kind, text=text)
    return ResourceResult(ReadResourceResult(contents=[contents]))


def _images(size: int, count: int = 1) -> ToolResult:
    image = ImageContent(data="A" * size, mime_type="image/png")
    return ToolResult(CallToolResult(content=[image] * count))


CASES: dict[str, Callable[[int], Any]] = {
    "text": lambda n: text_result("x" * n),
    "escapes": lambda n: text_result("&<" * (n // 2)),
    "hidden": lambda n: text_result("\U000e0041" * (n // 10)),
    "JSON": lambda n: text_result(_json_text(n)),
    "JSON that is just read": lambda n: text_result(json.dumps({"a": [[i] for i in range(n // 350)]})),
    "rows": lambda n: text_result(structured_content=_rows(n // 50)),
    "tree": lambda n: text_result(structured_content={str(i): {"x": ["&" * 1000]} for i in range(n // 1000)}),
    "string": lambda n: text_result(structured_content={"a": {"b": "x" * n}}),
    "wide rows": lambda n: text_result(
        structured_content=[{f"c{i}": "&" * 1000 for i in range(3000)}] * (n // 1_600_000)
    ),
    "CSV": lambda n: text_result("a,b\n" + "1,2\n" * (n // 4)),
    "many texts": lambda n: text_result(*["&" * 9000] * (n // 10_000)),
    "image": lambda n: _images(n),
    "CSV resource": lambda n: _resource("text/csv", "a,b\n" + "1,2\n" * (n // 4)),
    "Markdown resource": lambda n: _resource("text/markdown", "<b" * (n // 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_large_answer_is_shown_small_in_linear_time(name):
    pages = []
    assert_linear(lambda result: pages.append(bundle(result)), LARGE // 16, LARGE, CASES[name])
    assert sum(len(part.encode()) for part in pages[-1].values()) < PAGE
    assert len(pages[-1]["text/plain"]) > 10


def test_a_cut_says_the_size_and_where_the_whole_is(monkeypatch):
    long = text_result("x" * 20_000)
    assert bundle(long)["text/plain"].endswith("x\n… 10,000 of 20,000 characters: .text has all of them")
    assert len(long.text) == 20_000
    table = bundle(text_result(structured_content=_rows(100_000)))["text/plain"]
    assert table.endswith("\n20 of 100,000 rows x 2 columns: .df has all of them")
    assert table.count("\n") == 21
    many = bundle(text_result(*[f"{i} x" for i in range(80)]))["text/plain"]
    assert many.endswith("49 x\n\n… 30 more: .text, .artifacts")
    monkeypatch.setattr(display, "rows", 3)
    monkeypatch.setattr(display, "characters", 5)
    assert "3 of 10 rows" in bundle(text_result(structured_content=_rows(10)))["text/plain"]
    assert bundle(text_result("hello world"))["text/plain"].startswith("hello\n…")


def test_a_large_image_is_a_line_and_images_share_one_limit():
    shown = bundle(_images(LARGE))
    assert shown["text/plain"] == "[image/png, 37.5 MB, too large to be kept in the notebook: .images]"
    assert "image/png" not in shown
    several = bundle(_images(1_200_000, 5))["text/html"]
    assert (several.count("<img"), several.count("too large")) == (2, 3)


def test_a_large_svg_is_not_encoded_to_see_its_size():
    def svg(text: str) -> dict[str, str]:
        contents = TextResourceContents(uri="plot://1", mime_type="image/svg+xml", text=text)
        return bundle(ToolResult(CallToolResult(content=[EmbeddedResource(resource=contents)])))

    large = svg("<svg>" + "<g/>" * 1_000_000 + "</svg>")["text/plain"]
    assert large == "plot://1\n[image/svg+xml, 4.0 MB, too large to be kept in the notebook: .resources]"
    assert '<img src="data:image/svg+xml;base64,' in svg("<svg></svg>")["text/html"]


def test_big_values_are_described_by_their_beginning():
    words = describe({f"member\x1b[2J {number}": number for number in range(200_000)})
    assert words.startswith(r"an object with member\x1b[2J 0, ")
    assert words.endswith(" and 199995 more")
    structured = {"n": 10**5000, "rows": [{"digits": 10**5000}]}
    result = text_result(structured_content=structured)
    assert all("an integer of about 5,000 digits" in bundle(result)[kind] for kind in ("text/plain", "text/html"))
    assert result.data == structured


BLOCKS = {
    "long JSON": json.dumps({"a": "x" * 20_000}),
    "emoji in JSON": json.dumps({"a": "\U0001f600" * 20_000}, ensure_ascii=False),
    "emoji": "\U0001f600" * 20_000,
    "empty lines": "\n" * 20_000,
    "quotes": '"\\' * 20_000,
    "markup": "<&" * 20_000,
    "CSV": "a,b\n" + "1,&\n" * 10_000,
    "nested": json.dumps([[[]]] * 5_000),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_many_blocks_together_stay_small_in_a_saved_notebook(name):
    shown = bundle(text_result(*[BLOCKS[name]] * 100))
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < PAGE
    assert " more: .text, .artifacts" in shown["text/plain"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (2_500_000_000, "2.5 GB")],
)
def test_sizes_are_written_as_people_write_them(size, text):
    assert size_text(size) == text
