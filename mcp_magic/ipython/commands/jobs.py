"""`%mcp jobs` and `%mcp call --background`: calls that go on in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration, plural
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab
from mcp_magic.ipython.views import Views

if TYPE_CHECKING:
    import argparse

    from mcp_magic.calls.call import Call
    from mcp_magic.jobs import Job

INTERVAL, TICK = 0.1, 1.0  # least and most seconds between two updates of a job that is shown


async def start(invocation: Invocation, call: Call) -> Job:
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
