"""The call of a tool: its value, its way from the arguments to the result, and who takes part in it."""
