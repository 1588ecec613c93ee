"""Texts of servers: controls written out, types and URLs believed only if they are some, Markdown made harmless."""

from __future__ import annotations

import mistune
import nbformat
import pytest
from mcp_types import ReadResourceResult, TextResourceContents
from nbconvert import HTMLExporter

from mcp_magic._text import clean
from mcp_magic.display.text import data_url, harmless, middle_cuts, mime, one_line
from mcp_magic.errors import InvalidResponseError
from mcp_magic.results import ResourceResult
from tests.support.markup import Markup
from tests.support.showcase import bundle


def test_colours_go_and_controls_are_written_out():
    assert clean("\x1b[1;31mred\x1b[0m\x07\x1b]0;title\x07") == "red\\x07\\x1b]0;title\\x07"
    assert clean("a\r\nb\tc\u2066d\u200b") == "a\nb\tc\\u2066d\\u200b"
    assert clean("\ud800") == "\\ud800"
    assert clean("👩\u200d🚀 日本") == "👩\u200d🚀 日本"


@pytest.mark.parametrize("colours", [1, 15])
def test_a_reason_is_cut_after_its_colours_are_removed(colours):
    text = "".join(f"\x1b[38;5;{number}m" for number in range(100, 100 + colours)) + "ValueError: no such city"
    assert one_line(text, 200) == "ValueError: no such city"
    assert one_line(f"{text} {'a' * 400}", 200) == f"ValueError: no such city {'a' * 174}…"
    assert one_line("\x1b[31m" * 1000 + "why", 20).endswith("…")  # colours alone


def test_texts_that_differ_in_two_places_are_whole():
    texts = [f"{'a' * 40}{x}{'b' * 40}{y}{'c' * 40}" for x in "12" for y in "34"]
    assert middle_cuts([*texts, "a" * 50], 34) == [*texts, f"{'a' * 6}…{'a' * 27}"]
    assert middle_cuts(["\u202eabc"], 34) == [clean("\u202eabc")]  # an invisible character needs no cut


@pytest.mark.parametrize(
    "evil",
    ['image/png" onerror="x', "image/png;base64,AAAA", "<b>", "image", "", None, "image/png\n/x", "a/" + "b" * 999],
)
def test_what_is_no_mime_type_is_not_believed(evil):
    assert mime(evil) in ("application/octet-stream", "image/png")
    assert '"' not in mime(evil)


@pytest.mark.parametrize("evil", ['aGk=" onload="x', "<svg>", "a b(c)", "aGk=aGk="])
def test_what_is_not_base64_makes_no_url(evil):
    with pytest.raises(InvalidResponseError):
        data_url("image/png", evil)


MARKDOWN = {
    "tag": "<script>alert(1)</script>",
    "no fence": "~~~\n```\n~~~\n<script>alert(1)</script>\n```",
    "mathematics": "$$\n\n```\n$$\n<script>alert(1)</script>\n```",
    "comment": "<!-- --><img src=x onerror=alert(1)>",
    "link": "[x](javascript:alert(1))",
    "spaces": "[x](  javascript:alert(1) )",
    "brackets": "[x](<javascript:alert(1)>)",
    "bracket and space": "[x](< javascript:alert(1)>)",
    "entities": "[x](java&#115;cript&colon;alert(1))",
    "escape": "[x](javascript\\:alert(1))",
    "tab": "[x](java\tscript:alert(1))",
    "data": "[x](data:text/html,<script>alert(1)</script>)",
    "reference": "[x]\n\n[x]: javascript:alert(1)",
    "next line": "[x]\n\n[x]:\n  javascript:alert(1)",
    "autolink": "<javascript:alert(1)>",
    "image": "![x](https://tracker.example/p.png)",
    "disguise": "!![x](https://tracker.example/p.png)",
    "image reference": "![x][y]\n\n[y]: https://tracker.example/p.png",
    "image in a link": "[![x](https://tracker.example/p.png)](https://a.example)",
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_cannot_run_or_load_anything(name):
    # The renderer that nbconvert builds on, told to let everything through.
    renderer = mistune.HTMLRenderer(escape=False, allow_harmful_protocols=True)
    page = mistune.create_markdown(renderer=renderer, plugins=["math", "table", "url"])(harmless(MARKDOWN[name]))
    markup = Markup(str(page))
    assert not markup.tags & {"script", "img", "iframe", "svg"}
    assert not any(attribute.startswith("on") for attribute in markup.attributes)
    assert all(url.startswith("https://") or ":" not in url for url in markup.urls)


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_is_harmless_in_what_nbconvert_makes(name):
    contents = TextResourceContents(uri="a:b", mime_type="text/markdown", text=MARKDOWN[name])
    data = bundle(ResourceResult(ReadResourceResult(contents=[contents])))
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    markup = Markup(page)
    assert not markup.tags & {"script", "img", "iframe"}
    assert not any("script:" in url or url.startswith("data:") for url in markup.urls)


def test_ordinary_markdown_is_left_alone():
    text = "# T\n\n1 < 2, [a](https://a.b/c?d=1&e=2), [b](#x), [c](docs/a.md), `x`\n\n| a | b |\n|---|---|\n"
    assert harmless(text) == text
