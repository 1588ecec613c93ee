"""Reports of the doctor on a cassette: an examination that was recorded is not made again.

Sessions that are open, and servers in this kernel, are looked at all the same, because what follows stands on it; what
is shown is the recorded report, with the times of then.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.config.specs import StdioSpec
from mcp_magic.core.cassette.deck import deck, examining
from mcp_magic.core.cassette.retelling import retell
from mcp_magic.core.doctor.report import DoctorReport, Remark, Step
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.lint import Finding, Findings
from mcp_magic.core.trace.record import Recorder
from mcp_magic.errors import CassetteError, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.cassette.reading import Examined
    from mcp_magic.core.host import Host

__all__ = ["Recording"]


class Recording:
    """One examination, and what the cassette that is in has of it.

    Args:
        titles: What the report may be called: the name, or what the target is called by default.
        target: What is examined, in words.
        call: The tool to call, "" to pick one, None for none.
    """

    def __init__(self, titles: list[str], target: str, call: str | None) -> None:
        self._titles, self._target, self._call = titles, target, call
        self._cassette = deck.cassette
        self._known = self._found(self._cassette) if self._cassette is not None and self._cassette.replays else None
        self._number: int | None = None

    def _found(self, cassette: Cassette) -> Examined | None:
        """Return the report of the same examination: the first that was not given yet, or else the last."""
        equal = [one for one in cassette.examined if one.report.get("call") == self._call]
        same = [one for one in equal if one.report.get("title") in self._titles]
        same = same or [one for one in equal if one.report.get("target") == self._target]
        found = next((one for one in same if not one.used), next(iter(same[-1:]), None))
        if found is not None:
            found.used += 1
            cassette.played += 1
        return found

    def replayed(self, host: Host) -> DoctorReport | None:
        """Return the recorded report of a server that is not to be reached; the trace hears what was said to it.

        Raises:
            CassetteError: There is none, and the cassette only replays.
        """
        cassette = self._cassette
        if cassette is None or not cassette.replays:
            return None
        if self._known is None:
            if cassette.records:
                return None
            known = listed(dict.fromkeys(str(one.report.get("title")) for one in cassette.examined))
            has = f"it has those of {known}" if known else "it has none"
            missing = f"a doctor's report of {self._titles[0]} is not in the cassette {cassette.path}; {has}"
            raise CassetteError(f"{missing}. {cassette.adds} adds it.")
        for session in self._known.sessions:
            recorder = Recorder(str(session.head["server"]), StdioSpec(command="-"), host.trace)
            with ErrorLog() as errlog:
                recorder.follow(errlog)
                retell(session, recorder, errlog)
                recorder.follow(None)
        return _report(self._known.report)

    @contextmanager
    def examining(self) -> Iterator[None]:
        """Have the sessions that are opened meanwhile recorded as those of this examination."""
        if self._cassette is not None and self._cassette.records and self._known is None:
            self._number = self._cassette.next_examination()
        token = examining.set(self._number)
        try:
            yield
        finally:
            examining.reset(token)

    def keep(self, report: DoctorReport) -> DoctorReport:
        """Write a report onto the cassette, or return the recorded one in its place."""
        if self._known is not None:
            return _report(self._known.report)
        cassette = self._cassette
        if cassette is not None and self._number is not None and not cassette.ejected:
            head = {"doctor": self._number, "title": report.target, "target": self._target, "call": self._call}
            cassette.write(cassette.masker.whole({**head, **_plain(report)}))
        return report


def _plain(report: DoctorReport) -> dict[str, Any]:
    """Return a report as JSON has it."""
    steps: list[dict[str, Any]] = []
    for step in report.steps:
        found = [list(remark)[: 3 if remark.todo else 2] for remark in step.remarks]
        steps.append({"step": step.name, "seconds": step.seconds and round(step.seconds, 4), "found": found})
    if report.findings is None:
        return {"steps": steps}
    lint = report.findings
    shown = {"title": lint.title, "note": lint.note, "empty": lint.empty}
    return {"steps": steps, "findings": [list(one) for one in lint.findings], "lint": shown}


def _report(entry: dict[str, Any]) -> DoctorReport:
    """Return the report that a line has."""
    steps = [Step(one["step"], [Remark(*found) for found in one["found"]], one["seconds"]) for one in entry["steps"]]
    findings = None
    if "findings" in entry:
        findings = Findings([Finding(*one) for one in entry["findings"]], title=entry["lint"]["title"])
        findings.note, findings.empty = entry["lint"]["note"], entry["lint"]["empty"]
    return DoctorReport(entry["title"], steps, findings)
