"""What gives a connection its `lint()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mcp_magic.core.lint import Findings

__all__ = ["Linted"]


class Linted:
    """A connection whose definitions can be looked over."""

    async def lint(self) -> Findings:
        """Look over the definitions of everything that the server offers.

        Returns:
            What is wrong with them, as a listing; see `core.lint`.

        Raises:
            SessionError: A list cannot be had.
        """
        from mcp_magic.core.lint import lint_connection

        return await lint_connection(cast("Any", self))
