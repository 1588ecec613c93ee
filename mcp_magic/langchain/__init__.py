"""The bridge between MCP and LangChain."""
