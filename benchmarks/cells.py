"""A `%mcp call` cell against `await client.call_tool(...)` in a cell, in a real kernel, as a frontend sees them."""

from __future__ import annotations

from benchmarks.kernels import frontend, shower
from benchmarks.servers import CALCULATOR
from benchmarks.timing import Result, compared, pairs

__all__ = ["run"]

SETUP = f"""
%load_ext mcp_magic
from mcp_magic import host
%mcp connect {CALCULATOR} --name math
client = host["math"].client
"""
OURS = "%mcp call math:add a=3 b=4"
THEIRS = 'await client.call_tool("add", {"a": 3, "b": 4})'


def run(*, quick: bool = False) -> list[Result]:
    """Measure from sending a cell until the kernel is idle again, the display of the result included."""
    with frontend(SETUP) as shown:
        taken = pairs(shower(shown, OURS), shower(shown, THEIRS), 3 if quick else 100)
    return [compared("cell: %mcp call", taken, note="against await client.call_tool() in a cell")]
