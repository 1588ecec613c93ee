"""What a person types: `%mcp` and its subcommands. The only layer that touches the IPython shell."""
