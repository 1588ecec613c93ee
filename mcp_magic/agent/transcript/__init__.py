"""The transcript of an agent: a value that displays itself while it grows and afterwards."""

from __future__ import annotations

from mcp_magic.agent.transcript.entries import Asked, Called, Note, Said
from mcp_magic.agent.transcript.transcript import Transcript

__all__ = ["Asked", "Called", "Note", "Said", "Transcript"]
