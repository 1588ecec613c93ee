"""Images for models: which of them every provider takes, decided from their bytes without an imaging library.

A provider that cannot read one image refuses the whole conversation.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic.display.document import size_text
from mcp_magic.errors import InvalidResponseError
from mcp_magic.results.content import image_size, image_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.results.content import Media

IMAGE_BYTES = 3_700_000  # most bytes of one image: Anthropic takes 5 MB of base64, others more

IMAGE_PIXELS = 8_000  # most pixels of one side: Anthropic's limit, and the lowest


class ModelImage(NamedTuple):
    """An image as a model gets it."""

    mime_type: str
    base64: str


def model_image(media: Media) -> ModelImage | str:
    """Return an image with the type that its bytes have, or why a provider would refuse it."""
    if media.size > IMAGE_BYTES:
        return f"larger than {size_text(IMAGE_BYTES)}"
    try:
        data = media.bytes
    except InvalidResponseError:
        return "it is not base64"
    kind = image_type(data)
    if kind is None or kind not in _ENDS:
        return f"models take no {kind}" if kind else "its bytes are no image"
    wide, high = image_size(data)
    if not (wide and high and _ENDS[kind](data)):
        return "it is damaged"
    if max(wide, high) > IMAGE_PIXELS:
        return f"{wide:,} x {high:,} pixels, more than {IMAGE_PIXELS:,} on a side"
    return ModelImage(kind, base64.b64encode(data).decode("ascii"))


def _is_complete_png(data: bytes) -> bool:
    at = 8
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        end = at + 8 + length
        is_critical = kind[:1].isupper()  # a wrong checksum of another part, such as a colour profile, hurts nobody
        if is_critical and zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4]):
            return False
        if kind == b"IEND":
            return True
        at = end + 4
    return False


_ENDS: dict[str, Callable[[bytes], bool]] = {
    "image/png": _is_complete_png,
    # a thumbnail before the data has an end of its own
    "image/jpeg": lambda data: 0 < data.rfind(b"\xff\xda") < data.rfind(b"\xff\xd9"),
    "image/gif": lambda data: data.rstrip(b"\0").endswith(b";"),
    "image/webp": lambda data: int.from_bytes(data[4:8], "little") + 8 <= len(data),
}
"""Types of images that providers take -> whether the bytes are complete."""
