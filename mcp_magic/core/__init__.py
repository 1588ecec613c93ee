"""Sessions: how they are opened, called and closed, and who may call. MCP and asyncio only."""
