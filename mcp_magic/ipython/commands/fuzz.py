"""`%mcp fuzz` calls tools with made-up arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic.config.parsing import write_text
from mcp_magic.display.text import LOOPBACK
from mcp_magic.errors import DeniedError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import Asking
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab, seconds_typed, variable_typed
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.junit import write_junit

if TYPE_CHECKING:
    import argparse

    from mcp_magic.fuzz.report import FuzzReport


async def _fuzz(invocation: Invocation, arguments: argparse.Namespace) -> FuzzReport:
    from mcp_magic.fuzz.run import DEFAULT_SECONDS

    host = invocation.host
    seconds = DEFAULT_SECONDS if arguments.seconds is None else arguments.seconds
    tests, junit = invocation.new_file(arguments.pytest), invocation.new_file(arguments.junit)
    fuzz = await host.plan_fuzz(
        arguments.target,
        allow=arguments.allow,
        seconds=seconds,
        seed=arguments.seed,
        examples=arguments.examples,
        reports=host.reports,
    )
    report = fuzz.report
    address = getattr(host[report.server].spec, "url", "")
    if address and urlsplit(address).hostname not in LOOPBACK:
        text = f"Fuzz {report.title} for {seconds:g} s? The server is not on this machine."
        if not await Asking(invocation.cells, invocation.settings, host).confirm(text):
            raise DeniedError(f"{report.title} was not fuzzed: it is not on this machine, and you did not approve.")
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = report
    with until_interrupted():
        await fuzz.run()
    if tests is not None and report.failures:
        write_text(tests, report.tests_in(tests))
    if junit is not None:
        write_junit(junit, [report.suite])
    return report if report.ended else report.check()


def _complete_target(tab: Tab) -> list[str]:
    return [*completion.COMPLETERS["SERVER"](tab), *completion.COMPLETERS["SERVER:TOOL"](tab)]


def _complete_tool(tab: Tab) -> list[str]:
    """Return the tools of the server that the line names."""
    prefix = f"{tab.positional[0].partition(':')[0]}:" if tab.positional else ""
    names = completion.offered(replace(tab, fragment=f"{prefix}{tab.fragment}"), "tools")
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


FUZZ = Implementation(
    _fuzz,
    (
        Argument(
            "target", metavar="SERVER[:TOOL]", complete=_complete_target, help="a tool, or all that are read-only"
        ),
        Argument("--seconds", type=seconds_typed, metavar="S", help="seconds in all (default: 20)"),
        Argument("--seed", type=int, metavar="N", help="the seed of the values: the same values once more"),
        Argument(
            "--examples",
            type=int,
            metavar="N",
            help="calls of each tool at most; a failure adds some, to make its arguments small",
        ),
        Argument(
            "--allow",
            action="append",
            default=[],
            metavar="TOOL",
            complete=_complete_tool,
            help="call it although it is not read-only; you are asked once; can be repeated",
        ),
        Argument("--pytest", metavar="FILE", help="write a test for each failure"),
        Argument("--junit", metavar="FILE", help="write the outcome as JUnit XML, for CI"),
        Argument(
            "-o",
            "--out",
            type=variable_typed,
            metavar="NAME",
            help="the variable that gets the report, also of a failed fuzz",
        ),
    ),
    examples=(
        "%mcp fuzz weather --seconds 20",
        "%mcp fuzz weather:forecast --seed 7 --pytest test_fuzz.py",
        "report = %mcp fuzz math --examples 200 --allow add",
    ),
    details="The values are made from the input schema: such as fit, limits, odd and very long texts, huge numbers, "
    "missing and extra members, other types, values just outside. A failure is: the server ends or does not answer, an "
    "internal error (-32603), a traceback or an exception such as IndexError, an answer that breaks the output schema "
    "or the protocol, arguments that the schema allows and the tool calls invalid, or that it forbids and the tool "
    "takes. Each failure has small arguments that still show it, as a line to type and as a test.\n\n"
    "Failures raise an AssertionError, so Run All, papermill and nbval stop there; `error.result` is the report. "
    "The calls go through a session of their own. Interrupt ends the fuzz and keeps what was found. Needs "
    "`pip install 'mcp-magic[fuzz]'`.",
)
