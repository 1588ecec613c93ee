"""Servers that are written in the notebook, and what a server's interface is and was."""

from __future__ import annotations
