"""Logging in to servers: OAuth 2.1 as MCP uses it, who asks the person, where tokens are kept, and logging out."""

from __future__ import annotations
