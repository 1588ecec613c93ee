"""A chat model without weights for tutorials without a key: `model` talks, `calls` finds the tools to call."""

from __future__ import annotations

from mcp_magic.agent.offline.model import OfflineModel

__all__ = ["OfflineModel"]
