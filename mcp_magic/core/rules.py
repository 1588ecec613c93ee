"""Consent rules: who may be called without asking, who never, who only after asking.

The first rule that matches decides. A rule names a tool, or many with a pattern, and may name
arguments whose values must match as well.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic.config.checks import check_consent
from mcp_magic.config.fields import FieldError
from mcp_magic.config.masking import MASK
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_types import Tool

__all__ = ["ACTIONS", "Rule", "lasting_rule", "parse_rules", "rule_of", "write_rules"]

ACTIONS = ("allow", "deny", "ask")


@dataclass(frozen=True)
class Rule:
    """One consent rule.

    Attributes:
        action: `"allow"`, `"deny"` or `"ask"`.
        tool: `"server:tool"`, or a pattern with `*`, `?` and `[...]`.
        arguments: Argument name (`a.b` reaches into objects) -> what its value must be, or a pattern for its text.
        reason: Why; a denial passes it on.
        run: The agent run for which alone it holds, or None.
        source: Where it comes from: a file, or "" for what was typed or clicked.
        exact: Whether a call with more arguments than these, or with a number for a text, is another call.
        hidden: Arguments that the tool's schema calls secret. They, and those whose names say so, are never shown.
    """

    action: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    run: str | None = None
    source: str = ""
    exact: bool = False
    hidden: tuple[str, ...] = field(default=(), compare=False)

    def matches(self, name: str, arguments: Mapping[str, Any], run: str | None = None) -> bool:
        """Whether the rule is about a call.

        >>> Rule("allow", "weather:*", {"location": "N*"}).matches("weather:get", {"location": "NYC"})
        True
        >>> Rule("allow", "weather:*", {"location": "N*"}).matches("weather:get", {})
        False
        """
        if self.run is not None and self.run != run:
            return False
        if not fnmatchcase(name, self.tool) or (self.exact and set(arguments) != set(self.arguments)):
            return False
        return all(
            _value_matches(_at(arguments, path), wanted, texts_only=self.exact)
            for path, wanted in self.arguments.items()
        )

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

        shown = self.shown_arguments
        line = schema.call_line(self.tool, shown, command=self.action) if shown else self._short()
        line += " (exactly)" if self.exact else ""
        return f"{line} (this run only)" if self.run else line

    def _short(self) -> str:
        return f"{self.action} {self.tool!r}" if any(c in self.tool for c in "*?[ ") else f"{self.action} {self.tool}"


class _Absent:
    pass


_ABSENT = _Absent()


def _at(arguments: Mapping[str, Any], path: str) -> Any:
    if path in arguments:
        return arguments[path]
    value: Any = arguments
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def _is_wild(wanted: Any) -> bool:
    """Whether a pattern says nothing of the value."""
    return isinstance(wanted, str) and set(wanted) <= {"*", "?"}


def _value_matches(value: Any, wanted: Any, *, texts_only: bool = False) -> bool:
    """Whether a value is what a rule asks for.

    Args:
        value: Of the call.
        wanted: A value, or a pattern.
        texts_only: Whether a pattern is about texts alone; null counts as its name, which is how a file has it.
    """
    if value is _ABSENT:
        return False
    if isinstance(wanted, str):
        if texts_only and not isinstance(value, str | None):
            return False
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return fnmatchcase(text, wanted)
    return json.dumps(value, sort_keys=True, default=str) == json.dumps(wanted, sort_keys=True, default=str)


def lasting_rule(
    always: str, name: str, arguments: Mapping[str, Any], definition: Tool | None, run: str | None
) -> Rule | None:
    """Return the rule that an approval makes: `"tool"`, `"arguments"` or `"run"`; None if it is for this once.

    >>> print(lasting_rule("arguments", "fs:read", {"path": "/tmp/*"}, None, None))
    allow fs:read 'path=/tmp/[*]' (exactly)
    """
    if always == "tool":
        return Rule("allow", _exactly(name))
    if always == "run":
        return Rule("allow", _exactly(name), run=run) if run is not None else None
    if always != "arguments":
        return None
    from mcp_magic.core.calltext import hidden_arguments

    shown = hidden_arguments(arguments, definition)
    hidden = tuple(argument for argument, value in arguments.items() if shown[argument] != value)
    wanted = {argument: _exactly(value) for argument, value in arguments.items()}
    return Rule("allow", _exactly(name), wanted, exact=True, hidden=hidden)


def _exactly(value: Any) -> Any:
    """Return a pattern that matches just this text."""
    if not isinstance(value, str):
        return value
    return "".join(f"[{c}]" if c in "*?[" else c for c in value)


def rule_of(table: Mapping[str, Any], *, source: str = "") -> Rule:
    """Return the rule of a `[[consent]]` table."""
    action = next(action for action in ACTIONS if action in table)
    return Rule(
        action,
        table[action],
        dict(table.get("arguments", {})),
        table.get("reason", ""),
        source=source,
        exact=table.get("exact", False),
    )


def parse_rules(text: str, *, source: str) -> list[Rule]:
    """Read the `[[consent]]` tables of a TOML text.

    Raises:
        ConfigError: It is no TOML, or a table is no rule.
    """
    problem = ""
    rules: list[Rule] = []
    try:
        for number, table in enumerate(tomllib.loads(text).get("consent", ()), 1):
            check_consent(table, number)
            rules.append(rule_of(table, source=source))
    except tomllib.TOMLDecodeError as error:
        problem = f"{source}: {error}"
    except FieldError as error:
        problem = f"{source}: {error}"
    if problem:
        raise ConfigError(problem)
    return rules


def write_rules(rules: Iterable[Rule]) -> str:
    """Return rules as TOML that `parse_rules` reads; those of one run only, and those with a secret, are left out.

    >>> print(write_rules([Rule("allow", "fs:read_*", {"path": "/tmp/*"})]))
    [[consent]]
    allow = "fs:read_*"
    arguments = { path = "/tmp/*" }
    <BLANKLINE>
    """
    return "".join(_table(rule) for rule in rules if rule.run is None and not rule.holds_secret)


def _table(rule: Rule) -> str:
    lines = ["[[consent]]", f"{rule.action} = {_toml(rule.tool)}"]
    if rule.arguments:
        pairs = ", ".join(f"{_key(name)} = {_toml(value)}" for name, value in rule.arguments.items())
        lines.append(f"arguments = {{ {pairs} }}")
    if rule.exact:
        lines.append("exact = true")
    if rule.reason:
        lines.append(f"reason = {_toml(rule.reason)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    """Write a JSON value as TOML: the two agree on all but objects and null."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if value is None:
        return '"null"'  # TOML has none; as a pattern it matches the same values
    # JSON escapes are TOML escapes, but for DEL, which TOML wants escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
