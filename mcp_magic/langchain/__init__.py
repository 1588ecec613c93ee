"""The bridge between MCP and LangChain, both ways.

It is ours because langchain-mcp-adapters pins an SDK from before 2026-07-28. A tool's input schema is passed on
unchanged, except titles that only repeat a name, which cost tokens at each turn.
"""
