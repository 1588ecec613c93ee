"""What the suite starts for each scenario: it hands all on to the process that has everything imported (warm.py).

Run with `python -I -S knock.py SOCKET URL`: it starts in a few hundredths of a second, the client itself takes
two seconds to be imported.
"""

import json
import os
import socket
import sys


def main(path: str, url: str) -> int:
    variables = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        request = json.dumps({"url": url, "environment": variables}).encode() + b"\n"
        socket.send_fds(door, [request[:1]], [1, 2])
        door.sendall(request[1:])
        answer = door.makefile().readline()
    return int(answer or 70)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
