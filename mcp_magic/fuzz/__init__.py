"""Fuzzing: calls of a tool with values that its schema allows and such as it does not, and what they show."""

from __future__ import annotations

from mcp_magic.fuzz.judge import check_call

__all__ = ["check_call"]
