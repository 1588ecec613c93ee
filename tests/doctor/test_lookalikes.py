"""Names over several servers: equal ones, ones that are read alike, ones with a typing error, and honest pairs."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import Tool

from mcp_magic.doctor import lookalikes
from mcp_magic.doctor.lookalikes import lookalike_findings
from mcp_magic.doctor.servers import Server


def server(name: str, *tools: Tool) -> Server:
    return Server(name, {"tools": tools})


def tool(name: str, description: str = "Does it.", *arguments: str) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": {argument: {} for argument in arguments}}
    return Tool(name=name, description=description, input_schema=schema)


def between(one: Tool, two: Tool) -> list[tuple[str, str]]:
    """Return severity and place of what is found between the tools of two servers."""
    found = lookalike_findings([server("one", one), server("two", two)])
    return [(finding.severity, finding.place) for finding in found]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("re\u0430d_file", "error"),
        ("read\u200b_file", "error"),
        ("read_fi1e", "error"),
        ("ｒead_file", "error"),  # noqa: RUF001
        ("raed_file", "warning"),
        ("read_filee", "warning"),
        ("read_fle", "warning"),
        ("ReadFile", "note"),
        ("read-file", "note"),
        ("read_file", "note"),
        ("read_files", None),
        ("read_file2", None),
        ("write_file", None),
    ],
    ids=ascii,
)
def test_names_that_look_alike_are_found(name, severity):
    found = between(tool("read_file", "Reads a file."), tool(name, "Does something."))
    assert found == ([] if severity is None else [(severity, f"two: tool {name}")])


def test_equal_names_with_equal_arguments_are_a_warning():
    mail = tool("send", "", "to", "text")
    assert between(mail, tool("send", "", "text", "to"))[0][0] == "warning"
    assert between(mail, tool("send", "", "channel", "text"))[0][0] == "note"
    assert between(tool("search", "", "query"), tool("search", "", "query"))[0][0] == "note"


def test_honest_pairs_of_different_words_are_silent():
    assert between(tool("read_note", "Reads a note."), tool("read_node", "Reads a node.")) == []
    assert between(tool("sort_rows", "Sorts rows."), tool("sort_cows", "Sorts cows.")) == []
    git = server("git", tool("git_commit", "Commits."))
    assert list(lookalike_findings([git, server("hub", tool("get_commit", "Gets a commit."))])) == []
    numbered = [tool("gat_one"), tool("gat_two")]
    assert list(lookalike_findings([server("a", *numbered), server("b", tool("get_one", "Gets."))])) == []


def test_odd_schemas_and_long_names_are_taken_as_they_are():
    odd = Tool(name="read_file", input_schema={"type": "object", "properties": 5})
    long = Tool(name="read_fi1e" * 100, input_schema={})
    [finding] = lookalike_findings(
        [server("a", odd, tool("read_file" * 100)), server("b", Tool(name="other", input_schema={}), long)]
    )
    assert finding.severity == "error"
    assert len(finding.todo) < 300


def test_names_of_servers_are_compared_too():
    github = server("github", tool("list_issues", "Lists issues on GitHub."))
    [finding] = lookalike_findings([github, server("githud", tool("push", "Pushes."))])
    assert (finding.severity, finding.place) == ("warning", "githud: server")
    assert finding.problem == "its name is a letter away from the server github"
    assert "`%mcp disconnect githud`" in finding.todo
    assert list(lookalike_findings([server("math", tool("add")), server("math_2", tool("sub"))])) == []


def test_two_sessions_of_one_server_are_one_note():
    offer = (tool("query", "", "sql"), tool("tables"))
    [finding] = lookalike_findings([server("live", *offer), server("staging", *offer)])
    assert (finding.severity, finding.server) == ("note", "staging")
    assert finding.problem.startswith("live, staging offer tools of the same names")


def test_thousands_of_names_take_time_by_their_number(monkeypatch):
    compared = 0
    one_error = lookalikes._one_error

    def counted(a: str, b: str) -> bool:
        nonlocal compared
        compared += 1
        return one_error(a, b)

    monkeypatch.setattr(lookalikes, "_one_error", counted)
    one = server("one", *(tool(f"tool_{number}") for number in range(2_000)))
    two = server("two", *(tool(f"tooi_{number}") for number in range(2_000)))
    assert len(list(lookalike_findings([one, two]))) >= 2_000
    assert compared < 2_000 * 200
