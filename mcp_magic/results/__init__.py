"""Values that display themselves: what tools, resources and prompts answered, and listings.

Importing this costs nothing but the standard library; pandas, the SDK and LangChain are imported by the
attributes that need them.
"""

from __future__ import annotations

from .badges import Badge, tool_badges
from .card import ToolCard
from .content import CONTENT, Content, message_block, register
from .limits import Display, display
from .listing import Listing
from .media import Media
from .prompt import PromptResult
from .resource import ResourceResult
from .tool import ToolResult

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
