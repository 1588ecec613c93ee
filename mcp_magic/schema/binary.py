"""Bytes and pictures as base64, where a schema asks for it."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from mcp_magic.schema.fields import Field

__all__ = ["base64_text", "encoded", "picture"]


def base64_text(data: bytes, field: Field) -> str:
    """Return bytes in the alphabet that the schema names (RFC 4648, section 4 or 5)."""
    schemas = [field.schema, *(variant.schema for variant in field.variants)]
    url_safe = any("base64url" in (schema.get("contentEncoding"), schema.get("format")) for schema in schemas)
    return (base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)).decode("ascii")


def encoded(data: bytes, field: Field, path: str, what: str) -> str:
    """Return the base64 of bytes.

    Raises:
        ArgumentsError: The schema does not say that it wants base64.
    """
    if field.is_base64:
        return base64_text(data, field)
    instead = "decode it first" if what == "bytes" else "give its bytes another way"
    raise ArgumentsError(
        f"{path}: expected {field.type_text}, got {what}, and the schema does not ask for base64; {instead}, "
        "or give base64.b64encode(data).decode() if the tool means that"
    )


def picture(value: Any, field: Field) -> bytes | None:
    """Return a picture's file: of a matplotlib figure, a PIL image or whatever shows itself as PNG; else None."""
    library = type(value).__module__.partition(".")[0]
    buffer = io.BytesIO()
    if callable(getattr(type(value), "savefig", None)):
        value.savefig(buffer, format="png")
        return buffer.getvalue()
    if library == "PIL" and callable(getattr(type(value), "save", None)):
        value.save(buffer, format="JPEG" if field.schema.get("contentMediaType") == "image/jpeg" else "PNG")
        return buffer.getvalue()
    if callable(getattr(type(value), "_repr_png_", None)):
        data = value._repr_png_()
        return data if isinstance(data, bytes) else None
    return None
