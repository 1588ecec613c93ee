"""The common base of all widgets: life cycle, event loop, display and style."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ipywidgets
from ipywidgets.widgets.widget_description import DescriptionWidget

from mcp_magic import schema
from mcp_magic.activity import activity
from mcp_magic.display.comms import keep_in_order
from mcp_magic.display.document import Markup, escape, joined, mimebundle, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.loops import running_loop
from mcp_magic.schema.fields import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcp_magic.schema.fields import Field

    Offer = Callable[[list[str]], None]
    Complete = Callable[[str, str, Offer], None]
    Publish = Callable[[dict[str, Any], bool], None]

# Making widgets, and closing them.
#
# A widget is a comm that lives until it is closed, and so are its layout and its style: three comms for one text field.
# Sharing layouts and styles makes a form three times as fast to build. Keeping track of every widget makes sure that
# closing a form leaves none behind.

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
    "detail": {},  # of one widget, which moves
    "check": {"width": "auto", "margin": "0 0 0 12px"},
    "button": {"width": "auto", "align_self": "flex-start"},
    "small": {"width": "34px", "padding": "0"},
    "bar": {"width": "16em"},
    "table": {"margin": "0 0 6px 0", "border_top": "1px solid var(--jp-border-color2,#999)"},
    # on a narrow page the parts of a row stand below each other
    "tablerow": {
        "align_items": "flex-start",
        "flex_flow": "row wrap",
        "padding": "4px 0",
        "border_bottom": "1px solid var(--jp-border-color2,#999)",
        "overflow": "visible",
    },
    "number": {"width": "4em", "margin": "0"},
    "decided": {"width": "4em", "margin": "0", "padding": "4px 0 0 20px"},
    "name": {"margin": "0 6px 0 10px"},
    "head": {"width": "min(17em, 75%)", "margin": "0 12px 0 0", "height": "auto"},
    "cells": {"flex": "1 1 18em", "min_width": "0", "margin": "0", "overflow": "visible"},
    "pair": {"align_items": "center", "flex_flow": "row wrap", "margin": "0", "overflow": "visible"},
    "cell": {"flex": "1 1 21em", "min_width": "0", "width": "auto", "margin": "0 0 2px 0"},
    "group": {"align_items": "center", "flex_flow": "row wrap", "margin": "0 16px 0 0", "overflow": "visible"},
}
"""Name -> traits of a layout. All widgets of a form share one layout per name."""


CROWDED = 1000  # widgets: a form of a hundred fields has some 350; a schema that doubles at each level has millions
FOCUS_SECONDS = 2.0  # after a click, in which the outcome gets the focus; later the user may be typing elsewhere
DRAWN_SECONDS = 0.2  # seconds that a frontend takes to draw a widget that gets the focus


@dataclass
class Shared:
    """What all widgets of a form share: layouts by name, styles by class of widget; and how many widgets there are."""

    layouts: dict[str, Any] = field(default_factory=dict)
    styles: dict[type[Any], Any] = field(default_factory=dict)
    count: int = 0
    echo: Echo | None = None
    focused: int = 0  # how often the focus was to change, or to stay

    def layout(self, name: str) -> Any:
        """Return a layout of `_LAYOUTS`, made on first use."""
        if name not in self.layouts:
            self.layouts[name] = ipywidgets.Layout(**_LAYOUTS[name])
        return self.layouts[name]

    def close(self) -> None:
        """Close the layouts and the styles."""
        for widget in (*self.layouts.values(), *self.styles.values()):
            widget.close()
        self.layouts.clear()
        self.styles.clear()


class WidgetScope:
    """Makes the widgets of one part of a form, and closes them.

    The scope of the whole form has no `shared` and closes what all share. `complete` is called with an argument's name,
    its text and a callback for the suggestions; None if no server completes it.
    """

    def __init__(
        self, shared: Shared | None = None, on_close: Callable[[WidgetScope], None] = lambda scope: None
    ) -> None:
        self._is_whole = shared is None
        self._shared = shared or Shared()
        self._on_close = on_close
        self._widgets: list[Any] = []
        self._inner: set[WidgetScope] = set()
        self.complete: Complete | None = None

    @property
    def crowded(self) -> bool:
        """Whether there are so many widgets that more are made only on demand."""
        return self._shared.count > CROWDED

    def part(self) -> WidgetScope:
        """Return a scope for a part of the form that may be closed earlier."""
        inner = WidgetScope(self._shared, on_close=lambda inner: self._inner.discard(inner))
        inner.complete = self.complete
        self._inner.add(inner)
        return inner

    def make(self, kind: type[Any], layout: str = "", name: str = "", **traits: Any) -> Any:
        """Return a new widget with a layout of `_LAYOUTS`; `name` is its label, which only screen readers show."""
        traits["layout"] = self._shared.layout(layout)
        if issubclass(kind, DescriptionWidget):
            traits.setdefault("tooltip", "")  # without, the page has title="null"
            if name:
                traits["description"], traits["_dom_classes"] = name, ("mcp-named",)
        style = self._shared.styles.get(kind)
        if style is not None:
            traits["style"] = style
        widget = kind(**traits)
        keep_in_order(widget)
        if style is None and "style" in widget.keys:  # `keys` names the synchronised traits
            self._shared.styles[kind] = widget.style
        self.adopt(widget)
        return widget

    def adopt(self, widget: Any) -> None:
        """Close a widget with the scope that was made elsewhere."""
        self._widgets.append(widget)
        self._shared.count += 1

    def button(self, text: str, tooltip: str, do: Callable[[], object], layout: str = "button", **traits: Any) -> Any:
        """Return a button that calls `do`."""
        button = self.make(ipywidgets.Button, layout, description=text, tooltip=tooltip, **traits)
        button.on_click(lambda _: do())
        return button

    def echo(self, loop: asyncio.AbstractEventLoop | None) -> Echo:
        """Return a new echo of the frontend, which `focus` waits for, too."""
        self._shared.echo = Echo(self, loop)
        return self._shared.echo

    def focus(self, widget: Any) -> None:
        """Let a control or a `Label` have the focus once the frontend has drawn it; ipywidgets gives it to no box."""
        self.keep_focus()
        loop, number = running_loop(), self._shared.focused
        if loop is None:
            return

        def focus() -> None:
            if number != self._shared.focused or widget.comm is None:  # the user types, or it is closed
                return
            if isinstance(widget, ipywidgets.Label):  # no stop of Tab; a page reads this only when it changes
                widget.tabbable = None
                widget.tabbable = False
            widget.focus()

        def draw() -> None:
            loop.call_soon_threadsafe(loop.call_later, DRAWN_SECONDS, focus)

        if self._shared.echo is None:
            draw()
        else:
            self._shared.echo.then(draw, lambda: None)  # a busy frontend takes a while

    def keep_focus(self) -> None:
        """Leave the focus where it is: the user types there, and the letters would go into another control."""
        self._shared.focused += 1

    def close(self) -> None:
        """Close all widgets of the scope and of its parts. Idempotent."""
        for inner in list(self._inner):
            inner.close()
        for widget in self._widgets:
            widget.close()
        self._shared.count -= len(self._widgets)
        self._widgets.clear()
        self._on_close(self)
        if self._is_whole:
            self._shared.close()


def on_enter(field: Any, do: Callable[[], None]) -> None:
    """Call `do` when the user presses Enter in a text field."""

    def received(_widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("event") == "submit":
            do()

    field.on_msg(received)


ECHO_SECONDS = 5.0  # seconds that a frontend has to send what was typed before a click


class Echo:
    """Tells when all that was typed before a click, or before Enter, is here.

    ipywidgets sends a click at once, but holds back a change of a field while the change before it is on its way. So a
    click may arrive before the last letters. The frontend links two numbers: it copies what the kernel writes into the
    first to the second, and sends that after what it held back.
    """

    def __init__(self, scope: WidgetScope, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._count = scope.make(ipywidgets.IntText)
        self._echo = scope.make(ipywidgets.IntText)
        self._echo.observe(self._came, "value")
        self._waiting: dict[int, Callable[[], None]] = {}
        scope.adopt(ipywidgets.jsdlink((self._count, "value"), (self._echo, "value")))

    def then(self, do: Callable[[], None], late: Callable[[], None] | None = None) -> None:
        """Call `do` once all that was typed until now is here; `late` (default: `do`) if the frontend is silent.

        Without an event loop no frontend can answer, and `do` is called at once.
        """
        if self._loop is None:
            do()
            return
        number = self._count.value + 1
        self._waiting[number] = do
        self._loop.call_soon_threadsafe(self._loop.call_later, ECHO_SECONDS, self._late, number, late or do)
        self._count.value = number

    def forget(self) -> None:
        """Call nothing that still waits."""
        self._waiting.clear()

    def _came(self, change: Any) -> None:
        for number in [number for number in self._waiting if number <= change["new"]]:
            self._waiting.pop(number)()

    def _late(self, number: int, late: Callable[[], None]) -> None:
        if self._waiting.pop(number, None) is not None:
            late()


# Running the work of clicks on the event loop of the sessions. A click may arrive on another thread (on kernels that
# handle widgets on a subshell), and its work may take long, but widgets and sessions belong to one event loop.


class LoopRunner:
    """Runs the work of one widget on an event loop: by default the running one.

    Without a running event loop (plain Python code) callbacks run at once, and `start` does nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._ended = False

    def soon(self, do: Callable[[], None]) -> None:
        """Call `do` on the event loop: at once if this is its thread."""
        if self._ended:
            return
        if self.loop is None:
            do()
        elif running_loop() is self.loop:
            self._run_soon(do)
        else:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._run_soon, do)

    def once(self, do: Callable[[], None], seconds: float) -> None:
        """Call `do` after `seconds`, once for all calls until then; `do` must be the same each time."""
        if self.loop is None:
            do()
        elif self._later is None and not self._ended:
            self._later = self.loop.call_later(seconds, self._run_later, do)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run `work` as a task of the event loop; `end` cancels it."""
        if self.loop is None or self._ended:
            work.close()
            return None
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """Cancel all tasks, and start no more."""
        self._ended = True
        if self._later is not None:
            self._later.cancel()
        for task in self._tasks:
            task.cancel()
        activity.end()

    async def finished(self) -> None:
        """Wait until all tasks are done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _run_soon(self, do: Callable[[], None]) -> None:
        if self.loop is not None:
            activity.note(self.loop)
        do()

    def _run_later(self, do: Callable[[], None]) -> None:
        self._later = None
        if not self._ended:
            do()


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
"""The MIME type of a live widget (https://ipywidgets.readthedocs.io, "Widget messaging protocol")."""


def widget_view(widget: ipywidgets.Widget) -> dict[str, Any]:
    """Return the part of a mimebundle that shows a live widget."""
    return {WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def result_output(result: Any) -> dict[str, Any]:
    """Return a result as a cell's output, for an `Output` widget; bytes become base64, as the kernel encodes them."""
    data = {
        kind: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for kind, value in mimebundle(result).items()
    }
    return {"output_type": "display_data", "data": data, "metadata": {}}


# The texts around an input; texts from servers are escaped here.

MAX_DESCRIPTION = 500  # characters shown of a description beside a field

# Controls that the browser draws. ipywidgets gives a drop-down a black arrow in every theme, and time pickers no style;
# only since 4.4 does JupyterLab tell the browser that its theme is dark.
_BOX = ".widget-vbox:has(>.widget-html :is(.mcp-form,.mcp-magic))"
_PICKERS = f"{_BOX} :is(.widget-timepicker,.widget-datetimepicker,.widget-datepicker) input"
_CONTROLS = (
    f"[data-jp-theme-light=false] {_BOX}{{color-scheme:dark}}"
    f"{_BOX} .widget-dropdown>select{{background-image:linear-gradient(45deg,transparent 50%,currentColor 50%),"
    "linear-gradient(135deg,currentColor 50%,transparent 50%);background-size:5px 5px;background-repeat:no-repeat;"
    "background-position:right 13px center,right 8px center}"
    # so that all of a value of `MAX_CELL` characters is in view
    f"{_BOX} .mcp-cell input{{font-family:var(--jp-code-font-family,monospace)!important}}"
    # as wide as the notebook and no wider, so that the user can read all that is approved
    ".widget-html>.widget-html-content:has(>.mcp-magic){min-width:0}"
    # a heading is text of several lines, not the caption of one control; the time of a run stands below its button
    ".widget-vbox>.widget-html>.widget-html-content>.mcp-magic{line-height:1.4}"
    ".widget-vbox:has(>.jp-OutputArea,>.widget-output)>.widget-hbox :is(.mcp-form,.mcp-outcome){padding-left:6px}"
    ".mcp-outcome{color:var(--jp-ui-font-color2,#666);font-size:var(--jp-ui-font-size1,13px)}"
    f"{_BOX} :is(.widget-text input,.widget-dropdown>select){{font-family:inherit}}"
    f"{_PICKERS}{{box-sizing:border-box;width:100%;height:var(--jp-widgets-inline-height,28px);"
    "padding:0 8px;font:inherit;color:var(--jp-widgets-input-color,inherit);"
    "background:var(--jp-widgets-input-background-color,transparent);"
    "border:1px solid var(--jp-widgets-input-border-color,#999)}"
)

# Widgets whose kernel has gone: ipywidgets marks each of them by a sign of a broken chain.
_DISCONNECTED = ".jupyter-widgets-disconnected:has(.mcp-form,.mcp-magic):not(.jupyter-widgets-disconnected *)"
_DISCONNECTED_STYLE = (
    f"{_DISCONNECTED}>*{{display:none!important}}"
    f"{_DISCONNECTED}::before{{content:'Kernel restarted: run this cell again'!important;font:inherit!important;"
    "color:var(--jp-ui-font-color2,#666)!important;padding:0!important}"
)

FORM_STYLE = Markup(
    "<style>"
    ".mcp-form{line-height:1.35;color:var(--jp-ui-font-color1,inherit);font-size:var(--jp-ui-font-size1,13px)}"
    ".mcp-form b{font-weight:600}"
    ".mcp-form .mcp-type,.mcp-form .mcp-hint{color:var(--jp-ui-font-color2,#666)}"
    ".mcp-form .mcp-hint{white-space:pre-wrap;max-width:60em}"
    ".mcp-form .mcp-needed{color:var(--jp-error-color1,#d32f2f);font-weight:600}"
    ".mcp-form.mcp-problem{color:var(--jp-error-color1,#d32f2f);white-space:pre-wrap}"
    # the name of an input, for screen readers; beside it stands a label with more
    ".mcp-named>.widget-label{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}"
    ".mcp-invalid :is(input,select,textarea){border-color:var(--jp-error-color1,#d32f2f)!important}"
    ".mcp-unseen{display:none}"  # also what says that the frontend has no anywidget
    f"{_DISCONNECTED_STYLE}{_CONTROLS}</style>"
)
"""Styles labels and problems in the theme's colours; they are readable without it."""


def label_markup(field: Field, name: str, *, required: bool) -> str:
    """Return the label of a field: name, type and constraints, default, description.

    >>> label_markup(schema.root_field({"type": "integer", "minimum": 1}), "<n>", required=True)  # doctest: +ELLIPSIS
    '<div class="mcp-form"><b>&lt;n&gt;</b> <span class="mcp-needed" title="required">*</span> ...integer, at least 1...
    """
    parts: list[object] = [tag("b", one_line(name, 100))] if name else []
    if required and name:
        parts.append(tag("span", "*", class_="mcp-needed", title="required"))
    facts = [shorten(field.type_text, 120), shorten(field.constraints_text, 120), default_text(field)]
    parts.append(tag("span", ", ".join(fact for fact in facts if fact), class_="mcp-type"))
    title = field.title if field.title.casefold() != name.replace("_", " ").casefold() else ""
    text = shorten("\n".join(text for text in (title, field.description) if text), MAX_DESCRIPTION)
    hint = tag("div", text, class_="mcp-hint") if text else Markup()
    return tag("div", joined([joined(parts, " "), hint]), class_="mcp-form")


def default_text(field: Field) -> str:
    """Return `"default 3"`, or "" if the schema states none."""
    if field.default is schema.MISSING:
        return ""
    secret = schema.is_secret(field.name, field)
    return f"default {'***' if secret else literal(field.default)}"


def placeholder(field: Field) -> str:
    """Return the placeholder of an empty input: the default, or an example of the format."""
    examples = {"email": "name@example.com", "uri": "https://…", "uuid": "12345678-1234-…", "duration": "PT1H30M"}
    stated = default_text(field) if field.default is not None else ""
    return one_line(stated or examples.get(field.format, ""), 80)


def accessible_name(field: Field, name: str, *, required: bool = False) -> str:
    """Return what screen readers say of an input."""
    text = f"{field.type_text}, required" if required else field.type_text
    return one_line(f"{name}: {text}" if name else text, 120)


def problem_markup(text: str) -> str:
    """Return a message about a value, with a sign besides the colour."""
    lines = escape("\n".join(shorten(line, 400) for line in text.split("\n")))
    return tag("div", joined([tag("b", "✗ "), lines]), class_="mcp-form mcp-problem", role="alert") if text else ""


def note_markup(text: str) -> str:
    """Return a line about the form itself."""
    return tag("div", tag("span", text, class_="mcp-type"), class_="mcp-form")
