"""The words around an input. What a server says is escaped here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic import schema
from mcp_magic.results.html import Markup, escape, joined, page, tag
from mcp_magic.results.safe import one_line, shorten
from mcp_magic.schema.describe import literal

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = [
    "FORM_STYLE",
    "default_text",
    "heading",
    "label_markup",
    "note_markup",
    "placeholder",
    "problem_markup",
    "tooltip",
]

MAX_DESCRIPTION = 500
"""Characters of a description beside a field."""

# Controls that the browser draws. ipywidgets gives a drop-down a black arrow, whatever the theme, and pickers of time
# no look at all; JupyterLab tells the browser that its theme is dark only since 4.4.
_BOX = ".widget-vbox:has(>.widget-html :is(.mcp-form,.mcp-magic))"
_PICKERS = f"{_BOX} :is(.widget-timepicker,.widget-datetimepicker,.widget-datepicker) input"
_CONTROLS = (
    f"[data-jp-theme-light=false] {_BOX}{{color-scheme:dark}}"
    f"{_BOX} .widget-dropdown>select{{background-image:linear-gradient(45deg,transparent 50%,currentColor 50%),"
    "linear-gradient(135deg,currentColor 50%,transparent 50%);background-size:5px 5px;background-repeat:no-repeat;"
    "background-position:right 13px center,right 8px center}"
    # as wide as the notebook and no wider: what is approved is read whole
    ".widget-html>.widget-html-content:has(>.mcp-magic){min-width:0}"
    # a heading is text of several lines, and not the caption of one control; the time of a run stands below its button
    ".widget-vbox>.widget-html>.widget-html-content>.mcp-magic{line-height:1.4}"
    ".widget-vbox:has(>.jp-OutputArea,>.widget-output)>.widget-hbox .mcp-form{padding-left:6px}"
    f"{_BOX} :is(.widget-text input,.widget-dropdown>select){{font-family:inherit}}"
    f"{_PICKERS}{{box-sizing:border-box;width:100%;height:var(--jp-widgets-inline-height,28px);"
    "padding:0 8px;font:inherit;color:var(--jp-widgets-input-color,inherit);"
    "background:var(--jp-widgets-input-background-color,transparent);"
    "border:1px solid var(--jp-widgets-input-border-color,#999)}"
)

FORM_STYLE = Markup(
    "<style>"
    ".mcp-form{line-height:1.35;color:var(--jp-ui-font-color1,inherit);font-size:var(--jp-ui-font-size1,13px)}"
    ".mcp-form b{font-weight:600}"
    ".mcp-form .mcp-type,.mcp-form .mcp-hint{color:var(--jp-ui-font-color2,#666)}"
    ".mcp-form .mcp-hint{white-space:pre-wrap;max-width:60em}"
    ".mcp-form .mcp-needed{color:var(--jp-error-color1,#d32f2f);font-weight:600}"
    ".mcp-form.mcp-problem{color:var(--jp-error-color1,#d32f2f);white-space:pre-wrap}"
    f"{_CONTROLS}</style>"
)
"""Sets labels and problems apart, in the colours of the theme; without it they read just as well."""


def heading(name: str, title: str, description: str, badges: object = "") -> str:
    """Return the heading of a form: name, title, badges, description."""
    line = joined([tag("b", one_line(name, 200)), f" {one_line(title, 200)} " if title else " ", badges])
    said = shorten(description.strip(), 2000)
    parts = [tag("p", line), tag("div", said, style="white-space:pre-wrap;max-width:60em") if said else Markup()]
    return page([joined(parts)])


def label_markup(field: Field, name: str, *, required: bool) -> str:
    """Return the label of a field: name, what is expected, default, description.

    >>> label_markup(schema.root_field({"type": "integer", "minimum": 1}), "<n>", required=True)  # doctest: +ELLIPSIS
    '<div class="mcp-form"><b>&lt;n&gt;</b> <span class="mcp-needed" title="required">*</span> ...integer, at least 1...
    """
    parts: list[object] = [tag("b", one_line(name, 100))] if name else []
    if required and name:
        parts.append(tag("span", "*", class_="mcp-needed", title="required"))
    parts.append(tag("span", _facts(field), class_="mcp-type"))
    title = field.title if field.title.casefold() != name.replace("_", " ").casefold() else ""
    said = shorten("\n".join(text for text in (title, field.description) if text), MAX_DESCRIPTION)
    hint = tag("div", said, class_="mcp-hint") if said else Markup()
    return tag("div", joined([joined(parts, " "), hint]), class_="mcp-form")


def _facts(field: Field) -> str:
    limits = shorten(field.constraints_text, 120)
    facts = [shorten(field.type_text, 120), limits, default_text(field)]
    return ", ".join(fact for fact in facts if fact)


def default_text(field: Field) -> str:
    """Return `"default 3"`, or "" if the schema states none."""
    if field.default is schema.MISSING:
        return ""
    secret = schema.is_secret(field.name, field)
    return f"default {'***' if secret else literal(field.default)}"


def placeholder(field: Field) -> str:
    """Return what an empty input says: the default, or an example of the format."""
    examples = {"email": "name@example.com", "uri": "https://…", "uuid": "12345678-1234-…", "duration": "PT1H30M"}
    stated = default_text(field) if field.default is not None else ""
    return one_line(stated or examples.get(field.format, ""), 80)


def tooltip(field: Field, name: str, *, required: bool = False) -> str:
    """Return what a pointer that rests on an input, or a screen reader, is told: plain text."""
    text = f"{field.type_text}, required" if required else field.type_text
    return one_line(f"{name}: {text}" if name else text, 120)


def problem_markup(text: str) -> str:
    """Return a message about a value; a word in front says what it is, not the colour alone."""
    lines = escape("\n".join(shorten(line, 400) for line in text.split("\n")))
    return tag("div", joined([tag("b", "✗ "), lines]), class_="mcp-form mcp-problem", role="alert") if text else ""


def note_markup(text: str) -> str:
    """Return a line about the form itself."""
    return tag("div", tag("span", text, class_="mcp-type"), class_="mcp-form")
