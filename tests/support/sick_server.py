"""A stdio server of the handshake era that says what it is told to: `python sick_server.py '{"tools/list": ...}'`.

Each method has its result, `{"error": code}` or a whole error, or a list of pages of which each is answered to its
cursor. Settings: `_capabilities`, `_version`, `_banner` (a line before all), `_stays` (ignores the end of its input and
SIGTERM), `_child` (leaves a process behind), `_hangs` (methods that it never answers), `_otherwise` (what it says to
all other methods).
"""

import json
import signal
import subprocess
import sys

told = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
if "_banner" in told:
    print(told["_banner"], flush=True)
if told.get("_stays"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if told.get("_child"):
    subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def answer(method: str, params: dict) -> dict:
    said = told.get(method)
    if method == "initialize" and said is None:
        version = told.get("_version") or params["protocolVersion"]
        capabilities = told.get("_capabilities", {"tools": {}})
        info = {"name": "sick", "version": "1"}
        return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
    if method == "ping" and said is None:
        return {"result": {}}
    said = said or told.get("_otherwise")
    if isinstance(said, list):
        page = int(params.get("cursor") or 0)
        return {"result": said[page]}
    if said is not None and isinstance(said.get("error"), dict):
        return said
    if said is None or "error" in said:
        code = -32601 if said is None else said["error"]
        return {"error": {"code": code, "message": "Method not found" if said is None else "I am ill"}}
    return {"result": said}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and message["method"] not in told.get("_hangs", ()):
        reply = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
while told.get("_stays"):
    signal.pause()
