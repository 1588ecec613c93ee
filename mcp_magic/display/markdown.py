"""Renders the Markdown of models as safe HTML: no HTML of theirs, no scripts, nothing that loads.

Raw HTML is shown as text; links may only be http(s) and mailto. Images become links, because loading an image would
tell its host who reads the notebook (and what the model put into the address). A code block keeps only the name of a
language that pages colour; some pages draw others.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean
from mcp_magic.display.document import NO_GROUND, Markup, escape, tag
from mcp_magic.display.text import code_language

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_DESTINATION = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)

MAX_CELLS = 50_000
"""Most columns times lines for which tables are rendered: every row gets all columns, however few cells it has."""

_BELOW = 3  # levels by which headings are lowered: a cell's output must not look like a chapter of the page


def markdown(text: str) -> Markup:
    """Return Markdown (CommonMark, tables, strikethrough) as safe HTML."""
    text = clean(text)
    columns = max((line.count("|") for line in text.split("\n")), default=0)
    html: str = _parser(tables=columns * text.count("\n") <= MAX_CELLS).render(text)
    # These tags are never of the text, whose HTML is escaped.
    html = html.replace("<pre><code", _BLOCK)
    return Markup(html.replace("<table>", f"{_FRAME}<table>").replace("</table>", "</table></div>"))


_BLOCK = tag("pre", tag("code", **NO_GROUND), class_="mcp-line").removesuffix("></code></pre>")
_FRAME = tag("div", class_="mcp-scroll").removesuffix("</div>")


@functools.cache
def _parser(*, tables: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["strikethrough", *(["table"] if tables else [])])
    parser.validateLink = lambda url: _DESTINATION.match(url.strip()) is not None  # type: ignore[method-assign]
    for kind, rule in _RULES.items():
        parser.add_render_rule(kind, rule)
    parser.inline.ruler.before("link", "unclosed", _unclosed)
    parser.inline.skipToken = _skipping(parser.inline.skipToken)  # type: ignore[method-assign, assignment]
    return parser


# The search for the end of a link's text passes each bracket of it again and again, up to `maxNesting` times. These two
# change nothing but how long that takes.


def _unclosed(state: StateInline, silent: bool) -> bool:
    """Take a bracket as text that begins no link, because nothing closes it or because no destination follows."""
    at = state.pos
    if not state.src.startswith(("[", "!["), at):
        return False
    is_defined = bool(state.env.get("references"))
    if (is_defined or at <= _last_link(state.src)) and state.src.rfind("]", at, state.posMax) >= 0:
        return False
    if not silent:
        state.pending += state.src[at]
    state.pos += 1
    return True


@functools.lru_cache(maxsize=1)
def _last_link(text: str) -> int:
    """Return where the last text of a link with a destination can end, or -1."""
    return text.rfind("](", 0, max(text.rfind(")"), 0))


def _skipping(skip: Callable[[StateInline], None]) -> Callable[[StateInline], None]:
    """Return the parser's `skip` of a token, which looks up first whether the token has been skipped before."""

    def skip_token(state: StateInline) -> None:
        end = state.cache.get(state.pos)
        if end is None:
            skip(state)
        else:
            state.pos = end

    return skip_token


def _link_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("target", "_blank")
    tokens[index].attrSet("rel", "noopener noreferrer")
    return str(self.renderToken(tokens, index, options, env))


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Return a link to the image; inside another link, only its text."""
    token = tokens[index]
    words = self.renderInlineAsText(token.children, options, env) or str(token.attrGet("src") or "image")
    text = escape(f"image: {words}")
    inside = sum(before.nesting for before in tokens[:index] if before.type in ("link_open", "link_close"))
    if inside:
        return text
    return f'<a href="{escape(token.attrGet("src"))}" target="_blank" rel="noopener noreferrer">{text}</a>'


def _heading(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if token.tag in ("h1", "h2", "h3"):
        token.tag = f"h{int(token.tag[1]) + _BELOW}"
    return str(self.renderToken(tokens, index, options, env))


def _fence(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].info = code_language(tokens[index].info)
    return str(type(self).fence(self, tokens, index, options, env))


_RULES = {
    "link_open": _link_open,
    "image": _image,
    "fence": _fence,
    "heading_open": _heading,
    "heading_close": _heading,
}
