"""A stdio server of the standard library that lists a tool, a prompt and a resource, and refuses all other requests.

`python refusing_server.py '{"code": -32603, "message": "..."}'` gives the error; `{"isError": "..."}` in its place is
the text of a tool that failed. Any further argument is a method that is refused too.
"""

import json
import sys

ERROR = json.loads(sys.argv[1])
REFUSED = sys.argv[2:]
ABOUT = {"capabilities": {name: {} for name in ("tools", "prompts", "resources", "completions")}}
LISTS = {
    "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "refusing", "version": "1"}, **ABOUT},
    "ping": {},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object", "properties": {"a": {}}}}]},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "resources/list": {"resources": [{"uri": "db://rows", "name": "rows"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


def answer(method: str) -> dict:
    """Return the members of an answer."""
    if method in REFUSED or method == "server/discover":
        return {"error": {"code": -32601, "message": "Method not found"} if method != "initialize" else ERROR}
    if method in LISTS:
        return {"result": LISTS[method]}
    if "isError" in ERROR:
        return {"result": {"content": [{"type": "text", "text": ERROR["isError"]}], "isError": True}}
    return {"error": ERROR}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message["method"])}), flush=True)
