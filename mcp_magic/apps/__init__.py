"""MCP Apps: the views of tools, and the host's end of what a view asks for."""
