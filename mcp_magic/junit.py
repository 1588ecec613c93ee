"""JUnit XML, the format in which CI services read the outcomes of checks.

    write_junit(path, [Suite("doctor", [Case("handshake", "shop", seconds=0.2), Case("tools", "shop", failure="...")])])

There is no standard; this is the part of it that Jenkins, GitLab and GitHub's actions read alike. A character that XML
forbids becomes U+FFFD.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from mcp_magic.config.parsing import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


@dataclass(frozen=True)
class Case:
    """One check. It has passed unless it has a failure, or was skipped.

    Attributes:
        name: What is checked.
        classname: What the cases are grouped by, such as the server.
        seconds: How long it took.
        failure: Why it failed; the first line is the message. "" if it did not.
        skipped: Why it was left out; "" if it was not.
    """

    name: str
    classname: str = ""
    seconds: float = 0.0
    failure: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class Suite:
    """Cases under a common name."""

    name: str
    cases: Sequence[Case]


def junit_xml(suites: Iterable[Suite]) -> str:
    """Return the outcomes of suites as XML."""
    root = ElementTree.Element("testsuites")
    for suite in suites:
        element = _added(root, "testsuite", name=suite.name, **_counts(suite.cases))
        for case in suite.cases:
            members = {"name": case.name, "classname": case.classname or suite.name, "time": f"{case.seconds:.3f}"}
            outcome = _added(element, "testcase", **members)
            if case.failure:
                _added(outcome, "failure", message=case.failure.partition("\n")[0]).text = _allowed(case.failure)
            elif case.skipped:
                _added(outcome, "skipped", message=case.skipped)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def write_junit(path: Path, suites: Iterable[Suite]) -> None:
    """Write the outcomes of suites into a file. Raises ConfigError if it cannot be written."""
    write_text(path, junit_xml(suites))


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    failures = sum(bool(case.failure) for case in cases)
    skipped = sum(bool(case.skipped and not case.failure) for case in cases)
    time = sum(case.seconds for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": skipped}
    return {**{name: str(count) for name, count in counts.items()}, "time": f"{time:.3f}"}


def _added(parent: ElementTree.Element, tag: str, **members: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _allowed(text) for name, text in members.items()})


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
