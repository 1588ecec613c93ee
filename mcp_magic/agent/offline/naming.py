"""Which tool or server a request names outright."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.words import name_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_magic.agent.offline.phrases import Span
    from mcp_magic.agent.offline.tools import Known

__all__ = ["named_server", "named_tools"]

_DO = r"(?:call|use|run|invoke|execute|using|via|try|with|through)"
_QUOTE = "[\"'`]?"


def named_tools(text: str, tools: Sequence[Known]) -> tuple[list[Known], Span] | None:
    """Return the tools that a clause names, and where, or None; several if servers share the name.

    `server:tool` and the provider's name count anywhere; a name with an underscore, a dash or a digit, too; a plain
    word ("add") only where it is used as a name: "call add", "the add tool", `add`, "add(a=1)", "add a=1".
    """
    found: list[tuple[int, Known, Span]] = []
    low = re.sub(r"[\s_-]", "", text.lower())
    for tool in tools:
        if not all(part in low for part in name_words(tool.tool)):
            continue
        for rank, pattern in enumerate(_patterns(tool)):
            if match := pattern.search(text):
                found.append((rank, tool, match.span()))
                break
    if not found:
        return None
    best = min(rank for rank, _, _ in found)
    longest = max((span for rank, _, span in found if rank == best), key=lambda span: span[1] - span[0])
    return [tool for rank, tool, span in found if rank == best and span == longest], longest


def _patterns(tool: Known) -> list[re.Pattern[str]]:
    name = re.escape(tool.tool)
    full = "|".join(re.escape(each) for each in {f"{tool.server}:{tool.tool}", tool.name} if tool.server) or name
    lead = rf"(?:\b{_DO}\s+)?(?:\bthe\s+)?(?:\btool\s+)?"
    patterns = [rf"{lead}{_QUOTE}(?<![\w:-])(?:{full})(?![\w-]){_QUOTE}(?:\s+tool\b)?"]
    if re.search(r"[_\d-]|[a-z][A-Z]", tool.tool):
        patterns.append(rf"{lead}{_QUOTE}(?<![\w/.:-])(?i:{name})(?![\w/-]){_QUOTE}(?:\s+tool\b)?")
        if re.search(r"\d$", tool.tool):
            parts = [rf"0*{part}" if part.isdecimal() else re.escape(part) for part in name_words(tool.tool)]
            patterns.append(rf"(?:\b{_DO}\s+)?(?i:\b{r'[ _-]?'.join(parts)}\b)")
    else:
        patterns += [
            rf"`{name}`",
            rf"\b{_DO}\s+(?:the\s+)?(?:tool\s+)?{_QUOTE}(?i:{name})\b{_QUOTE}\s+tool\b"
            rf"|\b{_DO}\s+(?:the\s+)?tool\s+{_QUOTE}(?i:{name})\b{_QUOTE}",
            rf"(?:\bthe\s+)?{_QUOTE}(?<![\w-])(?i:{name}){_QUOTE}\s+tool\b|\btool\s+{_QUOTE}(?i:{name})\b{_QUOTE}",
            rf"(?i:^\s*{_DO}\s+(?:the\s+)?){_QUOTE}{name}\b{_QUOTE}",
            rf"^\s*{name}(?=\(|\s+[A-Za-z_][\w.]*\s*:?=)|^\s*{name}\s*$",
        ]
    return [re.compile(pattern) for pattern in patterns]


def named_server(text: str, servers: Iterable[str]) -> tuple[str, Span] | None:
    """Return the server that a clause names as one, and where.

    >>> named_server("With the math server, add 3 and 4", ["math", "time"])
    ('math', (0, 21))
    >>> named_server("what time is it", ["math", "time"]) is None
    True
    """
    for server in sorted(set(servers) - {""}, key=len, reverse=True):
        if server.lower() not in text.lower():
            continue
        name = rf"{_QUOTE}{re.escape(server)}{_QUOTE}"
        lead = r"(?i)(?:\b(?:on|with|using|via|from|by|in|use|ask)\s+)?(?:\bthe\s+)?(?<!\w)"
        pattern = rf"{lead}{name}(?:['\u2019]s)?\s+(?:mcp\s+)?server\b(?:\s+to\b)?,?"
        if match := re.search(pattern, text) or re.search(rf"(?i)\b(?:using|via)\s+{name}(?!\w)", text):
            return server, match.span()
    return None
