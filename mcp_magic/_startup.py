"""Callbacks that run when the kernel's host has been created.

They let the extension load fast, without creating the host. Python code may import the host before the first `%mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

callbacks: list[Callable[[], None]] = []  # `mcp_magic.notebook` calls these after it has created the host
