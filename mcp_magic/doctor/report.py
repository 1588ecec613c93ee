"""The steps and the report of an examination."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic._text import plural
from mcp_magic.config.masking import mask_text
from mcp_magic.display.document import (
    Badge,
    Markup,
    Part,
    details,
    joined,
    parts_text,
    show_parts,
    table,
    tag,
    terminal_width,
)
from mcp_magic.display.text import one_line, shorten
from mcp_magic.junit import Case, Suite
from mcp_magic.lint import ERROR, wrapped
from mcp_magic.sarif import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from mcp_magic.lint import Finding, Findings

OK, WARNING, FAILURE, NOTE = "ok", "warning", "failed", "note"
SKIPPED, NOT_REACHED = "not needed", "not reached"

_MARKS = {OK: "✓", WARNING: "!", FAILURE: "✗", NOTE: "·", SKIPPED: "–", NOT_REACHED: "·"}  # noqa: RUF001
_WORST = (FAILURE, WARNING, OK, NOTE, SKIPPED, NOT_REACHED)

MAX_REPORT_TEXT = 600  # most characters of a remark that are shown


class Stop(Exception):
    """A step failed, and the steps after it cannot run."""


class Remark(NamedTuple):
    """One finding of a step: its status, what was found (text of the server is not escaped), and what to do or ""."""

    status: str
    text: str
    todo: str = ""


@dataclass
class Step:
    """A step of the examination: its findings, in order, and its seconds, or None if it was not reached."""

    name: str
    remarks: list[Remark] = field(default_factory=list)
    seconds: float | None = None

    @property
    def status(self) -> str:
        """The worst status of its remarks; `NOT_REACHED` without any."""
        return _worst({remark.status for remark in self.remarks})

    def ok(self, text: str) -> None:
        """Note that something is as it should be."""
        self.remarks.append(Remark(OK, text))

    def note(self, text: str) -> None:
        """Note what a server wrote, which is neither right nor wrong."""
        self.remarks.append(Remark(NOTE, text))

    def skip(self, text: str) -> None:
        """Note why there is nothing to examine."""
        self.remarks.append(Remark(SKIPPED, text))

    def warn(self, text: str, todo: str = "") -> None:
        """Note that something works but will cause trouble."""
        self.remarks.append(Remark(WARNING, text, todo))

    def fail(self, text: str, todo: str = "") -> None:
        """Note that something does not work."""
        self.remarks.append(Remark(FAILURE, text, todo))

    def stop(self, text: str, todo: str = "") -> Stop:
        """Note that something does not work, and return the exception that ends the examination."""
        self.fail(text, todo)
        return Stop()


class DoctorReport:
    """The result of an examination; `findings` are problems in the definitions, None if that step was not reached."""

    def __init__(self, target: str, steps: Sequence[Step], findings: Findings | None = None) -> None:
        self.target = target
        self.steps = tuple(steps)
        self.findings = findings

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    @property
    def ok(self) -> bool:
        """Whether no step failed; there may be warnings."""
        return all(step.status != FAILURE for step in self.steps)

    @property
    def failed_at(self) -> str | None:
        """The name of the first step that failed, or None."""
        return next((step.name for step in self.steps if step.status == FAILURE), None)

    @property
    def problems(self) -> list[str]:
        """The failures and warnings, one line each."""
        bad = ((step, remark) for step in self.steps for remark in step.remarks if remark.status in (FAILURE, WARNING))
        return [f"{step.name}: {remark.text}" + (f" → {remark.todo}" if remark.todo else "") for step, remark in bad]

    @property
    def df(self) -> pd.DataFrame:
        """A row per remark: step, status, text, todo, and the milliseconds of the step."""
        import pandas as pd

        rows = []
        for step in self.steps:
            ms = None if step.seconds is None else round(step.seconds * 1000, 1)
            for status, text, todo in step.remarks or [Remark(NOT_REACHED, "")]:
                rows.append({"step": step.name, "status": status, "what": text, "todo": todo, "ms": ms})
        return pd.DataFrame(rows, columns=["step", "status", "what", "todo", "ms"])

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        statuses = [remark.status for step in self.steps for remark in step.remarks]
        failures, warnings = statuses.count(FAILURE), statuses.count(WARNING)
        some = f", {plural(warnings, 'warnings')}" if warnings else ""
        if not failures:
            return f"healthy{some}"
        if failures == 1:
            return f"1 error in: {self.failed_at}{some}"
        return f"{failures} errors{some}; first error in: {self.failed_at}"

    def __repr__(self) -> str:
        return f"<DoctorReport of {self.target}: {self.verdict}>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        title = f"Doctor: {shorten(self.target, 200)}"
        width = max(min(terminal_width(), 120), 40)
        reached = [step for step in self.steps if step.remarks]
        missed = ", ".join(step.name for step in self.steps if not step.remarks)
        plain = [f"{title}: {self.verdict}", *(line for step in reached for line in _lines(step, width))]
        plain += wrapped(f"{_MARKS[NOT_REACHED]} {NOT_REACHED}: {missed}", width, "  ", first="") if missed else []
        rows = [_row(step) for step in reached]
        rows += [(_badge(NOT_REACHED), "", missed, "")] if missed else []
        # At its full height, so that its end is visible without scrolling.
        html = table(("", "step", "what was found", "ms"), rows, limit=200_000, style="max-height:none")[0]
        status = _worst({step.status for step in self.steps} - {SKIPPED})
        parts = [tag("p", joined([tag("b", title), " ", _badge(status, self.verdict)])), html]
        stack = [Part("\n".join(plain), joined(parts))]
        if self.findings is not None and len(self.findings):
            [listing] = self.findings.parts()
            stack.append(
                Part("", details(f"{plural(len(self.findings), 'findings')} in the definitions", listing.html))
            )
            stack.append(Part.note("`.findings` has all findings"))
        return [Part.stack(*stack)]


def _worst(statuses: set[str]) -> str:
    return next((status for status in _WORST if status in statuses), NOT_REACHED)


def _badge(status: str, text: str = "") -> Markup:
    kind = {OK: "safe", FAILURE: "danger"}.get(status, "neutral")
    return Badge(f"{_MARKS[status]} {text or status}", kind).html()  # type: ignore[arg-type]


def _row(step: Step) -> tuple[object, ...]:
    remarks = [tag("div", _remark_html(remark, alone=len(step.remarks) == 1)) for remark in step.remarks]
    ms = "" if step.seconds is None or step.status == SKIPPED else round(step.seconds * 1000, 1)
    return _badge(step.status), tag("b", step.name), joined(remarks), ms


def _remark_html(remark: Remark, *, alone: bool) -> Markup:
    mark = "" if alone and remark.status in (OK, SKIPPED) else f"{_MARKS[remark.status]} "
    todo = tag("div", f"→ {shorten(remark.todo, MAX_REPORT_TEXT)}", class_="mcp-note") if remark.todo else ""
    return joined([mark, shorten(remark.text, MAX_REPORT_TEXT), todo])


def _lines(step: Step, width: int) -> list[str]:
    head = f"{_MARKS[step.status]} {step.name:<13}"
    lines: list[str] = []
    for remark in step.remarks:
        mark = "" if len(step.remarks) == 1 else f"{_MARKS[remark.status]} "
        lines += wrapped(
            mark + shorten(remark.text, MAX_REPORT_TEXT), width - len(head), "  " if mark else "", first=""
        )
        if remark.todo:
            lines += wrapped(f"→ {shorten(remark.todo, MAX_REPORT_TEXT)}", width - len(head), "  ", first="")
    return [(head if not number else " " * len(head)) + line for number, line in enumerate(lines)]


# Reports and findings for other programs: SARIF and JUnit.

FROM_FINDINGS = frozenset(("schemas", "definitions", "instructions", "names", "flow"))
"""Steps whose errors and warnings are findings."""

RULES = {
    "definition-invalid": "a definition is invalid, and other hosts reject the whole list",
    "schema-root": "the input schema of a tool is an object at its root",
    "schema-invalid": "a schema is valid JSON Schema, by the metaschema of its dialect",
    "schema-dialect": "`$schema` names a dialect that hosts know",
    "schema-ref": "a `$ref` leads to a part of the same document",
    "schema-required": "`required` lists properties",
    "schema-default": "defaults and examples fit their own schema",
    "schema-pattern": "a pattern is a small regular expression of ECMA 262",
    "schema-large": "a schema is small enough to be read",
    "schema-steps": "a schema is small enough to be checked",
    "schema-root-choice": "OpenAI and Anthropic refuse a choice at the root of a schema",
    "name-empty": "everything has a name",
    "name-duplicate": "a name is listed once",
    "name-provider": "model providers accept the name of a tool",
    "name-argument": "model providers accept the names of arguments",
    "name-long": "names are short enough to be used with the name of the server",
    "name-lookalike": "a name is written in one script",
    "description-missing": "tools and prompts have a description",
    "argument-description": "arguments have a description",
    "description-long": "a description has at most 4,000 characters",
    "hidden-unicode": "a text has no characters that a person does not see",
    "instruction-like": "a text gives a model no orders that the tool does not need",
    "hints-contradict": "hints do not contradict finding other",
    "hints-doubtful": "a read-only tool does not change anything",
    "uri-invalid": "a URI is one by RFC 3986",
    "template-invalid": "a URI template is one by RFC 6570",
    "icon-unsafe": "an icon comes from `https:` or `data:`",
    "other-server": "a text of a server gives no orders about the tools of another (tool shadowing)",
    "names-alike": "names of tools and servers do not look alike over several servers",
    "toxic-flow": "no tools together read private data, read what strangers write, and send to the outside",
}
"""What holds where a code of the lint is not found."""


def results_of_findings(findings: Iterable[Finding], server: str, files: Mapping[str, str]) -> list[Result]:
    """Return findings as results of SARIF; `files` has the file that declares a server, by its name."""
    results = []
    for code, severity, where, problem, todo, of in findings:
        name = of or ("" if where == "all servers" else server)
        text = f"{name and f'{name}: '}{where}: {problem}. To do: {todo}"
        results.append(Result(code, severity, text, name, where, files.get(name, "")))
    return results


def results_of_report(report: DoctorReport, server: str, files: Mapping[str, str]) -> list[Result]:
    """Return a report's failures, warnings and findings as results of SARIF."""
    results = []
    for step in report.steps:
        for status, text, todo in step.remarks if step.name not in FROM_FINDINGS else ():
            if status in (FAILURE, WARNING):
                level = "error" if status == FAILURE else "warning"
                words = f"{text}. To do: {todo}" if todo else text
                results.append(
                    Result(f"doctor/{step.name}", level, words, server, f"step {step.name}", files.get(server, ""))
                )
    return results + results_of_findings(report.findings.findings if report.findings else (), server, files)


def rules_of(results: Iterable[Result]) -> dict[str, str]:
    """Return the sentence that explains each rule."""
    return {
        result.rule: RULES.get(result.rule, f"the doctor's step {result.rule.rpartition('/')[2]} has no problems")
        for result in results
    }


def suite_of_report(report: DoctorReport) -> Suite:
    """Return the steps of a report as cases of JUnit; warnings are no failures."""
    cases = []
    for step in report.steps:
        failures = [
            f"{remark.text} → {remark.todo}" if remark.todo else remark.text
            for remark in step.remarks
            if remark.status == FAILURE
        ]
        skipped = step.remarks[0].text if step.status == SKIPPED else NOT_REACHED if not step.remarks else ""
        cases.append(
            Case(step.name, report.target, step.seconds or 0.0, _joined(failures), one_line(mask_text(skipped), 300))
        )
    return Suite(f"doctor {report.target}", cases)


def suite_of_findings(findings: Findings, server: str) -> Suite:
    """Return the codes of the lint as cases of JUnit: each that is found, and whether one of them is an error."""
    cases = []
    for code in sorted(findings.codes) or ["definitions"]:
        errors = [
            f"{finding.place}: {finding.problem} → {finding.todo}"
            for finding in findings.of(ERROR)
            if finding.code == code
        ]
        cases.append(Case(code, server, failure=_joined(errors)))
    return Suite(f"lint {server}", cases)


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(one_line(mask_text(line), MAX_REPORT_TEXT) for line in lines)
