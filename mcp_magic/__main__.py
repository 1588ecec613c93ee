"""`python -m mcp_magic LINE...` runs one line of `%mcp`; `proxy` is an MCP server that is a running kernel."""

import sys

if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["proxy"]:  # it starts with each start of its client, so nothing heavy is imported
            from mcp_magic.outside.program import main

            status = main(sys.argv[2:])
        else:
            from mcp_magic.ipython.standalone import main

            status = main(sys.argv[1:])
    except KeyboardInterrupt:  # while it imports
        status = 130
    sys.exit(status)
