"""Servers written in the notebook, and documentation, stubs and snapshots of any server's interface."""

from __future__ import annotations
