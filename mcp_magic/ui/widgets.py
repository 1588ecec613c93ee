"""What all widgets share: scopes, jobs, life cycle and style."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic import schema
from mcp_magic.display.document import Markup, Part, bundle, escape, joined, only, page, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.schema.fields import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from mcp_magic.schema.fields import Field

    Offer = Callable[[list[str]], None]
    Complete = Callable[[str, str, Offer], None]
    Publish = Callable[[dict[str, Any], bool], None]

__all__ = [
    "FORM_STYLE",
    "VIEW",
    "Doing",
    "Shop",
    "Shown",
    "answer_in_order",
    "default_text",
    "heading",
    "label_markup",
    "note_markup",
    "placeholder",
    "problem_markup",
    "tooltip",
]


# Where the kernel handles what is clicked and typed: in order, all on the thread of the cells.
#
# ipykernel 7.4 hands a frontend's message to the shell from which the widget has last sent something. That is the
# main shell for a widget that a cell has shown, and JupyterLab's subshell, which is another thread, once the echo of
# something typed has gone out. So of one form the field may be on one thread and its button on the other, and while a
# cell keeps the main thread busy the click on Run overtakes the text that was typed before it, or the other way
# round: a call goes out with arguments that nobody submitted. ipykernel 7.0 to 7.3 know no such choice: all messages
# of a frontend come in order on its subshell.

ROUTE = "_reply_subshell_for"
"""The method of ipykernel's comms that chooses the shell. It is private: without it nothing is changed."""


def answer_in_order(widget: ipywidgets.Widget) -> None:
    """Have the main shell handle the messages for a widget, as it does for those that have sent nothing yet."""
    if hasattr(widget.comm, ROUTE):
        setattr(widget.comm, ROUTE, _main_shell)


def _main_shell(data: Any, default: str | None) -> None:
    """Return the id of the main shell, which is None."""


# Makes widgets, and closes what it made.
#
# A widget is a comm that lives until it is closed, and so are its layout and its style: three for one text field.
# Here they are shared, which makes a form three times as fast to build, and every one of them is known, so that
# closing a form leaves nothing behind.

_LAYOUTS: dict[str, dict[str, str]] = {
    "": {},
    "line": {"align_items": "center", "flex_flow": "row wrap", "overflow": "visible"},
    "form": {"padding": "0 6px", "overflow": "visible"},
    "row": {"margin": "0 0 6px 0", "overflow": "visible", "flex": "1 1 auto", "min_width": "0"},
    "inside": {
        "margin": "0 0 0 8px",
        "padding": "4px 0 0 12px",
        "border_left": "2px solid var(--jp-border-color2,#999)",
    },
    "field": {"width": "min(36em, 97%)"},
    "area": {"width": "min(48em, 97%)", "height": "7em"},
    "wide": {"width": "min(60em, 97%)"},
    "page": {"width": "min(60em, 97%)", "height": "20em"},
    "label": {"margin": "0", "height": "auto"},
    "check": {"width": "auto", "margin": "0 0 0 12px"},
    "button": {"width": "auto", "align_self": "flex-start"},
    "small": {"width": "34px", "padding": "0"},
    "bar": {"width": "16em"},
}
"""Name -> traits of a layout. What is named here is shared by all widgets of a form."""


CROWDED = 1000
"""Widgets. A form of a hundred fields has some 350; a schema that doubles at each level would have millions."""


@dataclass
class Shared:
    """What all widgets of a form share.

    Attributes:
        layouts: By name.
        styles: By class of widget.
        count: How many widgets there are.
    """

    layouts: dict[str, Any] = field(default_factory=dict)
    styles: dict[type[Any], Any] = field(default_factory=dict)
    count: int = 0

    def layout(self, name: str) -> Any:
        """Return a layout of `_LAYOUTS`; the first who asks makes it."""
        if name not in self.layouts:
            self.layouts[name] = ipywidgets.Layout(**_LAYOUTS[name])
        return self.layouts[name]

    def close(self) -> None:
        """Close the layouts and the styles."""
        for widget in (*self.layouts.values(), *self.styles.values()):
            widget.close()
        self.layouts.clear()
        self.styles.clear()


class Shop:
    """Makes the widgets of one part of a form.

    Args:
        shared: What it shares with the shop of the whole form; None for that shop itself, which closes it.
        on_close: Called when it was closed.

    Attributes:
        complete: Called with an argument's name, its text and who wants to know how it may go on; None where nobody
            can say.
    """

    def __init__(self, shared: Shared | None = None, on_close: Callable[[Shop], None] = lambda shop: None) -> None:
        self._is_whole = shared is None
        self._shared = shared or Shared()
        self._on_close = on_close
        self._made: dict[int, Any] = {}
        self._inner: dict[int, Shop] = {}
        self.complete: Complete | None = None

    @property
    def crowded(self) -> bool:
        """Whether so many widgets were made already that more are made only if somebody asks for them."""
        return self._shared.count > CROWDED

    def part(self) -> Shop:
        """Return a shop for a part that may be closed before the rest."""
        inner = Shop(self._shared, on_close=self._forget)
        inner.complete = self.complete
        self._inner[id(inner)] = inner
        return inner

    def _forget(self, inner: Shop) -> None:
        self._inner.pop(id(inner), None)

    def make(self, kind: type[Any], layout: str = "", **traits: Any) -> Any:
        """Return a new widget.

        Args:
            kind: Its class.
            layout: A name of `_LAYOUTS`.
            **traits: Its traits.
        """
        traits["layout"] = self._shared.layout(layout)
        style = self._shared.styles.get(kind)
        if style is not None:
            traits["style"] = style
        widget = kind(**traits)
        answer_in_order(widget)
        if style is None and "style" in widget.keys:  # its synchronised traits
            self._shared.styles[kind] = widget.style
        self._made[id(widget)] = widget
        self._shared.count += 1
        return widget

    def close(self) -> None:
        """Close all that was made here and in the parts of it. Closing twice is fine."""
        for inner in list(self._inner.values()):
            inner.close()
        for widget in self._made.values():
            widget.close()
        self._shared.count -= len(self._made)
        self._made.clear()
        self._on_close(self)
        if self._is_whole:
            self._shared.close()


# Runs what clicks ask for, on the loop of the sessions.
#
# A click may come on another thread (kernels that answer widgets on a subshell), and what it asks for may take long;
# the widgets and the sessions belong to one loop.


class Doing:
    """The work of one widget; made on the loop that it then uses.

    Without a running loop (plain Python code) callbacks run at once, and `start` has nothing to run on.
    """

    def __init__(self) -> None:
        self._loop = _running()
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._ended = False

    def soon(self, do: Callable[[], None]) -> None:
        """Call `do` on the loop: now, if this is its thread."""
        if self._ended:
            return
        if self._loop is None or _running() is self._loop:
            do()
            return
        with suppress(RuntimeError):  # the loop is closed: nobody is there to see it
            self._loop.call_soon_threadsafe(do)

    def once(self, do: Callable[[], None], seconds: float) -> None:
        """Call `do` a little later, once for all calls until then; `do` is the same each time."""
        if self._loop is None:
            do()
        elif self._later is None and not self._ended:
            self._later = self._loop.call_later(seconds, self._run_later, do)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task of the loop; closing cancels it."""
        if self._loop is None or self._ended:
            work.close()
            return
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """Cancel what is under way; nothing more runs."""
        self._ended = True
        if self._later is not None:
            self._later.cancel()
        for task in self._tasks:
            task.cancel()

    async def finished(self) -> None:
        """Wait until the work under way is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _run_later(self, do: Callable[[], None]) -> None:
        self._later = None
        if not self._ended:
            do()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# How a live widget is shown, and what of it stays in a saved notebook.
#
# A frontend with a kernel shows the widget; GitHub, nbconvert and a terminal show the text and the HTML beside it.
# Those are written when the cell is shown, and what comes of the widget happens later: so whoever displays it (the
# magics) may hand in a `publish` that writes them again.

VIEW = "application/vnd.jupyter.widget-view+json"
"""The MIME type that stands for a widget."""


class Shown:
    """Something with a widget, and with words for those who cannot see it.

    Attributes:
        widget: The ipywidget.
        publish: Called with a mimebundle and whether it replaces the one that was shown; None where nothing can
            be replaced.
    """

    widget: Any
    publish: Publish | None = None
    _closed = False
    _published = False

    def _parts(self) -> list[Part]:
        """Return what it was and what came of it."""
        raise NotImplementedError

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        words = bundle(self._parts())
        if not self._closed:
            words[VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return only(words, include, exclude)

    def _ipython_display_(self) -> None:
        """Show it so that it can be replaced; without `publish`, IPython shows the mimebundle."""
        if self.publish is None:
            raise NotImplementedError
        self._published = True
        self.publish(self._repr_mimebundle_(), False)

    def _settled(self) -> None:
        """Write the words again: something came of it."""
        if self.publish is not None and self._published:
            self.publish(self._repr_mimebundle_(), True)


# The words around an input. What a server says is escaped here.

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
