"""Cards that describe servers, tools, resources and prompts."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic import schema
from mcp_magic._text import ago, duration, join_names, plural
from mcp_magic.config.specs import StdioSpec
from mcp_magic.display import document
from mcp_magic.display.diff import diff_part
from mcp_magic.display.document import (
    Badge,
    Code,
    Part,
    cell_text,
    details,
    joined,
    parts_text,
    preformatted,
    show_parts,
    tag,
    tool_badges,
)
from mcp_magic.display.json import brief
from mcp_magic.display.text import cut, one_line
from mcp_magic.results.content import read_line
from mcp_magic.schema.fields import descendants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_types import Implementation, Prompt, Resource, ResourceTemplate, Tool

    from mcp_magic.config.specs import Spec
    from mcp_magic.display.diff import Line
    from mcp_magic.schema.fields import Field

# The card of a tool.

_COLUMNS = ("name", "type", "required", "default", "description")
MAX_NESTED = 3  # levels of fields inside an argument that a card shows


class Changed(Protocol):
    """How a tool differs from its earlier definition, for its card."""

    @property
    def badge(self) -> Badge:
        """The badge that marks the change."""

    @property
    def lines(self) -> list[Line]:
        """The lines that differ."""


@dataclass(repr=False)
class ToolCard:
    """A tool's description, hints, arguments and an example call.

    Attributes:
        tool: The tool's definition from the SDK.
        server: The server's name.
        trusted: Whether the user trusts this server's hints.
        change: How the tool has changed since it was first seen, or None.
        outdated: Which programs of the server have changed since it was started, in words; "" if none.
    """

    tool: Tool
    _: KW_ONLY
    server: str
    trusted: bool = False
    change: Changed | None = None
    outdated: str = ""

    @property
    def name(self) -> str:
        """The name for a call: `server:tool`."""
        return f"{self.server}:{self.tool.name}" if self.server else self.tool.name

    @property
    def title(self) -> str:
        """The tool's `title`, else its `annotations.title`, else ""."""
        annotations = self.tool.annotations
        return self.tool.title or (annotations.title if annotations else None) or ""

    @property
    def description(self) -> str:
        """The description, or ""."""
        return (self.tool.description or "").strip()

    @property
    def badges(self) -> list[Badge]:
        """Whether it has changed, whether only apps may use it, and the server's hints."""
        badges = tool_badges(self.tool, trusted=self.trusted)
        return badges if self.change is None else [self.change.badge, *badges]

    @property
    def example(self) -> str:
        """A line that calls the tool; "" if no valid arguments are known."""
        of = self.tool.input_schema
        example = schema.valid_example(of)
        return "" if example is None else schema.call_line(self.name, example, schema=of)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """One row per argument, and per field inside it: name, type, required, default, description."""
        return _rows(schema.input_root(self.tool.input_schema))

    @property
    def output(self) -> list[dict[str, Any]] | None:
        """Such rows for the output schema, or None if there is none."""
        return _rows(schema.root_field(self.tool.output_schema)) if self.tool.output_schema else None

    def __repr__(self) -> str:
        return f"<ToolCard {one_line(self.name, 100)}>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        blocks = [heading(self.name, self.title, self.badges)]
        if self.change is not None and self.change.lines:
            blocks.append(diff_part(self.change.lines).folded("changed since it was first seen", opened=True))
        limit = document.display.characters
        more = "\n… .description has all of it" if len(self.description) > limit else ""
        blocks.append(Part.prose(cut(self.description, limit) + more))
        arguments = _table(self.tool.input_schema)
        blocks.append(Part(f"arguments\n{arguments.plain}", arguments.html) if arguments else Part.note("no arguments"))
        if self.tool.output_schema and (output := _table(self.tool.output_schema)):
            blocks.append(output.folded("returns"))
        if example := self.example:
            blocks.append(Part.command(cut(example, 2000)))
        return [Part.stack(*blocks, Part.note(self.outdated), gap="\n\n")]


def heading(name: str, title: str, badges: Sequence[Badge] = ()) -> Part:
    """Return the heading of a card or a form."""
    name, title = one_line(name, 200), one_line(title, 200)
    plain = [f"{name}: {title}" if title else name, *([" ".join(map(str, badges))] if badges else [])]
    return Part("\n".join(plain), tag("p", joined([tag("b", name), *([title] if title else []), *badges], " ")))


def _rows(root: Field) -> list[dict[str, Any]]:
    """Return a row for each field, followed by those of the fields inside it."""
    rows = []
    for name, field in descendants(root, MAX_NESTED):
        bounds = f"({field.constraints_text})" if field.constraints_text else ""
        row = {"name": name, "type": field.type_text, "required": field.required}
        row["default"] = None if field.default is schema.MISSING else field.default
        row["description"] = f"{field.description} {bounds}".strip()
        rows.append(row)
    return rows


def _table(of: Mapping[str, Any]) -> Part | None:
    """Return a schema's fields as a table, without the columns that are empty in every row; None without fields."""
    root = schema.root_field(of)
    rows = _rows(root)
    if not rows:
        return None
    limit = document.display
    texts = []
    for row in rows[: limit.listing_rows]:
        cells = {name: brief(v, 300) if isinstance(v, dict | list) else cell_text(v, 300) for name, v in row.items()}
        texts.append(cells)
    names = [name for name in _COLUMNS if any(row[name] for row in texts)]
    table, count = Part.table(names, [[row[name] for name in names] for row in texts], limit=limit.bytes // 3)
    more = len(rows) + root.unlisted - count
    return Part.stack(table, Part.note(f"… {more:,} more" if more else ""))


# Programs that were edited while their server runs: the server still runs the old code.

PROGRAMS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".jar", ".sh", ".rb", ".php", ".pl", ".r", ".jl", ".lua")
"""Suffixes of programs. Other files in a command are ignored: the server itself may write them."""


def edited(server: str, spec: Spec, opened: float | None) -> str:
    """Return a line that names the programs of a server that changed since `opened` (`time.time()`), or ""."""
    if not isinstance(spec, StdioSpec) or opened is None:
        return ""
    paths = [Path(spec.cwd or ".", word) for word in (spec.command, *spec.args) if word.lower().endswith(PROGRAMS)]
    newer = [path.name for path in paths if _modified(path) > opened]
    if not newer:
        return ""
    have = "has" if len(newer) == 1 else "have"
    return f"{join_names(newer)} {have} changed since it was started; `%mcp reconnect {server}` starts it again"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# A connection, as a card and as a row of a listing.

MAX_INSTRUCTIONS = 4000  # most characters shown of a server's instructions

MAX_SHOWN_REMARKS = 5  # most remarks that a connection's card shows; `.remarks` and `%mcp doctor` have them all


@dataclass(frozen=True)
class ConnectionInfo:
    """A connection's state at one moment; it displays itself as the connection's card. Times are `time.time()`."""

    name: str
    spec: Spec
    state: str  # "connecting", "open", "reconnecting", "lost" or "closed"
    problem: str  # why the session is not open; "" while it is
    server: Implementation | None  # the server's own name and version
    protocol_version: str | None  # None before the first session
    instructions: str | None  # for models
    opened_at: float | None
    found_open: float | None  # the `opened_at` of the session that `connect` found open already
    counts: Mapping[str, int | None]  # how many items it lists, by kind; None for a kind that was not fetched
    unlisted: Mapping[str, str]  # why a listing could not be fetched, by kind
    kept: Mapping[str, float]  # seconds for which a listing is still kept, by kind, where the server says so
    kept_reads: int  # how many read resources are kept
    last_seen: float | None  # when the server last answered
    latency: float | None  # seconds that the last request took
    calls: int  # requests sent
    failures: int  # requests that failed
    reconnects: int  # how often the session reconnected by itself
    remarks: tuple[str, ...] = ()  # what was odd in its messages, and was understood all the same

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: the server, its state, what it offers, and what to type next."""
        is_open = self.state == "open"
        facts = [*self._facts(), ("next", Code(f"%mcp {'tools' if is_open else 'reconnect'} {self.name}"))]
        if is_open:
            facts.append(("explore", Code(f"%mcp ui {self.name}")))
        state = Badge(self.state, "safe" if is_open else "danger")
        title = Part(f"{self.name}: {self.state}", tag("p", joined([tag("b", self.name), " ", state])))
        card = Part.stack(title, Part.facts(facts, width=10, indent="  "))
        instructions = cut((self.instructions or "").strip(), MAX_INSTRUCTIONS)
        if not instructions:
            return [card]
        folded = Part(instructions, details("instructions for models", preformatted(instructions)))
        return [Part.stack(card, folded, gap="\n\n")]

    @property
    def rights(self) -> str:
        """What a stdio server may reach; "" for others, which run elsewhere or in this kernel."""
        return one_line(self.spec.isolation, 400) if isinstance(self.spec, StdioSpec) else ""

    @property
    def secrets(self) -> str:
        """Where its secrets come from: `TOKEN from keyring acme/db`; "" if its configuration refers to none."""
        return one_line(", ".join(self.spec.secret_sources), 400)

    @property
    def is_isolated(self) -> bool:
        """Whether the server runs in a sandbox."""
        return isinstance(self.spec, StdioSpec) and self.spec.sandbox is not None

    def row(self, **more: Any) -> dict[str, Any]:
        """Return the connection as a row of a listing, with its health and `more` columns."""
        return {
            "server": self.name,
            "state": self.state,
            "transport": self.spec.transport,
            "rights": self.rights.partition(":")[0] if self.is_isolated else None,
            "secrets": self.secrets or None,
            "protocol": self.protocol_version,
            **self.counts,
            "latency": None if self.latency is None else duration(self.latency),
            "seen": ago(self.last_seen),
            "failed": f"{self.failures} of {self.calls}" if self.failures else None,
            "reconnects": self.reconnects or None,
            "kept": self._cache_text() or None,
            **more,
        }

    def _facts(self) -> list[tuple[str, str]]:
        server = self.server
        offers = [plural(count, kind) for kind, count in self.counts.items() if count]
        more = len(self.remarks) - MAX_SHOWN_REMARKS
        facts = [
            (self.spec.transport, one_line(self.spec.where, 200)),
            ("rights", self.rights),
            ("secrets", self.secrets),
            ("server", one_line(f"{server.title or server.name} {server.version}", 200) if server is not None else ""),
            ("protocol", self.protocol_version or ""),
            ("since", self._since()),
            ("offers", ", ".join(offers)),
            ("kept", self._cache_text()),
            *((kind, one_line(f"could not be listed: {why}", 400)) for kind, why in self.unlisted.items()),
            ("why", one_line(self.problem, 400)),
            ("health", self._health() if self.last_seen is not None else ""),
            *(("odd", remark) for remark in self.remarks[:MAX_SHOWN_REMARKS]),
            ("odd", f"{more:,} more: `%mcp logs {self.name}`" if more > 0 else ""),
        ]
        return [(label, value) for label, value in facts if value]

    def _cache_text(self) -> str:
        parts = [f"{kind} for {duration(round(seconds))}" for kind, seconds in self.kept.items()]
        if self.kept_reads:
            parts.append(plural(self.kept_reads, "read resources"))
        return ", ".join(parts)

    def _since(self) -> str:
        """Return a line if the session was open before `connect`, or its program has changed since; else ""."""
        if self.state != "open":
            return ""
        parts = []
        if self.opened_at is not None and self.found_open == self.opened_at:
            parts.append(f"open already since {time.strftime('%H:%M:%S', time.localtime(self.opened_at))}")
        if note := edited(self.name, self.spec, self.opened_at):
            parts.append(note)
        return "; ".join(parts)

    def _health(self) -> str:
        parts = [f"seen {ago(self.last_seen)}"]
        if self.latency is not None:
            parts.append(f"latency {duration(self.latency)}")
        if self.failures:
            parts.append(f"{self.failures} of {self.calls} requests failed")
        if self.reconnects:
            parts.append(f"reconnected {self.reconnects}x")
        return ", ".join(parts)


# Cards of a resource, a template and a prompt.


def resource_part(server: str, resource: Resource) -> Part:
    """Return a resource's card: URI, type and size, and the line that reads it."""
    size = document.size_text(resource.size) if resource.size is not None else ""
    facts = [("uri", str(resource.uri)), ("type", resource.mime_type or ""), ("size", size)]
    return _card(server, resource, facts, read_line(str(resource.uri), server))


def template_part(server: str, template: ResourceTemplate) -> Part:
    """Return a template's card; its line reads a resource once the variables are filled in."""
    facts = [("template", template.uri_template), ("type", template.mime_type or "")]
    return _card(server, template, facts, read_line(template.uri_template, server))


def prompt_part(server: str, prompt: Prompt) -> Part:
    """Return a prompt's card: its arguments, and the line that gets it with the required ones."""
    arguments = prompt.arguments or []
    example = {argument.name: "..." for argument in arguments if argument.required}
    line = schema.prompt_line(f"{server}:{prompt.name}", example)
    names = ("argument", "required", "description")
    rows = [[one_line(a.name, 200), "yes" if a.required else "", one_line(a.description or "", 300)] for a in arguments]
    limit = document.display
    if not rows:
        return _card(server, prompt, [], line)
    return _card(server, prompt, [], line, Part.table(names, rows[: limit.listing_rows], limit=limit.bytes // 3)[0])


def _card(server: str, item: Any, facts: list[tuple[str, str]], line: str, *more: Part) -> Part:
    description = cut((item.description or "").strip(), document.display.characters)
    return Part.stack(
        heading(f"{server}:{item.name}", item.title or ""),
        Part.prose(description),
        Part.facts([(label, Code(one_line(value, 500))) for label, value in facts if value], width=9),
        *more,
        Part.command(cut(line, 2000)),
        gap="\n\n",
    )
