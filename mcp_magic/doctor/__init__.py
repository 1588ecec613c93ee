"""The doctor: `await examine(host, target)`, in a notebook `%mcp doctor TARGET`. See `docs/doctor.md`."""

from __future__ import annotations

from mcp_magic.doctor.examine import examine
from mcp_magic.doctor.report import DoctorReport, Remark, Step

__all__ = ["DoctorReport", "Remark", "Step", "examine"]
