"""Resources of each kind, and templates of them."""

import json
import struct

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import Annotations
from media import pdf, png, sunset, svg, wav

from showcase.app import server
from showcase.tables import make_rows, separated

FRUIT = ("apple", "apricot", "banana", "blackberry", "cherry")
"""What the template showcase://fruit/{name} knows."""


@server.resource("showcase://text.txt", title="Plain text", mime_type="text/plain")
def text() -> str:
    """Some plain text."""
    return "Plain text.\nIn two lines.\n"


@server.resource("showcase://data.json", title="JSON", mime_type="application/json")
def data() -> dict[str, object]:
    """A JSON object; what is not text or bytes becomes JSON."""
    return {"name": "showcase", "parts": [1, 2, 3], "nested": {"yes": True, "nothing": None}}


@server.resource("showcase://rows.json", title="Rows of JSON", mime_type="application/json")
def rows() -> str:
    """A JSON array of objects."""
    return json.dumps(make_rows(10))


@server.resource("showcase://table.csv", title="A table", mime_type="text/csv")
def table() -> str:
    """A table as CSV."""
    return separated(make_rows(10))


@server.resource("showcase://notes.md", title="Markdown", mime_type="text/markdown")
def notes() -> str:
    """A Markdown document."""
    return "# Notes\n\n- one\n- two, with `code`\n"


@server.resource("showcase://page.html", title="HTML", mime_type="text/html")
def page() -> str:
    """An HTML page; a host must show it as text, or in a sandbox."""
    return "<!doctype html><title>Page</title><p>Hello <b>there</b><script>document.title = 'ran'</script>"


@server.resource("showcase://picture.png", title="PNG", mime_type="image/png")
def picture() -> bytes:
    """A PNG image."""
    return png(120, 80, sunset(120, 80))


@server.resource("showcase://drawing.svg", title="SVG", mime_type="image/svg+xml")
def drawing() -> str:
    """An SVG image, as text."""
    return svg(120, 80)


@server.resource("showcase://tone.wav", title="WAV", mime_type="audio/wav")
def tone() -> bytes:
    """A tone."""
    return wav()


@server.resource("showcase://page.pdf", title="PDF", mime_type="application/pdf")
def document() -> bytes:
    """A PDF document of one page."""
    return pdf()


@server.resource("showcase://data.bin", title="Binary", mime_type="application/octet-stream")
def binary() -> bytes:
    """Bytes that are nothing in particular: the numbers 0 to 255, big endian."""
    return struct.pack(">256I", *range(256))


@server.resource(
    "showcase://important.txt",
    title="Annotated",
    annotations=Annotations(audience=["user"], priority=1.0, last_modified="2026-01-31T12:00:00Z"),
)
def important() -> str:
    """Text that is annotated: for the person, of the highest priority."""
    return "Read me first.\n"


@server.resource("showcase://broken", title="Always fails")
def broken() -> str:
    """Fails whenever it is read."""
    raise ResourceError("This resource is always broken.")


@server.resource("showcase://fruit/{name}", title="A fruit", mime_type="application/json")
def fruit(name: str) -> dict[str, object]:
    """A fruit, as JSON; the name can be completed."""
    if name not in FRUIT:
        raise ResourceNotFoundError(f"There is no fruit {name!r}.")
    return {"name": name, "letters": len(name)}


@server.resource("showcase://files/{+path}", title="A file", mime_type="text/plain")
def file(path: str) -> str:
    """A file that only says its own path, which may have slashes."""
    return f"You asked for {path}\n"


@server.resource("showcase://search{?query,limit}", title="A search", mime_type="application/json")
def search(query: str = "", limit: str = "3") -> list[str]:
    """The fruit whose name holds the query, as JSON."""
    return [name for name in FRUIT if query in name][: int(limit) if limit.isdecimal() else 3]
