"""The server that the proxy is itself while no kernel serves: it has one tool, which says what to do."""

from __future__ import annotations

from mcp_magic import __version__
from mcp_magic.outside.choice import FIND_KERNELS
from mcp_magic.outside.messages import META, Message, answer, failure, params_of
from mcp_magic.outside.runtime import KERNEL

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
"""Protocol versions, as in `mcp_types.version`, which takes too long to import."""

LISTS = ("tools", "resources", "prompts")

_EMPTY = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}

_CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": False},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""Those of a kernel: a client asks once, and a kernel may come later."""

_TOOL = {
    "name": FIND_KERNELS,
    "title": "Find kernels",
    "description": "Says which Jupyter kernels of the person can be used, and uses one. No kernel is in use now.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "use": {
                "type": "string",
                "description": "notebook, id or port of the kernel to use from now on",
            }
        },
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


def fallback_answer(request: Message, why_none: str) -> Message:
    """Answer a request while there is no kernel; `why_none` says why."""
    method, params = request["method"], params_of(request)
    about = {"name": KERNEL[0], "title": KERNEL[1], "version": __version__}
    more = {"capabilities": _CAPABILITIES, "instructions": why_none}
    if method == "initialize":
        version = params.get("protocolVersion")
        version = version if version in HANDSHAKES else HANDSHAKES[-1]
        return answer(request, {"protocolVersion": version, "serverInfo": about, **more})
    if method == "server/discover":
        return answer(request, {"supportedVersions": [*MODERN], "_meta": {f"{META}serverInfo": about}, **more})
    if method == "tools/list":
        return answer(request, {"tools": [_TOOL]})
    if method in _EMPTY:
        return answer(request, {_EMPTY[method]: []})
    if method == "completion/complete":
        return answer(request, {"completion": {"values": []}})
    if method in ("ping", "logging/setLevel"):
        return answer(request, {})
    return failure(request, why_none)
