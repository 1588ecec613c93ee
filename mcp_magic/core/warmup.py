"""What would make the first call slow, done while a server starts and lists its tools.

A call that is checked closely imports jsonschema. It is imported on a thread while the handshake is under way.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache

from mcp_magic.browser import IN_BROWSER
from mcp_magic.schema.validation import import_jsonschema

__all__ = ["build_models", "quiet_sdk_logging", "start_imports"]


def start_imports() -> asyncio.Future[None]:
    """Import what the first call needs, on a thread, and return a future for its end.

    The futures of all connections stand for the same imports; shield what you await, or a connect that
    is interrupted takes them away from the others.
    """
    return asyncio.wrap_future(_imports())


@cache
def _imports() -> Future[None]:
    if IN_BROWSER:  # no threads there
        _import()
        now: Future[None] = Future()
        now.set_result(None)
        return now
    # Not sys.modules: a module is in there from the beginning of its import.
    executor = ThreadPoolExecutor(1, thread_name_prefix="mcp_magic imports")
    done = executor.submit(_import)
    executor.shutdown(wait=False)  # the thread ends with its only task
    return done


def _import() -> None:
    import_jsonschema()
    importlib.import_module("referencing")
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema({"type": "object"})  # fills the caches of the metaschema


def build_models(protocol: str) -> None:
    """Have pydantic build the models of a call in a protocol version, which the SDK defers to their first use."""
    from mcp_types import CallToolRequest, CallToolRequestParams
    from mcp_types.methods import validate_server_result

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
