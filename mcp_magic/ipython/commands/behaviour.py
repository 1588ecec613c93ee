"""`%mcp behaviour`: what a server did, by call; saved as a policy, and compared with one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError, ToolError
from mcp_magic.ipython.commandline import ONE_SERVER, Argument, Implementation, Invocation
from mcp_magic.junit import Case, Suite, write_junit
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from mcp_magic.sandbox.behaviour import Behaviour


async def _behaviour(invocation: Invocation, arguments: argparse.Namespace) -> Behaviour:
    server = invocation.connection(arguments.server).name
    policy, report = invocation.new_file(arguments.save), invocation.new_file(arguments.junit)
    if report is not None and arguments.check is None:
        raise CommandError("%mcp behaviour: --junit is about a check: add --check FILE")
    behaviour: Behaviour = await invocation.host.behaviour(server)
    failures: dict[str, list[str]] = defaultdict(list)
    for line in arguments.call:
        await _call(invocation, server, line, failures)
    errors = [line for lines in failures.values() for line in lines]
    if arguments.call:
        again = await invocation.host.behaviour(server)
        behaviour = replace(again, note=_notes(behaviour.note, *errors))
    if behaviour.note and not behaviour.calls:
        more = f"call its tools, here by --call or in other lines, then `%mcp behaviour {server}` shows what they do"
        behaviour = replace(behaviour, note=f"{behaviour.note}: {more}")
    if arguments.check is not None:
        file = invocation.path(invocation.text(arguments.check))
        if report is not None:
            _report(report, behaviour, failures, file)
        try:
            behaviour.check(file)
            if errors:
                raise CheckFailedError(f"{errors[0]}; a check needs calls that work", behaviour)
        except CheckFailedError:
            invocation.show(behaviour)
            raise
        behaviour = replace(behaviour, note=_notes(behaviour.note, f"✓ nothing that {file.name} does not have"))
    if policy is not None:
        behaviour.save(policy)
        note = f"written to {policy.name}" + ("" if behaviour.calls else ", of its start only: no tool was called yet")
        behaviour = replace(behaviour, note=_notes(behaviour.note, note))
    return behaviour


def _report(path: Path, behaviour: Behaviour, failures: dict[str, list[str]], policy: Path) -> None:
    """Write a check as JUnit XML: the differences to a policy, and the calls that failed."""
    server, cases = behaviour.server, behaviour.differences_by_time(policy)
    for name, lines in failures.items():
        cases[name] = [*cases.get(name, []), *lines]
    suite = Suite(f"behaviour {server}", [Case(name, server, failure="\n".join(cases[name])) for name in cases])
    write_junit(path, [suite])


def _notes(*notes: str) -> str:
    return "\n".join(filter(None, notes))


async def _call(invocation: Invocation, server: str, line: str, failures: dict[str, list[str]]) -> None:
    """Call a tool; add what it reported as an error to the failures of its name."""
    name, *words = split_line(line) or [""]
    if not name:
        raise CommandError("%mcp behaviour: --call takes a tool and its arguments: --call 'query sql=\"select 1\"'")
    connection, tool = await invocation.tool(name if ":" in name else f"{server}:{name}", words)
    with connection.explain_misfits():
        values = invocation.arguments(words, tool.input_schema)
    result = await connection.call_tool(tool.name, values, timeout=invocation.settings.call_timeout)
    try:
        result.raise_for_error()
    except ToolError as error:
        failures[tool.name].append(one_line(str(error), 400))


BEHAVIOUR = Implementation(
    _behaviour,
    (
        ONE_SERVER,
        Argument("--save", metavar="FILE", help="write what it did as a policy (TOML), for --check and --sandbox"),
        Argument("--check", metavar="FILE", help="fail where it did what a policy does not have, or a call failed"),
        Argument("--junit", metavar="FILE", help="write the check as JUnit XML, for CI"),
        Argument(
            "--call",
            action="append",
            default=[],
            metavar="'TOOL NAME=VALUE'",
            help="call a tool before; can be repeated",
        ),
    ),
    examples=(
        "%mcp behaviour db",
        "%mcp behaviour db --save db.toml",
        "%mcp behaviour db --check db.toml",
        "%mcp behaviour db --call 'query sql=\"select 1\"' --check db.toml --junit behaviour.xml",
    ),
    details="A stdio server on Linux is observed, not restricted: `%mcp connect --observe TARGET` does so from its "
    "start. One that is not yet observed is started again by this line. Libraries and caches are one row; `.df` has "
    "every file. Where calls overlap, it is not certain which of them did something, and the table says so.\n\n"
    "The policy allows everything together in its table [sandbox], which `%mcp connect --sandbox FILE` takes, and has "
    "what each tool did in [tools.NAME], which --check compares. A tool may also do what the server did at its start.",
)
