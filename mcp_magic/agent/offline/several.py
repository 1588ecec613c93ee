"""One clause that asks for the same of several: "the weather in Oslo and Rome", "factorial of 5 and 6"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.fitting import fit
from mcp_magic.agent.offline.matching import joined
from mcp_magic.agent.offline.purposes import purpose

if TYPE_CHECKING:
    from mcp_magic.agent.offline.choosing import Choice
    from mcp_magic.agent.offline.filling import Filling
    from mcp_magic.agent.offline.mentions import Mention
    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

LEAST = 2.0
"""How well a further value must suit (see `fitting`), unless it is a number."""

__all__ = ["rows", "several"]

MOST = 10
"""Calls that one clause makes at most."""


def several(choice: Choice) -> list[dict[str, Any]]:
    """Return the arguments of each call that a clause asks for; mostly of one.

    What is left over, and stands in a row with the value of one argument, is the value of a further call.
    """
    arguments = choice.filling.arguments
    for name, row in rows(choice.clause.text, choice.tool, choice.filling).items():
        values = [arguments[name], *(value for value, _ in row if value != arguments[name])]
        return [{**arguments, name: value} for value in values[:MOST]]
    return [dict(arguments)]


def rows(text: str, tool: Known, filling: Filling) -> dict[str, list[tuple[Any, Mention]]]:
    """Return by argument what is left over and stands in a row with its value."""
    found = {field.name: _row(text, filling, field) for field in tool.fields if field.name in filling.places}
    return {name: row for name, row in found.items() if row}


def _row(text: str, filling: Filling, field: Field) -> list[tuple[Any, Mention]]:
    at = filling.places[field.name]
    row = []
    for mention in sorted(filling.left, key=lambda mention: mention.start):
        if mention.start < at[1]:
            continue
        if not joined(text[at[1] : mention.start]):
            break
        fitted = fit(mention, field, text[mention.end :])
        if fitted is not None and (purpose(field) == "number" or fitted[1] >= LEAST):
            row.append((fitted[0], mention))
            at = (mention.start, mention.end)
    return row
