"""The one place where HTML is made.

Everything else hands in text and gets markup back, so there is one place to look for a missing escape.
The markup reads well without its style (GitHub drops it) and without JavaScript (nbviewer, nbconvert).
"""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING

from .safe import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Markup", "details", "error_label", "escape", "link", "note", "page", "preformatted", "table", "tag"]

# JupyterLab's variables follow its theme; elsewhere the fallbacks are readable on white and on black.
STYLE = (
    "<style>"
    ".mcp-magic{font-family:var(--jp-content-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-content-font-size1,14px);color:var(--jp-content-font-color1,inherit)}"
    ".mcp-magic pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0 0 .4em;background:none;color:inherit}"
    ".mcp-magic table{border-collapse:collapse;margin:0 0 .4em}"
    ".mcp-magic th,.mcp-magic td{text-align:left;vertical-align:top;padding:.2em .6em;max-width:40em;"
    "overflow-wrap:anywhere;border-bottom:1px solid var(--jp-border-color2,#ccc)}"
    ".mcp-magic td.mcp-number{text-align:right;font-variant-numeric:tabular-nums}"
    ".mcp-magic ul{list-style:none;margin:0;padding-left:1.2em}"
    ".mcp-magic summary{cursor:pointer}"
    ".mcp-magic .mcp-note{color:var(--jp-content-font-color2,#767676);font-size:90%;margin:0 0 .4em}"
    ".mcp-magic .mcp-error{color:var(--jp-error-color1,#d32f2f);font-weight:bold}"
    ".mcp-magic .mcp-badge{border:1px solid var(--jp-border-color1,#999);border-radius:.7em;padding:0 .5em;"
    "margin-right:.3em;font-size:85%;white-space:nowrap}"
    ".mcp-magic .mcp-badge-danger{border-color:var(--jp-error-color1,#d32f2f)}"
    ".mcp-magic .mcp-badge-safe{border-color:var(--jp-success-color1,#388e3c)}"
    ".mcp-magic img{max-width:100%}"
    "</style>"
)


class Markup(str):
    """Text that is markup already; `escape` leaves it alone."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Return text as markup that shows it, fit for an element and for a quoted attribute.

    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    if isinstance(value, Markup):
        return value
    return Markup(_html.escape(clean(str(value))))


def tag(name: str, content: object = "", **attributes: str) -> Markup:
    """Return one element; a trailing underscore in an attribute's name is dropped (`class_`).

    >>> tag("b", "1 < 2", class_="x")
    '<b class="x">1 &lt; 2</b>'
    """
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{escape(content)}</{name}>")


def joined(parts: Iterable[object], separator: str = "") -> Markup:
    """Return parts one after the other, each escaped unless it is markup."""
    return Markup(separator.join(escape(part) for part in parts))


def preformatted(text: str) -> Markup:
    """Return text as written, wrapped at the edge; quotes stay, they cost space and harm nothing here."""
    return Markup(f"<pre>{_html.escape(clean(text), quote=False)}</pre>")


def note(text: str) -> Markup:
    """Return a line about the display itself, or nothing for no text."""
    return tag("p", text, class_="mcp-note") if text else Markup()


def error_label(text: str = "error") -> Markup:
    """Return the mark of an error: a word, so that colour is not the only sign."""
    return tag("span", text, class_="mcp-error")


def details(summary: object, body: Markup, *, opened: bool = False) -> Markup:
    """Return a part that opens with a click, without JavaScript."""
    attribute = " open" if opened else ""
    return Markup(f"<details{attribute}><summary>{escape(summary)}</summary>{body}</details>")


def link(url: str, text: str) -> Markup:
    """Return a link if `url` is http(s), else its text.

    >>> link("javascript:alert(1)", "click")
    'click'
    """
    if url.lower().startswith(("http://", "https://")):
        return tag("a", text, href=url, target="_blank", rel="noopener noreferrer")
    return escape(text)


def table(headers: Sequence[object], rows: Iterable[Sequence[object]], *, limit: int) -> tuple[Markup, int]:
    """Return a table and how many rows it has: as many as fit into `limit` bytes, at least one.

    Cells that are numbers are set flush right.
    """
    head = "".join(tag("th", header) for header in headers)
    body: list[str] = []
    used = len(head)
    for row in rows:
        line = f"<tr>{''.join(_cell(cell) for cell in row)}</tr>"
        used += len(line.encode())
        if body and used > limit:
            break
        body.append(line)
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"), len(body)


def _cell(cell: object) -> Markup:
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return tag("td", cell, class_="mcp-number")
    return tag("td", cell)


def page(parts: Iterable[Markup]) -> str:
    """Return one output: the parts, in a scope of their own, with their style."""
    return f'{STYLE}<div class="mcp-magic">{"".join(parts)}</div>'
