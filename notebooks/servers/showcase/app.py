"""The showcase's server object, which every part decorates its functions with."""

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer(
    "showcase",
    title="Showcase",
    version="1.0.0",
    description="One of everything that a server can offer.",
    instructions="Shows every kind of content, schema, hint and failure. Nothing here does anything of use.",
    website_url="https://modelcontextprotocol.io",
    log_level="ERROR",
)

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
"""Hints of tools that change nothing."""
