"""Python in a browser: Pyodide, as in JupyterLite. There it can start no program, no thread, and open no socket."""

from __future__ import annotations

import sys

__all__ = ["IN_BROWSER"]

IN_BROWSER: bool = sys.platform == "emscripten"
"""Whether this is such a Python."""
