"""`%mcp` and its subcommands: the only layer that touches the IPython shell."""
