"""Which consent rules never decide, because one before them decides whatever they are about.

Said only where it is sure: a rule that several others cover together is not found.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.core.definitions import Definitions

__all__ = ["pattern_covers", "unreached"]

MAX_LENGTH = 2_000
"""Characters of two patterns that are compared: that takes the product of their lengths."""

_TOKENS = re.compile(r"\[!?+\]?+[^\]]*+\]|.", re.DOTALL)
"""What a pattern is made of, as `fnmatch` reads it: a `[` that is never closed stands for itself."""

_NUMBER = re.compile(r"\s*(?:[-+.\deE]+|NaN|-?Infinity)\s*")
"""A pattern that is a number fits it however it is written (`10`, `1e1`)."""


def unreached(rules: Sequence[Rule], definitions: Definitions) -> dict[int, int]:
    """Return the positions of rules that never decide, each with that of the first that decides in its place."""
    found: dict[int, int] = {}
    for at, rule in enumerate(rules):
        before = next((i for i, earlier in enumerate(rules[:at]) if _decides_for(earlier, rule, definitions)), None)
        if before is not None:
            found[at] = before
    return found


def _decides_for(earlier: Rule, later: Rule, definitions: Definitions) -> bool:
    """Whether a rule decides about every call that a later one is about."""
    if earlier.run not in (None, later.run) or not pattern_covers(earlier.tool, later.tool):
        return False
    if not _servers_cover(earlier, later) or not _arguments_cover(earlier, later):
        return False
    return not (earlier.action == later.action == "allow") or _allows_the_same(earlier, later, definitions)


def _servers_cover(earlier: Rule, later: Rule) -> bool:
    """Whether a rule that is about some servers only is about all those that a later one is about."""
    if earlier.servers is None:
        return True
    return set(later.servers or [later.tool.partition(":")[0]]) <= set(earlier.servers)


def _allows_the_same(earlier: Rule, later: Rule, definitions: Definitions) -> bool:
    """Whether two permissions are for the same definitions; else the later one counts when a tool has changed."""
    if (earlier.definition, dict(earlier.identities)) != (later.definition, dict(later.identities)):
        return False
    return all(
        definitions.digest(name, earlier.since) == definitions.digest(name, later.since)
        and definitions.identity(server, earlier.since) == definitions.identity(server, later.since)
        for name, server in ((name, name.partition(":")[0]) for name in definitions if later.names(name))
    )


def _arguments_cover(earlier: Rule, later: Rule) -> bool:
    """Whether arguments that a later rule is about are also what an earlier one asks for."""
    if earlier.exact:
        same = later.exact and earlier.arguments.keys() == later.arguments.keys()
        return same and all(_exact_covers(earlier.arguments[name], later.arguments[name]) for name in later.arguments)
    # what allows needs every reading of a call to fit, and a rule that denies, or compares whole values, says of one
    strict = earlier.action == "allow" and (later.action != "allow" or later.exact)
    return all(
        path in later.arguments
        and (_takes_all(path, wanted) if strict else _reading_covers(wanted, later.arguments[path]))
        for path, wanted in earlier.arguments.items()
    )


def _takes_all(path: str, wanted: Any) -> bool:
    """Whether an argument only has to be there; a path with a dot may be read as something that is not."""
    return "." not in path and _is_star(wanted)


def _is_star(wanted: Any) -> bool:
    return isinstance(wanted, str) and set(wanted) == {"*"}


def _exact_covers(wide: Any, narrow: Any) -> bool:
    """Whether texts and values that one rule compares as they are fit another that does."""
    if isinstance(wide, str):
        return pattern_covers(wide, narrow) if isinstance(narrow, str) else narrow is None and fnmatchcase("null", wide)
    return not isinstance(narrow, str) and json.dumps(wide) == json.dumps(narrow)


def _reading_covers(wide: Any, narrow: Any) -> bool:
    """Whether what is like one pattern, or has an item that is, is so with another; numbers have many spellings."""
    if _is_star(wide) or (type(wide) is type(narrow) and json.dumps(wide) == json.dumps(narrow)):
        return True
    if isinstance(wide, str) and isinstance(narrow, str):
        return not _NUMBER.fullmatch(narrow) and pattern_covers(wide, narrow)
    return isinstance(wide, str) and isinstance(narrow, int | None) and fnmatchcase(json.dumps(narrow), wide)


def pattern_covers(wide: str, narrow: str) -> bool:
    """Whether every text that one pattern matches is matched by the other; False where that is not plain to see.

    >>> pattern_covers("math:*", "math:multiply"), pattern_covers("*", "math:*"), pattern_covers("fs:r*", "fs:*d")
    (True, True, False)
    """
    if len(wide) + len(narrow) > MAX_LENGTH:
        return wide in ("*", narrow)
    tokens = [_plain(token) for token in _TOKENS.findall(narrow)]
    if all((len(token) == 1 and token not in "*?") or token in _LITERAL for token in tokens):
        return fnmatchcase("".join(_LITERAL.get(token, token) for token in tokens), wide)
    # columns: how much of `narrow` the tokens of `wide` read so far can have taken
    reached = [True] + [False] * len(tokens)
    for symbol in (_plain(token) for token in _TOKENS.findall(wide)):
        after = [symbol == "*" and reached[0]]
        for at, token in enumerate(tokens):
            if symbol == "*":
                after.append(reached[at + 1] or after[at])
            else:
                after.append(reached[at] and _one_covers(symbol, token))
        reached = after
    return reached[-1]


_LITERAL = {"[*]": "*", "[?]": "?", "[[]": "["}
"""How `Rule` writes the characters that are none of a pattern."""


def _plain(token: str) -> str:
    return token[1] if len(token) == 3 and token[1] not in "*?[!" else token


def _one_covers(wide: str, narrow: str) -> bool:
    """Whether what stands for one character stands for all that another does."""
    if narrow == "*":
        return False
    if wide in ("?", narrow):
        return True
    literal = _LITERAL.get(narrow, narrow)
    return len(literal) == 1 and narrow != "?" and fnmatchcase(literal, wide)
