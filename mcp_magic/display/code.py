"""Shows Python code that strangers wrote: escaped, with invisible characters written out, and coloured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.display.document import Markup, Part, escape, joined, tag
from mcp_magic.display.visible import visible

if TYPE_CHECKING:
    from pygments.token import _TokenType

MAX_COLOURED = 20_000  # characters of code that get colours; longer code is shown without

_COLOURS = (
    ("Comment", "var(--jp-mirror-editor-comment-color,#3d7b7b)"),
    ("Literal.String", "var(--jp-mirror-editor-string-color,#ba2121)"),
    ("Literal.Number", "var(--jp-mirror-editor-number-color,#3a7a3a)"),
    ("Keyword", "var(--jp-mirror-editor-keyword-color,#008000)"),
    ("Operator.Word", "var(--jp-mirror-editor-keyword-color,#008000)"),
    ("Name.Function", "var(--jp-mirror-editor-def-color,#0000c0)"),
)
"""Kinds of tokens (Pygments) and the page's colours of them; the others have the colour of the text."""


def code_part(code: str) -> Part:
    """Return Python code as a block."""
    text = visible(code.strip("\n"))
    return Part(text, Markup(f"<pre>{_coloured(text)}</pre>"))


def _coloured(code: str) -> Markup:
    from pygments.lexers.python import PythonLexer
    from pygments.token import string_to_tokentype

    if len(code) > MAX_COLOURED:
        return escape(code)
    colours: dict[_TokenType, str] = {string_to_tokentype(name): colour for name, colour in _COLOURS}
    parts: list[Markup] = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        colour = next((colours[token] for token in reversed(kind.split()) if token in colours), "")
        parts.append(tag("span", text, style=f"color:{colour}") if colour else escape(text))
    return joined(parts)
