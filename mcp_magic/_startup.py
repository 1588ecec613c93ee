"""What is to be done once the kernel's host exists.

Loading the extension must not pay for the host, and Python may import the host before the first `%mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["callbacks"]

callbacks: list[Callable[[], None]] = []
"""Called by `mcp_magic.notebook` when it has made the host."""
