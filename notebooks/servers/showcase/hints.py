"""A tool for each annotation hint and value (specification, `ToolAnnotations`), and one without any."""

from mcp_types import ToolAnnotations

from showcase.app import server

HINTS = {
    "hint_read_only": ToolAnnotations(read_only_hint=True),
    "hint_not_read_only": ToolAnnotations(read_only_hint=False),
    "hint_destructive": ToolAnnotations(read_only_hint=False, destructive_hint=True),
    "hint_not_destructive": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "hint_idempotent": ToolAnnotations(idempotent_hint=True),
    "hint_not_idempotent": ToolAnnotations(idempotent_hint=False),
    "hint_open_world": ToolAnnotations(open_world_hint=True),
    "hint_closed_world": ToolAnnotations(open_world_hint=False),
    "hint_title": ToolAnnotations(title="A title among the hints"),
    "hint_empty": ToolAnnotations(),
    "hint_contradiction": ToolAnnotations(read_only_hint=True, destructive_hint=True),
    "hint_none": None,
}


def says_its_hints(name: str) -> None:
    """Put the tool `name` on the server; it returns the hints that it was given."""
    hints = HINTS[name]

    def tool() -> str:
        return "no annotations" if hints is None else hints.model_dump_json(by_alias=True, exclude_none=True)

    server.add_tool(tool, name=name, description=f"Return this tool's own hints: {tool()}", annotations=hints)


for hinted in HINTS:
    says_its_hints(hinted)
