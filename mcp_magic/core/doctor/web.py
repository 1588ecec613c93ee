"""The step HTTP: what a URL answers, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic.browser import IN_BROWSER
from mcp_magic.config.masking import mask_url
from mcp_magic.core.doctor.challenge import read_challenge
from mcp_magic.core.doctor.network import is_local
from mcp_magic.core.faults import of_status, who
from mcp_magic.errors import AuthorizationError
from mcp_magic.results.safe import one_line
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.config.specs import HttpSpec
    from mcp_magic.core.doctor.http import HttpPatient
    from mcp_magic.core.doctor.report import Step
    from mcp_magic.core.doctor.wire import Reply

__all__ = ["look_at_http"]

_ELSEWHERE = ("/mcp", "/mcp/", "/sse")
_FOREIGN_PAGE = "http://a-page-somewhere.example"
_FINAL = (401, 403, 407, 408, 413, 429)
"""Statuses after which nothing else is worth a try; so are those from 500."""


async def look_at_http(spec: HttpSpec, patient: HttpPatient, step: Step) -> tuple[Reply, Reply] | None:
    """Ask by hand for both beginnings of a session.

    Returns:
        The answers to `server/discover` and to `initialize`, or None if this is no MCP endpoint.
    """
    _judge_scheme(spec, step)
    first = await patient.discover()
    _judge_redirects(spec, patient, step)
    if first.status is None:
        _unanswered(spec, first, step)
        return None
    let_in = await _let_in(spec, patient, first, patient.discover, step)
    if let_in is None or await _refused(spec, patient, let_in, step):
        return None
    first, second = let_in, await patient.initialize()
    if second.status == 401:  # a server of the older versions may not know `server/discover` to anybody
        let_in = await _let_in(spec, patient, second, patient.initialize, step)
        if let_in is None or await _refused(spec, patient, let_in, step):
            return None
        first, second = await patient.discover(), let_in
    answers = sorted((reply for reply in (first, second) if reply.message is not None), key=lambda r: r.result is None)
    spoken = answers[0] if answers else None
    if spoken is None:
        await _no_mcp(spec, patient, second if first.status == 404 else first, step)
        return None
    kind = spoken.headers.get("content-type", "").partition(";")[0] or "no content type"
    software = f", by {one_line(spoken.headers['server'], 60)}" if "server" in spoken.headers else ""
    step.ok(f"HTTP {spoken.status} with {kind} in {duration(spoken.seconds)}{software}")
    if patient.session:
        step.ok("it keeps sessions (Mcp-Session-Id)")
    await _judge_origin(spec, patient, step)
    return first, second


async def _let_in(
    spec: HttpSpec, patient: HttpPatient, reply: Reply, again: Callable[[], Awaitable[Reply]], step: Step
) -> Reply | None:
    """Get past a 401, if there is a way.

    Args:
        spec: Where the server is.
        patient: It.
        reply: What it answered.
        again: Asks the same, with a token; the first time that takes as long as the person does.
        step: Where it is noted.

    Returns:
        What it answers then, the same where there is no way, or None if it was tried in vain.

    Raises:
        AuthorizationError: The log-in failed.
    """
    entrance = patient.entrance
    if reply.status != 401 or entrance is None or entrance.open or not await entrance.try_it():
        return reply
    await read_challenge(reply, patient, spec.url, step, sent=False, last=False)
    refused = True
    try:
        refused = (await again()).status == 401
    except AuthorizationError:
        if entrance.asks:
            raise
    if not refused:
        step.ok(entrance.how)
        return await again()
    if entrance.asks:
        step.fail("HTTP 401: what the log-in gave is refused", "does it want other scopes? --scope")
    else:
        step.fail("HTTP 401: the token that is kept is refused", "`--login` logs in anew and goes on")
    return None


def _judge_scheme(spec: HttpSpec, step: Step) -> None:
    parts = urlsplit(spec.url)
    if parts.scheme != "http" or is_local(parts.hostname or ""):
        return
    what = "the credentials in its headers" if spec.secrets else "everything"
    step.warn(f"http:// without TLS: whoever is on the way reads {what}", "https://, if the server has it")


def _judge_redirects(spec: HttpSpec, patient: HttpPatient, step: Step) -> None:
    if not patient.redirects:
        return
    last = mask_url(patient.redirects[-1])
    same = urlsplit(patient.redirects[-1])[:2] == urlsplit(spec.url)[:2]
    says = "is followed" if same else "leads to another server, so it is not followed"
    step.warn(f"it redirects to {last}, which {says}", f"connect to {last}")


def _unanswered(spec: HttpSpec, reply: Reply, step: Step) -> None:
    if "no answer" in reply.failure:
        step.fail(
            f"it takes the request, and gives {reply.failure}", "look at the server's log; --timeout S waits longer"
        )
        return
    other = "https" if spec.url.startswith("http:") else "http"
    step.fail(f"it ends the connection: {reply.failure}", f"does it speak HTTP at all? try {other}://")


async def _refused(spec: HttpSpec, patient: HttpPatient, reply: Reply, step: Step) -> bool:
    """Note a status that says all there is to say; a JSON-RPC error under it is MCP, and no such."""
    status = reply.status or 0
    if status == 401:
        sent = any(name.lower() == "authorization" for name in spec.headers)
        await read_challenge(reply, patient, spec.url, step, sent=sent)
        return True
    if reply.message is not None or not (status in _FINAL or status >= 500):
        return False
    fault = of_status(status)
    later = (
        f"; it says to try again in {one_line(reply.headers['retry-after'], 40)} s"
        if "retry-after" in reply.headers
        else ""
    )
    body = one_line(reply.body, 120)
    said = f": {spec.masked(body)!r}" if body and "<" not in body else ""
    step.fail(f"HTTP {status} ({fault.meaning}; fault: {who(fault)}){said}{later}", fault.help)
    return True


async def _no_mcp(spec: HttpSpec, patient: HttpPatient, reply: Reply, step: Step) -> None:
    """Say what is there instead of an MCP endpoint, and look whether one is nearby."""
    kind = reply.headers.get("content-type", "").partition(";")[0] or "nothing"
    said = f"HTTP {reply.status} with {kind}, which is no MCP"
    page = await patient.get_at()
    if "event-stream" in page.headers.get("content-type", "") and "endpoint" in page.body:
        note = step.warn if spec.fallback else step.fail
        note(f"{said}; it is a server of the old HTTP+SSE transport", "--transport sse")
        return
    path = urlsplit(spec.url).path
    for other in _ELSEWHERE:
        if other.strip("/") != path.strip("/") and (await _speaks(patient, other)):
            step.fail(f"{said}; but {other} of the same server speaks it", f"connect to {other}")
            return
    todo = "mend the path (it often ends in /mcp); is this an MCP server?"
    step.fail(f"{said}: {spec.masked(one_line(reply.body, 100))!r}" if reply.body.strip() else said, todo)


async def _speaks(patient: HttpPatient, path: str) -> bool:
    if path == "/sse":
        found = await patient.get_at(path)
        return "event-stream" in found.headers.get("content-type", "")
    found = await patient.post_at(path)
    return found.message is not None or found.status == 401


async def _judge_origin(spec: HttpSpec, patient: HttpPatient, step: Step) -> None:
    """Note a server of this machine that any web page may use (specification, "Security Warning" of transports)."""
    if IN_BROWSER or not is_local(urlsplit(spec.url).hostname or ""):
        return  # a browser names the site of its own page
    reply = await patient.discover(origin=_FOREIGN_PAGE)
    if reply.status is not None and reply.status < 400 and reply.message is not None:
        todo = "it must check the Origin header, or any web page can call its tools (DNS rebinding)"
        step.warn("it answers a request that comes from a web page of another site", todo)
