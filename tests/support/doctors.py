"""Sick servers for the doctor, and what its report says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support import SUPPORT
from tests.support.processes import PYTHON

if TYPE_CHECKING:
    from mcp_magic.doctor import DoctorReport

SICK = SUPPORT / "sick_server.py"
TOOL = {
    **{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}},
    "annotations": {"readOnlyHint": True},
}


def sick(**told: Any) -> list[str]:
    """Return the command of a server that is told what to say; `/` in a method is written `__`."""
    return [PYTHON, str(SICK), json.dumps({name.replace("__", "/"): value for name, value in told.items()})]


def told(report: DoctorReport, step: str) -> str:
    return "\n".join(f"{status}: {text} -> {todo}" for status, text, todo in report[step].remarks)


def fails(report: DoctorReport, step: str, *says: str) -> None:
    """Hold that a report fails at a step and says certain things, and that the steps after it were not reached."""
    assert report.failed_at == step, str(report)
    assert not report.ok
    for words in says:
        assert words in told(report, step)
    after = [one.name for one in report.steps]
    late = after[after.index(step) + 1 :]
    assert {report[name].status for name in late} <= {"not reached", "not needed"}
    assert f" in: {step}" in str(report)
