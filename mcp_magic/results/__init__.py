"""Values that display themselves: results of tools, resources and prompts, and listings.

Importing this package imports only the standard library; attributes import pandas, the SDK and LangChain when they
need them.
"""

from __future__ import annotations

from mcp_magic.display.document import Badge, Display, display, tool_badges
from mcp_magic.display.listing import Listing
from mcp_magic.results.cards import ToolCard
from mcp_magic.results.content import CONTENT, Content, Media, message_block, register
from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult

__all__ = [
    "CONTENT",
    "Badge",
    "Content",
    "Display",
    "Listing",
    "Media",
    "PromptResult",
    "ResourceResult",
    "ToolCard",
    "ToolResult",
    "display",
    "message_block",
    "register",
    "tool_badges",
]
