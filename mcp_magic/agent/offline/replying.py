"""Replies to what was asked back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.choosing import choose
from mcp_magic.agent.offline.filling import Clause, fill
from mcp_magic.agent.offline.tools import Known
from mcp_magic.agent.offline.words import VERBS, words
from mcp_magic.schema.coerce import UnfitText, from_text

if TYPE_CHECKING:
    from mcp_magic.agent.offline.conversation import Asked
    from mcp_magic.agent.offline.ranking import Ranking

__all__ = ["replied"]


def replied(reply: str, asked: Asked, ranking: Ranking) -> dict[str, Any] | None:
    """Return what a reply gives of the arguments that were asked for; None if it is a request of its own.

    An empty dict means that the reply says none of them.
    """
    tool = next((each for each in ranking.tools if each.name == asked.tool), None)
    if tool is None or _is_request(reply, ranking):
        return None
    wanted = [field for field in tool.fields if field.name in asked.wanted]
    schema = {
        **tool.schema,
        "properties": {field.name: field.raw for field in tool.fields if field.name not in asked.given},
        "required": [field.name for field in wanted],
    }
    # the words of the tool are no part of the reply, so it is filled as if it had none
    asking = Known(tool.name, "", "", "", "", schema)
    found = fill(Clause(reply, ranking.vocabulary.__contains__), asking).arguments
    if len(wanted) == 1 and wanted[0].name not in found:
        text = re.sub(r"[.\s]+$", "", reply.strip().strip("\"'`"))
        try:
            found = {wanted[0].name: from_text(text, wanted[0])}
        except UnfitText:
            return {}
    return found


def _is_request(reply: str, ranking: Ranking) -> bool:
    said = words(reply)
    begins = bool(said) and (said[0].low in VERBS or said[0].low.removesuffix("'s") in ("what", "how", "which", "who"))
    choice = choose(Clause(reply, ranking.vocabulary.__contains__), ranking) if begins else None
    return choice is not None and not choice.filling.missing
