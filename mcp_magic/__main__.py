"""`python -m mcp_magic LINE...` runs one line of `%mcp`."""

import sys

if __name__ == "__main__":
    try:
        from mcp_magic.ipython.standalone import main

        status = main(sys.argv[1:])
    except KeyboardInterrupt:  # while it imports
        status = 130
    sys.exit(status)
