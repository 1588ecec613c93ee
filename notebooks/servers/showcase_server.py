"""One of everything that an MCP server can offer, to look at and to test hosts with.

Run `python showcase_server.py` for stdio, `--transport http` or `--transport sse` for the others. Each
module in the folder `showcase` has one subject; importing it puts its tools on the server.
"""

from serving import parser, serve
from showcase import changing, content, failures, hints, hostile, process, prompts, resources, schemas, tables, waiting
from showcase.app import server

__all__ = [
    "changing",
    "content",
    "failures",
    "hints",
    "hostile",
    "process",
    "prompts",
    "resources",
    "schemas",
    "server",
    "tables",
    "waiting",
]

if __name__ == "__main__":
    process.add()
    serve(server, parser(__doc__ or "", ("stdio", "http", "sse")).parse_args())
