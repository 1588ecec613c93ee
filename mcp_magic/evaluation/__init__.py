"""How often a model chooses the right tools: cases and what is expected of them, matching, statistics."""

from __future__ import annotations
