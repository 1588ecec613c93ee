"""Sessions: where servers are, how they are opened, called and closed. MCP and asyncio only."""
