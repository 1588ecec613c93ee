"""Consent rules: which calls they match, and how files hold them."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names
from mcp_magic.config.parsing import FieldError, kind_of, parse_toml
from mcp_magic.config.project import check_consent
from mcp_magic.errors import ConfigError
from mcp_magic.schema.resolve import json_equal
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mcp_types import Tool

    from mcp_magic.consent.definitions import Definitions


# How a rule matches arguments.
#
# A call can often be read in more than one way: `opts.path` is an argument of that name, or `path` in the object
# `opts`; a path may also be given as a list of paths. Which reading the server uses is unknown. So a rule that denies
# or asks matches if any reading fits, and a rule that allows only if all do.

MAX_NUMBER = 400  # characters of a pattern that may be a number; the largest double has 309 digits


_ABSENT: Any = object()


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return patterns with nested objects flattened to dotted paths."""
    patterns: dict[str, Any] = {}
    for path, expected in _leaves(arguments):
        if path in patterns and not json_equal(patterns[path], expected):
            raise ConfigError(f"the rule names the argument {path!r} twice; one value or pattern is valid")
        patterns[path] = expected
    return patterns


def _leaves(arguments: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, expected in arguments.items():
        path = f"{above}{name}"
        if isinstance(expected, Mapping) and expected:
            yield from _leaves(expected, f"{path}.")
        else:
            yield path, expected


def any_fits(arguments: Mapping[str, Any], path: str, expected: Any) -> bool:
    """Whether any reading of a call has the expected value at a path."""
    return any(_fits(value, expected, any) for value in _readings(arguments, path))


def all_fit(arguments: Mapping[str, Any], path: str, expected: Any) -> bool:
    """Whether every reading of a call has the expected value at a path."""
    readings = list(_readings(arguments, path))
    return bool(readings) and all(_fits(value, expected, all) for value in readings)


def _readings(value: Any, path: str) -> Iterator[Any]:
    """Yield every value at a path: a `.` separates two names or belongs to one; a list is searched item by item."""
    if isinstance(value, list):
        for item in value:
            yield from _or_absent(_readings(item, path))
    if not isinstance(value, Mapping):
        return
    if path in value:
        yield value[path]
    at = path.find(".")
    while at >= 0:
        if path[:at] in value:
            yield from _or_absent(_readings(value[path[:at]], path[at + 1 :]))
        at = path.find(".", at + 1)


def _or_absent(readings: Iterator[Any]) -> Iterator[Any]:
    """Yield the readings; only `_ABSENT`, which fits nothing, if there are none."""
    first = next(readings, _ABSENT)
    yield first
    yield from readings


def _fits(value: Any, expected: Any, how_many: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a value is the expected one, itself or by its items; `how_many` (`any`, `all`) readings have to fit."""
    if value is _ABSENT:
        return False
    if isinstance(value, list) and json_equal(value, expected):
        return True
    is_match = _is_like(value, expected)
    if how_many is any and isinstance(value, str) and not isinstance(expected, str):
        is_match = is_match or value == _text(expected)  # a server may convert the text
    inside = [_fits(item, expected, how_many) for item in _items(value)]
    if isinstance(value, list) and inside and how_many is all:
        return all(inside)  # the text of a list may have anything in it
    return how_many([is_match, *inside])


def _items(value: Any) -> list[Any]:
    """Return the items of a list, also of a list written as JSON text, which some servers decode."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return value if isinstance(value, list) else []


def _is_like(value: Any, expected: Any) -> bool:
    """Whether the text of a value matches a pattern; numbers are compared as numbers."""
    if not isinstance(expected, str):
        return json_equal(value, expected)
    number = _number(expected) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return fnmatchcase(_text(value), expected) or (number is not None and number == value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _number(text: str) -> Any:
    try:
        number = json.loads(text) if len(text) <= MAX_NUMBER else None
    except (ValueError, RecursionError):
        return None
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


# The rules: the first match decides. A rule names a tool, or many by a pattern, and may require argument values.
#
# Without an asker, a rule that denies or asks holds for everybody. One that allows does not hold for outside clients:
# what was allowed for an agent of the notebook was not said of a program beside it.

ACTIONS = ("allow", "deny", "ask")

OUTSIDE = "outside"
"""The asker of a rule about all outside clients; the asker of one of them is `outside NAME`."""


def is_outside(asker: str) -> bool:
    """Whether a client from outside of the notebook asks."""
    return asker == OUTSIDE or asker.startswith(f"{OUTSIDE} ")


@dataclass(frozen=True)
class Rule:
    """One consent rule.

    Attributes:
        action: `"allow"`, `"deny"` or `"ask"`.
        tool: `"server:tool"`, or a pattern with `*`, `?` and `[...]`.
        arguments: What the value of each argument must be, or a pattern for its text. `a.b` reaches into objects; an
            object of patterns becomes such paths. Lists are compared item by item.
        reason: Why; a denial passes it on.
        run: The only agent run that the rule applies to, or None for all.
        asker: `"outside"` for a rule about outside clients only, `"outside NAME"` for one about this client; "" for
            all askers, without outside clients if it allows.
        source: The file it comes from; "" if it was typed or clicked.
        exact: Whether the arguments must be exactly these, with the same types.
        hidden: Arguments that the tool's schema marks as secret. They, and arguments with secret-looking names, are
            never shown.
        since: When it was given, as `Definitions.count`: it allows tools as they were then, or first seen later.
        definition: The digest of the only definition that it allows, from a saved file, or "".
        cell: The cell that declared it, or "".
        identities: By server name, the `Spec.identity` of the only server of that name that it allows. Saved and
            declared rules have it, so that they allow no other server under the same name.
        servers: The only servers that it applies to, or None: a file allows only tools of servers that it declares.
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
    asker: str = ""
    identities: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Flatten nested patterns to dotted paths; two patterns for the same argument are a ConfigError."""
        if not self.exact:
            object.__setattr__(self, "arguments", flat(self.arguments))

    def matches(self, name: str, arguments: Mapping[str, Any], run: str | None = None, asker: str = "") -> bool:
        """Whether the rule matches a call: to allow it, in every reading of its arguments; else in any."""
        if not self.concerns(name, run, asker):
            return False
        if self.exact:
            same = set(arguments) == set(self.arguments)
            return same and all(_is_exactly(arguments[path], expected) for path, expected in self.arguments.items())
        fits = all_fit if self.action == "allow" else any_fits
        return all(fits(arguments, path, expected) for path, expected in self.arguments.items())

    def concerns(self, name: str, run: str | None = None, asker: str = "") -> bool:
        """Whether the rule is about calls of a tool by an asker, in a run: all, or those with some arguments."""
        return self.run in (None, run) and self.names(name) and self._is_for(asker)

    def _is_for(self, asker: str) -> bool:
        if self.asker:
            return asker == self.asker or (self.asker == OUTSIDE and is_outside(asker))
        return self.action != "allow" or not is_outside(asker)

    @property
    def is_conditional(self) -> bool:
        """Whether the rule depends on the arguments."""
        return self.exact or bool(self.arguments)

    def names(self, name: str) -> bool:
        """Whether the rule names a tool, whatever the arguments."""
        inside = self.servers is None or name.partition(":")[0] in self.servers
        return inside and fnmatchcase(name, self.tool)

    @property
    def single(self) -> bool:
        """Whether the rule names one tool, without a pattern."""
        return not set("*?[") & set(self.tool)

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The rule's arguments, secrets masked; a pattern for any value reveals nothing."""
        from mcp_magic.display.arguments import hidden_arguments

        masked = hidden_arguments(self.arguments, None) | dict.fromkeys(self.hidden, MASK)
        anything = {name: expected for name, expected in self.arguments.items() if set(str(expected)) <= {"*", "?"}}
        return masked | anything

    @property
    def holds_secret(self) -> bool:
        """Whether writing the rule would reveal a secret."""
        return self.shown_arguments != self.arguments

    def __str__(self) -> str:
        """Return the rule as it is typed after `%mcp`."""
        from mcp_magic import schema

        line = schema.call_line(self.tool, self.shown_arguments, command=self.action)
        line += f" --for {shlex.quote(self.asker)}" if self.asker else ""
        line += " (exactly)" if self.exact else ""
        if self.servers is not None and self.tool.partition(":")[0] not in self.servers:
            line += f" ({join_names(self.servers)} only)" if self.servers else " (no server)"
        return f"{line} (this run only)" if self.run else line


def _is_exactly(value: Any, expected: Any) -> bool:
    """Whether a value is the approved one; null equals the text `null`, because TOML has no null."""
    if not isinstance(expected, str):
        return json.dumps(value, sort_keys=True, default=str) == json.dumps(expected, sort_keys=True, default=str)
    return isinstance(value, str | None) and fnmatchcase("null" if value is None else value, expected)


def lasting_rule(
    always: str,
    name: str,
    arguments: Mapping[str, Any],
    definition: Tool | None,
    run: str | None,
    asker: str = "",
) -> Rule | None:
    """Return the rule for an approval with `always`; None if the approval is for this call only.

    `asker` is the only one that the rule is for, or "".
    """
    if always == "tool":
        return Rule("allow", exactly(name), asker=asker)
    if always == "run":
        return Rule("allow", exactly(name), run=run) if run is not None else None
    if always != "arguments":
        return None
    from mcp_magic.display.arguments import hidden_arguments

    masked = hidden_arguments(arguments, definition)
    hidden = tuple(argument for argument, value in arguments.items() if masked[argument] != value)
    expected = {argument: exactly(value) for argument, value in arguments.items()}
    return Rule("allow", exactly(name), expected, exact=True, hidden=hidden, asker=asker)


def exactly(value: Any) -> Any:
    """Return a pattern that matches exactly this text; other values are returned as they are."""
    if not isinstance(value, str):
        return value
    return "".join(f"[{c}]" if c in "*?[" else c for c in value)


# Rules in files: `[[consent]]` tables.


def rule_of(table: Mapping[str, Any], *, source: str = "") -> Rule:
    """Return the rule in a `[[consent]]` table."""
    action = next(action for action in ACTIONS if action in table)
    return Rule(
        action,
        table[action],
        dict(table.get("arguments", {})),
        table.get("reason", ""),
        source=source,
        exact=table.get("exact", False),
        definition=table.get("definition", ""),
        servers=tuple(table["servers"]) if "servers" in table else None,
        asker=table.get("for", ""),
        identities=dict(table.get("identities", {})),
    )


def parse_rules(text: str, *, source: str) -> list[Rule]:
    """Read the `[[consent]]` tables of a TOML text; ConfigError if it is no TOML, or a table is no rule."""
    try:
        tables = parse_toml(text).get("consent", [])
        if not isinstance(tables, list):
            raise FieldError(f"expected [[consent]] rules, got {kind_of(tables)}.", "consent")
        for number, table in enumerate(tables, 1):
            check_consent(table, number)
    except (tomllib.TOMLDecodeError, FieldError) as error:
        raise ConfigError(f"{source}: {error}") from None
    return [rule_of(table, source=source) for table in tables]


def write_rules(rules: Iterable[Rule], definitions: Definitions | None = None) -> str:
    """Return rules as TOML, without those of one run or with secrets; with `definitions`, bound to the present ones."""
    lasting = [rule for rule in rules if rule.run is None and not rule.holds_secret]
    return "".join(_table(rule, _definition(rule, definitions), _identities(rule, definitions)) for rule in lasting)


def _definition(rule: Rule, definitions: Definitions | None) -> str:
    """Return the digest of the definition that a rule allows; "" if it allows the first one seen."""
    if rule.action != "allow" or rule.definition or definitions is None or not rule.single:
        return rule.definition
    return definitions.digest(rule.tool, rule.since)


def _identities(rule: Rule, definitions: Definitions | None) -> Mapping[str, str]:
    """Return the identity of the server that a rule allows, if known; a pattern for server names has none."""
    server = rule.tool.partition(":")[0]
    if rule.action != "allow" or rule.identities or definitions is None or set("*?[") & set(server):
        return rule.identities
    identity = definitions.identity(server, rule.since)
    return {server: identity} if identity else {}


def _table(rule: Rule, definition: str, identities: Mapping[str, str]) -> str:
    members = {
        rule.action: rule.tool,
        "arguments": dict(rule.arguments),
        "exact": rule.exact,
        "for": rule.asker,
        "servers": None if rule.servers is None else list(rule.servers),
        "identities": dict(identities),
        "definition": definition,
        "reason": rule.reason,
    }
    lines = [f"{name} = {_toml(value)}" for name, value in members.items() if value or value == []]
    return "\n".join(["[[consent]]", *lines]) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    """Write a JSON value as TOML; only objects and null are written differently."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if value is None:
        return '"null"'  # TOML has no null; as a pattern this matches the same values
    # JSON escapes are TOML escapes, except that TOML also requires DEL to be escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# Rules that never decide, because an earlier rule matches all their calls. Only plain cases are reported.


def unreached(rules: Sequence[Rule]) -> dict[int, int]:
    """Return the positions of rules that never decide, each with the position of the first rule that covers it."""
    covering: dict[int, int] = {}
    for at, rule in enumerate(rules):
        before = next((i for i, earlier in enumerate(rules[:at]) if _decides_for(earlier, rule)), None)
        if before is not None:
            covering[at] = before
    return covering


def _decides_for(earlier: Rule, later: Rule) -> bool:
    """Whether an earlier rule surely matches every call that a later one matches."""
    return (
        not earlier.arguments
        and not earlier.exact
        and earlier.run in (None, later.run)
        and _covers_asker(earlier, later)
        and earlier.servers in (None, later.servers)
        and pattern_covers(earlier.tool, later.tool)
        # a permission that is given again counts once the tool has changed
        and not earlier.action == later.action == "allow"
    )


def _covers_asker(earlier: Rule, later: Rule) -> bool:
    """Whether an earlier rule is for all the askers that a later one is for."""
    if not earlier.asker:
        return not later.asker or earlier.action != "allow"
    return later.asker == earlier.asker or (earlier.asker == OUTSIDE and is_outside(later.asker))


def pattern_covers(wide: str, narrow: str) -> bool:
    """Whether one pattern surely matches every text that another matches; never sure with `?` or `[` in the first."""
    return wide == narrow or (not set("?[") & set(wide) and "[" not in narrow and fnmatchcase(narrow, wide))
