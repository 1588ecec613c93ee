"""A form that asks a server something: what tools, prompts and resource templates have in common."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.errors import MCPMagicError
from mcp_magic.results.html import details, error_label, facts, joined, note, preformatted, tag
from mcp_magic.results.parts import Part
from mcp_magic.results.safe import one_line, shorten
from mcp_magic.schema import example_arguments
from mcp_magic.widgets.form import Form
from mcp_magic.widgets.hiding import hidden_arguments
from mcp_magic.widgets.inputs_text import write_json
from mcp_magic.widgets.look import FORM_STYLE
from mcp_magic.widgets.running import Runner
from mcp_magic.widgets.shop import Shop
from mcp_magic.widgets.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.widgets.shop import Complete

__all__ = ["RequestForm"]


class RequestForm(Shown):
    """A form with buttons: Run, Cancel, Copy as code.

    Subclasses say what is asked; they call `_build` when they know.

    Args:
        connection: Whom.
        name: What is asked for, with its server.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        connection: Whom.
        timeout: Seconds to wait for an answer, or None.
        form: The form itself.
        widget: All of it.
    """

    verb = "Run"
    """What the button says."""

    _definition: Tool | None = None
    """Whose schema says which arguments are secret; without one, their names do."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout = timeout
        self._shop = Shop()
        self._runner = Runner(self._shop, loop)

    # What subclasses say

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> Any:
        """Ask the server; return a value that displays itself."""
        raise NotImplementedError

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        """Return the line that does the same; each of `secret` is given by a variable."""
        raise NotImplementedError

    def _heading(self) -> str:
        """Return name, title and description as markup."""
        raise NotImplementedError

    # What came of it

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values.

        Raises:
            ArgumentsError: They do not fit.
        """
        return self.form.arguments

    @property
    def result(self) -> Any:
        """What the server answered last, or None."""
        return self._runner.result if self._runner.error is None else getattr(self._runner.error, "result", None)

    @property
    def error(self) -> BaseException | None:
        """Why the last run failed, or None."""
        return self._runner.error

    @property
    def running(self) -> bool:
        """Whether the server is being asked."""
        return self._runner.running

    def set_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Fill in arguments."""
        self.form.set_arguments(arguments)

    async def run(self) -> Any:
        """Do what the button does, wait, and return the result; None if it was cancelled.

        Raises:
            ArgumentsError: The arguments do not fit; nothing was sent.
            ToolError, SessionError: It failed.
        """
        arguments = self._taken()
        await self._runner.run(lambda on_progress: self._ask(arguments, on_progress), self._done)
        error = self._runner.error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        return self.result

    def cancel(self) -> None:
        """Do what Cancel does."""
        self._runner.cancel()

    def close(self) -> None:
        """Close all widgets; what runs is cancelled. What came of it stays as text."""
        if self._closed:
            return
        self._closed = True
        self._runner.cancel()
        self._shop.close()
        self._settled()

    # The widgets

    def _build(self, schema: Mapping[str, Any], complete: Complete | None = None) -> None:
        make = self._shop.make
        self._shop.complete = complete
        self._sent: dict[str, Any] | None = None
        self.form = Form(schema, shop=self._shop)
        self.form.on_change(self._changed)
        self._run, self._spent = self._make_run(), Shop()
        self._stop = make(ipywidgets.Button, "button", description="Cancel", icon="stop", disabled=True)
        tooltip = "show the line that does the same, to copy it"
        self._copy = make(ipywidgets.ToggleButton, "button", description="Copy as code", icon="copy", tooltip=tooltip)
        self._code = make(ipywidgets.Text, "wide", tooltip="select and copy")
        buttons = (self._run, self._stop, self.form.toggle, self._copy)
        self._buttons = make(ipywidgets.HBox, "line", children=buttons)
        head = make(ipywidgets.HTML, "label", value=f"{FORM_STYLE}{self._heading()}")
        self._top = (head, self.form.widget, self._buttons)
        self.widget = make(ipywidgets.VBox, "", children=(*self._top, self._runner.widget))
        self._stop.on_click(lambda _: self.cancel())
        self._copy.observe(lambda _: self._show_code(), "value")

    def _make_run(self) -> Any:
        """Make the button, a new one for each run.

        Clicks that are late, because a cell kept the kernel busy, belong to the run that the first of them has
        started, even if that is over by now.
        """
        self._run_shop = shop = self._shop.part()
        button = shop.make(ipywidgets.Button, "button", description=self.verb, icon="play", button_style="primary")
        button.on_click(lambda _: self._clicked(button))
        return button

    def _clicked(self, button: Any) -> None:
        if button is not self._run or self.running or not self.form.submit():
            return
        arguments = self._taken()
        self._runner.start(lambda on_progress: self._ask(arguments, on_progress), self._done)

    def _taken(self) -> dict[str, Any]:
        """Take the arguments and show that the server is being asked."""
        arguments = self._sent = self.form.arguments
        self._spent.close()  # not before: a click that finds no widget is an entry in the kernel's log
        self._run.disabled, self._stop.disabled = True, False
        return arguments

    def _done(self) -> None:
        if self._closed:
            return
        self._spent, self._run, self._stop.disabled = self._run_shop, self._make_run(), True
        self._buttons.children = (self._run, *self._buttons.children[1:])
        self._settled()

    def _changed(self) -> None:
        if self._copy.value:
            self._show_code()

    def _show_code(self) -> None:
        self._code.value = self.code
        code = (self._code,) if self._copy.value else ()
        self.widget.children = (*self._top, *code, self._runner.widget)

    @property
    def code(self) -> str:
        """The line that does the same; variables of their names stand for what holds a secret."""
        return self._code_for(self.form.draft)

    def _code_for(self, arguments: Mapping[str, Any]) -> str:
        shown = hidden_arguments(arguments, self._definition)
        secret = [name for name in arguments if shown[name] != arguments[name]]
        try:
            return self._line({name: value for name, value in arguments.items() if name not in secret}, secret)
        except MCPMagicError as error:
            return f"# {error}"

    # Where there is no widget

    def _parts(self) -> list[Part]:
        what = f"form of {one_line(self.name, 200)}"
        outcome = self._runner.outcome or "not run yet"
        sent = self._sent if self._sent is not None else self.form.draft
        line = self._code_for(sent)
        shown = hidden_arguments(sent, self._definition)
        rows = [(one_line(name, 60), shorten(write_json(value, None), 300)) for name, value in shown.items()]
        table = facts(rows) if rows else note("no arguments")
        html = joined([tag("p", joined([tag("b", what), f" — {outcome}"])), table, details("code", preformatted(line))])
        parts = [Part(f"{what} — {outcome}\n{self._typed(line)}", html)]
        if self._runner.result is not None:
            parts += self._runner.result.parts()
        elif self.error is not None and str(self.error):
            text = shorten(f"{type(self.error).__name__}: {self.error}", 2000)
            parts.append(Part(text, tag("p", error_label(text))))
        return parts

    def _typed(self, line: str) -> str:
        """Return the line that does the same; of a form that was not run yet, one that can be typed in its place."""
        if self._sent is not None:
            return shorten(line, 2000)
        example, draft = example_arguments(self.form.schema), self.form.draft
        if self.form.problems:  # of what is begun and not complete the example has all
            draft = {name: value for name, value in draft.items() if not isinstance(value, dict | list)}
        line = self._code_for({**example, **draft})
        return (
            f"it is filled in where widgets are shown; a line that does the same, for example:\n{shorten(line, 2000)}"
        )

    def __repr__(self) -> str:
        state = "running" if self.running else self._runner.outcome or "not run yet"
        return f"<{type(self).__name__} {one_line(self.name, 100)}: {state}>"
