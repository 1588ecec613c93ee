"""Tools that return each type of content block (specification, "Tools", "Tool Result")."""

import base64
from typing import Annotated

from jpeg import jpeg
from mcp.server.mcpserver import Audio, Image
from mcp_types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from media import pdf, png, sunset, svg, wav
from pydantic import BaseModel, Field

from showcase.app import READS, server

Pixels = Annotated[int, Field(description="Pixels", ge=1, le=1000)]


def base64_text(data: bytes) -> str:
    """Encode bytes as blocks carry them."""
    return base64.b64encode(data).decode("ascii")


@server.tool(annotations=READS, structured_output=False)
def one_text(text: Annotated[str, Field(description="What to answer")] = "Hello!") -> str:
    """Return one text block."""
    return text


@server.tool(annotations=READS, structured_output=False)
def several_texts(texts: Annotated[list[str], Field(description="One block each")]) -> list[str]:
    """Return a text block for each text given."""
    return texts


@server.tool(annotations=READS)
def no_content() -> CallToolResult:
    """Return no block at all."""
    return CallToolResult(content=[])


@server.tool(annotations=READS)
def image_png(width: Pixels = 120, height: Pixels = 80) -> Image:
    """Return a PNG image."""
    return Image(data=png(width, height, sunset(width, height)), format="png")


@server.tool(annotations=READS)
def image_jpeg(columns: Annotated[int, Field(description="Tiles of 8 pixels", ge=1, le=100)] = 15) -> Image:
    """Return a JPEG image, two tiles of its height for three of its width."""
    rows = max(1, columns * 2 // 3)
    return Image(data=jpeg(columns, rows, sunset(columns, rows)), format="jpeg")


@server.tool(annotations=READS)
def image_svg(width: Pixels = 120, height: Pixels = 80) -> Image:
    """Return an SVG image."""
    return Image(data=svg(width, height).encode(), format="svg+xml")


@server.tool(annotations=READS)
def audio_wav(
    frequency: Annotated[float, Field(description="Hertz", ge=20, le=4000)] = 440.0,
    seconds: Annotated[float, Field(gt=0, le=10)] = 0.5,
) -> Audio:
    """Return a tone as WAV audio."""
    return Audio(data=wav(frequency, seconds), format="wav")


@server.tool(annotations=READS)
def embedded_text() -> EmbeddedResource:
    """Return a Markdown document as an embedded resource."""
    text = "# A document\n\nIt *came with* the result.\n"
    return EmbeddedResource(
        resource=TextResourceContents(uri="showcase://embedded/document.md", mime_type="text/markdown", text=text)
    )


@server.tool(annotations=READS)
def embedded_binary() -> EmbeddedResource:
    """Return a PDF as an embedded resource."""
    blob = base64_text(pdf("This came with the result"))
    return EmbeddedResource(
        resource=BlobResourceContents(uri="showcase://embedded/page.pdf", mime_type="application/pdf", blob=blob)
    )


@server.tool(annotations=READS)
def resource_links() -> list[ResourceLink]:
    """Return links to resources that this server has, and to one in the web."""
    return [
        ResourceLink(uri="showcase://table.csv", name="table", title="A table", mime_type="text/csv"),
        ResourceLink(uri="showcase://picture.png", name="picture", mime_type="image/png", size=1234),
        ResourceLink(uri="https://modelcontextprotocol.io", name="web", description="Not a resource of this server"),
    ]


class Reading(BaseModel):
    """A measurement."""

    sensor: str
    celsius: float = Field(description="Degrees Celsius")
    ok: bool


@server.tool(annotations=READS)
def structured() -> Reading:
    """Return structured content that its output schema describes, and the same as text."""
    return Reading(sensor="kitchen", celsius=21.5, ok=True)


@server.tool(annotations=READS)
def structured_only() -> CallToolResult:
    """Return structured content without any block and without an output schema."""
    return CallToolResult(content=[], structured_content={"sensor": "kitchen", "celsius": 21.5, "ok": True})


@server.tool(annotations=READS)
def with_meta() -> CallToolResult:
    """Return a result and a block that carry `_meta`."""
    block = TextContent(text="see _meta", _meta={"example.com/block": 1})
    return CallToolResult(content=[block], _meta={"example.com/trace": "abc-123"})


@server.tool(annotations=READS)
def annotated_content() -> list[TextContent]:
    """Return text for the person and text for the model, with priorities."""
    person = Annotations(audience=["user"], priority=1.0, last_modified="2026-01-31T12:00:00Z")
    model = Annotations(audience=["assistant"], priority=0.2)
    return [
        TextContent(text="For the person who reads this.", annotations=person),
        TextContent(text="For the model.", annotations=model),
    ]


@server.tool(annotations=READS)
def mixed() -> CallToolResult:
    """Return every type of block in one result, and structured content."""
    note = TextResourceContents(uri="showcase://embedded/note.txt", mime_type="text/plain", text="A note.")
    return CallToolResult(
        content=[
            TextContent(text="first"),
            ImageContent(data=base64_text(png(24, 16, sunset(24, 16))), mime_type="image/png"),
            AudioContent(data=base64_text(wav(seconds=0.1)), mime_type="audio/wav"),
            EmbeddedResource(resource=note),
            ResourceLink(uri="showcase://table.csv", name="table", mime_type="text/csv"),
            TextContent(text="last"),
        ],
        structured_content={"blocks": 6},
    )
