"""Registries of MCP servers: entries, the client, and how a package becomes a command."""
