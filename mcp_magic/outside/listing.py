"""Listings for the clients of the kernel: definitions as the sessions have them, under their names for clients."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mcp_types import methods

from mcp_magic.display.text import one_line
from mcp_magic.outside.offer import JOINT
from mcp_magic.outside.spill import listed_output_schema
from mcp_magic.protocol import UNCACHED
from mcp_magic.values.schemas import widened_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_magic.outside.offer import Item

logger = logging.getLogger(__name__)

COMPLETE = {**UNCACHED, "resultType": "complete"}  # what 2026-07-28 requires of a listing

METHODS = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates"),
}
"""The method and the member of each kind of listing."""

OPTIONAL = ("outputSchema", "execution", "icons", "annotations", "_meta", "title")
"""Members without which a definition is of use, in the order in which an odd one is left without them."""

_MOST = 10_000  # definitions whose form is kept


class Listings:
    """The definitions as JSON, for each protocol version; `adapt` changes those of tools."""

    def __init__(self, adapt: Callable[[dict[str, Any]], dict[str, Any]] = lambda tool: tool) -> None:
        self._adapt = adapt
        self._forms: dict[tuple[str, str, str], tuple[Any, dict[str, Any] | None]] = {}

    def result(self, kind: str, items: Iterable[Item], version: str, own: Iterable[Any] = ()) -> dict[str, Any]:
        """Return the result of a listing: `own` definitions, and those of sessions that a client can have."""
        _, member = METHODS[kind]
        forms = [_json(definition) for definition in own]
        forms += [form for item in items if (form := self._form(kind, item, version)) is not None]
        return {**COMPLETE, member: forms}

    def _form(self, kind: str, item: Item, version: str) -> dict[str, Any] | None:
        key = kind, item.name, version
        definition, form = self._forms.get(key, (None, None))
        if definition is not item.definition:
            if len(self._forms) >= _MOST:
                self._forms.clear()
            form = _readable(kind, self._renamed(kind, item), version)
            self._forms[key] = item.definition, form
        return form

    def _renamed(self, kind: str, item: Item) -> dict[str, Any]:
        form = _json(item.definition)
        if kind == "tools":
            return self._adapt({**form, "name": item.name})
        if kind == "prompts":
            return {**form, "name": item.name}
        name = f"{item.connection.name}{JOINT}{form['name']}"
        return {**form, "name": name, "uri" if kind == "resources" else "uriTemplate": item.name}


def with_references(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the tool of a session as clients see it: its arguments take references to values."""
    return {**tool, "inputSchema": widened_schema(tool["inputSchema"])}


def with_handles(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the tool as clients see it where large answers are kept: its answer may be a handle, too."""
    widened = with_references(tool)
    output = listed_output_schema(widened.pop("outputSchema", None))
    return widened if output is None else {**widened, "outputSchema": output}


def _json(definition: Any) -> dict[str, Any]:
    form: dict[str, Any] = definition.model_dump(by_alias=True, mode="json", exclude_none=True)
    return form


def _readable(kind: str, form: dict[str, Any], version: str) -> dict[str, Any] | None:
    """Return a definition that a client of a version can read, without members that it could not; None if none."""
    method, member = METHODS[kind]
    problem: Exception | None = None
    for name in ("", *OPTIONAL):
        form = {key: value for key, value in form.items() if key != name}
        try:
            methods.serialize_server_result(method, version, {**COMPLETE, member: [form]})
        except ValueError as error:
            problem = error
        else:
            return form
    logger.info("%s is not offered to clients of %s: %s", one_line(str(form.get("name")), 200), version, problem)
    return None
