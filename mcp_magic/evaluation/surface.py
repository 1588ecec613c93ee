"""The surface of a server: its tools as a model sees them, to be edited. Calls still go to the real tools.

Which tool a model takes, and with which arguments, depends on the names, descriptions and schemas that it reads. A
surface is a variant of these, for one connected server. A tool that was deleted cannot be called by the model, and a
renamed one is called under its own name. Its schema, too, is only what the model reads: the arguments are checked by
that of the real tool.

A surface keeps the tools that the server listed when it was made. Where the server has changed one since, the surface,
its display and the run of an agent say so, as what the model reads is then an old text.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.agent.tools import tokens_of
from mcp_magic.display.document import Bold, Part, app_only, parts_text, show_parts
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import ArgumentsError, UnknownToolError
from mcp_magic.langchain.functions import function_of
from mcp_magic.langchain.names import Names
from mcp_magic.langchain.variants import ToolVariant
from mcp_magic.schema.fields import input_root
from mcp_magic.server.snapshot import Changes, interface_changes, listed_changes, schema_changes
from mcp_magic.session.catalog import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_types import Tool

    from mcp_magic.session.connection import Connection

MAX_SHOWN = 50  # tools whose text is displayed

MAX_DESCRIPTION = 4000  # characters of a tool's description that are displayed

MAX_PARAMETER = 400  # characters of a parameter's description that are displayed

CHANGED = "the server has changed it since the surface was made"


class Surface:
    """The tools of a connected server as a model sees them; mapping-like, by the name that the model reads.

    `surface["get_weather"].description = "..."`, `del surface["old"]` and `surface.rename("a", "b")` edit it. An agent
    takes a copy when it is made: later edits do not change it.

    Attributes:
        source: Where the texts come from: the server, a snapshot, or another server.
        left_out: Tools of that source that the server does not have, so that no model can call them.
    """

    def __init__(
        self, connection: Connection, tools: Sequence[Tool], shown: Mapping[str, Tool] | None = None, source: str = ""
    ) -> None:
        """Make a surface of the tools that a server lists; `shown` are the texts of another source, by name."""
        self._connection = connection
        self._original = {tool.name: tool for tool in tools if not app_only(tool)}
        texts = self._original if shown is None else {name: tool for name, tool in shown.items() if not app_only(tool)}
        self._shown = {name: tool for name, tool in texts.items() if name in self._original}
        self.source = source or connection.name
        self.left_out = [name for name in texts if name not in self._original]

    @property
    def server(self) -> str:
        """The name of the server whose tools are called."""
        return self._connection.name

    # The tools, by the name that the model reads; inside, by the server's.

    def _own_name(self, name: str) -> str:
        for own, tool in self._shown.items():
            if tool.name == name:
                return own
        names = [tool.name for tool in self._shown.values()]
        raise UnknownToolError(
            f"no tool {name!r} on this surface of {self.server}.{did_you_mean(name, names)} It has: {join_names(names)}"
        )

    def __getitem__(self, name: str) -> SurfaceTool:
        return SurfaceTool(self, self._own_name(name))

    def __delitem__(self, name: str) -> None:
        del self._shown[self._own_name(name)]

    def __contains__(self, name: object) -> bool:
        return any(tool.name == name for tool in self._shown.values())

    def __iter__(self) -> Iterator[str]:
        return iter([tool.name for tool in self._shown.values()])

    def __len__(self) -> int:
        return len(self._shown)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def rename(self, name: str, new: str) -> None:
        """Let the model read another name of a tool.

        Raises:
            ArgumentsError: It is no name, or another tool of the surface has it.
        """
        own = self._own_name(name)
        if not isinstance(new, str) or not new.strip():
            raise ArgumentsError(f"a tool needs a name, got {new!r}")
        if new != name and new in self:
            raise ArgumentsError(f"this surface of {self.server} has a tool {new!r} already")
        self.set_shown(own, name=new)

    def shown(self, own: str) -> Tool:
        """Return a tool as the model reads it, by the server's name for it."""
        if own not in self._shown:
            raise UnknownToolError(f"the tool {own!r} was deleted from this surface of {self.server}")
        return self._shown[own]

    def set_shown(self, own: str, **members: Any) -> None:
        """Replace members of a tool as the model reads it, by the server's name for it."""
        self._shown[own] = self.shown(own).model_copy(update=members)

    def original(self, own: str) -> Tool:
        """Return a tool as the server listed it when the surface was made."""
        return self._original[own]

    def copy(self) -> Surface:
        """Return a copy, to be edited by itself."""
        duplicate = Surface(self._connection, [*self._original.values()], self._shown, self.source)
        duplicate.left_out = list(self.left_out)
        return duplicate

    # What a model reads of it.

    def read(self, tools: Sequence[Tool]) -> list[ToolVariant]:
        """Return the tools that a model may read, given those that the server lists now."""
        current = {tool.name: tool for tool in tools}
        return [
            ToolVariant(current[own], shown, self._difference(shown, current[own]))
            for own, shown in self._shown.items()
            if own in current
        ]

    def remarks(self, tools: Sequence[Tool]) -> list[str]:
        """Return what a user should know: how the surface differs, and what the server has changed since."""
        variants = self.read(tools)
        texts = [f"{text.tool.name} has {text.difference}" for text in variants if text.difference]
        if missing := [tool.name for tool in tools if tool.name not in self._shown]:
            texts.append(f"it has no {join_names(missing, 10)}")
        if gone := [own for own in self._shown if own not in {tool.name for tool in tools}]:
            texts.append(f"the server no longer has {join_names(gone, 10)}")
        of = f", from {self.source}" if self.source != self.server else ""
        head = f"The model reads a variant of the tools of {self.server}{of}: "
        return [head + "; ".join(texts[:10]) + (f"; and {len(texts) - 10} more" if texts[10:] else "")] if texts else []

    def _difference(self, shown: Tool, current: Tool) -> str:
        """Return what a model reads otherwise than the server says now; "" if nothing."""
        if shown is current:
            return ""
        parts = []
        if shown.name != current.name:
            parts.append(f"the name {one_line(shown.name, 80)!r}")
        if (shown.description, shown.title) != (current.description, current.title):
            parts.append("another description")
        if changes := schema_changes(current.input_schema, shown.input_schema):
            only_texts = all(change.before is not None for change in changes)
            parts.append("other descriptions of parameters" if only_texts else "other parameters")
        text, original = ", ".join(parts), self._original[current.name]
        is_old = bool(text) and original is not current and _plain(original) != _plain(current)
        return f"{text}; {CHANGED}" if is_old else text

    @property
    def outdated(self) -> list[str]:
        """The tools of the server, by its names, that it has changed or removed since the surface was made."""
        current = {tool.name: tool for tool in self._connection.catalog.cached("tools")}
        return [own for own in self._shown if _plain(self._original[own]) != _plain(current.get(own))]

    @property
    def functions(self) -> dict[str, dict[str, Any]]:
        """The tools in OpenAI's format, as a model gets them, by the name on the surface."""
        names = Names((self.server, tool.name) for tool in self._shown.values())
        provider = {tool.name: names.provider(self.server, tool.name) for tool in self._shown.values()}
        return {tool.name: function_of(provider[tool.name], tool).openai_tool for tool in self._shown.values()}

    @property
    def tokens(self) -> int:
        """About how many tokens the tools cost at each turn of the model."""
        return sum(map(_tokens, self.functions.values()))

    def diff(self) -> Changes:
        """Return how the surface differs from the tools that the server listed when it was made."""
        before: dict[str, Any] = {kind: {} for kind in KINDS}
        now = dict(before)
        before["tools"] = {own: _plain(tool) for own, tool in self._original.items()}
        now["tools"] = {own: _plain(tool) for own, tool in self._shown.items()}
        note = f"{join_names(self.outdated)}: {CHANGED}" if self.outdated else ""
        return listed_changes(interface_changes(before, now), f"what a model reads of {self.server} instead", note)

    # The display.

    def __repr__(self) -> str:
        of = f" from {self.source}" if self.source != self.server else ""
        return f"<Surface of {self.server}{of}: {plural(len(self), 'tools')}, about {self.tokens:,} tokens>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: what a model reads of each tool."""
        functions = self.functions
        total = sum(map(_tokens, functions.values()))
        of = f", from {self.source}" if self.source != self.server else ""
        head = (
            f"{self.server} as a model reads it{of}: {plural(len(self), 'tools')}, about {total:,} tokens at each turn"
        )
        notes = []
        if len(self) > MAX_SHOWN:
            notes.append(f"not shown: {plural(len(self) - MAX_SHOWN, 'more tools')}")
        if removed := [name for name in self._original if name not in self._shown]:
            notes.append(f"not given to the model: {join_names(removed, 20)}")
        if self.left_out:
            notes.append(f"left out, as {self.server} does not have them: {join_names(self.left_out, 20)}")
        if self.outdated:
            notes.append(f"{join_names(self.outdated, 20)}: {CHANGED}")
        shown = [self._tool_part(own, functions[tool.name]) for own, tool in [*self._shown.items()][:MAX_SHOWN]]
        return [Part.line(head), *shown, *map(Part.note, notes)]

    def _tool_part(self, own: str, function: dict[str, Any]) -> Part:
        tool, inner = self._shown[own], function["function"]
        difference = self._difference(tool, self._original[own])
        calls = f", calls {own}" if own != tool.name else ""
        facts = f" (about {_tokens(function):,} tokens{calls})"
        head = Part.line(Bold(one_line(inner["name"], 200)), facts, f": {difference}" if difference else "")
        rows = []
        for field in input_root(inner["parameters"]).children[:MAX_SHOWN]:
            kind = f"{one_line(field.type_text, 60)}{'' if field.required else ', optional'}"
            about = f": {shorten(field.description, MAX_PARAMETER)}" if field.description else ""
            rows.append((one_line(field.name, 60), kind + about))
        width = max((len(name) for name, _ in rows), default=0)
        text = Part.prose(shorten(inner["description"].strip(), MAX_DESCRIPTION))
        return Part.stack(head, text, Part.facts(rows, width=width, indent="  "))


class SurfaceTool:
    """A tool on a surface: its name, its description and those of its parameters can be set."""

    def __init__(self, surface: Surface, own: str) -> None:
        self._surface = surface
        self._own = own

    @property
    def tool(self) -> str:
        """The server's name of the tool, which is called."""
        return self._own

    @property
    def name(self) -> str:
        """The name that the model reads."""
        return self._surface.shown(self._own).name

    @name.setter
    def name(self, new: str) -> None:
        self._surface.rename(self.name, new)

    @property
    def description(self) -> str:
        """The description; without one a model reads the title, or else the name."""
        return self._surface.shown(self._own).description or ""

    @description.setter
    def description(self, text: str) -> None:
        self._surface.set_shown(self._own, description=_text(text))

    @property
    def input_schema(self) -> dict[str, Any]:
        """A copy of the input schema that the model reads; to change it, set it."""
        return copy.deepcopy(self._surface.shown(self._own).input_schema)

    @input_schema.setter
    def input_schema(self, schema: Mapping[str, Any]) -> None:
        self._surface.set_shown(self._own, input_schema=copy.deepcopy(dict(schema)))

    @property
    def parameters(self) -> dict[str, SurfaceParameter]:
        """The parameters, by name."""
        properties = self.input_schema.get("properties")
        names = properties if isinstance(properties, dict) else {}
        return Parameters({name: SurfaceParameter(self, name) for name in names})

    @property
    def tokens(self) -> int:
        """About how many tokens the tool costs at each turn of the model."""
        return _tokens(self._surface.functions[self.name])

    def reset(self) -> None:
        """Let the model read the tool again as the server listed it."""
        original = self._surface.original(self._own)
        self._surface.rename(self.name, original.name)
        self._surface.set_shown(
            self._own, description=original.description, title=original.title, input_schema=original.input_schema
        )

    def __repr__(self) -> str:
        calls = f", calls {self._own}" if self._own != self.name else ""
        return f"<SurfaceTool {one_line(self.name, 80)}{calls}: {one_line(self.description, 200)}>"


class Parameters(dict[str, "SurfaceParameter"]):
    """The parameters of a tool on a surface, by name."""

    def __missing__(self, name: str) -> SurfaceParameter:
        raise ArgumentsError(f"no parameter {name!r}.{did_you_mean(name, self)} The tool has: {join_names(self)}")


class SurfaceParameter:
    """A parameter of a tool on a surface, whose description can be set."""

    def __init__(self, tool: SurfaceTool, name: str) -> None:
        self._tool = tool
        self.name = name

    @property
    def schema(self) -> dict[str, Any]:
        """A copy of its schema."""
        schema = self._tool.input_schema["properties"][self.name]
        return schema if isinstance(schema, dict) else {}

    @property
    def description(self) -> str:
        """The description, or ""."""
        return str(self.schema.get("description") or "")

    @description.setter
    def description(self, text: str) -> None:
        schema, own = self._tool.input_schema, self.schema
        if _text(text):
            own["description"] = text
        else:
            own.pop("description", None)
        schema["properties"][self.name] = own
        self._tool.input_schema = schema

    def __repr__(self) -> str:
        return f"<SurfaceParameter {one_line(self.name, 80)}: {one_line(self.description, 200)}>"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentsError(f"a description is text, got {one_line(repr(value), 80)}")
    return value


def _tokens(function: Mapping[str, Any]) -> int:
    return tokens_of(json.dumps(function, ensure_ascii=False))


def _plain(tool: Tool | None) -> Any:
    return None if tool is None else tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def snapshot_tools(interface: Mapping[str, Any]) -> dict[str, Tool]:
    """Return the tools of a snapshot by name; what is no definition of a tool is left out."""
    from mcp_types import Tool
    from pydantic import ValidationError

    tools = {}
    for name, definition in interface["tools"].items():
        try:
            tools[name] = Tool.model_validate({**definition, "name": name})
        except ValidationError:
            continue
    return tools
