"""A stdio server whose tools go wrong, each in a way of its own: `python rogue_server.py VERSION LOG`.

It writes the name of each call into LOG before anything else.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.speaking import answer_to, called, line

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION, LOG = (sys.argv[1], Path(sys.argv[2])) if __name__ == "__main__" else ("", Path())
FLOOD = 2_000
LONG = 20 * 2**20
"""Bytes of a long line."""


def command(version: str, log: Path) -> list[str]:
    """Return how the server is started; tests stop it and kill it, so no launcher stands for it."""
    return [os.environ.get("TEST_PYTHON", sys.executable), __file__, version, str(log)]


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def say(number: Any, **members: Any) -> None:
    write(line({"jsonrpc": "2.0", "id": number, **members}))


def right(number: Any, text: str = "right") -> None:
    write(line(called(number, VERSION, text)))


def notify(method: str, params: Any) -> bytes:
    return line({"jsonrpc": "2.0", "method": method, "params": params})


def many(data: bytes, number: Any) -> None:
    for _ in range(FLOOD // 100):
        write(data * 100)
    right(number)


def die() -> None:
    os._exit(3)


def half(number: Any) -> None:
    whole = line(called(number, VERSION))
    write(whole[: len(whole) // 2])


def last_words() -> None:
    sys.stderr.write("".join(f"Traceback line {n}\n" for n in range(5000)))
    sys.stderr.flush()


TOOLS: dict[str, Callable[[Any], Any]] = {
    "right": right,
    # it ends
    "die": lambda n: die(),
    "die_talking": lambda n: (last_words(), die()),
    "die_after": lambda n: (right(n), die()),
    "half_and_die": lambda n: (half(n), die()),
    "half_and_hang": lambda n: (half(n), signal.pause()),
    "close_stdout": lambda n: (os.close(1), signal.pause()),
    "hang": lambda n: signal.pause(),
    "silent": lambda n: None,
    # it writes what is no message, and then the answer
    "garbage": lambda n: (write(b"Loading model...\n{\n\x00\x01\x02\n[[[\n}\n\n\n"), right(n)),
    "bad_utf8_line": lambda n: (write(b"\xff\xfe\xc3(\n"), right(n)),
    "bad_utf8": lambda n: write(line(called(n, VERSION, "@")).replace(b"@", b"caf\xe9 \xff")),
    "scalars": lambda n: (write(b'null\n5\n"x"\ntrue\n'), right(n)),
    "nested": lambda n: (write(b"[" * 100_000 + b"]" * 100_000 + b"\n"), right(n)),
    "wrong_version": lambda n: (write(line({**called(n, VERSION, "old"), "jsonrpc": "1.0"})), right(n)),
    "long_garbage": lambda n: (write(b"x" * LONG + b"\n"), right(n)),
    "long": lambda n: right(n, "x" * LONG),
    # ids
    "wrong_id_first": lambda n: (right(987654), right("nobody"), right(None), right(n)),
    "wrong_id": lambda n: right(987654),
    "text_id": lambda n: right(str(n)),
    "twice": lambda n: (right(n), right(n, "second")),
    "marked_id": lambda n: right(f"#{n}"),
    "listed_id": lambda n: right([n]),
    "no_id": lambda n: write(line({**called(None, VERSION), "id": None})),
    "error_without_id": lambda n: say(None, error={"code": -32700, "message": "what?"}),
    "id_before": lambda n: right(n - 1),
    "old_id": lambda n: (right(n), right(1, "stolen"), right(2, "stolen")),
    # answers of the wrong shape
    "unknown_block": lambda n: say(n, result={"content": [{"type": "hologram", "data": 1}]}),
    "neither": say,
    "error_long": lambda n: say(n, error={"code": -32000, "message": "bad\n" * 10_000}),
    # floods
    "log_flood": lambda n: many(notify("notifications/message", {"level": "info", "data": "x" * 50}), n),
    "unknown_flood": lambda n: many(notify("notifications/whatever", {"a": 1}), n),
    "progress_flood": lambda n: many(notify("notifications/progress", {"progressToken": "?", "progress": 1}), n),
    "changed_flood": lambda n: many(notify("notifications/tools/list_changed", {}), n),
    "ping_flood": lambda n: many(line({"jsonrpc": "2.0", "id": "p", "method": "ping"}), n),
    "bad_notices": lambda n: (
        write(notify("notifications/message", 5) + notify("notifications/progress", {"progress": "much"})),
        right(n),
    ),
}


def main() -> None:
    """Serve until the end of the input."""
    for text in sys.stdin.buffer:
        message = json.loads(text)
        if message.get("method") != "tools/call":
            answer = answer_to(message, VERSION, list(TOOLS))
            if answer is not None:
                write(line(answer))
            continue
        name = message["params"]["name"]
        with LOG.open("a") as file:
            file.write(f"{name}\n")
        TOOLS[name](message["id"])


if __name__ == "__main__":
    main()
