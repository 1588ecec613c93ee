"""A stdio server that dies, waits, talks and says who it is; of the standard library, so that it starts at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.plain import Call, Plain, Refused

server = Plain("plain", *sys.argv[1:2])
cancelled: list[Call] = []


@server.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.tool
def process() -> int:
    """Say which process this is."""
    return os.getpid()


@server.tool
def where() -> str:
    """Say where it runs, and which token it was given."""
    return f"{Path.cwd()} {os.environ.get('PLAIN_TOKEN')}"


@server.tool
def die(message: str = "dying as asked") -> None:
    """End at once."""
    print(message, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool
def slow(call: Call) -> str:
    """Report once, and wait until it is cancelled."""
    call.progress(0)
    call.cancelled.wait()
    cancelled.append(call)
    return "never"


@server.tool
def cancellations() -> int:
    """Count the calls of `slow` that were cancelled."""
    return len(cancelled)


@server.tool
def noise() -> str:
    """Write what is no message to stdout."""
    os.write(1, b"plain text \xff\xfe\n")
    return "hi"


@server.tool
def echo(text: str) -> str:
    """Repeat."""
    return text


@server.tool
def log(call: Call, text: str, level: str = "error") -> str:
    """Log."""
    call.log(level, text)
    return "logged"


@server.tool
def level() -> str:
    """Say which level of logging was set."""
    return server.level


@server.tool
def work(call: Call, text: str) -> str:
    """Report how far it is."""
    call.progress(1, 2, text)
    return "done"


@server.tool
def burst(call: Call, count: int) -> str:
    """Report as fast as it goes."""
    for step in range(count):
        call.progress(step + 1, count)
    return "done"


@server.tool
def stderr(text: str) -> str:
    """Write to stderr."""
    print(text, file=sys.stderr, flush=True)
    return "written"


@server.tool
def meta(call: Call) -> str:
    """Return the trace context that came with the call, or nothing."""
    return str(call.meta.get("traceparent", ""))


@server.tool
def fail(text: str) -> str:
    """Report an error that repeats an argument."""
    raise ValueError(f"cannot do {text}")


@server.tool
def refuse(text: str) -> str:
    """Answer with a JSON-RPC error that repeats an argument."""
    raise Refused(-32602, f"no good: {text}")


if __name__ == "__main__":
    server.run()
