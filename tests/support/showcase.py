"""A server in this process with every kind of answer, and what it answers over a real session."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from mcp import Client
from mcp.server.mcpserver import Image, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from mcp_magic.results import PromptResult, ResourceResult, ToolResult


def png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def text_result(*texts: str, **more: Any) -> ToolResult:
    """A tool's answer made of text blocks."""
    return ToolResult(CallToolResult(content=[TextContent(text=text) for text in texts], **more))


def bundle(value: Any) -> dict[str, str]:
    made: dict[str, str] = value._repr_mimebundle_()
    return made


def showcase() -> MCPServer:
    """Return the server."""
    server = MCPServer("showcase")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def cities() -> list[dict[str, Any]]:
        return [{"city": "Paris", "degrees": 21.5}, {"city": "Oslo", "degrees": None}]

    @server.tool()
    def no_cities() -> list[dict[str, Any]]:
        return []

    @server.tool()
    def csv() -> str:
        return "city,degrees\nParis,21\nOslo,7\n"

    _add_content(server)
    _add_resources(server)
    return server


def _add_content(server: MCPServer) -> None:
    @server.tool()
    def pixel() -> Image:
        return Image(data=png(), format="png")

    @server.tool()
    def fails() -> CallToolResult:
        return CallToolResult(content=[TextContent(text="no such city: <Atlantis>")], is_error=True)

    @server.tool()
    def mixed() -> CallToolResult:
        return CallToolResult(
            content=[
                TextContent(text="a text"),
                ImageContent(data=b64(png()), mime_type="image/png"),
                AudioContent(data=b64(b"RIFF"), mime_type="audio/wav"),
                ResourceLink(name="notes", uri="file:///a b.txt", mime_type="text/plain", size=1200),
                EmbeddedResource(
                    resource=TextResourceContents(uri="demo://table.csv", mime_type="text/csv", text="a,b\n1,x\n")
                ),
                EmbeddedResource(
                    resource=BlobResourceContents(uri="demo://blob", mime_type="image/png", blob=b64(png()))
                ),
            ]
        )


def _add_resources(server: MCPServer) -> None:
    @server.resource("demo://table", mime_type="text/csv")
    def table() -> str:
        return "city,degrees\nParis,21\n"

    @server.resource("demo://settings", mime_type="application/json")
    def settings() -> str:
        return '{"depth": {"max": 3}}'

    @server.resource("demo://readme", mime_type="text/markdown")
    def readme() -> str:
        return "# Read <b>me</b>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"

    @server.resource("demo://pixel.png", mime_type="image/png")
    def pixel_file() -> bytes:
        return png()

    @server.prompt(description="Asks for a review")
    def review(code: str) -> str:
        return f"Review this:\n{code}"


async def called(tool: str, **arguments: Any) -> ToolResult:
    """Call a tool as the core layer does."""
    async with Client(showcase()) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        raw = await client.call_tool(tool, arguments)
    assert isinstance(raw, CallToolResult)
    return ToolResult(raw, server="showcase", tool=tool, seconds=0.1, output_schema=schemas[tool])


async def read(uri: str) -> ResourceResult:
    async with Client(showcase()) as client:
        return ResourceResult(await client.read_resource(uri), server="showcase", uri=uri)


async def prompted(**arguments: str) -> PromptResult:
    async with Client(showcase()) as client:
        raw = await client.get_prompt("review", arguments)
    return PromptResult(raw, server="showcase", prompt="review", arguments=arguments)
