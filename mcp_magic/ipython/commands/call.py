"""`%mcp call`, `jobs`, `read`, `prompt`, `raw`, `assert` and `last`: requests and their answers."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import duration, plural
from mcp_magic.calls.call import Call
from mcp_magic.config.parsing import LARGEST_DATA, parse_json, read_text
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.flight.request import Answerers, Limits
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import (
    ONE_TOOL,
    TIMEOUTS,
    Argument,
    Implementation,
    Invocation,
    Tab,
    timeouts,
    variable_typed,
)
from mcp_magic.ipython.views import Views
from mcp_magic.results.reasons import last_failure
from mcp_magic.schema.commandline import CELL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    import pandas as pd
    from mcp_types import Tool

    from mcp_magic.jobs import Job
    from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult


# Calls, resources and prompts.


async def _call(invocation: Invocation, arguments: argparse.Namespace) -> ToolResult | pd.DataFrame | Job:
    if arguments.background and arguments.df:
        raise CommandError("%mcp call: --df is for a result, and --background returns a job: (await job).df")
    connection, tool = await invocation.tool(arguments.tool, arguments.arguments)
    notes: list[str] = []
    values: dict[str, Any] = {}
    cell: str | None = None
    if invocation.body is not None:
        schema.check_text(invocation.body, "the cell")
        in_cell = any(word.partition("=")[2] == f"@{CELL}" for word in arguments.arguments)
        values = {} if in_cell else _read_body(invocation.body, tool)
        cell = invocation.body.removesuffix("\n")  # IPython adds a line end
    with connection.explain_misfits():
        values |= invocation.arguments(arguments.arguments, tool.input_schema, cell=cell, notes=notes)
    limits, answers = timeouts(invocation, arguments), None
    call = Call(connection, tool.name, values, limits=Limits(limits["timeout"], limits["max_total_timeout"]))
    if arguments.answers:
        from mcp_magic.ipython.ask import Answers

        answers = Answers.load(invocation.path(arguments.answers))
        call = replace(call, answerers=Answerers(answers.elicit, answers.sample))
    if arguments.background:
        call = replace(call, limits=replace(call.limits, timeout=arguments.timeout))
        value: ToolResult | pd.DataFrame | Job = await _start(invocation, call)
    else:
        result = await connection.caller.call(call)
        result = replace(result, readings="; ".join(notes)) if notes else result
        if answers is not None:
            answers.raise_for_problem()
        result.raise_for_error()
        value = result.df if arguments.df else result
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = value
    return value


def _read_body(body: str, tool: Tool) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        fields = sorted(schema.input_root(tool.input_schema).children, key=lambda field: not field.is_mandatory)
        names = [field.name for field in fields if field.kind == "string" and field.name.isidentifier()]
        argument = names[0] if names else "NAME"
        reason = f"the cell below %%mcp call is not JSON: {problem}; for its text as an argument write {argument}=@cell"
    else:
        if isinstance(value, dict):
            return value
        reason = f"the cell below %%mcp call must be a JSON object, not {type(value).__name__}"
    raise ArgumentsError(reason)


CALL = Implementation(
    _call,
    (
        *TIMEOUTS,
        ONE_TOOL,
        Argument("arguments", nargs="*", metavar="NAME=VALUE", help="see above"),
        Argument("--df", action="store_true", help="return the result's table as a DataFrame"),
        Argument("--answers", metavar="FILE", help="a JSON file with answers to the server's questions"),
        Argument("--background", action="store_true", help="return a job at once; `%%mcp jobs` lists them"),
        Argument(
            "-o",
            "--out",
            type=variable_typed,
            metavar="NAME",
            help="also keep the result, or the job, in this variable",
        ),
    ),
    examples=(
        "%mcp call math:add a=3 b=4",
        "job = %mcp call ci:build ref=main --background",
        "%mcp call weather:compare locations=London locations=Tokyo",
        "result = %mcp call weather:history location=London start=2026-01-01 end=2026-01-31",
        "%mcp call trips:plan --answers answers.json",
        "%mcp call store:insert rows=$df note={title.upper()} image=@photo.png",
        '%mcp call api:create user.name=Ada tags=["a", "b"]',
        "%%mcp call shop:query sql=@cell",
    ),
    details="""\
  name=value              text, converted to the type in the tool's schema
  name:=JSON              JSON, sent as it is
  name=$var, name={expr}  a Python object; a result stands for its value
  name=@file, name=@cell  the content of a file; the text of the cell below %%mcp call
  a.b=1, a=1 a=2          a value inside an object; a list
  $dict, {"a": 1}         all arguments, also as the cell below; names on the line override it
  \\$  \\{  \\@  \\"          a backslash keeps the character as text

A required argument that is left out gets the default of the schema. A DataFrame is sent as a list of records, or as \
rows below the names of its columns where the schema wants lists.

The result has .data (its JSON as Python values), .df (its table, or .frames for several), .text, .images and .audio. \
`r = %mcp call ...` keeps it; `r?` says more.

The file of --answers has a list of answers in order, or an object with an answer for each message. An answer is an \
object of values, "decline" or "cancel"; "accept" agrees to open a page. A list "sampling" in the object has the \
replies of a model.

With --background the value is a job: `await job` gives the result, `job.cancel()` ends it, `job.status` \
says how it is. Where the server makes a task of the call, the job outlives the session and the kernel \
(`%mcp jobs --resume`).""",
    takes_body=True,
)


async def _read(invocation: Invocation, arguments: argparse.Namespace) -> ResourceResult:
    uri = str(invocation.value(arguments.uri))
    server, refresh = arguments.server, arguments.refresh
    return await invocation.host.read(uri, server=server, refresh=refresh, **timeouts(invocation, arguments))


READ = Implementation(
    _read,
    (
        *TIMEOUTS,
        Argument("uri", metavar="URI", help="of a resource, or made from a template"),
        Argument("--server", metavar="SERVER", help="the server that has it, if several could"),
        Argument("--refresh", action="store_true", help="ask the server again, even if its last answer is kept"),
    ),
    examples=("%mcp read math://constants", "%mcp read file:///readme.md --server docs --timeout 10"),
    details=r"$name and {expression} stand for Python objects; a backslash in front ('\{name}') keeps them as text.",
)


async def _prompt(invocation: Invocation, arguments: argparse.Namespace) -> PromptResult:
    connection, prompt = await invocation.host.resolve(arguments.prompt, "prompts")
    values = schema.parse_prompt_arguments(arguments.arguments, prompt.arguments or (), evaluate=invocation.evaluate)
    return await connection.prompt(prompt.name, values, **timeouts(invocation, arguments))


PROMPT = Implementation(
    _prompt,
    (
        *TIMEOUTS,
        Argument("prompt", metavar="SERVER:PROMPT", help="you can leave out the server while the name is unique"),
        Argument(
            "arguments",
            nargs="*",
            metavar="NAME=VALUE",
            complete=completion.prompt_arguments,
            help="its arguments, as text",
        ),
    ),
    examples=("%mcp prompt weather:travel_advice city=London month=May",),
)


# Any request.


def _complete_method(tab: Tab) -> list[str]:
    from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS

    from mcp_magic.notebook import host

    connection = host.connections.get(tab.positional[0])
    if connection is None:
        return []
    methods = [*sorted(CLIENT_REQUESTS), *sorted(CLIENT_NOTIFICATIONS)]
    return completion.starting(tab, [method for method, version in methods if version == connection.protocol_version])


async def _raw(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Send the message; return the `result` of the answer unchanged."""
    connection = invocation.host[arguments.server]
    params = _params(invocation, arguments.params)
    if arguments.notify:
        await connection.notify(arguments.method, params)
        return None
    return await connection.request(arguments.method, params, **timeouts(invocation, arguments))


def _params(invocation: Invocation, word: str | None) -> dict[str, Any]:
    if word is not None and invocation.body and invocation.body.strip():
        raise ArgumentsError("%%mcp raw: the params are on the line and in the cell; give them once")
    text = word if word is not None else (invocation.body or "").strip() or "{}"
    problem = ""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ArgumentsError("%mcp raw: the params are nested too deeply") from None
    except ValueError as error:
        problem = f"%mcp raw: the params are not JSON: {error}"
        value = invocation.value(text) if word is not None else None
    if isinstance(value, dict):
        return value
    if not problem or value not in (None, text):
        kind = type(value).__name__
        problem = f'%mcp raw: the params must be a JSON object, for example {{"cursor": "x"}}, not {kind}'
    raise ArgumentsError(problem)


RAW = Implementation(
    _raw,
    (
        *TIMEOUTS,
        Argument("server", metavar="SERVER", help="a connected server"),
        Argument("method", metavar="METHOD", complete=_complete_method, help="for example tools/list"),
        Argument("params", nargs="?", metavar="JSON", help="the params: a JSON object, or $variable"),
        Argument("--notify", action="store_true", help="send a notification, which has no answer"),
    ),
    examples=(
        "%mcp raw weather tools/list",
        '%mcp raw math tools/call {"name": "add", "arguments": {"a": 1, "b": 2}}',
        '%mcp raw math notifications/cancelled {"requestId": 7} --notify',
    ),
    details="mcp_magic does not check the params. A tools/call goes through consent as your own call.",
    takes_body=True,
)


# Checks.

CHECKS = ("equals", "contains", "schema", "under", "error")
"""The options. A word of this name is not an argument, unless the tool lists it."""

OUTPUT = "output"  # what stands for the tool's own output schema


async def _check(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    from mcp_magic.results import results

    connection, tool = await invocation.tool(arguments.tool, arguments.arguments)
    _refuse_checks(arguments.arguments, tool, f"{connection.name}:{tool.name}")
    with connection.explain_misfits():
        values = invocation.arguments(arguments.arguments, tool.input_schema)
    output_schema = _schema(invocation, arguments.schema, tool.output_schema)
    result = await connection.call_tool(tool.name, values, timeout=invocation.settings.call_timeout)
    outcomes = [("no error", results.succeeds(result))]
    if arguments.error is not None:
        text = invocation.text(arguments.error)
        outcomes = [(f"error {text}".rstrip(), results.fails(result, text))]
    if arguments.equals is not None:
        outcomes.append(("equals", results.equals(result, _value(invocation, arguments.equals, result))))
    outcomes += [
        (f"contains {text!r}", results.contains(result, text)) for text in map(invocation.text, arguments.contains)
    ]
    if arguments.schema == OUTPUT:
        outcomes.append(("schema", result.unfit))
    elif output_schema is not None:
        outcomes.append(("schema", results.fits(result, output_schema)))
    if arguments.under is not None:
        outcomes.append((f"under {arguments.under:g} ms", results.within(result, arguments.under)))
    failures = [f"{name}: {problem}" for name, problem in outcomes if problem]
    if failures:
        raise results.CheckFailedError(f"{connection.name}:{tool.name}: " + "; ".join(failures), result)
    rows = [{"check": f"✓ {name}"} for name, _ in outcomes]
    return Listing(rows, title=f"{connection.name}:{tool.name}", columns=("check",), kind="checks")


def _refuse_checks(words: list[str], tool: Tool, name: str) -> None:
    """Refuse options typed as arguments, which would be sent and check nothing."""
    takes = {child.name for child in schema.input_root(tool.input_schema).children}
    for word, after in zip(words, [*words[1:], ""], strict=False):
        typed, _, value = ("==", "", word[2:]) if word.startswith("==") else word.partition("=")
        check = "equals" if typed == "==" else typed
        if check in CHECKS and check not in takes:
            text = value or ("" if "=" in word.removeprefix("==") + after else after)
            line = f"--{check} {shlex.quote(text)}" if text else f"--{check}"
            raise CommandError(f"%mcp assert: {typed!r} is not an argument of {name}; write {line}")


def _value(invocation: Invocation, word: str, result: ToolResult) -> Any:
    if result.data is not None:
        with suppress(ValueError, RecursionError):
            return json.loads(word)  # a JSON object has the braces of an expression
    return invocation.value(word)


def _schema(invocation: Invocation, word: str | None, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if word is None:
        return None
    if word == OUTPUT:
        if own is None:
            raise CommandError("%mcp assert: --schema output: the tool has no output schema.")
        return own
    value = invocation.value(word)
    if isinstance(value, dict):
        return value
    file = invocation.path(str(value))
    content = parse_json(read_text(file, LARGEST_DATA), source=str(file))
    if isinstance(content, dict):
        return content
    raise ArgumentsError(f"%mcp assert: --schema: {file} does not hold a JSON object")


ASSERT = Implementation(
    _check,
    (
        ONE_TOOL,
        Argument("arguments", nargs="*", metavar="NAME=VALUE", help="as for `%%mcp call`"),
        Argument("--equals", metavar="VALUE", help="the data equals this: JSON, text, or $variable"),
        Argument(
            "--contains", action="append", default=[], metavar="TEXT", help="the text contains this; can be repeated"
        ),
        Argument(
            "--schema", metavar="SCHEMA", help="the data fits this JSON Schema: a file, $variable, or `output`: its own"
        ),
        Argument("--under", type=float, metavar="MS", help="the call takes less than MS milliseconds"),
        Argument("--error", nargs="?", const="", metavar="TEXT", help="the tool reports an error that contains this"),
    ),
    examples=(
        "%mcp assert math:add a=3 b=4 --equals 7 --under 500",
        "%mcp assert weather:forecast location=London --contains London --schema output",
        "%mcp assert math:divide a=1 b=0 --error zero",
    ),
    details="Without options the tool must not report an error. A failed check raises an AssertionError with the "
    "difference, so Run All, papermill and nbval stop there.",
)


async def _last(invocation: Invocation, arguments: argparse.Namespace) -> Any:
    failure = last_failure()
    if failure is None:
        raise CommandError(
            "%mcp last: no server has answered with an error yet; a result without an error is the value of its call."
        )
    return failure


LAST = Implementation(
    _last,
    examples=("%mcp last", "result = %mcp last"),
    details="The error below a cell shows a few lines at most. This line returns the whole: the result of a tool that "
    "reported an error (`.text` is its text, `.data` its JSON; in Python it is `error.result`), or a request that the "
    "server refused (`.text` is the server's whole text; in Python it is `error.whole`).",
)


# Calls in the background.

INTERVAL, TICK = 0.1, 1.0  # least and most seconds between two updates of a job that is shown


async def _start(invocation: Invocation, call: Call) -> Job:
    """Start a call in the background, and show it."""
    if invocation.cells.kernel is None and not call.connection.makes_tasks:
        raise CommandError(
            f"%mcp call: {call.connection.name} makes no tasks, and in a terminal nothing runs between the commands; "
            "leave out --background"
        )
    return _show(invocation, await invocation.host.jobs.start(call))


def _show(invocation: Invocation, job: Job) -> Job:
    """Show a job below the cell, with a button until it ends, and the view of its result then.

    Where that is not possible, its value is shown.
    """
    where = invocation.cells.circumstances()
    has_view = job.result is not None and job.result.app is not None
    if not (where.widgets and where.allow_stdin) or (job.ended and not has_view):
        return job
    from mcp_magic.ipython.live import Button, LivePanel, LiveView, Row, shown_once

    views = Views(invocation.shell, invocation.cells)
    below = views.later() if views.can_show() else None

    def render() -> dict[int, dict[str, Any]]:
        app: Any = job.result.app if job.result is not None else None
        return {0: job.bundle()} | ({1: below.bundle(app)} if below is not None and app is not None else {})

    view = LiveView(render, interval=INTERVAL, tick=TICK, live=lambda: not job.ended)
    if job.ended:
        view.update()
    else:
        cancel = Button("Cancel", "times", f"Cancel {job.title[:80]}", job.cancel)
        view.use(LivePanel(lambda: {"job": Row(job.bundle()["text/html"]), "cancel": Row(buttons=(cancel,))}))
        view.request_update()
        job.watch(lambda: view.update() if job.ended else view.request_update())
    shown_once(invocation.shell, job)
    return job


async def _jobs(invocation: Invocation, arguments: argparse.Namespace) -> Job | Listing:
    jobs = invocation.host.jobs
    if arguments.job is not None:
        job = jobs[arguments.job]
        if not arguments.cancel:
            return _show(invocation, job)
        job.cancel()
        await job.wait()
        return job
    if arguments.cancel:
        raise CommandError("%mcp jobs: --cancel takes the number of a job: %mcp jobs 1 --cancel")
    notes = await jobs.resume() if arguments.resume else []
    if not arguments.resume and (count := jobs.unfollowed):
        notes = [f"{plural(count, 'tasks')} of an earlier kernel or session; `%mcp jobs --resume` takes up the rest"]
    rows = [
        {
            "job": job.number,
            "tool": job.title,
            "status": job.status.replace("_", " "),
            "time": duration(job.seconds),
            "message": job.message or None,
            "problem": None if job.error is None else one_line(str(job.error), 300),
        }
        for job in jobs
    ]
    columns = ("job", "tool", "status", "time", "message", "problem")
    empty = "no job was started: `%mcp call SERVER:TOOL ... --background` starts one"
    return Listing(rows, title="Jobs", columns=columns, empty=empty, note="\n".join(notes), kind="jobs")


def _numbers(tab: Tab) -> list[str]:
    from mcp_magic.notebook import host

    return completion.starting(tab, [str(job.number) for job in host.jobs])


JOBS = Implementation(
    _jobs,
    (
        Argument("job", nargs="?", type=int, metavar="JOB", complete=_numbers, help="the number of a job"),
        Argument("--cancel", action="store_true", help="cancel the job"),
        Argument("--resume", action="store_true", help="take up the tasks that servers still have"),
    ),
    examples=("%mcp jobs", "job = %mcp jobs 1", "%mcp jobs 1 --cancel", "%mcp jobs --resume"),
    details="`%mcp call SERVER:TOOL ... --background` starts a job, and `await job` waits for its result. Where the \
server makes a task of the call, the job outlives the session and the kernel: after a restart connect the server, then \
--resume follows the task again. Any other call ends with the session. A job has .status, .message, .result, .events \
and .cancel().",
)
