"""Forms that send requests: call a tool, get a prompt, read a resource."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic._text import duration, is_identifier, join_names, sentence
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
from mcp_magic.flight.progress import Report, shown_reports
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
    Echo,
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
    from mcp_magic.results.results import ResourceResult, ToolResult
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

    def start(self, work: Work, on_end: Callable[[], None]) -> None:
        """Start a request, from any thread; it waits while the event loop is busy with a cell.

        `work` returns the awaitable of the request, given a callback for progress; `on_end` is called at its end.
        """
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self._is_scheduled = True
        self.loop.call_soon_threadsafe(self._start, work, on_end)

    def cancel(self) -> None:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)  # after a start that was scheduled before

    async def run(self, work: Work, on_end: Callable[[], None]) -> None:
        """Start a request and wait for its end. Cancelling this cancels the request."""
        self._start(work, on_end)
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait({self._task})
            raise

    def _start(self, work: Work, on_end: Callable[[], None]) -> None:
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
        self._task = loop.create_task(self._run(self._work, on_end))

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _run(self, work: asyncio.Future[Any], on_end: Callable[[], None]) -> None:
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
            on_end()

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
        send: Sends arguments, with a callback for progress; returns the result.
        line: Returns the equivalent line of code for arguments, and the names of secrets, each given by a variable.
    """

    connection: Connection
    definition: Definition
    verb: str  # the label of the Run button
    name: str  # the item as the user types it
    schema: Mapping[str, Any]  # the schema of the arguments
    heading: str  # name, title and description as markup
    send: Callable[[dict[str, Any], ProgressFnT], Awaitable[Any]]
    line: Callable[[Mapping[str, Any], Sequence[str]], str]
    reference: Any = None  # the item as `completion/complete` identifies it; None if the server completes nothing of it

    @property
    def tool(self) -> Tool | None:
        """The tool, whose schema marks secret arguments; without it only their names do."""
        from mcp_types import Tool

        return self.definition if isinstance(self.definition, Tool) else None


def _tool_request(connection: Connection, tool: Tool, timeout: float | None) -> Request:
    name = f"{connection.name}:{tool.name}"
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    badges = tool_badges(tool, trusted=connection.spec.trust)

    async def send(arguments: dict[str, Any], on_progress: ProgressFnT) -> ToolResult:
        result = await connection.call_tool(tool.name, arguments, timeout=timeout, on_progress=on_progress)
        return result.raise_for_error()

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        return line_or_comment(call_line(name, arguments, schema=tool.input_schema) + as_variables(secret))

    about = _heading(name, title, tool.description or "", badges)
    return Request(connection, tool, "Run", name, tool.input_schema, about, send, line)


def _prompt_request(connection: Connection, prompt: Prompt, timeout: float | None) -> Request:
    from mcp_types import PromptReference

    name = f"{connection.name}:{prompt.name}"

    about = _heading(name, prompt.title or "", prompt.description or "")
    reference = PromptReference(type="ref/prompt", name=prompt.name)
    return Request(
        connection,
        prompt,
        "Get",
        name,
        _with_completion(prompt_schema(prompt.arguments or ())),
        about,
        lambda arguments, on_progress: connection.prompt(prompt.name, arguments, timeout=timeout),
        lambda arguments, secret: line_or_comment(prompt_line(name, arguments) + as_variables(secret)),
        reference,
    )


def _template_request(connection: Connection, template: ResourceTemplate, timeout: float | None) -> Request:
    """Return the read of a resource, whose URI is expanded from the template's variables (RFC 6570)."""
    from mcp_types import ResourceTemplateReference

    name = template.uri_template
    parsed = _parsed(name)

    async def send(arguments: dict[str, Any], on_progress: ProgressFnT) -> ResourceResult:
        return await connection.read(parsed.expand(arguments), timeout=timeout)

    def line(arguments: Mapping[str, Any], secret: Sequence[str]) -> str:
        if secret:
            return f"# the URI holds a secret ({join_names(secret)}); `%mcp read` takes one that you write yourself"
        return read_line(parsed.expand(_texts(arguments)), connection.name)

    about = _heading(name, template.title or "", template.description or "")
    reference = ResourceTemplateReference(type="ref/resource", uri=name)
    schema = _with_completion(_variables_schema(parsed))
    return Request(connection, template, "Read", name, schema, about, send, line, reference)


def _resource_request(connection: Connection, resource: Resource, timeout: float | None) -> Request:
    uri = str(resource.uri)
    return Request(
        connection,
        resource,
        "Read",
        uri,
        prompt_schema(()),
        _heading(uri, resource.title or resource.name, resource.description or ""),
        lambda arguments, on_progress: connection.read(uri, timeout=timeout),
        lambda arguments, secret: read_line(uri, connection.name),
    )


def _heading(name: str, title: str, description: str, badges: Sequence[Badge] = ()) -> str:
    prose = Part.prose(shorten(description.strip(), 2000))
    return page([Part.stack(heading(name, title, badges), prose).html])


def _request(connection: Connection, definition: Definition, timeout: float | None) -> Request:
    from mcp_types import Prompt, Resource, Tool

    if isinstance(definition, Tool):
        return _tool_request(connection, definition, timeout)
    if isinstance(definition, Prompt):
        return _prompt_request(connection, definition, timeout)
    if isinstance(definition, Resource):
        return _resource_request(connection, definition, timeout)
    return _template_request(connection, definition, timeout)


def _with_completion(schema: dict[str, Any]) -> dict[str, Any]:
    """Mark the properties as completed by the server."""
    for field in schema["properties"].values():
        field[COMPLETES] = True
    return schema


def as_variables(names: Iterable[str]) -> str:
    """Return arguments for the end of a line, with a Python variable for each value."""
    text = ""
    for name in names:
        variable = re.sub(r"\W", "_", name)
        if not is_identifier(variable):
            variable = f"_{variable}"
        text += f" {shlex.quote(escape_name(name))}=${variable}"
    return text


def _parsed(template: str) -> UriTemplate:
    """Parse a URI template (RFC 6570), or raise ArgumentsError if it is invalid or the SDK does not support it."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate as error:
        problem = sentence(f"{template} cannot be filled in", str(error))
        raise ArgumentsError(f"{problem} `%mcp read URI` reads a URI that you type.") from None


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
    optional = {variable.name for variable in template.variables if variable.operator in ("?", "&")}
    properties: dict[str, Any] = {}
    for variable in template.variables:
        text = {"type": "string"} if variable.name in optional else {"type": "string", "minLength": 1}
        properties[variable.name] = {"type": "array", "items": text} if variable.explode else text
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


# Completion: asks the server when the user pauses, not at every keystroke.

PAUSE_SECONDS = 0.2  # length of such a pause; a keystroke takes about 0.15 s


class Completer:
    """Completes arguments of a prompt or resource template; `arguments` returns the present ones, for the server."""

    def __init__(
        self,
        connection: Connection,
        reference: Any,
        arguments: Callable[[], dict[str, Any]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._reference = reference
        self._arguments = arguments
        self._runner = LoopRunner(loop)
        self._tasks: dict[str, asyncio.Task[None] | None] = {}

    def ask(self, name: str, text: str, offer: Offer) -> None:
        """Request completions after a pause, unless the user types on; callable from any thread."""
        self._runner.soon(lambda: self._ask(name, text, offer))

    def close(self) -> None:
        self._runner.soon(self._runner.end)

    def _ask(self, name: str, text: str, offer: Offer) -> None:
        earlier = self._tasks.get(name)
        if earlier is not None:
            earlier.cancel()
        self._tasks[name] = self._runner.start(self._complete(name, text, offer))

    async def _complete(self, name: str, text: str, offer: Offer) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        context = {key: value for key, value in self._arguments().items() if key != name and isinstance(value, str)}
        try:
            values = await self._connection.complete(self._reference, name, text, context)
        except MCPMagicError:  # suggestions are optional: a failure is no error
            values = []
        offer(values)


# The form: the arguments, Run and Cancel, Copy as code, Save, and the outcome.


class RunButtons:
    """The buttons Run and Cancel, and other widgets beside them.

    Each request has its own Run button: clicks that arrive late, because a cell kept the kernel busy, belong to the
    request that the first of them started.
    """

    def __init__(
        self,
        scope: WidgetScope,
        echo: Echo,
        verb: str,
        run: Callable[[], None],
        cancel: Callable[[], None],
        others: Sequence[Any],
    ) -> None:
        self._scope, self._echo = scope, echo
        self._verb, self._start, self._stop = verb, run, cancel
        self.was_clicked = False
        self._old, self._new = WidgetScope(), scope.part()
        self.run = self._make_run()
        self.cancel = scope.button("Cancel", "tell the server to stop", self.stop, icon="stop", disabled=True)
        self.widget = scope.make(ipywidgets.HBox, "line", children=(self.run, self.cancel, *others))

    def _make_run(self) -> Any:
        return self._new.button(self._verb, "send the request", self.press, icon="play", button_style="primary")

    def press(self) -> None:
        """Do what a click on the present Run button does."""
        button = self.run

        def start() -> None:
            if button is self.run:
                self.was_clicked = True
                self._start()

        self._echo.then(start)

    def stop(self) -> None:
        self._echo.forget()  # a run that was clicked just before
        self._stop()

    def disable_run(self) -> None:
        """Show that a request is pending."""
        self._old.close()  # not earlier: a click on a closed widget is logged by the kernel as an error
        self.run.disabled, self.cancel.disabled = True, False

    def renew_run(self) -> None:
        """Show that the request has ended."""
        self._old, self._new = self._new, self._scope.part()
        self.run, self.cancel.disabled = self._make_run(), True
        self.widget.children = (self.run, *self.widget.children[1:])


class CodeLine:
    """A button that copies a line of code, and the line, which is shown from the first click on."""

    def __init__(self, scope: WidgetScope, code: Callable[[], str], on_show: Callable[[], None]) -> None:
        self._code, self._on_show = code, on_show
        self.button = scope.button(
            "Copy as code", "copy the line that does the same, and show it", self._copy, icon="copy"
        )
        self.field = scope.make(ipywidgets.Text, "wide", description="Code", tooltip="select and copy")
        self._output = scope.make(ipywidgets.Output)

    @property
    def widgets(self) -> tuple[Any, ...]:
        """The widgets of the line; () while it is not shown."""
        return (self.field, self._output) if self.field.value else ()

    def update(self) -> None:
        """Show the present code, if the line is shown."""
        if self.field.value:
            self.field.value, self._output.outputs = self._code(), ()

    def _copy(self) -> None:
        code = self.field.value = self._code()
        self._on_show()
        script = (
            "const say = text => { element.setAttribute('role', 'status'); element.textContent = text; };"
            f"(navigator.clipboard ? navigator.clipboard.writeText({json.dumps(code)}) : Promise.reject())"
            ".then(() => say('Copied.'), () => say('Select the line above and copy it.'));"
        )
        data = {"application/javascript": script, "text/plain": "Select the line above and copy it."}
        self._output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


class SaveLine:
    """A field and a button that assign the result to a variable of the notebook."""

    def __init__(self, scope: WidgetScope, echo: Echo, save: Callable[[str], None]) -> None:
        self._save = save
        name = "name of a variable"
        self.field = scope.make(ipywidgets.Text, "field", description="Save as", placeholder=name, tooltip=name)
        submit = partial(echo.then, self._submit)
        on_enter(self.field, submit)
        self.button = scope.button("Save", "assign the result to this variable", submit)
        self.note = scope.make(ipywidgets.HTML, "label")
        self.widget = scope.make(ipywidgets.HBox, "line", children=(self.field, self.button, self.note))

    def _submit(self) -> None:
        name = self.field.value.strip()
        if not is_identifier(name):
            self.note.value = problem_markup("A variable's name has letters, digits and _, such as forecast_1.")
        else:
            self._save(name)
            self.note.value = note_markup(f"{name} is the result now.")


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
        self._request = request = _request(connection, definition, timeout)
        self._scope = scope = WidgetScope()
        self._runner = Runner(scope, loop)
        self.publish: Publish | None = None
        self._is_published = self._is_edited = False
        self._arguments: dict[str, Any] | None = None  # of the last run
        completes = connection.capabilities is not None and connection.capabilities.completions is not None
        if request.reference is not None and self._runner.loop is not None and completes:
            completer = Completer(connection, request.reference, lambda: self.form.draft, self._runner.loop)
            scope.complete = completer.ask
            scope.adopt(completer)
        echo = scope.echo(self._runner.loop)
        self.form = Form(request.schema, scope=scope)
        self.form.on_change(self._edit)
        self.copy = CodeLine(scope, lambda: self.code, self._draw)
        self.save = SaveLine(scope, echo, lambda name: save(name, self._runner.result)) if save is not None else None
        fixed = not request.schema.get("properties", True)  # a resource, or a prompt without arguments
        others = (self.copy.button,) if fixed else (self.form.toggle, self.copy.button)
        self.buttons = RunButtons(scope, echo, request.verb, self.start, self._runner.cancel, others)
        self.form.on_enter(self.buttons.press)
        head = scope.make(ipywidgets.HTML, "label", value=f"{FORM_STYLE}{request.heading}")
        self._top = (head, *(() if fixed else (self.form.widget,)), self.buttons.widget)
        self.widget = scope.make(ipywidgets.VBox, "", children=(*self._top, self._runner.widget))

    @property
    def connection(self) -> Connection:
        """The connection that the request goes to."""
        return self._request.connection

    @property
    def definition(self) -> Definition:
        """The definition of the tool, prompt, resource or template."""
        return self._request.definition

    @property
    def name(self) -> str:
        """The item as the user types it."""
        return self._request.name

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
    def closed(self) -> bool:
        """Whether the widgets are closed."""
        return self.widget.comm is None

    @property
    def touched(self) -> bool:
        """Whether closing the form would lose anything: input, or an outcome."""
        return self._is_edited or self.running or self.result is not None or self.error is not None

    def set_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Fill in arguments, valid or not."""
        self._is_edited = True
        self.form.set_arguments(arguments)

    async def run(self) -> Any:
        """Do what the Run button does, wait, and return the result; None if it was cancelled.

        Raises:
            ArgumentsError, ToolError, SessionError: The arguments do not fit and were not sent, or the request failed.
        """
        await self._runner.run(self._begin(), self._end)
        error = self._runner.error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        return self.result

    def start(self) -> None:
        """Do what the Run button does, and do not wait."""
        if not self.running and self.form.submit():
            self._runner.start(self._begin(), self._end)

    def cancel(self) -> None:
        """Do what the Cancel button does."""
        self.buttons.stop()

    def close(self) -> None:
        """Close all widgets, and cancel a pending request. The outcome stays as text."""
        if not self.closed:
            self.cancel()
            self._scope.close()
            self._publish_outcome()

    def _begin(self) -> Work:
        """Return what sends the present arguments, and show that the request is pending."""
        arguments = self._arguments = self.form.arguments
        self.buttons.disable_run()
        self._draw()
        return partial(self._request.send, arguments)

    def _end(self) -> None:
        if self.closed:
            return
        self.buttons.renew_run()
        if self.save is not None:
            self.save.note.value = ""
        self._draw()
        if self.buttons.was_clicked and self._runner.seconds < FOCUS_SECONDS:
            self._scope.focus(self._runner.result_line)
        self.buttons.was_clicked = False
        self._publish_outcome()

    def _edit(self) -> None:
        self._is_edited = True
        self.copy.update()

    def _draw(self) -> None:
        can_save = self.save is not None and not self.buttons.run.disabled and self._runner.result is not None
        saving = (self.save.widget,) if self.save is not None and can_save else ()
        self.widget.children = (*self._top, *self.copy.widgets, *saving, self._runner.widget)

    @property
    def code(self) -> str:
        """The equivalent line of code; variables stand for secrets."""
        return self._code_for(self.form.draft)

    def _code_for(self, arguments: Mapping[str, Any]) -> str:
        masked = hidden_arguments(arguments, self._request.tool)
        secret = [name for name in arguments if masked[name] != arguments[name]]
        try:
            return self._request.line({name: value for name, value in arguments.items() if name not in secret}, secret)
        except MCPMagicError as error:
            return f"# {error}"

    # Text for readers without widgets

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        data = bundle(self._parts())
        if not self.closed:
            data |= widget_view(self.widget)
        return only(data, include, exclude)

    def _ipython_display_(self) -> None:
        if self.publish is None:
            raise NotImplementedError  # IPython displays the mimebundle then
        self._is_published = True
        self.publish(self._repr_mimebundle_(), False)

    def _publish_outcome(self) -> None:
        """Replace the HTML and text."""
        if self.publish is not None and self._is_published:
            self.publish(self._repr_mimebundle_(), True)

    def _parts(self) -> list[Part]:
        title = f"form of {one_line(self.name, 200)}"
        outcome = self._runner.outcome or "not run yet"
        arguments = self._arguments if self._arguments is not None else self.form.draft
        line = shorten(self._code_for(arguments), 2000)
        masked = hidden_arguments(arguments, self._request.tool)
        rows = [(one_line(name, 60), shorten(write_json(value, None), 300)) for name, value in masked.items()]
        table = facts(rows) if rows else note("no arguments")
        html = joined(
            [tag("p", joined([tag("b", title), f" — {outcome}"])), table, details("code", preformatted(line))]
        )
        if self._arguments is None:
            unread = (dict, list) if self.form.problems else ()  # incomplete ones are taken from the example
            typed = {name: value for name, value in arguments.items() if not isinstance(value, unread)}
            example = (valid_example(self.form.schema) or {}) | typed
            line = f"this form needs widgets; `%mcp tool {one_line(self.name, 200)}` has its arguments"
            if not argument_problems(example, self.form.schema):
                code = shorten(self._code_for(example), 2000)
                line = f"this form needs widgets; a line that does the same, for example:\n{code}"
        parts = [Part(f"{title} — {outcome}\n{line}", html)]
        if self._runner.result is not None:
            parts += self._runner.result.parts()
        elif self.error is not None and str(self.error):
            text = shorten(f"{type(self.error).__name__}: {self.error}", 2000)
            parts.append(Part(text, tag("p", error_label(text))))
        return parts

    def __repr__(self) -> str:
        state = "running" if self.running else self._runner.outcome or "not run yet"
        return f"<{type(self).__name__} {one_line(self.name, 100)}: {state}>"
