"""The doctor: goes step by step until it finds out why a server does not work."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.config.specs import InProcessSpec
from mcp_magic.core.cassette.deck import deck
from mcp_magic.core.doctor.examining import Examination, Stop
from mcp_magic.core.doctor.recorded import Recording
from mcp_magic.core.doctor.resolving import meant, resolve
from mcp_magic.core.warmup import quiet_sdk_logging
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.doctor.report import DoctorReport
    from mcp_magic.core.host import Host

__all__ = ["examine"]


async def examine(
    host: Host,
    target: Any,
    *,
    name: str | None = None,
    call: str | None = None,
    login: bool = False,
    **options: Any,
) -> DoctorReport:
    """Examine a server: resolve, connect, TLS, HTTP, handshake, version, capabilities, lists, schemas, ping, close.

    Args:
        host: Its rules hold, its trace has the messages. A session of that name is examined and left as it is;
            for all other targets one is opened, and ended afterwards.
        target: What `Host.connect` takes, or a `Connection`.
        name: What the session is called in the trace.
        call: A tool to call, "" for one that is read-only and needs nothing, None for none.
        login: Whether the person may be asked to log in; a token that is kept is used in any case.
        **options: Those of `Host.connect`.

    Returns:
        What was found; a sick server raises nothing. Where a cassette is replayed, what was found then.

    Raises:
        CassetteError: The cassette that is in has not examined this server.
    """
    quiet_sdk_logging()
    known = _session(host, target)
    if deck.cassette is None:
        return await _examine(host, known, target, name, call, login, options)
    titles, live = _called_by(known, target, name, options)
    recording = Recording(titles, _called(target), call)
    if not live and (kept := recording.replayed(host)) is not None:
        return kept
    with recording.examining():
        report = await _examine(host, known, target, name, call, login, options)
    return recording.keep(report)


async def _examine(
    host: Host,
    known: Connection | None,
    target: Any,
    name: str | None,
    call: str | None,
    login: bool,
    options: dict[str, Any],
) -> DoctorReport:
    title = name or (known.name if known is not None else _called(target))
    examination = Examination(host, call, title, login=login)
    with suppress(Stop):
        if known is not None and known.state == "open":
            with examination.step("resolve") as step:
                step.ok(f"the session {known.name!r}, {known.spec.transport}: {known.spec.where}")
            await examination.of_session(known)
            return examination.report()
        with examination.step("resolve") as step:
            if known is not None:
                step.warn(f"the session {known.name!r} is {known.state}", f"%mcp reconnect {known.name}")
            found = await resolve(known.spec if known is not None else target, options, step)
        if found is not None:
            spec, default = found
            examination.title = name or (known.name if known is not None else default)
            await examination.of_spec(spec, examination.title)
    return examination.report()


def _session(host: Host, target: Any) -> Connection | None:
    if isinstance(target, str):
        return host.connections.get(target)
    return next((known for known in host.connections.values() if known is target), None)


def _called_by(
    known: Connection | None, target: Any, name: str | None, options: dict[str, Any]
) -> tuple[list[str], bool]:
    """Return what a report will be called, and whether the server is looked at while others are replayed."""
    if known is not None and (known.state == "open" or not name):
        return [name or known.name], known.state == "open"
    try:
        spec, default = meant(target, options)
    except MCPMagicError:
        return [name or _called(target)], False
    assert deck.cassette is not None
    return [name or default], isinstance(spec, InProcessSpec) and deck.cassette.in_process == "live"


def _called(target: Any) -> str:
    from mcp_magic.config.masking import mask_arguments

    words = target if isinstance(target, list | tuple) else str(target).split()
    return " ".join(mask_arguments(tuple(str(word) for word in words)))[:100]
