"""What runs under Pyodide is no test here, and the stand-ins must not be imported in the place of the packages."""

from __future__ import annotations

collect_ignore = ["standins", "worker.py"]
