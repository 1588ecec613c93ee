"""Lint of what servers offer: names, descriptions, schemas, hidden text, URIs.

`await connection.lint()` looks over a connected server, `%mcp doctor` does so too. A rule is a generator of
`Finding`s; what each means is in `docs/doctor.md`.
"""

from __future__ import annotations

from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding, Findings
from mcp_magic.core.lint.lint import lint_connection, lint_offers, lint_tool

__all__ = ["ERROR", "NOTE", "WARNING", "Finding", "Findings", "lint_connection", "lint_offers", "lint_tool"]
