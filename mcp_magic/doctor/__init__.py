"""The doctor: `await examine(host, target)`, in a notebook `%mcp doctor TARGET`. See `docs/doctor.md`.

`await examine_all(host)`, `%mcp doctor --all`, looks at all connected servers together.

The SDK hides a server's process and its HTTP answers, and changes silently from one way to begin a session to the
other. So the doctor first starts the command or posts to the URL itself, tries both ways, and keeps the raw answers.
Only then does it open a session. It examines an open session below its counters, so nothing changes.
"""

from __future__ import annotations

from mcp_magic.doctor.examine import examine, examine_all
from mcp_magic.doctor.report import DoctorReport, Remark, Step

__all__ = ["DoctorReport", "Remark", "Step", "examine", "examine_all"]
