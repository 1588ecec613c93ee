"""The step connect for a command: start it, ask it, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.border_connect import NO_SERVER
from mcp_magic.core.doctor.process import GRACE_SECONDS, Patient
from mcp_magic.core.doctor.wire import Reply, discover, initialize
from mcp_magic.core.endpoints import ListensError, named_url, unless_listening
from mcp_magic.core.stderr import cause, not_passed_on
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_magic.config.specs import StdioSpec
    from mcp_magic.core.doctor.process import Ending
    from mcp_magic.core.doctor.report import Step

__all__ = ["begin_by_hand", "judge_closing", "judge_ending"]

SLOW_CLOSE_SECONDS = 2.0

DISCOVER_SECONDS = 10.0
"""Seconds after which a server that does not answer `server/discover` is asked in the older way, as the SDK does."""

SILENT_SECONDS = 3.0
"""The same for a server that has read it."""


async def begin_by_hand(patient: Patient, spec: StdioSpec, step: Step) -> tuple[Reply | None, Reply | None] | None:
    """Start a server and ask it for both beginnings of a session, the older one in a second process if need be.

    Returns:
        The answers to `server/discover` and to `initialize`, or None if there was no process to answer.
    """
    problem = ""
    try:
        await patient.start()
    except NotImplementedError:
        problem = "this event loop starts no processes, so it was not looked at by hand"
    except OSError as error:
        step.fail(f"it cannot be started: {error.strerror or error}", "is it executable, and made for this machine?")
        return None
    if problem:
        step.skip(problem)
        return None, None
    step.ok(f"process {patient.pid} started")
    first, second, elsewhere = Reply(), None, ""
    try:
        first, second = await unless_listening(_asked(patient, spec, step), patient.heard, patient.terminate)
    except ListensError as error:
        elsewhere = spec.masked(error.url)
    if elsewhere:
        todo = f"start it in a terminal, then type `%mcp doctor {elsewhere}`"
        step.fail(f"it speaks HTTP, at {elsewhere}, not over its input and output", todo)
        return None
    _judge_output(patient, step)
    if patient.code is not None and first.result is None and (second is None or second.result is None):
        _judge_exit(patient, spec, step)
        return None
    if first.message is None and (second is None or second.message is None):
        _silent(patient, spec, step)
        return None
    answered = first if first.message is not None or second is None else second
    step.ok(f"its first answer came after {duration(answered.seconds)}")
    return first, second or await _older_way(spec)


async def _asked(patient: Patient, spec: StdioSpec, step: Step) -> tuple[Reply, Reply | None]:
    """Ask for `server/discover`, and for `initialize` where that is refused."""
    first = await patient.ask_patiently(discover(), min(DISCOVER_SECONDS, spec.timeout), SILENT_SECONDS)
    if first.result is not None:
        return first, None
    if first.message is None:
        return first, await _started_again(patient, spec, step)
    patient.hide_noise()
    return first, await patient.ask(initialize(), spec.timeout)


async def _started_again(patient: Patient, spec: StdioSpec, step: Step) -> Reply:
    """Start a process again that did not answer `server/discover`, and ask it for `initialize`, as a session does."""
    how = "does not answer" if patient.code is None else f"ended {_how(patient.code)} at"
    await patient.put_down()
    await patient.start()
    reply = await patient.ask(initialize(), spec.timeout)
    if reply.message is not None:
        step.ok(f"it {how} server/discover; process {patient.pid} was started and asked for initialize")
    return reply


def _how(code: int) -> str:
    return f"with code {code}" if code >= 0 else f"by signal {-code}"


async def _older_way(spec: StdioSpec) -> Reply | None:
    """Ask a new process for `initialize`: one that was asked for `server/discover` keeps to that."""
    again = Patient(spec)
    try:
        await again.start()
        reply = await again.ask(initialize(), spec.timeout)
        await again.end()
    except OSError:
        return None
    finally:
        again.kill()  # nothing is left to kill unless this was interrupted
    return reply


def _judge_output(patient: Patient, step: Step) -> None:
    if patient.garbage:
        todo = "print to stderr: the standard output is for messages alone"
        step.warn(f"it writes to its output what is no message: {patient.garbage[0]!r}", todo)
    for line in cause(patient.stderr):
        step.ok(f"stderr: {line[:300]}")


def _judge_exit(patient: Patient, spec: StdioSpec, step: Step) -> None:
    code = patient.code or 0
    todo = "its stderr says why" if patient.stderr else "start it in a terminal and look at what it says"
    if code == 0 and not patient.stderr and not patient.garbage:
        todo = NO_SERVER
    if missing := not_passed_on(patient.stderr, spec.env, "doctor"):
        todo = "; ".join(missing)
    step.fail(f"it ended {_how(code)} before it answered", todo)


def _silent(patient: Patient, spec: StdioSpec, step: Step) -> None:
    waited = f"{spec.timeout:g} s"
    if patient.echoes:
        step.fail("it sends back what it is sent", "this is no MCP server (a shell, cat, a terminal?)")
    elif patient.garbage:
        step.fail(f"it answers neither server/discover nor initialize in {waited}", "is this command an MCP server?")
    else:
        todo = "does it wait for something? --timeout S waits longer; does it speak stdio, or open a port?"
        if url := named_url(patient.heard()):
            todo = f"it seems to listen at a URL instead of speaking stdio: `%mcp doctor {url}`"
        step.fail(f"it runs, and answers nothing in {waited}", todo)


def judge_ending(ending: Ending, step: Step) -> None:
    """Note how a process ended."""
    if ending.how == "by itself":
        code = "" if ending.code == 0 else f" with code {ending.code}"
        step.ok(f"the process ended{code} {duration(ending.seconds)} after the end of its input")
    else:
        waited = f"within {GRACE_SECONDS:g} s of the end of its input"
        step.warn(f"the process did not end {waited}; it took {ending.how}", "end when the standard input ends")
    if ending.children:
        step.warn("it leaves processes behind that it started", "end them when it ends")


def judge_closing(seconds: float, step: Step) -> None:
    """Note how long the end of a session took."""
    said = f"the session ended in {duration(seconds)}"
    if seconds > SLOW_CLOSE_SECONDS:
        step.warn(said, "a server should end when its client leaves")
    else:
        step.ok(said)
