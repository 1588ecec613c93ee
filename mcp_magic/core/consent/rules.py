"""Consent rules: who may be called without asking, who never, who only after asking.

The first rule that matches decides. A rule names a tool, or many with a pattern, and may name
arguments whose values must match as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic.core.consent.patterns import all_fit, any_fits, flat
from mcp_magic.errors import listed
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import Tool

__all__ = ["ACTIONS", "Rule", "exactly", "lasting_rule"]

ACTIONS = ("allow", "deny", "ask")


@dataclass(frozen=True)
class Rule:
    """One consent rule.

    Attributes:
        action: `"allow"`, `"deny"` or `"ask"`.
        tool: `"server:tool"`, or a pattern with `*`, `?` and `[...]`.
        arguments: Argument name (`a.b` reaches into objects, and so does an object of patterns, which becomes that) ->
            what its value must be, or a pattern for its text. Lists are compared item by item.
        reason: Why; a denial passes it on.
        run: The agent run for which alone it holds, or None.
        source: Where it comes from: a file, or "" for what was typed or clicked.
        exact: Whether a call with more arguments than these, or with a number for a text, is another call.
        hidden: Arguments that the tool's schema calls secret. They, and those whose names say so, are never shown.
        since: When it was given, as `Definitions.count`: it allows tools as they were then, or first seen later.
        definition: The digest of the only definition that it allows, from a saved file, or "".
        cell: Which cell declared it, where one did, or "".
        identities: By server name the `Spec.identity` of the only server of that name that it allows; a saved rule, and
            one that a declaration makes, is for these servers and for no others that come under their names.
        servers: The only servers that it is about, or None: a file allows the tools of servers that it declares.
    """

    action: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    run: str | None = None
    source: str = ""
    exact: bool = False
    hidden: tuple[str, ...] = field(default=(), compare=False)
    since: int = field(default=0, compare=False)
    definition: str = field(default="", compare=False)
    cell: str = field(default="", compare=False, repr=False)
    servers: tuple[str, ...] | None = None
    identities: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Put patterns inside of objects under their paths.

        Raises:
            ConfigError: Two are for the same argument.
        """
        if not self.exact:
            object.__setattr__(self, "arguments", flat(self.arguments))

    def matches(self, name: str, arguments: Mapping[str, Any], run: str | None = None) -> bool:
        """Whether the rule is about a call: one that allows in whichever way it can be read, another in any way.

        >>> Rule("allow", "weather:*", {"location": "N*"}).matches("weather:get", {"location": "NYC"})
        True
        >>> Rule("allow", "weather:*", {"location": "N*"}).matches("weather:get", {})
        False
        """
        if self.run is not None and self.run != run:
            return False
        if not self.names(name):
            return False
        if self.exact:
            same = set(arguments) == set(self.arguments)
            return same and all(_is_exactly(arguments[path], wanted) for path, wanted in self.arguments.items())
        fits = all_fit if self.action == "allow" else any_fits
        return all(fits(arguments, path, wanted) for path, wanted in self.arguments.items())

    def names(self, name: str) -> bool:
        """Whether it is about a tool, whatever the arguments."""
        inside = self.servers is None or name.partition(":")[0] in self.servers
        return inside and fnmatchcase(name, self.tool)

    @property
    def single(self) -> bool:
        """Whether it names one tool and no pattern."""
        return not set("*?[") & set(self.tool)

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """Its arguments with secrets masked.

        >>> Rule("allow", "fs:login", {"user": "me", "password": "pw"}).shown_arguments
        {'user': 'me', 'password': '***'}
        """
        from mcp_magic.core.calltext import hidden_arguments

        shown = hidden_arguments(self.arguments, None) | dict.fromkeys(self.hidden, MASK)
        return {
            name: self.arguments[name] if _is_wild(self.arguments[name]) else value for name, value in shown.items()
        }

    @property
    def holds_secret(self) -> bool:
        """Whether a secret would be written with it."""
        return self.shown_arguments != self.arguments

    def __str__(self) -> str:
        """The rule as it is typed behind `%mcp`."""
        from mcp_magic import schema

        line = schema.call_line(self.tool, self.shown_arguments, command=self.action)
        line += " (exactly)" if self.exact else ""
        if self.servers is not None and self.tool.partition(":")[0] not in self.servers:
            line += f" ({listed(self.servers)} only)" if self.servers else " (no server)"
        return f"{line} (this run only)" if self.run else line


def _is_wild(wanted: Any) -> bool:
    """Whether a pattern says nothing of the value."""
    return isinstance(wanted, str) and set(wanted) <= {"*", "?"}


def _is_exactly(value: Any, wanted: Any) -> bool:
    """Whether a value is the one that was approved; null counts as its name, which is how a file has it."""
    if not isinstance(wanted, str):
        return json.dumps(value, sort_keys=True, default=str) == json.dumps(wanted, sort_keys=True, default=str)
    return isinstance(value, str | None) and fnmatchcase("null" if value is None else value, wanted)


def lasting_rule(
    always: str, name: str, arguments: Mapping[str, Any], definition: Tool | None, run: str | None
) -> Rule | None:
    """Return the rule that an approval makes: `"tool"`, `"arguments"` or `"run"`; None if it is for this once.

    >>> print(lasting_rule("arguments", "fs:read", {"path": "/tmp/*"}, None, None))
    allow fs:read 'path=/tmp/[*]' (exactly)
    """
    if always == "tool":
        return Rule("allow", exactly(name))
    if always == "run":
        return Rule("allow", exactly(name), run=run) if run is not None else None
    if always != "arguments":
        return None
    from mcp_magic.core.calltext import hidden_arguments

    shown = hidden_arguments(arguments, definition)
    hidden = tuple(argument for argument, value in arguments.items() if shown[argument] != value)
    wanted = {argument: exactly(value) for argument, value in arguments.items()}
    return Rule("allow", exactly(name), wanted, exact=True, hidden=hidden)


def exactly(value: Any) -> Any:
    """Return a pattern that matches just this text."""
    if not isinstance(value, str):
        return value
    return "".join(f"[{c}]" if c in "*?[" else c for c in value)
