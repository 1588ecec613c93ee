"""HTML and plain-text building blocks: escaped markup, badges, notes, limits and the style sheet."""

from __future__ import annotations

import html as _html
import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mcp_magic._text import clean
from mcp_magic.display.text import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from mcp_types import Tool, ToolAnnotations

# The style sheet. Each output carries it, because an output may be alone on a page.
#
# JupyterLab's variables follow its theme; elsewhere the fallback colours are readable on white and on black.

# The same class three times outranks JupyterLab's own rules for outputs, which right-align every cell and change the
# size of code (`.jp-ThemedContainer .jp-RenderedHTMLCommon pre`).
_SCOPE = ".mcp-magic.mcp-magic.mcp-magic"

# Table cells break words only if a word does not fit (`break-word`): with `overflow-wrap: anywhere`, the columns of a
# wide table would shrink to single letters.
_RULES = (
    (
        "",
        "font-family:var(--jp-content-font-family,system-ui,sans-serif);font-size:var(--jp-content-font-size1,14px);"
        "color:var(--jp-content-font-color1,inherit);padding:4px 6px",
    ),
    (":is(pre,p,td)", "unicode-bidi:plaintext"),  # each paragraph is aligned by its own script's direction
    ("p", "margin:0 0 .4em"),
    (".mcp-part+.mcp-part", "margin-top:.7em"),
    (">:last-child", "margin-bottom:0"),
    (
        "pre",
        "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);"
        "line-height:var(--jp-code-line-height,1.3);white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;"
        "margin:0 0 .4em;background:none;color:inherit;max-height:64em;overflow:auto",
    ),
    ("pre code", "background:none;padding:0"),
    ("pre.mcp-line", "background:var(--jp-layout-color2,rgba(127,127,127,.15))!important"),
    (".mcp-scroll", "margin:.3em 0 .4em"),
    ("table", "border-collapse:collapse;margin:0"),
    (
        ":is(th,td)",
        "text-align:left;vertical-align:top;padding:.25em .7em;max-width:40em;overflow-wrap:break-word;"
        "border-bottom:1px solid var(--jp-border-color2,rgba(127,127,127,.35))",
    ),
    # The header stays in view. It sets text and background colours together, to be readable on any page.
    (
        "thead th",
        "position:sticky;top:0;background:var(--jp-layout-color0,Canvas);"
        "color:var(--jp-content-font-color1,CanvasText);box-shadow:inset 0 -1px var(--jp-border-color1,#999)",
    ),
    ("tbody th", "font-weight:normal;opacity:1!important;color:var(--jp-content-font-color2,inherit)"),
    ("tr", "border:0!important"),  # its cells have the line
    ("tr:has(>th:first-child+td)", "background:none"),
    # Tables of names and values break words anywhere, so that all of a value is in view.
    ("tbody th+td", "overflow-wrap:anywhere"),
    (":is(th,td).mcp-number", "text-align:right;font-variant-numeric:tabular-nums"),
    ("td pre", "margin:0"),
    ("td:has(pre)", "max-width:none"),
    (".mcp-date", "white-space:nowrap"),  # Chromium breaks a line after a hyphen between digits
    # Messages: the last column takes the room that is left, wraps there, and opens on a click.
    # JupyterLab's fixed layout would give all columns of a table of this width the same room.
    (".mcp-lines table", "width:100%;table-layout:auto"),
    (".mcp-lines table :is(th,td)", "white-space:nowrap;min-width:0;max-width:15em;padding-inline:.4em"),
    (
        ".mcp-lines table td:last-child",
        "width:100%;min-width:16em;max-width:0;white-space:normal;overflow-wrap:anywhere",
    ),
    (".mcp-pair", "display:flex;flex-wrap:wrap;gap:0 1.5em"),
    (".mcp-pair>div", "flex:1 1 18em;min-width:0"),
    (".mcp-lines :is(td,summary)", "overflow:hidden;text-overflow:ellipsis"),
    ("ul", "margin:0;padding-left:1.2em"),
    ("li", "list-style:none"),  # on the items: JupyterLab gives nested lists bullets of their own
    # Bootstrap in nbconvert's classic template would hide the triangle.
    ("summary", "cursor:pointer;display:list-item"),
    (".mcp-turn", "border-color:var(--jp-border-color2,#999)!important"),
    (".mcp-note", "color:var(--jp-content-font-color2,#767676);opacity:1!important"),
    ("td .mcp-note", "color:inherit"),  # that grey is too weak on the grey of every second row
    (".mcp-error", "background:none!important;color:var(--jp-error-color1,#d32f2f)"),
    (".mcp-badge", "border-color:var(--jp-border-color1,#999)!important;font-weight:normal;vertical-align:.1em"),
    (".mcp-badge-danger", "border-color:var(--jp-error-color1,#d32f2f)!important"),
    (".mcp-badge-safe", "border-color:var(--jp-success-color1,#388e3c)!important"),
    (".mcp-diff :is(ins,del)", "color:inherit;text-decoration:none"),
    (".mcp-diff ins", "background:rgba(56,142,60,.2)"),
    (".mcp-diff del", "background:rgba(211,47,47,.2)"),
    ("img", "max-width:100%"),
)


_NAMES = re.compile(r"(?<![\w.:-])(?:table|thead|tbody|tr|th|td|pre|p|ul|li|summary|img)\b")


def _rule(selector: str, declarations: str) -> tuple[tuple[str, ...], str]:
    """Return a rule, after the classes or else the tags in its selector: markup needs it if it has one of them."""
    needs = re.findall(r"mcp-[\w-]+", selector) or [f"<{name}" for name in _NAMES.findall(selector)]
    return tuple(needs), f"{f'{_SCOPE} {selector}'.strip()}{{{declarations}}}"


# Where its frame is narrow, the cells of a row stand one after the other and go on in the next line: none is off the
# edge. A cell there has the name of its column before it; prose and messages have a line of their own.

_NARROW = {"mcp-rows-few": (4, 600), "mcp-rows-some": (7, 760), "mcp-rows-many": (0, 1000)}
"""Class of a frame -> the most columns of its table (0: any number), and up to how many pixels it is narrow."""

_LABELLED = 20  # most columns whose cells have their name there

_OWN_LINE = ("description", "sentence", "text")  # last columns that are prose


def _in_lines(name: str) -> str:
    """Return the rules of a narrow frame of the class `name`."""
    inside = f"{_SCOPE} .{name}"
    return (
        f"{inside} thead{{display:none}}{inside} table{{width:100%}}"
        f"{inside} tr{{display:flex;flex-wrap:wrap;"
        "border-bottom:1px solid var(--jp-border-color2,rgba(127,127,127,.35))!important}"
        # The pseudo-class twice outranks the rules for a column of a table.
        f"{inside} tbody td:nth-child(n):nth-child(n){{border:0;min-width:0;max-width:100%;width:auto;"
        "padding:.15em .4em;box-sizing:border-box;text-align:left;white-space:normal;overflow-wrap:anywhere}"
        f"{inside} tbody td:empty{{display:none}}"
        f"{inside}:is(.mcp-lines,.mcp-prose) tbody td:last-child:nth-child(n){{flex:1 0 100%}}"
    )


def _labels(name: str) -> str:
    """Return the rules of the names before cells, of one class alone: another is narrow at another width."""
    return f".{name} td::before{{font-size:85%;font-weight:600;margin-right:.4em}}" + "".join(
        f".{name} td:nth-child({n})::before{{content:var(--mcp-{n})}}" for n in range(2, _LABELLED + 1)
    )


_MESSAGES = (
    f"{_SCOPE} .mcp-lines details:not([open])>summary{{line-height:1.25;max-height:2.5em}}"
    f"{_SCOPE} .mcp-lines td details{{min-width:0!important}}"
    f"{_SCOPE} .mcp-fault::before{{content:'fault: '}}"
)


def _narrowing(name: str, most: int, more: str) -> tuple[tuple[str, ...], str]:
    """Return the rule of a frame that is narrow up to `most` pixels, and what needs it."""
    narrow = f"@container(max-width:{most}px){{{_in_lines(name)}{more}}}"
    return (name,), f"{_SCOPE} .{name}{{container-type:inline-size}}{narrow}"


_SHEET = [
    *(_rule(selector, declarations) for selector, declarations in _RULES),
    # JupyterLab's red for errors is too weak on the grey of every second row in its dark theme, its next one is not.
    (
        ("mcp-error",),
        f"[data-jp-theme-light=false] {_SCOPE} .mcp-error{{color:var(--jp-error-color2,#e57373)}}",
    ),
    # On a narrow page a table scrolls: a date stays on one line, and the last column, often prose, stays readable.
    (
        ("<td",),
        f"@media(max-width:900px){{{_SCOPE} td:not(.mcp-number){{min-width:6em}}"
        f"{_SCOPE} td+td:last-child:not(.mcp-number,:empty){{min-width:14em}}}}",
    ),
    *(_narrowing(name, most, _labels(name)) for name, (_, most) in _NARROW.items()),
    _narrowing("mcp-lines", 760, _MESSAGES),
    (("<pre", "mcp-scroll"), f"@media print{{{_SCOPE} :is(pre,.mcp-scroll){{max-height:none!important}}}}"),
]

STYLE = f"<style>{''.join(rule for _, rule in _SHEET)}</style>"
"""The style element, for a page whose parts come later."""


# Functions that build HTML.
#
# Other modules pass text and get markup back, so escaping happens in one place. The markup is readable without its
# style (GitHub drops it) and without JavaScript (nbviewer, nbconvert).

_NO_MATH = "mathjax_ignore tex2jax_ignore"
"""Classes that keep MathJax 3 (JupyterLab) and 2 (nbconvert) from rendering "$5 to $10" as a formula."""


# Inline styles.
#
# JupyterLab shows a notebook that it does not trust, such as a downloaded one or one on Binder, without style elements.
# It keeps inline styles, but no `var()` in them. So the inline styles have colours that are readable on white and on
# black, and the style sheet puts those of the theme over them, with `!important`.

INLINE = {
    "mcp-line": "background:rgba(127,127,127,.15);padding:5px 8px",
    "mcp-scroll": "max-height:40em;overflow:auto",
    "mcp-turn": "border-left:3px solid #999;padding-left:.7em",
    "mcp-note": "opacity:.7;font-size:90%",
    "mcp-error": "background:rgba(211,47,47,.15);font-weight:bold",
    "mcp-badges": "white-space:nowrap",
    "mcp-badge": "border:1px solid #999;border-radius:.8em;padding:0 .55em;font-size:.8em;white-space:nowrap",
    "mcp-badge-danger": "border-color:#d32f2f;background:rgba(211,47,47,.12)",
    "mcp-badge-safe": "border-color:#388e3c;background:rgba(56,142,60,.12)",
    # of the transcript of an agent
    "mcp-asked": "margin:.2em 0 .8em;padding:.35em .8em;border-left:3px solid #1976d2;background:rgba(127,127,127,.1)",
    "mcp-call": "border:1px solid rgba(127,127,127,.35);border-left-width:3px;border-radius:4px;padding:.1em .7em;"
    "margin:.2em 0",
    "mcp-call-ok": "border-left-color:#388e3c",
    "mcp-call-error": "border-left-color:#d32f2f",
    "mcp-inner": "margin-left:1.6em",
    "mcp-inside": "margin:.5em 0 .3em",
    "mcp-sign": "font-weight:600",
    "mcp-before": "margin:.35em 0",
    "mcp-said": "margin:.6em 0 .35em;opacity:.7",
    "mcp-answer": "margin:.7em 0 .5em;line-height:1.5",
    "mcp-thinking": "margin:.3em 0;opacity:.7",
    "mcp-totals": "margin-top:.8em;border-top:1px solid rgba(127,127,127,.35);padding-top:.4em;font-size:85%;"
    "opacity:.7",
}
"""The inline style of each class that matters where there is no style sheet."""

AT_END = "display:flex;flex-direction:column-reverse;align-items:flex-start"
"""The style of a frame that is scrolled to its end at first, without a script; what opens in it would push upwards."""

NO_GROUND = {"style": "background:transparent"}  # of code in a `<pre>` that has one
_LEFT_ALIGNED = {"style": "text-align:left"}  # JupyterLab's own style right-aligns cells
_TOP = {"style": "vertical-align:top"}  # it centres them
_KEY = {"style": "text-align:left;vertical-align:top;font-weight:normal;opacity:.7"}
_LINE = ' style="border-bottom:1px solid rgba(127,127,127,0.35)"'


class Markup(str):
    """Text that already is markup; `escape` does not change it."""

    __slots__ = ()


class Bold(str):
    """Text that a page shows in bold."""

    __slots__ = ()
    element = "b"


class Code(str):
    """Text to type or to copy, such as an address; a page shows it as code."""

    __slots__ = ()
    element = "code"


class Whole(str):
    """A text that is not cut, such as a reason. In a terminal it wraps, and a last column of them is below the rows."""

    __slots__ = ()


class Problem(Whole):
    """The text of an error: red on a page."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Return text escaped for an element or a quoted attribute; markup, bold text, code and badges as markup."""
    if isinstance(value, Markup):
        return value
    if type(value) is not str:
        if isinstance(value, Badge):
            return value.html()
        if isinstance(value, (Bold, Code)):
            return tag(value.element, str(value))
        if isinstance(value, Problem):
            return error_label(str(value))
    return Markup(_html.escape(clean(str(value))))


def tag(name: str, content: object = "", **attributes: str) -> Markup:
    """Return one element; a trailing underscore in an attribute's name is dropped (`class_`).

    Classes bring their inline style, before the one in `attributes`.

    >>> tag("span", "ok", class_="mcp-badge-safe", style="margin:0")
    '<span class="mcp-badge-safe" style="border-color:#388e3c;background:rgba(56,142,60,.12);margin:0">ok</span>'
    """
    if "class_" in attributes:
        styles = [INLINE[name] for name in attributes["class_"].split() if name in INLINE]
        if styles:
            attributes["style"] = ";".join([*styles, attributes["style"]] if "style" in attributes else styles)
    text = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{text}>{escape(content)}</{name}>")


def joined(parts: Iterable[object], separator: str = "") -> Markup:
    """Return the parts joined, each escaped unless it is markup."""
    return Markup(separator.join(escape(part) for part in parts))


def preformatted(text: str, **attributes: str) -> Markup:
    """Return text in a `<pre>`; quotes are not escaped, because here they are harmless and escapes cost space."""
    return tag("pre", Markup(_html.escape(clean(text), quote=False)), **attributes)


def preformatted_cell(text: str) -> Markup:
    """Return the same for a cell of a table; JupyterLab's own style has a ground and breaks lines within words."""
    return preformatted(text, style="background:transparent;white-space:pre-wrap;word-break:normal")


_BACKTICKS = re.compile(r"`([^`\n]{1,500})`")


def inline(text: str) -> Markup:
    """Return text escaped, with what stands between backticks as code.

    >>> inline("see `%mcp logs`, 1 < 2")
    'see <code>%mcp logs</code>, 1 &lt; 2'
    """
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", escape(text)))


def note(text: str) -> Markup:
    """Return a line about the display itself; no markup for an empty text."""
    return tag("p", inline(text), class_="mcp-note") if text else Markup()


def error_label(text: str = "error") -> Markup:
    """Return the label of an error: a word, so that colour is not the only sign."""
    return tag("span", inline(text), class_="mcp-error")


def details(summary: object, body: Markup, *, opened: bool = False, style: str = "") -> Markup:
    """Return a part that opens on a click, without JavaScript."""
    attributes = (" open" if opened else "") + (f' style="{style}"' if style else "")
    return Markup(f"<details{attributes}><summary>{escape(summary)}</summary>{body}</details>")


def table(
    headers: Sequence[object], rows: Iterable[Sequence[object]], *, limit: int, style: str = ""
) -> tuple[Markup, int]:
    """Return a table and its number of rows: as many as fit into `limit` bytes, but at least one.

    `style` is that of its frame, which scrolls above a height of its own.
    """
    body: list[str] = []
    numbers: set[int] = set()
    used = sum(len(tag("th", header).encode()) for header in headers)
    for row in rows:
        is_high = any(isinstance(cell, Markup) and cell.startswith(("<pre", "<details")) for cell in row)
        cells = "".join(_cell(cell, **_TOP if is_high else {}) for cell in row)
        used += len(f"<tr>{cells}</tr>".encode())
        if body and used > limit:
            break
        body.append(f"<tr{_LINE}>{cells}</tr>")
        numbers.update(column for column, cell in enumerate(row) if _is_number(cell))
    kinds = ({"class_": "mcp-number"} if column in numbers else _LEFT_ALIGNED for column in range(len(headers)))
    head = "".join(tag("th", header, **attributes) for header, attributes in zip(headers, kinds, strict=True))
    return _framed(f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>", style), len(body)


def newest_table(
    headers: Sequence[object], rows: Sequence[Sequence[object]], *, limit: int, style: str = ""
) -> tuple[Markup, int]:
    """Return a table of the last rows that fit into `limit` bytes, and their number."""
    html, count = table(headers, rows, limit=limit, style=style)
    while count < len(rows):
        rows = rows[-count:]
        html, count = table(headers, rows, limit=limit, style=style)
    return html, count


def reflowing(table: Markup, headers: Sequence[str]) -> Markup:
    """Return a table in a frame that puts the cells of a row in lines where it is narrow."""
    is_prose = bool(headers) and headers[-1] in _OWN_LINE
    last = len(headers) if is_prose else 0  # its column needs no name
    names = ("none" if number == last else _css_text(headers[number - 1]) for number in range(2, len(headers) + 1))
    style = ";".join(f"--mcp-{number}:{name}" for number, name in enumerate(names, 2) if number <= _LABELLED)
    size = next(name for name, (most, _) in _NARROW.items() if not most or len(headers) <= most)
    if is_prose and size == "mcp-rows-few":
        size = "mcp-rows-some"
    return tag("div", table, class_=f"mcp-rows {size}{' mcp-prose' if is_prose else ''}", style=style)


def _css_text(text: str) -> str:
    r"""Return a text as a string of CSS, in which only letters, digits, spaces and hyphens stand as they are.

    >>> _css_text('a";b')
    '"a\\22 \\3b b"'
    """
    escaped = re.sub(r"[^\w -]", lambda match: f"\\{ord(match[0]):x} ", one_line(text, 60))
    return f'"{escaped}"'


def facts(rows: Iterable[tuple[object, object]]) -> Markup:
    """Return names and values as a table without a header."""
    lines = "".join(
        f"<tr{_LINE}>{tag('th', name, **_KEY)}{tag('td', value, **_LEFT_ALIGNED)}</tr>" for name, value in rows
    )
    return _framed(f"<tbody>{lines}</tbody>")


def _framed(rows: str, style: str = "") -> Markup:
    """Return a table in a frame that scrolls, so that a long table does not push the next cells away."""
    styled = {"style": style} if style else {}
    return tag("div", Markup(f'<table style="margin:0">{rows}</table>'), class_="mcp-scroll", **styled)


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?(?!\w)")


def _cell(cell: object, style: str = "") -> Markup:
    """Return a cell of a table, with a style besides its own; a date in it stays on one line.

    >>> _cell("from 2026-11-28")
    '<td style="text-align:left">from <span class="mcp-date">2026-11-28</span></td>'
    """
    if _is_number(cell):
        return tag("td", cell, class_="mcp-number", **({"style": style} if style else {}))
    if type(cell) is str:
        cell = Markup(_DATE.sub(r'<span class="mcp-date">\g<0></span>', escape(cell)))
    return tag("td", "" if cell is None else cell, style=";".join(filter(None, ("text-align:left", style))))


def page(parts: Iterable[Markup], *, style: str | None = None) -> str:
    """Return one output: the style, by default the rules that the parts need, and the parts in its scope.

    The whole sheet, 11 kB with each output, would make the notebooks of the documentation 1.2 to 3 times as large.
    """
    markup = list(parts)
    if len(markup) > 1:
        markup = [Markup(f'<div class="mcp-part">{part}</div>') for part in markup]
    html = "".join(markup)
    if style is None:
        rules = (rule for needs, rule in _SHEET if not needs or any(name in html for name in needs))
        style = f"<style>{''.join(rules)}</style>"
    return f'{style}<div class="mcp-magic {_NO_MATH}">{html}</div>'


# Parts of an output, each as text and as markup, and the mimebundle made from them.


@dataclass(frozen=True, slots=True)
class Part:
    """A block of an output, as text and as markup."""

    plain: str
    html: Markup
    native: Mapping[str, Any] | None = None  # a richer form by its own MIME type, used when this is the only part
    media: bool = False  # whether it is media, which count against their own limit

    @classmethod
    def line(cls, *pieces: object) -> Part:
        """Return one paragraph of text, bold text, code and badges."""
        html = (inline(piece) if type(piece) is str else piece for piece in pieces)
        return cls("".join(map(str, pieces)), tag("p", joined(html)))

    @classmethod
    def note(cls, text: str) -> Part:
        """Return a line about the display itself; an empty text gives an empty part."""
        return cls(text, note(text))

    @classmethod
    def pre(cls, text: str) -> Part:
        """Return text whose lines and spaces are kept."""
        return cls(text, preformatted(text))

    @classmethod
    def prose(cls, text: str) -> Part:
        """Return text whose lines are kept, in the font of the page, with what stands in backticks as code."""
        return cls(text, tag("div", inline(text), style="white-space:pre-wrap") if text else Markup())

    @classmethod
    def command(cls, line: str) -> Part:
        """Return a line to type."""
        return cls(line, tag("pre", tag("code", line, **NO_GROUND), class_="mcp-line"))

    @classmethod
    def facts(cls, rows: Sequence[tuple[str, str]], *, width: int, indent: str = "") -> Part:
        """Return names, in a column of `width` characters, and values."""
        plain = "\n".join(f"{indent}{name:<{width}} {value}" for name, value in rows)
        return cls(plain, facts(rows) if rows else Markup())

    @classmethod
    def table(
        cls,
        headers: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        limit: int,
        newest: bool = False,
    ) -> tuple[Part, int]:
        """Return a table whose first column has names, and its number of rows: as many as fit into `limit` bytes.

        With `newest` those are the last rows, and it is scrolled to its end.
        """
        cells = [list(map(_html_cell, row, headers)) for row in rows]
        if newest:
            html, count = newest_table(headers, cells, limit=limit, style=AT_END)
            rows = rows[-count:]
        else:
            html, count = table(headers, cells, limit=limit)
            rows = rows[:count]
        plain = aligned(headers, rows, total=terminal_width(), cell=display.cell, names=True)
        return cls(plain, reflowing(html, headers)), count

    @classmethod
    def stack(cls, *parts: Part, gap: str = "\n") -> Part:
        """Return parts as one, below each other; `gap` separates their texts."""
        return cls(gap.join(part.plain for part in parts if part.plain), joined(part.html for part in parts))

    def folded(self, summary: str, *, opened: bool = False) -> Part:
        """Return the part under a summary that opens on a click."""
        return Part(f"{summary}\n{self.plain}", details(summary, self.html, opened=opened))


def only(
    data: dict[str, Any], include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return only the MIME types that IPython asks for."""
    return {key: data[key] for key in data if (not include or key in include) and key not in (exclude or ())}


def bundle(
    parts: Sequence[Part], include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the mimebundle of parts; a native form replaces the HTML, as both would double the notebook."""
    plain = _text(parts)
    if len(parts) == 1 and parts[0].native:
        return only({"text/plain": plain, **parts[0].native}, include, exclude)
    return only({"text/plain": plain, "text/html": page(part.html for part in parts)}, include, exclude)


class Displayed(Protocol):
    """A value that is displayed by its parts: `_repr_mimebundle_ = show_parts` and `__str__ = parts_text`."""

    def parts(self) -> Sequence[Part]:
        """Return the parts to display."""


def show_parts(
    value: Displayed, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the mimebundle of a value's parts, as IPython asks for it."""
    return bundle(value.parts(), include, exclude)


def parts_text(value: Displayed) -> str:
    """Return the text of a value's parts."""
    return _text(value.parts())


def _text(parts: Sequence[Part]) -> str:
    # The parts are clean, except for names and titles; cleaning twice changes nothing.
    return clean("\n\n".join(part.plain for part in parts if part.plain))


def mimebundle(
    value: Any, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return a value's mimebundle, as IPython asks for it."""
    data: dict[str, Any] = value._repr_mimebundle_(include, exclude)
    return data


def fitting(items: Sequence[Any], show: Callable[[Any, Budget], Part], budget: Budget, how: str) -> list[Part]:
    """Return the parts of the items that fit into the budget, and a line that says that `how` has the rest."""
    parts: list[Part] = []
    for number, item in enumerate(items):
        if budget.spent:
            parts.append(Part.note(f"… {len(items) - number:,} more: {how}"))
            break
        parts.append(charge(show(item, budget), budget))
    return parts


def charge(part: Part, budget: Budget) -> Part:
    """Subtract the size of `part`, the larger of text and HTML, from the budget; media have already been subtracted."""
    budget.blocks -= 1
    if not part.media:
        budget.bytes -= min(max(_saved(part.html), _saved(part.plain)), budget.bytes)
    return part


def _saved(text: str) -> int:
    """Return the number of bytes that a text takes in a notebook file, which is JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


# Tables as aligned text that fits the terminal.

_ENOUGH = 20  # characters that the other columns leave to the last column, which wraps
_MOST_LINES = 3  # most lines of one row
_NARROWEST = 6  # characters of the narrowest column that is still useful
_READABLE = 12  # characters that each column gets before the table shows another column
_LONGEST_NAME = 500  # most characters of a name: a server may send anything


class Verbatim(str):
    """Text with meaningful spaces, such as a line of a traceback; tables keep its spaces."""

    __slots__ = ()

    @property
    def display_text(self) -> str:
        """The text to display; the value itself may be longer."""
        return self


def width(text: str) -> int:
    """Return the number of terminal columns that `text` takes (East Asian wide characters take two)."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def terminal_width() -> int:
    """Return the width of the terminal, or `COLUMNS`; 100 in a notebook, whose outputs depend on no terminal."""
    if "COLUMNS" not in os.environ and not (sys.stdout is not None and sys.stdout.isatty()):
        return 100
    return shutil.get_terminal_size((100, 24)).columns


def cell_text(value: object, limit: int) -> str:
    """Return the text of one cell: "" for None, yes or no for a bool, one line for text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Verbatim):
        return "\n".join(shorten(line.expandtabs(), _CELL) for line in _some_lines(value.display_text))
    if isinstance(value, Problem):
        return f"✗ {one_line(value, limit)}"
    if isinstance(value, list):
        separator = ", " if all(isinstance(part, str) for part in value) else " "
        return one_line(separator.join(str(part) for part in value), limit)
    return one_line(str(value), limit)


_RECORD_LINES = 40  # most lines of one cell: a traceback


def _some_lines(text: str) -> list[str]:
    """Return the lines of a text; of a long one those at its beginning and end."""
    lines = text.splitlines()
    half = _RECORD_LINES // 2
    return lines if len(lines) <= _RECORD_LINES else [*lines[:half], "…", *lines[-half:]]


_CELL = 300  # most characters of a cell in HTML, and of a line in a terminal: the first sentences of a description
_LOG_LINE = 1000  # most characters of a log line in HTML: such lines hold whole messages and paths


_PROSE = ("description", "by")  # columns in which backticks mark code


def _html_cell(value: Any, header: str) -> Any:
    """Return a cell for a table: numbers stay numbers, badges and prose become markup, other values become text."""
    if header in _PROSE and type(value) is str:
        return inline(cell_text(value, _CELL))
    if isinstance(value, list):
        badges = any(isinstance(part, Badge) for part in value)
        if not badges:
            return ", ".join(cell_text(part, _CELL) for part in value)
        parts = (part if isinstance(part, Badge) else cell_text(part, _CELL) for part in value)
        return tag("span", joined(parts, " "), class_="mcp-badges")
    if isinstance(value, Badge):
        return value.html()
    if isinstance(value, Verbatim):
        return preformatted_cell("\n".join(shorten(line, _LOG_LINE) for line in _some_lines(value.display_text)))
    if isinstance(value, Whole):
        return type(value)(one_line(value, _LOG_LINE))
    return value if _is_number(value) else cell_text(value, _CELL)


def aligned(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    total: int,
    cell: int = 100,
    names: bool = False,
) -> str:
    """Return rows as aligned text; the last column wraps.

    With `names` to type in the first column, a long one gets a line alone.
    """
    problems = [row[-1] for row in rows if row and row[-1] is not None]
    below: list[object] = [None] * len(rows)
    if problems and len(headers) > 1 and all(isinstance(problem, Whole) for problem in problems):
        below = [row[-1] for row in rows]
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    uncut = [any(isinstance(row[i], Whole) for row in rows) for i in range(len(headers))]
    most = [_LONGEST_NAME if uncut[i] or (names and i == 0) else cell for i in range(len(headers))]
    texts = [[cell_text(value, room) for value, room in zip(row, most, strict=True)] for row in rows]
    heads = [one_line(header, cell) for header in headers]
    widths = [
        max(width(line) for text in column for line in text.split("\n")) for column in zip(heads, *texts, strict=True)
    ]
    widths = _fitted(widths, total - 2 * (len(widths) - 1), uncut)
    columns = [[row[i] for row in rows if row[i] is not None] for i in range(len(heads))]
    right = [bool(column) and all(map(_is_number, column)) for column in columns]
    lines: list[str] = []
    for cells, problem in zip([heads, *texts], [None, *below], strict=True):
        if names and len(cells) > 1 and width(cells[0]) > widths[0]:
            lines.append(cells[0])
            cells = ["", *cells[1:]]
        lines += _lines(cells, widths, right, uncut)
        if problem is not None:
            text = cell_text(problem, _LOG_LINE)
            lines += textwrap.wrap(text, total, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def columns_that_fit(headers: Sequence[str], rows: Sequence[Sequence[object]], *, total: int, cell: int = 100) -> int:
    """Return how many columns to pass to `aligned`: all if they can be made to fit, else those that stay readable."""
    columns = zip(headers, *rows, strict=True)
    widths = [max(width(cell_text(value, cell)) for value in column) for column in columns]
    gaps = 2 * (len(widths) - 1)
    if sum(min(room, _NARROWEST) for room in widths) + gaps <= total:
        return len(widths)
    ends = accumulate(min(room, _READABLE) + 2 for room in widths)
    return max(sum(end - 2 <= total for end in ends), 1)


def _fitted(widths: list[int], total: int, uncut: Sequence[bool]) -> list[int]:
    """Return widths that fit: the last column gives way first.

    The first, with names to type, keeps half the room, one of whole texts a third.
    """
    widths = list(widths)
    parts = [total // 3 if is_uncut else 0 for is_uncut in uncut]
    keeps = [max(room, _NARROWEST) for room in (total // 2, *parts[1:])]
    while sum(widths) > total and max(widths) > _NARROWEST:
        wide = [i for i, room in enumerate(widths) if room > keeps[i]] or range(len(widths))
        widest = max(wide, key=widths.__getitem__)
        widths[-1 if widths[-1] > _ENOUGH else widest] -= 1
    return widths


def _lines(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], uncut: Sequence[bool]) -> list[str]:
    """Return the lines of a row: the last column wraps or has several lines, whole texts wrap, the others are cut."""
    room = 0 if right[-1] or widths[-1] < _ENOUGH else widths[-1]
    columns = [
        _all_lines(text, space) if is_uncut else [text]
        for text, space, is_uncut in zip(cells[:-1], widths, uncut, strict=False)
    ]
    columns.append([piece for line in cells[-1].split("\n") for piece in _wrapped(line, room)])
    return [_line(row, widths, right) for row in zip_longest(*columns, fillvalue="")]


def _all_lines(text: str, room: int) -> list[str]:
    """Return a text in lines that fit, however many."""
    if width(text) <= room:
        return [text]
    return textwrap.wrap(text, room if width(text) == len(text) else max(room // 2, 1), break_on_hyphens=False)


def _wrapped(line: str, room: int) -> list[str]:
    if not room or width(line) != len(line) or len(line) <= room or line.isspace():
        return [line]
    indent = line[: min(len(line) - len(line.lstrip()), room // 2)]
    return textwrap.wrap(line, room, max_lines=_MOST_LINES, placeholder="...", subsequent_indent=indent)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for text, room, flush in zip(cells, widths, right, strict=True):
        if width(text) > room:
            while width(text) > room - 1:
                text = text[:-1]
            text += "…"
        space = " " * (room - width(text))
        padded.append(space + text if flush else text + space)
    return "  ".join(padded).rstrip()


# Badges of a tool: the server's hints, and whether only apps may use it.

Kind = Literal["safe", "danger", "neutral"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A mark with a colour, an explanation as tooltip, and a sign, so that colour is not the only difference."""

    text: str
    kind: Kind = "neutral"
    explanation: str = ""

    def __str__(self) -> str:
        return f"[{clean(self.text)}]"

    def html(self) -> Markup:
        """Return the badge as markup."""
        kind = self.kind if self.kind in ("safe", "danger") else "neutral"
        return tag("span", self.text, class_=f"mcp-badge mcp-badge-{kind}", title=self.explanation)


NO_HINTS = Badge(
    "no hints",
    "neutral",
    "the server gives no hints; consent treats the tool as one that can change, delete and reach out",
)
"""The badge of a tool whose server gives no hints."""

_HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


def app_only(tool: Tool) -> bool:
    """Whether the server offers a tool only to its own app: MCP Apps says so in `_meta.ui.visibility`."""
    ui = (tool.meta or {}).get("ui")
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return isinstance(visibility, list) and "model" not in visibility


def tool_badges(tool: Tool | None, *, trusted: bool = False) -> list[Badge]:
    """Return the badges of a tool: whether only apps may use it, and the server's hints.

    A missing hint has no badge; without any hint, one badge says so. Consent then assumes the specification's defaults
    (`ToolAnnotations` in its schema): the tool may change and destroy things, is not idempotent and deals with the
    outside world. Destructive and idempotent matter only for a tool that is not read-only. `trusted` says whether the
    user trusts this server's hints.
    """
    source = "the server, which you trust, says that" if trusted else "the server says, without proof, that"
    hints = tool.annotations if tool is not None else None
    badges: list[Badge] = []
    if tool is not None and app_only(tool):
        badges.append(Badge("app only", "neutral", "only the server's own app uses it; models do not get it"))
    if hints is None or not any(getattr(hints, name) is not None for name in _HINTS):
        return [*badges, NO_HINTS]
    return badges + [Badge(text, kind, f"{source} {meaning}") for text, kind, meaning in _notable(hints)]


def _notable(hints: ToolAnnotations) -> Iterator[tuple[str, Kind, str]]:
    """Yield the text, kind and meaning of each given hint that says more than no hint would."""
    if hints.read_only_hint:
        yield "○ read-only", "safe", "it changes nothing"
    else:
        if hints.destructive_hint:
            yield "! destructive", "danger", "it can overwrite or delete"
        elif hints.destructive_hint is False:
            yield "+ only adds", "neutral", "it adds and never destroys"
        elif hints.read_only_hint is False:
            yield "± changes", "neutral", "it changes things"
        if hints.idempotent_hint:
            yield "= idempotent", "neutral", "a repeated call changes nothing more"
    if hints.open_world_hint:
        yield "~ open world", "neutral", "it deals with the world outside"


# Limits of a display.
#
# Outputs are saved in the notebook, sent to every browser that opens it and kept in its history. So a display is cut
# before it is rendered; the values themselves are never cut.

_UTF8_OF_ESCAPED = 5  # most characters that one character becomes in HTML (`&` is `&amp;`)


@dataclass(slots=True)
class Display:
    """The limits of one display; the extension's settings change the module's `display`."""

    rows: int = 20  # rows of a table in a result
    columns: int = 20  # columns of a table in a result
    cell: int = 100  # characters of one cell
    characters: int = 10_000  # characters of text
    bytes: int = 95_000  # bytes of HTML without media, and as many of `text/plain`: an output stays under 200 kB
    json_nodes: int = 400  # nodes of a JSON tree
    media: int = 2_000_000  # bytes of all images, audio and documents together, before base64
    parse: int = 1_500_000  # characters parsed for display only; the worst JSON takes 0.1 s a MB
    listing_rows: int = 200  # rows of a listing
    blocks: int = 50  # content blocks of one result


display = Display()  # the current limits


@dataclass(slots=True)
class Budget:
    """What is left for one output: bytes of HTML (and as many of text), bytes of media, blocks, characters to parse."""

    bytes: int
    media: int
    blocks: int
    parse: int

    @classmethod
    def full(cls) -> Budget:
        """Return the budget of a new output."""
        return cls(display.bytes, display.media, display.blocks, display.parse)

    @property
    def characters(self) -> int:
        """Characters of text that fit even if escaping lengthens every one of them."""
        return min(display.characters, max(self.bytes // _UTF8_OF_ESCAPED, 0))

    @property
    def spent(self) -> bool:
        """Whether nothing more should be shown."""
        return self.blocks <= 0 or self.bytes < 500

    def take(self, limit: Literal["parse", "media"], size: int) -> bool:
        """Return whether `size` still fits into a limit, and subtract it if so."""
        rest: int = getattr(self, limit)
        if size > rest:
            return False
        setattr(self, limit, rest - size)
        return True


def size_text(size: int) -> str:
    """Return a number of bytes as text, in decimal units."""
    if size < 1000:
        return f"{size} bytes"
    kilobytes = size / 1000
    if kilobytes < 999.95:
        return f"{kilobytes:.1f} kB"
    return f"{kilobytes / 1000:.1f} MB" if kilobytes < 999_950 else f"{kilobytes / 1_000_000:.1f} GB"
