"""What runs instead of Python where tests start servers: has a zygote fork them, and is their process to others.

A server of the SDK spends a second on imports before it reads its first message; the zygote (`zygote.py`) has made
them. This program passes its streams on, forwards its signals, and ends as the server ends. Everything that is no
script without options is run by Python itself. `forking.install_launcher` says where both are.
"""

import _socket
import array
import json
import os
import signal
import sys

HARMLESS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables that the zygote heeds; others are for Python's start."""


def is_script() -> bool:
    is_file = len(sys.argv) > 1 and sys.argv[1].endswith(".py") and os.path.isfile(sys.argv[1])  # noqa: PTH113
    return is_file and not any(name.startswith("PYTHON") and name not in HARMLESS for name in os.environ)


def ask(address: str) -> "_socket.socket":
    """Ask the zygote for a server that has our streams."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(address)
    streams = array.array("i", (0, 1, 2)).tobytes()
    connection.sendmsg([b" "], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    message = {"script": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109
    connection.sendall(json.dumps(message).encode() + b"\n")
    return connection


def read_number(connection: "_socket.socket") -> "int | None":
    """Read a number on a line; None at the end. A script that ends at once sends two together."""
    text = b""
    while not text.endswith(b"\n"):
        if not (byte := connection.recv(1)):
            return None
        text += byte
    return int(text)


def main(address: str) -> None:
    try:
        connection = ask(address)
    except OSError:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    pid = read_number(connection) or 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    code = read_number(connection)
    if code is None:  # whatever ended the zygote has ended the script
        code = -signal.SIGKILL
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    python, path = sys.argv.pop(1), sys.argv.pop(1)
    if is_script():
        main(path)
    os.execv(python, [python, *sys.argv[1:]])
