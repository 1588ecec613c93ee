"""The bridge between MCP and LangChain, both ways."""
