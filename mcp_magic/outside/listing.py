"""Listings for the clients of the kernel: definitions as the sessions have them, under their names for clients.

A long listing comes in pages, because there are clients that take no message of more than 1 MB over HTTP.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp import MCPError
from mcp_types import INVALID_PARAMS, methods

from mcp_magic.display.text import one_line
from mcp_magic.outside.masking import masked_texts
from mcp_magic.outside.offer import JOINT
from mcp_magic.outside.spill import listed_output_schema
from mcp_magic.protocol import UNCACHED
from mcp_magic.values.schemas import widened_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

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

PROSE = ("title", "description", "default", "examples", "_meta")
"""Members of definitions and their schemas that only a reader reads: secrets of the sessions are masked in them."""

PAGE_BYTES = 700_000  # most bytes of the definitions in a page; a longer definition is left out

_MOST = 10_000  # definitions above which only the forms of the latest listing are kept


class _Form(NamedTuple):
    """A definition as JSON, and its bytes; None where a client cannot have it."""

    definition: Any
    json: dict[str, Any] | None
    size: int


class Listings:
    """The definitions as JSON, for each protocol version.

    Args:
        adapt: Changes those of tools.
        hide: Masks the secrets of the sessions in a text.
    """

    def __init__(
        self,
        adapt: Callable[[dict[str, Any]], dict[str, Any]] = lambda tool: tool,
        hide: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._adapt = adapt
        self._hide = hide
        self._forms: dict[tuple[str, str, str, str], _Form] = {}

    def result(
        self, kind: str, items: Collection[Item], version: str, own: Iterable[Any] = (), cursor: str | None = None
    ) -> dict[str, Any]:
        """Return a page of a listing: of `own` definitions, and those of sessions that a client can have.

        Raises:
            MCPError: No page has this cursor (any more).
        """
        method, member = METHODS[kind]
        page: list[dict[str, Any]] = []
        begins: str | None = None
        size = 0
        for number, form in enumerate(self._listed(kind, items, version, own)):
            if size + form.size > PAGE_BYTES:
                if begins == cursor:
                    return {**COMPLETE, member: page, "nextCursor": str(number)}
                page, begins, size = [], str(number), 0
            if form.json is not None:
                page.append(form.json)
                size += form.size
        if begins == cursor:
            return {**COMPLETE, member: page}
        raise MCPError(INVALID_PARAMS, f"no page has this cursor (any more); {method} without one returns the first")

    def _listed(self, kind: str, items: Collection[Item], version: str, own: Iterable[Any]) -> Iterator[_Form]:
        """Yield the definitions of a listing, which are made as far as they are wanted."""
        if len(self._forms) > _MOST:  # those of this listing are kept: its next pages need them
            keys = ((kind, item.name, item.view, version) for item in items)
            self._forms = {key: self._forms[key] for key in keys if key in self._forms}
        for definition in own:
            yield _formed(definition, _json(definition))
        for item in items:
            yield self._form(kind, item, version)

    def _form(self, kind: str, item: Item, version: str) -> _Form:
        key = kind, item.name, item.view, version
        form = self._forms.get(key)
        if form is None or form.definition is not item.definition:
            form = _formed(item.definition, _readable(kind, self._renamed(kind, item), version))
            self._forms[key] = form
        return form

    def _renamed(self, kind: str, item: Item) -> dict[str, Any]:
        form = _json(item.definition)
        text = json.dumps(form, ensure_ascii=False)
        if self._hide(text) != text:
            form = masked_texts(form, self._hide, PROSE)
        if kind == "tools":
            return self._adapt(_with_view({**form, "name": item.name}, item.view))
        if kind == "prompts":
            return {**form, "name": item.name}
        name = f"{item.connection.name}{JOINT}{form['name']}"
        return {**form, "name": name, "uri" if kind == "resources" else "uriTemplate": item.name}


def _with_view(tool: dict[str, Any], uri: str) -> dict[str, Any]:
    """Return the tool with the URI of its view for the clients, who read that, in both places that hosts look at."""
    if not uri:
        return tool
    meta, ui = tool["_meta"], tool["_meta"].get("ui")
    if "ui/resourceUri" in meta:  # as servers wrote it before 2026-01-26
        meta = {**meta, "ui/resourceUri": uri}
    return {**tool, "_meta": {**meta, "ui": {**ui, "resourceUri": uri}} if isinstance(ui, dict) else meta}


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


def _formed(definition: Any, form: dict[str, Any] | None) -> _Form:
    """Return a definition as a listing has it: one that is too long for a page is left out."""
    size = 0 if form is None else len(json.dumps(form, ensure_ascii=False).encode("utf-8", "replace"))
    if size <= PAGE_BYTES:
        return _Form(definition, form, size)
    logger.info("%s is not offered to clients: it has %d bytes", one_line(str(definition.name), 200), size)
    return _Form(definition, None, 0)


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
