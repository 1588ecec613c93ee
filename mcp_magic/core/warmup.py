"""What would make the first call slow, done while a server starts and lists its tools.

The first call of a tool with an output schema imports jsonschema. It is imported on a thread while
the handshake is under way. Output schemas are compiled while the listings are fetched.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from mcp_magic.browser import IN_BROWSER
from mcp_magic.schema.validation import import_jsonschema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp.client.session import ClientSession
    from mcp_types import Tool

__all__ = ["build_models", "compile_outputs", "quiet_sdk_logging", "start_imports"]

COMPILE_SECONDS = 0.02
"""Seconds that a listing may spend on output schemas; one takes the SDK about a millisecond."""

COMPILE_NODES = 100
"""Objects and arrays of a schema that is compiled ahead; the time grows with them."""


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


async def compile_outputs(session: ClientSession, tools: Iterable[Tool]) -> None:
    """Have the SDK compile the output schemas of tools that it has just listed.

    It does so in the first call of each tool, and keeps the validators. Large schemas are left to that
    call, and so are those with references, which can make a validation endless.
    """
    from mcp_types import CallToolResult

    empty = CallToolResult(content=[], structured_content={})
    until = time.perf_counter() + COMPILE_SECONDS
    for tool in tools:
        if tool.output_schema is None or not _is_plain(tool.output_schema):
            continue
        if time.perf_counter() > until:
            return
        with suppress(Exception):  # that nothing does not fit is no matter, and a bad schema is the call's to report
            await session.validate_tool_result(tool.name, empty)
        await asyncio.sleep(0)


def _is_plain(schema: Any) -> bool:
    """Whether a schema is small and without references.

    >>> _is_plain({"properties": {"a": {"type": "integer"}}}), _is_plain({"allOf": [{"$ref": "#"}]})
    (True, False)
    """
    parts = [schema]
    for part in parts:  # which grows on the way
        if len(parts) > COMPILE_NODES or (isinstance(part, dict) and not part.keys().isdisjoint(_REFERENCES)):
            return False
        inner = part.values() if isinstance(part, dict) else part
        parts += [each for each in inner if isinstance(each, dict | list)]
    return True


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


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
