"""Toxic flows: what a tool seems to do, which tools make a flow together, and how a rule ends it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import Tool, ToolAnnotations

from mcp_magic.doctor.flow import Abilities, abilities, flow_findings
from mcp_magic.doctor.servers import Server


def tool(name: str, description: str = "", *arguments: str, **hints: Any) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": {argument: {} for argument in arguments}}
    annotations = ToolAnnotations(**hints) if hints else None
    return Tool(name=name, description=description, input_schema=schema, annotations=annotations)


READ = tool("read_file", "Reads a file.", "path")
FETCH = tool("fetch", "Fetches a web page.", "url")
SEND = tool("send_email", "Sends an email.", "to")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (READ, Abilities(private="read file")),
        (FETCH, Abilities(strangers="fetch web", outside="argument url")),
        (SEND, Abilities(outside="send")),
        (tool("list_emails"), Abilities(private="list email", strangers="list email")),
        (tool("get_pull_request"), Abilities(strangers="get pr")),
        (tool("merge_pull_request", "Merges a pull request."), Abilities()),
        (tool("create_issue"), Abilities(outside="create")),
        (tool("createEvent", "Creates an event and invites guests."), Abilities(outside="create")),
        (tool("run_command", "Runs a command in a shell."), Abilities(private="run command", outside="run command")),
        (tool("execute_sql"), Abilities(private="execute sql")),
        (tool("lookup", "Search the database.", open_world_hint=True), Abilities("lookup database", "openWorldHint")),
        (tool("add", "Adds two numbers."), Abilities()),
        (tool("create_table", "Creates a table."), Abilities()),
        (tool("write_file", "Writes a file."), Abilities()),
        (tool("web_search", "Searches the web.", "query"), Abilities(strangers="search web")),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else "",
)
def test_what_a_tool_does_is_guessed_by_its_words(one, expected):
    assert abilities(one) == expected


def test_hints_say_less_only_if_they_are_trusted():
    quiet = tool("post_note", "Posts a note.", read_only_hint=True)
    assert abilities(quiet).outside == "post"
    assert abilities(quiet, trusted=True) == Abilities()
    closed = tool("list_emails", open_world_hint=False)
    assert abilities(closed, trusted=True) == Abilities(private="list email")


def test_three_legs_make_a_flow_and_two_a_note():
    files, web, mail = (Server(name, {"tools": [one]}) for name, one in (("fs", READ), ("web", FETCH), ("mail", SEND)))
    [finding] = flow_findings([files, web, mail])
    assert (finding.code, finding.severity, finding.place) == ("toxic-flow", "warning", "all servers")
    assert finding.problem == (
        "a text of a stranger can make a model pass on your data (a guess by names, descriptions and hints). "
        "What reads private data: fs:read_file (read file); what reads what strangers write: web:fetch (fetch web); "
        "what sends to the outside: web:fetch (argument url), mail:send_email"
    )
    assert finding.todo.startswith("`%mcp ask web:fetch` asks you each time, `%mcp deny web:fetch`")
    [finding] = flow_findings([files, mail])
    assert (finding.severity, "strangers" in finding.problem) == ("note", False)
    assert list(flow_findings([files])) == list(flow_findings([web])) == []


def test_tools_behind_a_rule_are_no_part_of_a_flow():
    mail = Server("mail", {"tools": [tool("list_emails"), SEND]}, guarded={"send_email"})
    assert list(flow_findings([mail])) == []


def test_many_tools_are_guarded_by_their_server():
    senders = [tool(f"send_{number}", "Sends.") for number in range(9)]
    [finding] = flow_findings([Server("mail", {"tools": [*senders, *(tool(f"read_email_{n}") for n in range(9))]})])
    assert "`%mcp ask 'mail:*'`" in finding.todo
    assert "and 4 more" in finding.problem
