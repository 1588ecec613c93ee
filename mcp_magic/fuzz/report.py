"""What a fuzz has found: failures by kind, each with a line to type and a test to keep."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import duration, join_names, plural, sentence
from mcp_magic.config.parsing import working_path
from mcp_magic.display.code import code_part
from mcp_magic.display.document import Part, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.errors import ArgumentsError
from mcp_magic.fuzz.judge import KINDS
from mcp_magic.junit import Case, Suite
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.validate import argument_problems
from mcp_magic.server.literals import imports_of, quoted, reads
from mcp_magic.server.targets import target_of_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from mcp_magic.config.specs import Spec

LONGEST_LINE = 2_000  # characters of a line with JSON; in a longer one repeated text is an expression

MAX_LISTED, MAX_SHOWN = 20, 50  # failures that the message of an error has; and the display


@dataclass(frozen=True)
class Failure:
    """One failure.

    Attributes:
        kind: One of `KINDS`, such as `"hangs"`.
        server: The name of the server.
        tool: The name of the tool.
        problem: What happened.
        arguments: The smallest arguments that showed it.
        line: The line that shows it again.
        repeats: Whether it was seen again with the same arguments.
    """

    kind: str
    server: str
    tool: str
    problem: str
    arguments: Mapping[str, Any] = field(repr=False)
    line: str = field(repr=False)
    repeats: bool = True

    @property
    def row(self) -> dict[str, Any]:
        """A row of the table."""
        once = "" if self.repeats else " (not seen again)"
        return {"kind": self.kind, "tool": self.tool, "what": f"{self.problem}{once}", "line": self.line}

    @property
    def test(self) -> str:
        """The source of a test, without the head of its file."""
        name = re.sub(r"\W+", "_", f"{self.tool}_{self.kind}", flags=re.ASCII).strip("_").lower()
        about = self.problem.replace("\\", "\\\\").replace('"', "'")
        arguments = python_literal(self.arguments)
        return (
            f'def test_{name}():\n    """{self.kind}: {about}"""\n    check({python_literal(self.tool)}, {arguments})'
        )


class FuzzReport:
    """The failures of a fuzz.

    Attributes:
        server: The name of the server.
        tools: The tools that were called.
        seed: The seed of the values: the same seed makes the same values again.
        failures: The failures, in the order in which they were found.
        remarks: What could not be tried, and why.
        calls: How many calls were made.
        seconds: How long they took.
        ended: `""`, `"interrupted"` or `"cancelled"`.
    """

    def __init__(self, server: str, tools: Sequence[str], seed: int, spec: Spec) -> None:
        self.server = server
        self.tools = list(tools)
        self.seed = seed
        self.failures: list[Failure] = []
        self.remarks: list[str] = []
        self.calls = 0
        self.seconds = 0.0
        self.ended = ""
        self._spec = spec

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def title(self) -> str:
        """What was called."""
        return f"{self.server}:{self.tools[0]}" if len(self.tools) == 1 else self.server

    @property
    def df(self) -> pd.DataFrame:
        """A row for each failure: kind, tool, what happened, the line to type, the arguments."""
        import pandas as pd

        rows = [{**failure.row, "arguments": dict(failure.arguments)} for failure in self.failures]
        return pd.DataFrame(rows, columns=["kind", "tool", "what", "line", "arguments"])

    def check(self) -> FuzzReport:
        """Return the report itself if nothing failed.

        Raises:
            CheckFailedError: Something did, with the lines that show it; `error.result` is the report.
        """
        if self.ok:
            return self
        lines = [
            f"  {row['kind']}: {row['tool']}: {row['what']}\n    {row['line']}"
            for row in (failure.row for failure in self.failures[:MAX_LISTED])
        ]
        if len(self.failures) > MAX_LISTED:
            lines.append(f"  … and {len(self.failures) - MAX_LISTED} more: `error.result.df` has all")
        raise CheckFailedError("\n".join([f"{self.title}: {self.summary}", *lines]), self)

    @property
    def summary(self) -> str:
        """How much was tried and failed, in words."""
        counts = Counter(failure.kind for failure in self.failures)
        kinds = f" ({join_names(f'{count} {kind}' for kind, count in counts.items())})" if counts else ""
        ended = f", {self.ended}" if self.ended else ""
        calls = f"{self.calls:,} calls of {plural(len(self.tools), 'tools')} in {duration(self.seconds)}"
        return f"{plural(len(self.failures), 'failures')}{kinds}; {calls}{ended}; seed {self.seed}"

    @property
    def suite(self) -> Suite:
        """The outcomes for JUnit: of each tool a case for each kind."""
        problems: dict[tuple[str, str], list[str]] = {}
        for failure in self.failures:
            problems.setdefault((failure.tool, failure.kind), []).append(f"{failure.problem}\n{failure.line}")
        cases = [
            Case(kind, f"{self.server}:{tool}", failure="\n".join(problems.get((tool, kind), ())))
            for tool in self.tools
            for kind in KINDS
        ]
        return Suite(f"fuzz {self.title}", cases)

    @property
    def pytest(self) -> str:
        """The source of a module for pytest in the working directory; see `tests_in`."""
        return self.tests_in(working_path("test_fuzz.py"))

    def tests_in(self, file: Path) -> str:
        """Return the source of the module `file` for pytest, with a test for each failure; "" without failures.

        A test passes once the server is mended. It needs this package, and no plugin of pytest.
        """
        if not self.failures:
            return ""
        target = target_of_spec(self._spec, self.server, file, {})
        connect = self._spec.masked(target.arguments_of_connect(self.server, 12))
        remarks = "".join(f"\n{sentence(remark)}\n" for remark in target.remarks)
        tests, names = [], Counter[str]()
        for failure in self.failures:
            head, arguments, rest = failure.test.partition("():")
            names[head] += 1
            number = f"_{names[head]}" if names[head] > 1 else ""
            tests.append(f"{head}{number}{arguments}{rest}")
        return (
            _MODULE.format(
                server=quoted(self.server),
                seed=self.seed,
                about=f"{remarks}{reads(sorted(target.variables))}",
                imports="\n".join(["import asyncio", *imports_of(connect)]),
                connect=connect,
            )
            + "\n\n\n".join(["", *tests]).removeprefix("\n")
            + "\n"
        )

    def __repr__(self) -> str:
        return f"<FuzzReport of {self.title}: {self.summary}>"

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: the table by kind, the failures, and their tests."""
        counts = Counter(failure.kind for failure in self.failures)
        note = "\n".join([self.summary, *self.remarks])
        if not counts:
            empty = "nothing failed" if self.calls else "no call was made"
            return Listing([], title=f"Fuzz of {self.title}", empty=empty, note=note).parts()
        kinds = [{"kind": kind, "failures": counts[kind], "meaning": KINDS[kind]} for kind in KINDS if counts[kind]]
        parts = Listing(kinds, title=f"Fuzz of {self.title}", note=note, kind="kinds").parts()
        for row in (failure.row for failure in self.failures[:MAX_SHOWN]):
            about = Part.prose(f"{row['kind']}: {row['tool']}: {row['what']}")
            parts.append(Part.stack(about, Part.command(row["line"])))
        if len(self.failures) > MAX_SHOWN:
            parts.append(Part.note(f"… {len(self.failures) - MAX_SHOWN} more: .df has all {len(self.failures)}"))
        tests = code_part(self.pytest).folded("tests to keep: `.pytest`, or --pytest FILE")
        return [*parts, Part("`.pytest` has tests to keep; --pytest FILE writes them", tests.html)]


_MODULE = '''\
"""What a fuzz of {server} has shown (seed {seed}). A test passes once the server is mended.
{about}"""

{imports}

from mcp_magic import Host
from mcp_magic.fuzz import check_call


def check(tool, arguments):
    async def call():
        async with Host() as host:
            server = await host.connect({connect})
            await check_call(server, tool, arguments)

    asyncio.run(call())
'''


def line_to_type(server: str, tool: str, arguments: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Return the line that sends arguments as they are: `%mcp call` where it checks and takes them, else `%mcp raw`.

    It works in a notebook and, as `python -m mcp_magic ...`, in the shell of a terminal.
    """
    if not argument_problems(arguments, source):
        try:
            line = schema.call_line(f"{server}:{tool}", arguments, schema=source)
        except ArgumentsError:
            line = "#"
        if not line.startswith("#") and line.isascii() and len(line) <= LONGEST_LINE:
            return line
    params = {"name": tool, "arguments": dict(arguments)}
    # JSON in ASCII, without a quote or a backslash that a shell or `%mcp` could take for its own
    text = json.dumps(params).replace("\\\\", "\\u005c").replace('\\"', "\\u0022").replace("'", "\\u0027")
    if len(text) > LONGEST_LINE:
        text = f"{{{python_literal(params)}}}"
    return f"%mcp raw {shlex.quote(server)} tools/call '{text}'"


def python_literal(value: Any) -> str:
    r"""Return a JSON value as Python source in ASCII, without single quotes; repeated text is an expression.

    >>> python_literal({"q": "a" * 5000, "n": [None, 1]}), python_literal("it's\x00")
    ('{"q": "a" * 5000, "n": [None, 1]}', '"it\\x27s\\x00"')
    """
    if isinstance(value, str):
        for period in (1, 2):
            count = len(value) // period
            if count > 60 and value == value[:period] * count:
                return f"{python_literal(value[:period])} * {count}"
        escapes = {ord(character): f"\\x{ord(character):02x}" for character in "\"'\\{}"}
        text = "".join(escapes.get(ord(character)) or ascii(character)[1:-1] for character in value)
        return f'"{text}"'
    if isinstance(value, dict):
        return f"{{{', '.join(f'{python_literal(name)}: {python_literal(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        if len(value) > 20 and all(item == value[0] and type(item) is type(value[0]) for item in value):
            return f"[{python_literal(value[0])}] * {len(value)}"
        return f"[{', '.join(map(python_literal, value))}]"
    return repr(value)
