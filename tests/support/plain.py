"""A stdio server of the standard library, for tests of sessions: one of the SDK takes fifteen times as long to start.

A program has a folder of this checkout on its path, and says

    server = Plain("late")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    server.run()

Each call has a thread of its own. A tool that takes `call` can report, log and see that it is cancelled.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MODERN, HANDSHAKE = "2026-07-28", "2025-06-18"
TYPES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Call:
    """A call under way.

    Attributes:
        meta: What came with it.
        cancelled: Set when the client wants no answer any more.
    """

    def __init__(self, server: Plain, params: dict[str, Any]) -> None:
        self._server = server
        self.meta: dict[str, Any] = params.get("_meta") or {}
        self.cancelled = threading.Event()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report."""
        told = {"progressToken": self.meta["progressToken"], "progress": done, "total": total, "message": message}
        self._server.say(method="notifications/progress", params={k: v for k, v in told.items() if v is not None})

    def log(self, level: str, data: str) -> None:
        """Log."""
        self._server.say(method="notifications/message", params={"level": level, "data": data, "logger": "plain"})


class Refused(Exception):
    """A tool raises it to answer with an error of JSON-RPC: its code and its text."""


class Plain:
    """A server of one protocol era.

    Args:
        name: What it calls itself.
        version: The protocol version that it speaks.

    Attributes:
        level: The level of logging that it was told.
    """

    def __init__(self, name: str, version: str = MODERN) -> None:
        self._about = {"capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": name, "version": "1"}}
        self.level = ""
        self._version = version
        self._tools: dict[str, Callable[..., Any]] = {}
        self._calls: dict[Any, Call] = {}
        self._writing = threading.Lock()

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Offer a function as a tool."""
        self._tools[function.__name__] = function
        return function

    def say(self, **message: Any) -> None:
        """Send a message."""
        with self._writing:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def run(self) -> None:
        """Answer until the input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            params, number = message.get("params") or {}, message.get("id")
            if message.get("method") == "notifications/cancelled" and params.get("requestId") in self._calls:
                self._calls[params["requestId"]].cancelled.set()
            elif number is not None and message.get("method") == "tools/call":
                self._calls[number] = call = Call(self, params)
                threading.Thread(target=self._call, args=(number, call, params), daemon=True).start()
            elif number is not None and "method" in message:
                self.level = params.get("level", self.level)
                self._answer(number, message["method"])

    def _answer(self, number: Any, method: str) -> None:
        modern = self._version == MODERN
        tools = [described(function) for function in self._tools.values()]
        results: dict[str, Any] = {"ping": {}, "logging/setLevel": {}, "tools/list": {"tools": tools}}
        if modern:
            results["server/discover"] = {"supportedVersions": [MODERN], **self._about}
        else:
            results["initialize"] = {"protocolVersion": self._version, **self._about}
        if method in results:
            self.say(id=number, result={**(COMPLETE if modern else {}), **results[method]})
        else:
            self.say(id=number, error={"code": -32601, "message": f"Method not found: {method}"})

    def _call(self, number: Any, call: Call, params: dict[str, Any]) -> None:
        function = self._tools.get(params["name"])
        if function is None:
            self.say(id=number, error={"code": -32602, "message": f"Unknown tool: {params['name']}"})
            return
        arguments = dict(params.get("arguments") or {})
        if "call" in names(function):
            arguments["call"] = call
        try:
            value, failed = function(**arguments), False
        except Refused as error:
            self.say(id=number, error={"code": error.args[0], "message": error.args[1]})
            return
        except Exception as error:
            value, failed = str(error), True
        text = value if isinstance(value, str) else json.dumps(value)
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": failed}
        if not isinstance(value, str):
            result["structuredContent"] = {"result": value}
        if not call.cancelled.is_set():
            self.say(id=number, result={**({"resultType": "complete"} if self._version == MODERN else {}), **result})


def names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def described(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the definition of a tool."""
    own = [name for name in names(function) if name != "call"]
    kinds = {name: str(getattr(kind, "__name__", kind)) for name, kind in function.__annotations__.items()}
    properties = {name: {"type": TYPES[kinds[name]]} for name in own}
    required = own[: len(own) - len(function.__defaults__ or ())]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": function.__name__, "description": function.__doc__ or "", "inputSchema": schema}
