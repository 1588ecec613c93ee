"""Images that are bombs, broken or something else: nothing decodes them here, and no page gets what it dies of."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zlib
from typing import Any

import pytest
from mcp_types import CallToolResult, ImageContent

from mcp_magic.langchain.content import to_content
from mcp_magic.results import ToolResult

SVG = (
    b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y SYSTEM "http://127.0.0.1:9/">'
    b']><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><image href="http://127.0.0.1:9/x.png"/>'
    b'<foreignObject><iframe src="http://127.0.0.1:9/"/></foreignObject><text>&x;&y;</text></svg>'
)
FRAME = b"\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00"
GIF = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff" + FRAME * 90_000 + b";"


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def png(side: int, data: bytes = b"") -> bytes:
    """Return a grey square whose packed pixels are these."""
    head = side.to_bytes(4) * 2 + b"\x08\x00\x00\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def result(data: bytes | str, mime: str) -> ToolResult:
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return ToolResult(CallToolResult(content=[ImageContent(data=text, mime_type=mime)]), server="s", tool="t")


def bundle(shown: ToolResult) -> dict[str, Any]:
    return shown._repr_mimebundle_()  # type: ignore[return-value]


BOMB = png(50_000, zlib.compress(bytes(1_000_000)))
HUGE = [
    pytest.param(BOMB, "image/png", id="png"),
    pytest.param(BOMB, "image/jpeg", id="png under another name"),
    pytest.param(b"GIF89a\xff\xff\xff\xff" + GIF[10:100], "image/gif", id="gif"),
    pytest.param(b"RIFF\xff\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0" + b"\xff\xff\0" * 2 + b"ANIM", "image/webp", id="webp"),
    pytest.param(b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\xff\xff\xff\xff" + bytes(20), "image/jpeg", id="jpeg"),
]
UNREAD = [
    pytest.param(b"\0\0\1\0\1\0" + bytes(16) + BOMB, "image/x-icon", id="icon"),
    pytest.param(b"BM" + bytes(16) + (60_000).to_bytes(4, "little") * 2 + bytes(100), "image/bmp", id="bmp"),
    pytest.param(
        b"\0\0\0\x1cftypavif" + bytes(60) + b"ispe" + bytes(4) + (60_000).to_bytes(4) * 2, "image/avif", id="avif"
    ),
]


@pytest.mark.parametrize(("data", "mime"), UNREAD)
def test_an_image_whose_size_is_not_read_is_a_line(data, mime):
    shown = bundle(result(data, mime))
    assert f"[{mime}, " in shown["text/plain"]
    assert "data:" not in shown["text/html"]
    assert result(data, mime).images[0].bytes == data


@pytest.mark.parametrize(("data", "mime"), HUGE)
def test_an_image_of_too_many_pixels_is_a_line(data, mime):
    for text in (base64.b64encode(data).decode(), "\n" + base64.b64encode(data).decode()):
        shown = bundle(result(text, mime))
        assert set(shown) == {"text/plain", "text/html"}
        assert "pixels, too many to be shown: .image" in shown["text/plain"]
        assert "data:" not in shown["text/html"]
    assert result(data, mime).images[0].bytes == data


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        pytest.param(png(10), "image/png", id="no pixels"),
        pytest.param(BOMB[:20], "image/png", id="cut"),
        pytest.param(b"", "image/png", id="empty"),
        pytest.param(b"\xff\xd8\xff\xff\xff\xff" * 9, "image/jpeg", id="jpeg"),
        pytest.param(GIF, "image/gif", id="many frames"),
        pytest.param(SVG, "image/svg+xml", id="svg"),
        pytest.param(SVG, "image/png", id="svg as png"),
        pytest.param(b"<html><script>alert(1)</script>", "image/png", id="html"),
        pytest.param(SVG, 'image/png" onerror="alert(1)', id="attribute"),
        pytest.param(b"RIFF\xff\xff\xff\xffWEBPVP8 ", "image/webp", id="webp"),
    ],
)
def test_broken_image_is_never_markup(data, mime):
    shown = bundle(result(data, mime))
    assert "image/svg+xml" not in shown
    assert "<script" not in json.dumps(shown)
    assert "onerror" not in shown.get("text/html", "")
    content, _ = to_content(result(data, mime), images=True)
    assert len(json.dumps(content)) < 7_000_000


def test_100_mb_of_base64_stay_within_bounds():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from mcp_magic.errors import InvalidResponseError\n"
        "from tests.results.test_images import *\n"
        "for data in ('A' * 100_000_000, 'A\\n' * 20_000_000 + '<'):\n"
        "    made = result(data, 'image/png')\n"
        "    sizes = len(json.dumps(bundle(made))), len(json.dumps(to_content(made, images=True)[0]))\n"
        "    assert max(sizes) < 100_000, sizes\n"
        "    try: made.images[0].bytes\n"
        "    except InvalidResponseError: assert '<' in data\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.stdout == "done\n", done.stderr[-500:]
