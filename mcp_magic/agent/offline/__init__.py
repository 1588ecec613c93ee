"""A chat model without weights, so that tutorials run without a key: `model` talks, `calls` finds what to call."""

from __future__ import annotations

from mcp_magic.agent.offline.model import OfflineModel

__all__ = ["OfflineModel"]
