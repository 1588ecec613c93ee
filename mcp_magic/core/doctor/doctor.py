"""The doctor: goes step by step until it finds out why a server does not work."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.core.doctor.examining import Examination, Stop
from mcp_magic.core.doctor.resolving import resolve
from mcp_magic.core.warmup import quiet_sdk_logging

if TYPE_CHECKING:
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.doctor.report import DoctorReport
    from mcp_magic.core.host import Host

__all__ = ["examine"]


async def examine(
    host: Host, target: Any, *, name: str | None = None, call: str | None = None, **options: Any
) -> DoctorReport:
    """Examine a server: resolve, connect, TLS, HTTP, handshake, version, capabilities, lists, schemas, ping, close.

    Args:
        host: Its rules hold, its trace has the messages. A session of that name is examined and left as it is;
            for all other targets one is opened, and ended afterwards.
        target: What `Host.connect` takes, or a `Connection`.
        name: What the session is called in the trace.
        call: A tool to call, "" for one that is read-only and needs nothing, None for none.
        **options: Those of `Host.connect`.

    Returns:
        What was found; a sick server raises nothing.
    """
    quiet_sdk_logging()
    known = _session(host, target)
    examination = Examination(host, call, name or (known.name if known is not None else _called(target)))
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


def _called(target: Any) -> str:
    from mcp_magic.config.masking import mask_arguments

    words = target if isinstance(target, list | tuple) else str(target).split()
    return " ".join(mask_arguments(tuple(str(word) for word in words)))[:100]
