"""The two messages by which a session may begin, as they go over the wire, and what an answer to them says.

Sources: specification 2026-07-28, "Discovery"; specification 2025-11-25, "Lifecycle".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.core.faults import of_code
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.core.doctor.report import Step

__all__ = ["Reply", "discover", "initialize", "initialized", "is_message", "judge_eras"]


@dataclass
class Reply:
    """What came back for a request.

    Attributes:
        message: The JSON-RPC answer, or None.
        seconds: The time until it came.
        failure: Why there is none, in words: `"no answer in 5 s"`.
        garbage: What came instead and is no message.
        status: The HTTP status, or None.
        headers: HTTP headers, names in lower case.
        body: The beginning of the HTTP body.
    """

    message: dict[str, Any] | None = None
    seconds: float = 0.0
    failure: str = ""
    garbage: list[str] = field(default_factory=list)
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def result(self) -> dict[str, Any] | None:
        """The result, if it is one."""
        found = (self.message or {}).get("result")
        return found if isinstance(found, dict) else None

    @property
    def error(self) -> dict[str, Any] | None:
        """The JSON-RPC error, if it is one."""
        found = (self.message or {}).get("error")
        return found if isinstance(found, dict) else None


def _client() -> dict[str, str]:
    from mcp_magic import __version__

    return {"name": "mcp_magic doctor", "version": __version__}


def discover(number: int = 1) -> dict[str, Any]:
    """Return a `server/discover` request of the newest protocol version."""
    from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
    from mcp_types.version import LATEST_MODERN_VERSION

    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: _client(),
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    return {"jsonrpc": "2.0", "id": number, "method": "server/discover", "params": {"_meta": meta}}


def initialize(number: int = 2) -> dict[str, Any]:
    """Return an `initialize` request of the newest handshake version."""
    from mcp_types.version import LATEST_HANDSHAKE_VERSION

    params = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _client()}
    return {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}


def initialized() -> dict[str, Any]:
    """Return the notification that ends the handshake."""
    return {"jsonrpc": "2.0", "method": "notifications/initialized"}


def is_message(text: str | bytes, number: int | None = None) -> dict[str, Any] | None:
    """Return a JSON-RPC message, or None; with a number only the answer with that id, or an error without one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    if number is None:
        return value
    answers = "result" in value or "error" in value
    return value if answers and (value.get("id") == number or ("error" in value and value.get("id") is None)) else None


def judge_eras(step: Step, discovered: Reply | None, initialized: Reply | None) -> bool:
    """Note which ways of beginning a session the server takes.

    Args:
        step: The handshake.
        discovered: The answer to `server/discover`, or None if it was not asked.
        initialized: The answer to `initialize`, or None if it was not asked.

    Returns:
        Whether one of them works.
    """
    modern = _discovered(step, discovered) if discovered is not None else False
    legacy = _initialized(step, initialized, modern=modern) if initialized is not None else False
    return modern or legacy


def _discovered(step: Step, reply: Reply) -> bool:
    took = duration(reply.seconds)
    versions = (reply.result or {}).get("supportedVersions")
    if isinstance(versions, list) and versions:
        named = ", ".join(str(version)[:20] for version in versions[:8])
        step.ok(f"server/discover: answered in {took}; it takes {named}")
        return True
    if reply.result is not None:
        todo = "supportedVersions must name the protocol versions that it takes"
        step.warn(f"server/discover: answered in {took}, without supportedVersions", todo)
        return False
    step.ok(f"server/discover: {refused(reply)}: a server of the handshake era")
    return False


def _initialized(step: Step, reply: Reply, *, modern: bool) -> bool:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    took = duration(reply.seconds)
    version = (reply.result or {}).get("protocolVersion")
    if isinstance(version, str) and version in HANDSHAKE_PROTOCOL_VERSIONS:
        step.ok(f"initialize: answered in {took} with protocol {version}")
        return True
    if version is not None:
        step.fail(f"initialize: answered in {took} with protocol {str(version)[:40]!r}, which is none that is known")
    elif modern:
        step.ok(f"initialize: {refused(reply)}: hosts that do not speak 2026-07-28 cannot use it")
    else:
        step.fail(f"initialize: {refused(reply)}", "it must answer server/discover or initialize")
    return False


def refused(reply: Reply) -> str:
    """Return why a request has no result, in words."""
    if reply.error is not None:
        code = reply.error.get("code")
        said = str(reply.error.get("message") or "")[:120]
        return f"refused, {said} ({code}, {of_code(code).meaning})"
    if reply.status is not None and reply.status >= 400:
        return f"HTTP {reply.status}"
    return reply.failure or "its answer is no JSON-RPC"
