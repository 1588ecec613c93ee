"""What would make the first call slow, done while a server connects."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from mcp_magic.schema.check import check_arguments

__all__ = ["build_models", "quiet_sdk_logging"]

_ANY: dict[str, Any] = {"type": "object"}


def build_models(protocol: str) -> None:
    """Have pydantic build the models of a call in a protocol version, and import what checks its arguments.

    The SDK defers the models to their first use.
    """
    from mcp_types import CallToolRequest, CallToolRequestParams
    from mcp_types.methods import validate_server_result

    check_arguments({}, _ANY)
    CallToolRequest(params=CallToolRequestParams(name="", arguments={})).model_dump(by_alias=True)
    with suppress(ValueError, KeyError):  # a version that wants more in a result, or that this SDK does not know
        validate_server_result("tools/call", protocol, {"content": []})


_NOISE = {"mcp.client": logging.CRITICAL, "client": logging.CRITICAL, "httpx2": logging.WARNING}
"""Logger -> the level from which it may speak in a notebook. What the client's records say is in our errors,
and httpx2 tells of every request."""


def quiet_sdk_logging() -> None:
    """Keep the SDK's log records off the notebook, unless somebody has set a level for them.

    Without a handler Python prints them to stderr, below whatever cell runs; with one they are printed
    as well: an `MCPServer` that is made in a cell configures the root logger.
    """
    for name, level in _NOISE.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
