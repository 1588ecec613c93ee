"""Log-in to servers with OAuth 2.1 as MCP uses it: the client, the callback page, the token store and log-out."""

from __future__ import annotations
