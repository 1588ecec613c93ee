"""Short ways to write JSON Schemas."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NULL: dict[str, Any] = {"type": "null"}
DRAFT7 = "http://json-schema.org/draft-07/schema#"


def of(*required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def listed(items: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


def either(*schemas: Any) -> dict[str, Any]:
    """Return the schema of what fits any of these."""
    return {"anyOf": list(schemas)}
