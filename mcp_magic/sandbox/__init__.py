"""Stdio servers in isolation: what a server may reach is refused by the system, not by the server."""
