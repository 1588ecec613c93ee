"""The one place where HTML is made.

Everything else hands in text and gets markup back, so there is one place to look for a missing escape.
The markup reads well without its style (GitHub drops it) and without JavaScript (nbviewer, nbconvert).
"""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING

from .safe import clean
from .style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Markup",
    "details",
    "error_label",
    "escape",
    "facts",
    "link",
    "note",
    "page",
    "preformatted",
    "table",
    "tag",
]


_NO_MATH = "mathjax_ignore tex2jax_ignore"
"""The classes that keep MathJax 3 (JupyterLab) and 2 (nbconvert) from setting "$5 to $10" as a formula."""


_LEFT = {"style": "text-align:left"}
"""For cells of text: a notebook that is not trusted yet, as Binder opens it, has no style but that of elements, and
JupyterLab's own sets cells flush right."""


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

    Numbers are set flush right, and so are the headers above them.
    """
    body: list[str] = []
    numbers: set[int] = set()
    used = sum(len(tag("th", header).encode()) for header in headers)
    for row in rows:
        line = f"<tr>{''.join(_cell(cell) for cell in row)}</tr>"
        used += len(line.encode())
        if body and used > limit:
            break
        body.append(line)
        numbers.update(column for column, cell in enumerate(row) if _is_number(cell))
    kinds = ({"class_": "mcp-number"} if column in numbers else _LEFT for column in range(len(headers)))
    head = "".join(tag("th", header, **given) for header, given in zip(headers, kinds, strict=True))
    return _framed(f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"), len(body)


def facts(rows: Iterable[tuple[object, object]]) -> Markup:
    """Return names and what they are, as a table without a header."""
    lines = "".join(f"<tr>{tag('th', name, **_LEFT)}{tag('td', value, **_LEFT)}</tr>" for name, value in rows)
    return _framed(f"<tbody>{lines}</tbody>")


def _framed(rows: str) -> Markup:
    """Return a table in a frame, which scrolls what is long: the cells below stay within reach."""
    return Markup(f'<div class="mcp-scroll"><table>{rows}</table></div>')


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _cell(cell: object) -> Markup:
    if _is_number(cell):
        return tag("td", cell, class_="mcp-number")
    return tag("td", "" if cell is None else cell, **_LEFT)


def page(parts: Iterable[Markup]) -> str:
    """Return one output: the parts, in a scope of their own, with their style."""
    shown = list(parts)
    if len(shown) > 1:
        shown = [Markup(f'<div class="mcp-part">{part}</div>') for part in shown]
    return f'{STYLE}<div class="mcp-magic {_NO_MATH}">{"".join(shown)}</div>'
