"""The inputs that there are: importing this fills the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.widgets import inputs_object, inputs_union
from mcp_magic.widgets.inputs import Place, fallback

if TYPE_CHECKING:
    from mcp_magic.schema import Field
    from mcp_magic.widgets.inputs import Input
    from mcp_magic.widgets.shop import Shop

__all__ = ["root_input"]


def root_input(field: Field, shop: Shop) -> Input:
    """Return the input of a whole object; a schema that describes no object is edited as JSON."""
    place = Place(shop.part(), required=True)
    if field.kind in ("object", "any") and inputs_object.ObjectInput.draws(field):
        return inputs_object.ObjectInput(field, place)
    if field.kind == "union" and any(variant.kind == "object" for variant in field.variants):
        return inputs_union.UnionInput(field, place)
    return fallback()(field, place)
