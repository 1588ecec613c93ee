"""The bridge between MCP and LangChain, both ways.

names       `server:tool` for people, `server__tool` for providers
schemas     input schemas as LangChain can hand them on
reading     content blocks as a model reads them
content     a result as the content and artifact of a message, and back
breaker     calls to a dead server fail at once
retrying    sessions opened again, calls repeated where that is safe
calls       one call for a model
blocking    the same from synchronous code
tools       MCP tools as LangChain tools
spectools   the same without an open session
resources   resources as blobs
returned    what a LangChain tool returned, as MCP's result
serve       LangChain tools as an MCP server
"""
