"""Markdown of a server makes no page fetch, style or define anything."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import ReadResourceResult, TextResourceContents

from mcp_magic.display.markdown import markdown
from mcp_magic.display.text import harmless
from mcp_magic.results import ResourceResult
from mcp_magic.server.docs import quoted
from tests.support.clocks import assert_linear, sixteenth

FENCES = (
    "```mermaid\nx\n```",
    "~~~~ mermaid\nx\n~~~~",
    "- 1. > ```mermaid\n",
    "```\\mermaid\nx",
    "```Mermaid title=x\nx\n```",
    "```{mermaid}\nx\n```",
    "```{figure} http://127.0.0.1:9/x.png\n```",
    ":::{iframe} http://127.0.0.1:9/\n:::",
    ": ~~~mermaid\nx\n~~~",
    "text\r\n```mermaid\r\nx\r\n```",
)
COMMANDS = ("style", "href", "bbox", "class", "cssId", "require", "def", "newcommand", "let")
LONG = (
    *(letter * 1_000_000 for letter in "!`:\\ "),
    ("```" + " " * 50) * 20_000,
    "](" + " " * 1_000_000,
    "\\html" + "a" * 1_000_000,
    "](" * 500_000,
)


def shown(text: str) -> str:
    contents = TextResourceContents(uri="a:b", mime_type="text/markdown", text=text)
    bundle: Any = ResourceResult(ReadResourceResult(contents=[contents]))._repr_mimebundle_()
    return str(bundle["text/markdown"])


@pytest.mark.parametrize("text", FENCES)
def test_no_fence_keeps_what_a_frontend_acts_on(text):
    for made in (shown(text), quoted(text)):
        assert "ermaid" not in made
        assert "{" not in made
    assert "class=" not in markdown(text).replace('<pre class="mcp-line"', "<pre")  # ours


def test_code_keeps_the_language_that_is_only_coloured():
    text = "```python\n1\n```\n\n~~~json\n{}\n~~~\n\nIn a line: ```mermaid``` is `mermaid`.\n"
    assert harmless(text) == text
    assert 'class="language-python"' in markdown("```python\n1\n```")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_formula_has_no_command_that_styles_links_or_defines(command):
    made = shown(rf"$\frac{{1}}{{2}} \\\{command}{{background:url(http://127.0.0.1:9/x)}}{{y}}$")
    assert f"\\{command}" not in made
    assert r"\frac{1}{2}" in made


@pytest.mark.parametrize("text", LONG, ids=[ascii(text[:20]) for text in LONG])
def test_a_million_characters_are_made_harmless_in_linear_time(text):
    assert_linear(harmless, sixteenth(text), text)
