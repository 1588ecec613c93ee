"""Forms that send requests: call a tool, get a prompt, read a resource, connect a server."""

from __future__ import annotations

import asyncio
import base64
import keyword
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic._text import duration, listed, sentence
from mcp_magic.display.arguments import hidden_arguments
from mcp_magic.display.document import (
    Part,
    details,
    error_label,
    facts,
    joined,
    mimebundle,
    note,
    preformatted,
    tag,
    tool_badges,
)
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.inflight import Report
from mcp_magic.results.content import read_line
from mcp_magic.schema.commandline import call_line, escape_name, line_or_comment, prompt_line, prompt_schema
from mcp_magic.schema.example import example_arguments
from mcp_magic.ui.form import Form
from mcp_magic.ui.inputs import COMPLETES, write_json
from mcp_magic.ui.widgets import FORM_STYLE, Shop, Shown, heading, note_markup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.uri_template import UriTemplate
    from mcp_types import Prompt, ResourceTemplate, Tool

    from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult
    from mcp_magic.session.connection import Connection
    from mcp_magic.ui.widgets import Complete

    Work = Callable[[ProgressFnT], Awaitable[Any]]
    Offer = Callable[[list[str]], None]

__all__ = ["Completer", "PromptForm", "RequestForm", "Runner", "TemplateForm", "ToolForm"]


# Something that runs while a person looks on: its progress, its time, Cancel, and what came of it.

TICK_SECONDS = 0.2
"""How often time and progress are shown. A server may report a thousand steps a second; nobody reads them, and
each would be a message to the page."""


class Runner:
    """Runs one thing at a time on a loop, and shows how it goes.

    Args:
        shop: Makes the widgets.
        loop: Where it runs; the one that runs now, if left out.

    Attributes:
        widget: Progress and outcome.
        result: What came of the last run, or None.
        error: Why it failed, or None.
        seconds: How long it took, or has taken so far.
    """

    def __init__(self, shop: Shop, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or _running_loop()
        self.result: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._asked = False
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[Any] | None = None
        self._report = Report("", "")
        self._bar = shop.make(ipywidgets.FloatProgress, "bar", min=0.0, max=1.0, value=0.0)
        self._note = shop.make(ipywidgets.HTML, "label")
        self._line = shop.make(ipywidgets.HBox, "line")
        self.output = shop.make(ipywidgets.Output)
        self.widget = shop.make(ipywidgets.VBox, "", children=(self._line, self.output))

    @property
    def running(self) -> bool:
        """Whether something runs now, or will as soon as the loop is free."""
        return self._asked or (self._task is not None and not self._task.done())

    def start(self, work: Work, done: Callable[[], None]) -> None:
        """Start something, from whichever thread a click arrives on; the loop may be busy with a cell for long.

        Args:
            work: Called with what to await at each progress notification.
            done: Called when it has ended, in whichever way.
        """
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self._asked = True
        try:
            self.loop.call_soon_threadsafe(self._start_asked, work, done)
        except RuntimeError:  # the loop is closed
            self._asked = False
            raise

    def cancel(self) -> None:
        """Cancel what runs; the server is told."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)

    async def run(self, work: Work, done: Callable[[], None]) -> None:
        """Start something and wait until it has ended. If this is cancelled, so is what runs."""
        self._start(work, done)
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait({self._task})
            raise

    def _start_asked(self, work: Work, done: Callable[[], None]) -> None:
        self._asked = False
        self._start(work, done)

    def _start(self, work: Work, done: Callable[[], None]) -> None:
        if self.running:
            return
        self.result = self.error = None
        self._report = Report("", "")
        self.output.outputs = ()
        self._work = asyncio.ensure_future(work(self._on_progress))  # now: Cancel may be the next thing to happen
        self._task = asyncio.get_running_loop().create_task(self._run(self._work, done))

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _run(self, work: asyncio.Future[Any], done: Callable[[], None]) -> None:
        started = time.perf_counter()
        try:
            while not work.done():
                self.seconds = time.perf_counter() - started
                self._show_progress()
                await asyncio.wait({work}, timeout=TICK_SECONDS)
            self.seconds = time.perf_counter() - started
            self._keep(work)
        finally:
            work.cancel()
        try:
            self._show_outcome()
        finally:
            done()

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._report.meter.note(progress, total, message, time.perf_counter())

    def _keep(self, work: asyncio.Future[Any]) -> None:
        if work.cancelled():
            self.error = asyncio.CancelledError()
        elif work.exception() is not None:
            self.error = work.exception()
        else:
            self.result = work.result()

    # What is seen of it

    def _show_progress(self) -> None:
        share = self._report.meter.share
        # A bar that does not know its end wanders, which says that something goes on.
        self._bar.value = share if share is not None else (self.seconds / 2) % 1
        self._bar.bar_style = "info" if share is not None else ""
        self._note.value = note_markup(self._report.words())
        self._put(self._line, (self._bar, self._note))

    def _show_outcome(self) -> None:
        self._note.value = note_markup(self.outcome)
        self._put(self._line, (self._note,))
        if isinstance(self.error, asyncio.CancelledError):
            return
        self.output.outputs = (_error_output(self.error) if self.error else _result_output(self.result),)

    @property
    def outcome(self) -> str:
        """How the last run ended, on one line; "" before there was one."""
        if self.error is None and self.result is None:
            return ""
        if isinstance(self.error, asyncio.CancelledError):
            return f"cancelled after {duration(self.seconds)}"
        return f"{'failed' if self.error else 'done'} in {duration(self.seconds)}"

    @staticmethod
    def _put(box: Any, children: tuple[Any, ...]) -> None:
        if box.children != children:
            box.children = children


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _result_output(result: Any) -> dict[str, Any]:
    """What the cell of a magic would show; bytes as base64, as the kernel does it."""
    data = {
        kind: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for kind, value in mimebundle(result).items()
    }
    return {"output_type": "display_data", "data": data, "metadata": {}}


def _error_output(error: BaseException) -> dict[str, Any]:
    """An error as a cell shows it: our own in one line, others by their last line."""
    name = type(error).__name__
    lines = error.traceback_lines() if isinstance(error, MCPMagicError) else [f"{name}: {error}"]
    return {"output_type": "error", "ename": name, "evalue": str(error), "traceback": lines}


# A form that asks a server something: what tools, prompts and resource templates have in common.


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


# Asks a server how an argument may go on, not at every keystroke but when the person pauses.

PAUSE_SECONDS = 0.2
"""How long a person must have stopped typing; a keystroke takes about 0.15."""


class Completer:
    """Completes the arguments of one prompt or resource template.

    Args:
        connection: The session.
        reference: The prompt or template, as `completion/complete` names it.
        given: Returns the other arguments, which the server may take into account.
        loop: The connection's event loop.
    """

    def __init__(
        self,
        connection: Connection,
        reference: Any,
        given: Callable[[], dict[str, Any]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._reference = reference
        self._given = given
        self._loop = loop
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, name: str, text: str, offer: Offer) -> None:
        """Ask soon, unless the person types on; from any thread."""
        self._loop.call_soon_threadsafe(self._ask, name, text, offer)

    def close(self) -> None:
        """Ask no more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        for task in self._asking.values():
            task.cancel()

    def _ask(self, name: str, text: str, offer: Offer) -> None:
        if name in self._asking:
            self._asking[name].cancel()
        task = self._asking[name] = self._loop.create_task(self._complete(name, text, offer))
        task.add_done_callback(lambda done: self._forget(name, done))

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._asking.get(name) is task:
            del self._asking[name]

    async def _complete(self, name: str, text: str, offer: Offer) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        given = {other: value for other, value in self._given().items() if other != name and isinstance(value, str)}
        try:
            values = await self._connection.complete(self._reference, name, text, given)
        except MCPMagicError:  # suggestions are a help; that there are none is no error
            values = []
        offer(values)


# Forms for prompts and for resource templates.


class _CompletedForm(RequestForm):
    """A form of texts that the server completes."""

    _completer: Completer | None = None

    def _build_completed(self, schema: dict[str, Any], reference: Any) -> None:
        for each in schema["properties"].values():
            each[COMPLETES] = True
        capabilities = self.connection.capabilities
        if self._runner.loop is not None and capabilities is not None and capabilities.completions is not None:
            self._completer = Completer(self.connection, reference, lambda: self.form.draft, self._runner.loop)
        self._build(schema, self._completer.ask if self._completer else None)

    def close(self) -> None:
        """Close all widgets, and ask no more."""
        if self._completer is not None:
            self._completer.close()
        super().close()


class PromptForm(_CompletedForm):
    """A prompt's arguments as a form, and its messages below.

    Args:
        connection: The session.
        prompt: The prompt's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        prompt: The prompt's definition.
    """

    verb = "Get"

    def __init__(
        self,
        connection: Connection,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        from mcp_types import PromptReference

        super().__init__(connection, f"{connection.name}:{prompt.name}", timeout=timeout, loop=loop)
        self.prompt = prompt
        schema = prompt_schema(prompt.arguments or ())
        self._build_completed(schema, PromptReference(type="ref/prompt", name=prompt.name))

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> PromptResult:
        return await self.connection.prompt(self.prompt.name, arguments, timeout=self.timeout)

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        return line_or_comment(prompt_line(self.name, arguments) + as_variables(secret))

    def _heading(self) -> str:
        return heading(self.name, self.prompt.title or "", self.prompt.description or "")


class TemplateForm(_CompletedForm):
    """The variables of a resource template as a form, and the resource below.

    Args:
        connection: The session.
        template: The template's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        template: The template's definition.
    """

    verb = "Read"

    def __init__(
        self,
        connection: Connection,
        template: ResourceTemplate,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        from mcp_types import ResourceTemplateReference

        super().__init__(connection, template.uri_template, timeout=timeout, loop=loop)
        self.template = template
        self._expander = _parsed(template.uri_template)
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        self._build_completed(_variables_schema(self._expander), reference)

    @property
    def uri(self) -> str:
        """The URI that the variables make (RFC 6570)."""
        return self._expander.expand(_texts(self.form.draft))

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> ResourceResult:
        return await self.connection.read(self._expander.expand(arguments), timeout=self.timeout)

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        if secret:
            return f"# the URI holds a secret ({listed(secret)}); `%mcp read` takes one that you write yourself"
        return read_line(self._expander.expand(_texts(arguments)), self.connection.name)

    def _heading(self) -> str:
        return heading(self.template.uri_template, self.template.title or "", self.template.description or "")


def as_variables(names: Iterable[str]) -> str:
    """Return arguments that Python variables of their names give, to go at the end of a line.

    >>> as_variables(["api_key", "x-token"])
    ' api_key=$api_key x-token=$x_token'
    """
    return "".join(f" {shlex.quote(escape_name(name))}=${_variable(name)}" for name in names)


def _variable(name: str) -> str:
    variable = re.sub(r"\W", "_", name)
    return variable if variable.isidentifier() and not keyword.iskeyword(variable) else f"_{variable}"


def _parsed(template: str) -> UriTemplate:
    """Read a template.

    Raises:
        ArgumentsError: It is none by RFC 6570, or by the part of it that the SDK knows.
    """
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate as error:
        reason = str(error)
    problem = sentence(f"{template} cannot be filled in", reason)
    raise ArgumentsError(f"{problem} `%mcp read URI` reads what you write yourself.")


def _texts(arguments: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Leave out what no variable can be: the face of JSON takes anything, and a draft is not checked."""
    lists = {name: value for name, value in arguments.items() if isinstance(value, list)}
    found: dict[str, str | list[str]] = {name: value for name, value in arguments.items() if isinstance(value, str)}
    return found | {name: [str(item) for item in value] for name, value in lists.items()}


def _variables_schema(template: UriTemplate) -> dict[str, Any]:
    """The schema of a template's variables: texts, or lists of them; those of a query may be left out."""
    optional = {each.name for each in template.variables if each.operator in ("?", "&")}
    properties: dict[str, Any] = {}
    for each in template.variables:
        text = {"type": "string"} if each.name in optional else {"type": "string", "minLength": 1}
        properties[each.name] = {"type": "array", "items": text} if each.explode else text
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


# A form that calls a tool.


class ToolForm(RequestForm):
    """A tool's arguments as a form, and its result below.

    Args:
        connection: The session.
        tool: The tool's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        tool: The tool's definition.
    """

    def __init__(
        self,
        connection: Connection,
        tool: Tool,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(connection, f"{connection.name}:{tool.name}", timeout=timeout, loop=loop)
        self.tool = self._definition = tool
        self._build(tool.input_schema)

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> ToolResult:
        result = await self.connection.call_tool(
            self.tool.name, arguments, timeout=self.timeout, on_progress=on_progress
        )
        return result.raise_for_error()

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        line = call_line(self.name, arguments, schema=self.tool.input_schema) + as_variables(secret)
        return line_or_comment(line)

    def _heading(self) -> str:
        hints = self.tool.annotations
        badges = tool_badges(self.tool, trusted=self.connection.spec.trust)
        title = self.tool.title or (hints.title if hints else None) or ""
        return heading(self.name, title, self.tool.description or "", joined((badge.html() for badge in badges), " "))
