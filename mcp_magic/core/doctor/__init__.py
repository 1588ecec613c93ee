"""The doctor: `await examine(host, target)`, in a notebook `%mcp doctor TARGET`. See `docs/doctor.md`."""

from __future__ import annotations

from mcp_magic.core.doctor.doctor import examine
from mcp_magic.core.doctor.report import DoctorReport, Remark, Step

__all__ = ["DoctorReport", "Remark", "Step", "examine"]
