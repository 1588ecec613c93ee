"""The client that the official conformance suite drives: a host of ours, used as a person would use it.

The suite starts it with the URL of its server and says in the environment which scenario that server plays
(MCP_CONFORMANCE_SCENARIO, and MCP_CONFORMANCE_CONTEXT with what a person would have been given beforehand). It ends
with 0 and the words `DONE` when what had to happen has happened: where the suite wants a refusal, a refusal.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp_magic.errors import MCPMagicError
from tests.conformance import scripts, scripts_auth
from tests.conformance.playing import SCRIPTS

__all__ = ["DONE", "main", "scripts"]

DONE = "conformance client: done"
"""Its last line, when it did all that the scenario needs."""


def main(url: str) -> int:
    """Play the client in the scenario that the environment names; return the exit code."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    play = SCRIPTS.get(scenario, scripts_auth.authorize if scenario.startswith("auth/") else None)
    if play is None:
        print(f"no script for {scenario}", file=sys.stderr)
        return 2
    try:
        asyncio.run(play(url, context))
    except MCPMagicError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(DONE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
