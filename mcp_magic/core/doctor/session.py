"""What is looked at on an open session: version, ping, a call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.doctor.asking import ask
from mcp_magic.core.lint import ERROR, WARNING
from mcp_magic.errors import DeniedError, MCPMagicError, did_you_mean, listed
from mcp_magic.results.answers import reason
from mcp_magic.results.safe import one_line
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.doctor.report import Step
    from mcp_magic.core.lint import Findings

__all__ = ["judge_call", "judge_findings", "judge_ping", "judge_version"]

PINGS = 3

MAX_SHOWN = 6
"""Findings of the lint that the step names; the report has them all."""


def judge_version(connection: Connection, step: Step) -> None:
    """Note who the server is and which protocol the session speaks."""
    from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, LATEST_PROTOCOL_VERSION

    version = connection.protocol_version
    newest = " (the newest)" if version == LATEST_PROTOCOL_VERSION else f"; the newest is {LATEST_PROTOCOL_VERSION}"
    step.ok(f"the session speaks protocol {version}{newest}")
    if version in KNOWN_PROTOCOL_VERSIONS[:2]:
        step.warn(f"{version} has no structured results and no questions to the person", "update the server's SDK")
    info = connection.server_info
    if info is None or not info.name:
        step.warn("it does not say who it is", "give serverInfo a name and a version")
    else:
        title = f" ({one_line(info.title, 80)})" if info.title else ""
        step.ok(f"server {one_line(info.name, 80)}{title} {one_line(info.version or '', 40)}".rstrip())
    if connection.instructions:
        step.ok(f"instructions for models: {len(connection.instructions):,} characters")


def judge_findings(findings: Findings, step: Step) -> None:
    """Name the worst of what the lint found."""
    step.ok(findings.note or findings.empty)
    serious = [*findings.of(ERROR), *findings.of(WARNING)]
    for found in serious[:MAX_SHOWN]:
        note = step.fail if found.severity == ERROR else step.warn
        note(f"{found.where}: {found.what} [{found.code}]", found.todo)
    if len(serious) > MAX_SHOWN:
        step.warn(f"{len(serious) - MAX_SHOWN} more errors and warnings: `.findings`")


async def judge_ping(connection: Connection, step: Step, seconds: float) -> None:
    """Measure round trips."""
    modern = connection.client.session.discover_result is not None
    method = "server/discover" if modern else "ping"
    taken = []
    for _ in range(PINGS):
        asked = await ask(connection, method, seconds=seconds)
        if asked.result is None:
            step.fail(asked.problem, f"{method} must be answered at any time")
            return
        taken.append(asked.seconds * 1000)
    note = " (there is no ping since 2026-07-28)" if modern else ""
    step.ok(f"{method}: {listed(f'{ms:.1f}' for ms in taken)} ms{note}")


async def judge_call(
    connection: Connection, tools: Sequence[Tool], wanted: str | None, step: Step, seconds: float
) -> None:
    """Call one tool that is harmless, as the person's own call: consent rules hold.

    Args:
        connection: The session.
        tools: What it offers.
        wanted: The tool; "" to pick one, None to call none.
        step: Where it is noted.
        seconds: The time that the answer may take.
    """
    if wanted is None:
        step.skip("no call was asked for (--call)")
        return
    tool = _chosen(tools, wanted, step)
    if tool is None:
        return
    required = [name for name in tool.input_schema.get("required") or () if isinstance(name, str)]
    given: dict[str, Any] = schema.example_arguments(tool.input_schema) if required else {}
    if required and not (tool.annotations and tool.annotations.read_only_hint):
        line = schema.call_line(f"{connection.name}:{tool.name}", given, schema=tool.input_schema)
        step.warn(
            f"{tool.name} needs {listed(required)}, and does not say that it is read-only: it is not called", line
        )
        return
    await _call(connection, tool, given, step, seconds)


def _chosen(tools: Sequence[Tool], wanted: str, step: Step) -> Tool | None:
    if wanted:
        name = wanted.rpartition(":")[2] if wanted not in [tool.name for tool in tools] else wanted
        found = next((tool for tool in tools if tool.name == name), None)
        if found is None:
            names = [tool.name for tool in tools]
            step.fail(f"there is no tool {wanted!r}.{did_you_mean(wanted, names)}", f"it has: {listed(names)}")
        return found
    harmless = [tool for tool in tools if tool.annotations and tool.annotations.read_only_hint]
    found = next((tool for tool in harmless if not tool.input_schema.get("required")), None)
    if found is None:
        step.skip("no tool is read-only and without required arguments: --call TOOL names one")
    return found


async def _call(connection: Connection, tool: Tool, given: dict[str, Any], step: Step, seconds: float) -> None:
    what = f"{tool.name}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    started = time.perf_counter()
    problem: MCPMagicError | None = None
    try:
        result = await connection.call_tool(tool.name, given, timeout=seconds)
    except MCPMagicError as error:
        problem = error
    took = duration(time.perf_counter() - started)
    if isinstance(problem, DeniedError):
        step.warn(f"{what} was not called: {one_line(str(problem), 300)}", "`%mcp approvals` lists the rules")
        return
    if problem is not None:
        step.fail(f"{what}: {one_line(str(problem), 300)}", "`%mcp trace` has the messages")
        return
    if result.is_error:
        todo = "are example arguments what it can take?" if given else "`%mcp call` it, and look at its log"
        step.warn(f"{what} reports an error{reason(result.texts, tool.name, result.clue)}", todo)
    else:
        step.ok(f"{what} answered in {took}: {_kinds(result)}")
    if result.raw.structured_content is not None and tool.output_schema is None:
        todo = "declare an output schema: hosts and models then know the columns"
        step.warn(f"{tool.name} answers with structured content and has no outputSchema", todo)


def _kinds(result: Any) -> str:
    blocks = [str(block.type) for block in result.raw.content]
    structured = ["structured content"] if result.raw.structured_content is not None else []
    return listed([*dict.fromkeys(blocks), *structured]) if blocks or structured else "nothing"
