"""Looks over what a server offers: each tool, prompt, resource, template, and what it says of itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.core.lint import uris
from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding, Findings
from mcp_magic.core.lint.names import argument_name_findings, duplicate_findings, name_findings
from mcp_magic.core.lint.schemas import schema_findings
from mcp_magic.core.lint.walk import parts, place, schema_texts
from mcp_magic.core.lint.writing import described, size_findings, text_findings
from mcp_magic.errors import listed

if TYPE_CHECKING:
    from mcp_types import Implementation, Prompt, Resource, ResourceTemplate, Tool


__all__ = ["lint_connection", "lint_offers", "lint_tool"]

_CHANGES = re.compile(
    r"(?i)(?:^|[_.-])(?:delete|remove|drop|write|update|insert|rename|overwrite|erase|destroy)(?:[_.-]|$)"
)

Lister = Callable[[Any, str], Iterator[Finding]]


class Offering(Protocol):
    """A connection, as far as it is looked over."""

    name: str

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, if it gave them."""

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models, or None."""

    async def listing(self, kind: str) -> tuple[Any, ...]:
        """Return all of one kind that it offers."""


async def lint_connection(connection: Offering) -> Findings:
    """Look over everything that a connected server offers; the lists are fetched if they are not there.

    Raises:
        SessionError: A list cannot be had.
    """
    offers = {kind: await connection.listing(kind) for kind in ("tools", "resources", "templates", "prompts")}
    info = connection.server_info
    said = [(name, getattr(info, name, None)) for name in ("name", "title", "version")]
    texts = [("server", text) for _, text in [*said, ("", connection.instructions)] if text]
    return await lint_offers(connection.name, offers, texts)


async def lint_offers(
    server: str,
    offers: Mapping[str, Sequence[Any]],
    texts: Iterable[tuple[str, str]] = (),
    unread: Iterable[tuple[str, str]] = (),
) -> Findings:
    """Look over definitions. Other tasks go on meanwhile.

    Args:
        server: The server's name.
        offers: Definitions by kind: `"tools"`, `"resources"`, `"templates"`, `"prompts"`.
        texts: What else it says of itself: where that stands, and the text.
        unread: What it lists and is no definition: what is meant, and why.
    """
    found = list(text_findings(texts))
    todo = "mend it: hosts lose the whole list by it"
    found += [Finding("definition-invalid", ERROR, where, f"no definition: {why}", todo) for where, why in unread]
    for kind, (singular, name_of, lint) in _KINDS.items():
        items = offers.get(kind, ())
        found += duplicate_findings([name_of(item) for item in items], singular)
        for item in items:
            found += lint(item, server)
            await asyncio.sleep(0)
    counts = [(len(offers.get(kind, ())), kind) for kind in _KINDS]
    looked_at = ", ".join(f"{count:,} {kind if count != 1 else kind[:-1]}" for count, kind in counts if count)
    return Findings(found, title=f"Lint of {server}", looked_at=looked_at or "a server that offers nothing")


def lint_tool(tool: Tool, server: str) -> Iterator[Finding]:
    """Yield what is wrong with a tool."""
    owner = f"tool {tool.name[:80]}" if tool.name else "a tool without a name"
    yield from name_findings(tool.name, server, owner)
    yield from described(tool.description, owner)
    yield from schema_findings(tool.input_schema, owner)
    if tool.output_schema is not None:
        yield from schema_findings(tool.output_schema, owner, "output")
    yield from _arguments(tool, owner)
    yield from _hints(tool, owner)
    yield from _common(tool, owner)
    for kind, schema in (("argument", tool.input_schema), ("output", tool.output_schema)):
        yield from text_findings((place(owner, where, kind), text) for where, text in schema_texts(schema))
    definition = (tool.name, tool.description, tool.input_schema)
    yield from size_findings(definition, owner)


def _arguments(tool: Tool, owner: str) -> Iterator[Finding]:
    names = tool.input_schema.get("properties") if isinstance(tool.input_schema, Mapping) else None
    if not isinstance(names, Mapping):
        return
    yield from argument_name_findings([str(name) for name in names], owner)
    silent = [name for name, schema in names.items() if not _says_something(schema)]
    if silent:
        said = f"arguments without a description: {listed(str(name)[:60] for name in silent)}"
        yield Finding("argument-description", NOTE, owner, said, "say what each means, with its unit")


def _says_something(schema: Any) -> bool:
    return any(str(part.node.get("description") or "").strip() for part in parts(schema) if not part.where)


def _hints(tool: Tool, owner: str) -> Iterator[Finding]:
    hints = tool.annotations
    if hints is None or not hints.read_only_hint:
        return
    if hints.destructive_hint:
        said = "readOnlyHint and destructiveHint contradict each other"
        yield Finding("hints-contradict", WARNING, owner, said, "leave out the one that is wrong")
    if found := _CHANGES.search(tool.name):
        said = f"it says that it only reads, and is called {found[0].strip('_.-')!r}"
        yield Finding("hints-doubtful", WARNING, owner, said, "hosts do not ask before it: is it true?")


def lint_prompt(prompt: Prompt, server: str) -> Iterator[Finding]:
    """Yield what is wrong with a prompt."""
    owner = f"prompt {prompt.name[:80]}"
    arguments = prompt.arguments or []
    yield from described(prompt.description, owner, severity=NOTE)
    yield from duplicate_findings([argument.name for argument in arguments], f"{owner}, argument")
    silent = [argument.name for argument in arguments if not (argument.description or "").strip()]
    if silent:
        said = f"arguments without a description: {listed(name[:60] for name in silent)}"
        yield Finding("argument-description", NOTE, owner, said, "say what each means")
    yield from _common(prompt, owner)
    given = [(a.name, text) for a in arguments for text in (a.name, a.title, a.description) if text]
    yield from text_findings((place(owner, name), text) for name, text in given)


def lint_resource(resource: Resource, server: str) -> Iterator[Finding]:
    """Yield what is wrong with a resource."""
    uri = str(resource.uri)
    owner = f"resource {uri[:120]}"
    yield from uris.uri_findings(uri, owner)
    yield from uris.mime_findings(resource.mime_type, owner)
    yield from text_findings([(owner, uri)])
    yield from _common(resource, owner)


def lint_template(template: ResourceTemplate, server: str) -> Iterator[Finding]:
    """Yield what is wrong with a resource template."""
    owner = f"template {template.uri_template[:120]}"
    yield from uris.template_findings(template.uri_template, owner)
    yield from uris.mime_findings(template.mime_type, owner)
    yield from _common(template, owner)


def _common(item: Any, owner: str) -> Iterator[Finding]:
    """Yield what is wrong with the names, texts and icons that everything has."""
    hints_title = getattr(getattr(item, "annotations", None), "title", None)
    written = (item.name, item.title, hints_title, item.description)
    yield from text_findings((owner, text) for text in written if text)
    yield from uris.icon_findings([str(icon.src) for icon in item.icons or ()], owner)


_KINDS: dict[str, tuple[str, Callable[[Any], str], Lister]] = {
    "tools": ("tool", lambda tool: str(tool.name), lint_tool),
    "resources": ("resource", lambda resource: str(resource.uri), lint_resource),
    "templates": ("template", lambda template: str(template.uri_template), lint_template),
    "prompts": ("prompt", lambda prompt: str(prompt.name), lint_prompt),
}
"""Kind -> what one is called, what it is known by, and what looks over it."""
