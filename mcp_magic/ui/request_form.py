"""Forms that send requests: call a tool, get a prompt, read a resource."""

from __future__ import annotations

import asyncio
import json
import keyword
import re
import shlex
import time
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic._text import duration, join_names, sentence
from mcp_magic.apps.app import App
from mcp_magic.apps.view import can_show
from mcp_magic.apps.widget import AppWidget
from mcp_magic.display.arguments import hidden_arguments
from mcp_magic.display.document import (
    Part,
    bundle,
    details,
    error_label,
    facts,
    joined,
    note,
    only,
    page,
    preformatted,
    tag,
    tool_badges,
)
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.inflight import Report, shown_reports
from mcp_magic.loops import running_loop
from mcp_magic.results.cards import heading
from mcp_magic.results.content import read_line
from mcp_magic.schema.commandline import call_line, escape_name, line_or_comment, prompt_line, prompt_schema
from mcp_magic.schema.validate import argument_problems, valid_example
from mcp_magic.ui.form import Form
from mcp_magic.ui.inputs import COMPLETES, write_json
from mcp_magic.ui.widgets import (
    FOCUS_SECONDS,
    FORM_STYLE,
    LoopRunner,
    WidgetScope,
    note_markup,
    on_enter,
    problem_markup,
    result_output,
    widget_view,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.uri_template import UriTemplate
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

    from mcp_magic.display.document import Badge
    from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult
    from mcp_magic.session.connection import Connection
    from mcp_magic.ui.widgets import Offer, Publish

    Work = Callable[[ProgressFnT], Awaitable[Any]]
    Definition = Tool | Prompt | Resource | ResourceTemplate
    Save = Callable[[str, Any], None]

__all__ = ["RequestForm", "as_variables"]


# Running a request: its progress, its time, Cancel and its outcome.

TICK_SECONDS = 0.2
"""How often time and progress are drawn. A server may report progress a thousand times a second, and each drawing is a
message to the browser."""


class Runner:
    """Runs one request at a time on an event loop, and shows its progress and outcome.

    `result` and `error` are of the last run.
    """

    def __init__(self, scope: WidgetScope, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or running_loop()
        self.result: Any = None
        self.error: BaseException | None = None
        self._is_scheduled = False
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[Any] | None = None
        self._report = Report("", "")
        self._bar = scope.make(ipywidgets.FloatProgress, "bar", min=0.0, max=1.0, value=0.0)
        self._note = scope.make(ipywidgets.HTML, "label")
        self._line = scope.make(ipywidgets.HBox, "line")
        self.output = scope.make(ipywidgets.Output)
        self.result_line = scope.make(ipywidgets.Label, "label", _dom_classes=("mcp-outcome",))
        self.widget = scope.make(ipywidgets.VBox, "", children=(self._line, self.output))
        self._scope = scope
        self._view = scope.part()  # of the last result

    @property
    def running(self) -> bool:
        """Whether a request is running, or scheduled."""
        return self._is_scheduled or (self._task is not None and not self._task.done())

    def start(self, work: Work, done: Callable[[], None]) -> None:
        """Start a request, from any thread; it waits while the event loop is busy with a cell.

        `work` returns the awaitable of the request, given a callback for progress; `done` is called when it has ended.
        """
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self._is_scheduled = True
        self.loop.call_soon_threadsafe(self._start, work, done)

    def cancel(self) -> None:
        """Cancel the running request, and notify the server."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)  # after a start that was scheduled before

    async def run(self, work: Work, done: Callable[[], None]) -> None:
        """Start a request and wait for its end. Cancelling this cancels the request."""
        self._start(work, done)
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait({self._task})
            raise

    def _start(self, work: Work, done: Callable[[], None]) -> None:
        self._is_scheduled = False
        if self.running:
            return
        self.result = self.error = None
        self._report = Report("", "")
        self.output.outputs = ()
        self._view.close()
        self.widget.children = (self._line, self.output)
        context = copy_context()
        context.run(shown_reports.set, (self._report,))
        loop = asyncio.get_running_loop()
        # a task now, because Cancel may be clicked next
        self._work = loop.create_task(_awaited(work, self._on_progress), context=context)
        self._task = loop.create_task(self._run(self._work, done))

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _run(self, work: asyncio.Future[Any], done: Callable[[], None]) -> None:
        try:
            while not work.done():
                self._show_progress()
                await asyncio.wait({work}, timeout=TICK_SECONDS)
            self._report.end("done")
            self.error = asyncio.CancelledError() if work.cancelled() else work.exception()
            self.result = work.result() if self.error is None else None
        finally:
            work.cancel()
        try:
            self._show_outcome()
        finally:
            done()

    @property
    def seconds(self) -> float:
        """How long the last run has taken so far, without the time in which the user was asked."""
        return self._report.seconds

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._report.meter.note(progress, total, message, time.perf_counter())

    def _show_progress(self) -> None:
        share = self._report.meter.share
        # without a known total the bar keeps moving, to show activity
        self._bar.value = share if share is not None else (self.seconds / 2) % 1
        self._bar.bar_style = "info" if share is not None else ""
        self._note.value = note_markup(self._report.words())
        self._line.children = (self._bar, self._note)

    def _show_outcome(self) -> None:
        self.result_line.value = self.outcome
        self._line.children = (self.result_line,)
        if isinstance(self.error, asyncio.CancelledError):
            return
        self.output.outputs = (_error_output(self.error) if self.error else result_output(self.result),)
        app = getattr(self.result, "app", None)
        if isinstance(app, App) and can_show():
            self._view = self._scope.part()
            view = AppWidget(app)
            self._view.adopt(view)
            self.widget.children = (self._line, self.output, view.widget)

    @property
    def outcome(self) -> str:
        """The outcome of the last run on one line, or ""."""
        if self.error is None and self.result is None:
            return ""
        if isinstance(self.error, asyncio.CancelledError):
            return f"cancelled after {duration(self.seconds)}"
        return f"{'failed' if self.error else 'done'} in {duration(self.seconds)}"


async def _awaited(work: Work, on_progress: ProgressFnT) -> Any:
    return await work(on_progress)


def _error_output(error: BaseException) -> dict[str, Any]:
    """Return an error as a cell's output: our own errors as they show themselves, others by their last line."""
    name = type(error).__name__
    lines = error.traceback_lines() if isinstance(error, MCPMagicError) else [f"{name}: {error}"]
    return {"output_type": "error", "ename": name, "evalue": str(error), "traceback": lines}


# What a form sends: a tool call, a prompt or the read of a resource.


@dataclass(frozen=True)
class Request:
    """A tool, prompt or resource template of a server, as a form shows it and sends it.

    Attributes:
        send: Sends the arguments, given a timeout in seconds and a callback for progress; returns the result.
        line: Returns the equivalent line of code; each of the names given second is a secret, given by a variable.
    """

    verb: str  # the label of the Run button
    name: str  # the item as the user types it
    schema: Mapping[str, Any]  # the schema of the arguments
    heading: str  # name, title and description as markup
    send: Callable[[dict[str, Any], float | None, ProgressFnT], Awaitable[Any]]
    line: Callable[[Mapping[str, Any], Sequence[str]], str]
    reference: Any = None  # the item as `completion/complete` identifies it; None if the server completes nothing of it
    tool: Tool | None = None  # the tool whose schema marks secret arguments; without it only their names do


def _tool_request(connection: Connection, tool: Tool) -> Request:
    name = f"{connection.name}:{tool.name}"
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    badges = tool_badges(tool, trusted=connection.spec.trust)

    async def send(arguments: dict[str, Any], timeout: float | None, on_progress: ProgressFnT) -> ToolResult:
        result = await connection.call_tool(tool.name, arguments, timeout=timeout, on_progress=on_progress)
        return result.raise_for_error()

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        return line_or_comment(call_line(name, arguments, schema=tool.input_schema) + as_variables(secret))

    about = _heading(name, title, tool.description or "", badges)
    return Request("Run", name, tool.input_schema, about, send, line, tool=tool)


def _prompt_request(connection: Connection, prompt: Prompt) -> Request:
    from mcp_types import PromptReference

    name = f"{connection.name}:{prompt.name}"

    async def send(arguments: dict[str, Any], timeout: float | None, on_progress: ProgressFnT) -> PromptResult:
        return await connection.prompt(prompt.name, arguments, timeout=timeout)

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        return line_or_comment(prompt_line(name, arguments) + as_variables(secret))

    about = _heading(name, prompt.title or "", prompt.description or "")
    reference = PromptReference(type="ref/prompt", name=prompt.name)
    return Request("Get", name, _completed(prompt_schema(prompt.arguments or ())), about, send, line, reference)


def _template_request(connection: Connection, template: ResourceTemplate) -> Request:
    """Return the read of a resource, whose URI is expanded from the template's variables (RFC 6570)."""
    from mcp_types import ResourceTemplateReference

    name = template.uri_template
    parsed = _parsed(name)

    async def send(arguments: dict[str, Any], timeout: float | None, on_progress: ProgressFnT) -> ResourceResult:
        return await connection.read(parsed.expand(arguments), timeout=timeout)

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        if secret:
            return f"# the URI holds a secret ({join_names(secret)}); `%mcp read` takes one that you write yourself"
        return read_line(parsed.expand(_texts(arguments)), connection.name)

    about = _heading(name, template.title or "", template.description or "")
    reference = ResourceTemplateReference(type="ref/resource", uri=name)
    return Request("Read", name, _completed(_variables_schema(parsed)), about, send, line, reference)


def _resource_request(connection: Connection, resource: Resource) -> Request:
    uri = str(resource.uri)

    async def send(arguments: dict[str, Any], timeout: float | None, on_progress: ProgressFnT) -> ResourceResult:
        return await connection.read(uri, timeout=timeout)

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        return read_line(uri, connection.name)

    about = _heading(uri, resource.title or resource.name, resource.description or "")
    return Request("Read", uri, prompt_schema(()), about, send, line)


def _heading(name: str, title: str, description: str, badges: Sequence[Badge] = ()) -> str:
    prose = Part.prose(shorten(description.strip(), 2000))
    return page([Part.stack(heading(name, title, badges), prose).html])


def _request(connection: Connection, definition: Definition) -> Request:
    from mcp_types import Prompt, Resource, Tool

    if isinstance(definition, Tool):
        return _tool_request(connection, definition)
    if isinstance(definition, Prompt):
        return _prompt_request(connection, definition)
    if isinstance(definition, Resource):
        return _resource_request(connection, definition)
    return _template_request(connection, definition)


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    """Mark the properties as completed by the server."""
    for each in schema["properties"].values():
        each[COMPLETES] = True
    return schema


def as_variables(names: Iterable[str]) -> str:
    """Return arguments for the end of a line, with a Python variable for each value."""
    return "".join(f" {shlex.quote(escape_name(name))}=${_variable(name)}" for name in names)


def _variable(name: str) -> str:
    variable = re.sub(r"\W", "_", name)
    return variable if variable.isidentifier() and not keyword.iskeyword(variable) else f"_{variable}"


def _parsed(template: str) -> UriTemplate:
    """Parse a URI template (RFC 6570), or raise ArgumentsError if it is invalid or the SDK does not support it."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate as error:
        reason = str(error)
    problem = sentence(f"{template} cannot be filled in", reason)
    raise ArgumentsError(f"{problem} `%mcp read URI` reads a URI that you type.")


def _texts(arguments: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return only values that a variable can have: the JSON view and an unchecked draft may hold others."""
    texts: dict[str, str | list[str]] = {}
    for name, value in arguments.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, list):
            texts[name] = [str(item) for item in value]
    return texts


def _variables_schema(template: UriTemplate) -> dict[str, Any]:
    """Return the schema of a template's variables: texts, or lists of texts; query variables are optional."""
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


# Completion: asks the server when the user pauses, not at every keystroke.

PAUSE_SECONDS = 0.2  # length of such a pause; a keystroke takes about 0.15 s


class Completer:
    """Completes arguments of a prompt or resource template; `given` returns the other arguments, for the server."""

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
        self._runner = LoopRunner(loop)
        self._tasks: dict[str, asyncio.Task[None] | None] = {}

    def ask(self, name: str, text: str, offer: Offer) -> None:
        """Request completions after a pause, unless the user types on; callable from any thread."""
        self._runner.soon(lambda: self._ask(name, text, offer))

    def close(self) -> None:
        """Cancel the pending requests."""
        self._runner.soon(self._runner.end)

    def _ask(self, name: str, text: str, offer: Offer) -> None:
        earlier = self._tasks.get(name)
        if earlier is not None:
            earlier.cancel()
        self._tasks[name] = self._runner.start(self._complete(name, text, offer))

    async def _complete(self, name: str, text: str, offer: Offer) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        given = {other: value for other, value in self._given().items() if other != name and isinstance(value, str)}
        try:
            values = await self._connection.complete(self._reference, name, text, given)
        except MCPMagicError:  # suggestions are optional: a failure is no error
            values = []
        offer(values)


# The form: the arguments, Run, Cancel and Copy as code, and the outcome.


def _copying(line: str) -> dict[str, Any]:
    """Return an output whose script copies a line, as literal text, and says whether the browser allowed it."""
    script = (
        "const said = text => { element.setAttribute('role', 'status'); element.textContent = text; };"
        f"(navigator.clipboard ? navigator.clipboard.writeText({json.dumps(line)}) : Promise.reject())"
        ".then(() => said('Copied.'), () => said('Select the line above and copy it.'));"
    )
    data = {"application/javascript": script, "text/plain": "Select the line above and copy it."}
    return {"output_type": "display_data", "data": data, "metadata": {}}


class RequestForm:
    """A form that calls a tool, gets a prompt or reads a resource; `loop` is the connection's event loop.

    `save` assigns a result to a variable of the notebook; without it, the form does not offer that.

    A frontend with a kernel shows the widget; GitHub, nbconvert and a terminal show HTML or text instead. Those are
    written when the cell is shown, before there is an outcome, and again by `publish` when there is one. It receives a
    mimebundle and whether that replaces the shown one.
    """

    def __init__(
        self,
        connection: Connection,
        definition: Definition,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        save: Save | None = None,
    ) -> None:
        self.connection, self.definition = connection, definition
        self._request = _request(connection, definition)
        self.name = self._request.name
        self.publish: Publish | None = None
        self._timeout, self._assign = timeout, save
        self._scope = WidgetScope()
        self._runner = Runner(self._scope, loop)
        self._closed = self._published = False
        self._sent: dict[str, Any] | None = None
        completes = connection.capabilities is not None and connection.capabilities.completions is not None
        self._completer: Completer | None = None
        if self._request.reference is not None and self._runner.loop is not None and completes:
            self._completer = Completer(connection, self._request.reference, lambda: self.form.draft, self._runner.loop)
            self._scope.complete = self._completer.ask
        self._build()
        self._first, self._was_changed = self.form.draft, False

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values, or an ArgumentsError if they do not fit the schema."""
        return self.form.arguments

    @property
    def result(self) -> Any:
        """The result of the last run, or None."""
        return self._runner.result if self._runner.error is None else getattr(self._runner.error, "result", None)

    @property
    def error(self) -> BaseException | None:
        """The error of the last run, or None."""
        return self._runner.error

    @property
    def running(self) -> bool:
        """Whether a request is pending."""
        return self._runner.running

    @property
    def touched(self) -> bool:
        """Whether closing the form would lose anything: input, or an outcome."""
        used = self.running or self.result is not None or self.error is not None
        return self._was_changed or used or self.form.draft != self._first

    def set_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Fill in arguments, valid or not."""
        self.form.set_arguments(arguments)

    async def run(self) -> Any:
        """Do what the Run button does, wait, and return the result; None if it was cancelled.

        Raises:
            ArgumentsError, ToolError, SessionError: The arguments do not fit and were not sent, or the request failed.
        """
        await self._runner.run(self._work(), self._done)
        error = self._runner.error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        return self.result

    def start(self) -> None:
        """Do what the Run button does, and do not wait."""
        if not self.running and self.form.submit():
            self._runner.start(self._work(), self._done)

    def cancel(self) -> None:
        """Do what the Cancel button does."""
        self._echo.forget()  # a run that was clicked just before
        self._runner.cancel()

    def close(self) -> None:
        """Close all widgets, and cancel a pending request. The outcome stays as text."""
        if self._closed:
            return
        self._closed = True
        if self._completer is not None:
            self._completer.close()
        self.cancel()
        self._scope.close()
        self._settled()

    def _build(self) -> None:
        make = self._scope.make
        self._was_clicked = False
        self._echo = self._scope.echo(self._runner.loop)
        self.form = Form(self._request.schema, scope=self._scope)
        self.form.on_change(self._changed)
        self.form.on_enter(lambda: self._echo.then(partial(self._clicked, self._run)))
        self._run, self._spent = self._make_run(), WidgetScope()
        self._stop = self._scope.button("Cancel", "tell the server to stop", self.cancel, icon="stop", disabled=True)
        tooltip = "copy the line that does the same, and show it"
        self.copy = self._scope.button("Copy as code", tooltip, self._copy_code, icon="copy")
        self._code = make(ipywidgets.Text, "wide", description="Code", tooltip="select and copy")
        self._copied = make(ipywidgets.Output)
        self.name_field = make(
            ipywidgets.Text,
            "field",
            description="Save as",
            placeholder="name of a variable",
            tooltip="name of a variable",
        )
        save = partial(self._echo.then, self._save)
        on_enter(self.name_field, save)
        self.save_button = self._scope.button("Save", "assign the result to this variable", save)
        self._saved = make(ipywidgets.HTML, "label")
        self._saving = make(ipywidgets.HBox, "line", children=(self.name_field, self.save_button, self._saved))
        fixed = not self._request.schema.get("properties", True)  # a resource, or a prompt without arguments
        toggle = () if fixed else (self.form.toggle,)
        self._buttons = make(ipywidgets.HBox, "line", children=(self._run, self._stop, *toggle, self.copy))
        head = make(ipywidgets.HTML, "label", value=f"{FORM_STYLE}{self._request.heading}")
        self._top = (head, *(() if fixed else (self.form.widget,)), self._buttons)
        self.widget = make(ipywidgets.VBox, "", children=(*self._top, self._runner.widget))

    def _make_run(self) -> Any:
        """Return a new Run button for the next run.

        Clicks that arrive late, because a cell kept the kernel busy, belong to the run that the first of them started.
        """
        self._run_scope = scope = self._scope.part()
        button = scope.button(
            self._request.verb,
            "send the request",
            lambda: self._echo.then(partial(self._clicked, button)),
            icon="play",
            button_style="primary",
        )
        return button

    def _clicked(self, button: Any) -> None:
        if button is self._run:
            self._was_clicked = True
            self.start()

    def _work(self) -> Work:
        """Return what sends the present arguments, and show that the request is pending."""
        arguments = self._sent = self.form.arguments
        self._spent.close()  # not earlier: a click on a closed widget is logged by the kernel as an error
        self._run.disabled, self._stop.disabled = True, False
        self._draw()
        return lambda on_progress: self._request.send(arguments, self._timeout, on_progress)

    def _done(self) -> None:
        if self._closed:
            return
        self._spent, self._run, self._stop.disabled = self._run_scope, self._make_run(), True
        self._buttons.children = (self._run, *self._buttons.children[1:])
        self._saved.value = ""
        self._draw()
        if self._was_clicked and self._runner.seconds < FOCUS_SECONDS:
            self._scope.focus(self._runner.result_line)
        self._was_clicked = False
        self._settled()

    def _changed(self) -> None:
        self._was_changed = True
        if self._code.value:
            self._code.value, self._copied.outputs = self.code, ()

    def _draw(self) -> None:
        code = (self._code, self._copied) if self._code.value else ()
        can_save = self._assign is not None and not self._run.disabled and self._runner.result is not None
        self.widget.children = (*self._top, *code, *((self._saving,) if can_save else ()), self._runner.widget)

    def _copy_code(self) -> None:
        self._code.value = self.code
        self._draw()
        self._copied.outputs = (_copying(self.code),)

    def _save(self) -> None:
        name = self.name_field.value.strip()
        if not name.isidentifier() or keyword.iskeyword(name):
            self._saved.value = problem_markup("A variable's name has letters, digits and _, such as forecast_1.")
        elif self._assign is not None:
            self._assign(name, self._runner.result)
            self._saved.value = note_markup(f"{name} is the result now.")

    @property
    def code(self) -> str:
        """The equivalent line of code; variables stand for secrets."""
        return self._code_for(self.form.draft)

    def _code_for(self, arguments: Mapping[str, Any]) -> str:
        shown = hidden_arguments(arguments, self._request.tool)
        secret = [name for name in arguments if shown[name] != arguments[name]]
        try:
            return self._request.line({name: value for name, value in arguments.items() if name not in secret}, secret)
        except MCPMagicError as error:
            return f"# {error}"

    # Text for readers without widgets

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        data = bundle(self._parts())
        if not self._closed:
            data |= widget_view(self.widget)
        return only(data, include, exclude)

    def _ipython_display_(self) -> None:
        if self.publish is None:
            raise NotImplementedError  # IPython displays the mimebundle then
        self._published = True
        self.publish(self._repr_mimebundle_(), False)

    def _settled(self) -> None:
        """Replace the HTML and text, because there is an outcome."""
        if self.publish is not None and self._published:
            self.publish(self._repr_mimebundle_(), True)

    def _parts(self) -> list[Part]:
        what = f"form of {one_line(self.name, 200)}"
        outcome = self._runner.outcome or "not run yet"
        sent = self._sent if self._sent is not None else self.form.draft
        line = shorten(self._code_for(sent), 2000)
        shown = hidden_arguments(sent, self._request.tool)
        rows = [(one_line(name, 60), shorten(write_json(value, None), 300)) for name, value in shown.items()]
        table = facts(rows) if rows else note("no arguments")
        html = joined([tag("p", joined([tag("b", what), f" — {outcome}"])), table, details("code", preformatted(line))])
        if self._sent is None:
            unread = (dict, list) if self.form.problems else ()  # incomplete ones are taken from the example
            typed = {name: value for name, value in sent.items() if not isinstance(value, unread)}
            example = (valid_example(self.form.schema) or {}) | typed
            is_example = not argument_problems(example, self.form.schema)
            line = f"this form needs widgets; `%mcp tool {one_line(self.name, 200)}` has its arguments"
            if is_example:
                code = shorten(self._code_for(example), 2000)
                line = f"this form needs widgets; a line that does the same, for example:\n{code}"
        parts = [Part(f"{what} — {outcome}\n{line}", html)]
        if self._runner.result is not None:
            parts += self._runner.result.parts()
        elif self.error is not None and str(self.error):
            text = shorten(f"{type(self.error).__name__}: {self.error}", 2000)
            parts.append(Part(text, tag("p", error_label(text))))
        return parts

    def __repr__(self) -> str:
        state = "running" if self.running else self._runner.outcome or "not run yet"
        return f"<{type(self).__name__} {one_line(self.name, 100)}: {state}>"
