"""Spans of what is done here, their export, and counters."""

from __future__ import annotations
