"""The bridge between MCP and LangChain, both ways.

names     `server:tool` for users, `server__tool` for providers
content   results as message content and artifact, and back; resources as blobs
calls     one call for a model: retries and circuit breakers
tools     MCP tools as LangChain tools, with or without an open session
sampling  sampling requests as LangChain messages, and their replies
serve     LangChain tools as an MCP server
"""
