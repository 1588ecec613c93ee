"""`put_value`: an outside agent makes a variable of the notebook, if the person agrees."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from mcp_magic import schema
from mcp_magic.consent.consent import Request
from mcp_magic.consent.values import unchanged
from mcp_magic.errors import ArgumentsError
from mcp_magic.outside.edits import edit_note, edited_names
from mcp_magic.values.references import check_others, resolve_references
from mcp_magic.values.shared import check_put

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic._host import Host
    from mcp_magic.outside.clients import Client
    from mcp_magic.values.shared import ClientValues

PUT_VALUE = Tool(
    name="put_value",
    title="Put a value into the notebook",
    description="Makes a new variable of the notebook: a list of objects becomes a DataFrame, other JSON stays as it "
    "is. The person is asked. It replaces no variable of the person, only one that the same agent has put. "
    'value may be a reference, such as {"$value": "result_3", "columns": ["a"]}; what is masked (***) stays '
    "so, and dates are texts.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "the name of the variable, such as joined"},
            "value": {
                "anyOf": [
                    {"type": "array", "items": {}, "description": "a list of objects is a table"},
                    {"type": "object"},
                    {"type": "string"},
                    {"type": "number"},
                    {"type": "boolean"},
                ]
            },
        },
        "required": ["name", "value"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)


class PutValue:
    """The tool; each call is asked about, unless a rule allows it. `hide` masks known secrets in a text."""

    tool = PUT_VALUE

    def __init__(self, host: Host, hide: Callable[[str], str] = str) -> None:
        self._host = host
        self._hide = hide

    async def call(self, arguments: dict[str, Any], client: Client, values: ClientValues) -> CallToolResult:
        """Make a variable.

        Raises:
            ArgumentsError: The name or the value cannot be used.
            DeniedError: The person, or a rule, refused.
        """
        request = Request("", PUT_VALUE.name, arguments, client.asker, definition=PUT_VALUE)
        if self._host.consent.denies_any(request):
            await self._host.caller.approval(request)  # raises the denial; no value is read for it
        check_others(arguments, PUT_VALUE.input_schema)
        # masked, as the client reads what it has put
        resolved = resolve_references(arguments, values, PUT_VALUE.input_schema, hide=self._hide, masks=True)
        prepared, _ = schema.prepare_arguments(resolved.arguments, PUT_VALUE.input_schema)
        check_put(prepared["name"], prepared["value"])
        name = prepared["name"]
        if name in values and name not in values.own():
            raise ArgumentsError(f"{name!r} is a variable of the person, and stays; put the value under another name")
        request = replace(request, arguments=prepared, values=resolved.references)
        decision = await self._host.caller.approval(request)
        agreed = prepared if decision.arguments is None else decision.arguments
        values.note_reads(note.name for note in unchanged(resolved.references, prepared, agreed))
        name = str(agreed["name"])
        shape = values.put(name, agreed["value"])
        text = f'{name} is a variable of the notebook now: {shape}. {{"$value": "{name}"}} refers to it.'
        if names := edited_names(prepared, decision.arguments):
            text = f"{edit_note(names)}\n{text}"
        return CallToolResult(content=[TextContent(text=text)])
