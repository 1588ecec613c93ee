"""What the arguments of a consent rule compare: where in a call they look, and what they find there.

A call can often be read in more than one way: `opts.path` is an argument of that name, or the `path` of the object
`opts`; one path may be given as a list of paths. Nobody knows which of them the server takes, so a rule that refuses is
about a call if any reading fits it, and one that allows only if all do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ConfigError
from mcp_magic.schema.merge import json_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["all_fit", "any_fits", "flat"]

MAX_NUMBER = 400
"""Characters of a pattern that may be a number; the largest double has 309 digits."""


class _Absent:
    pass


_ABSENT = _Absent()


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return patterns with those inside of objects under their paths.

    Raises:
        ConfigError: Two are for the same path.

    >>> flat({"opts": {"path": "/etc/*", "depth": 1}, "n": 2})
    {'opts.path': '/etc/*', 'opts.depth': 1, 'n': 2}
    """
    found: dict[str, Any] = {}
    for path, wanted in _leaves(arguments):
        if path in found and not json_equal(found[path], wanted):
            raise ConfigError(f"the rule names the argument {path!r} twice; one value or pattern is valid")
        found[path] = wanted
    return found


def _leaves(arguments: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, wanted in arguments.items():
        path = f"{above}{name}"
        if isinstance(wanted, Mapping) and wanted:
            yield from _leaves(wanted, f"{path}.")
        else:
            yield path, wanted


def any_fits(arguments: Mapping[str, Any], path: str, wanted: Any) -> bool:
    """Whether some reading of a call has what is wanted at a path.

    >>> any_fits({"opts": {"path": "/etc/passwd"}, "opts.path": "/tmp/x"}, "opts.path", "/etc/*")
    True
    >>> any_fits({"path": ["/tmp/x", "/etc/passwd"]}, "path", "/etc/*"), any_fits({"n": 1.0}, "n", 1)
    (True, True)
    """
    return any(_fits(value, wanted, any) for value in _readings(arguments, path))


def all_fit(arguments: Mapping[str, Any], path: str, wanted: Any) -> bool:
    """Whether a call has what is wanted at a path, in whichever way it is read.

    >>> all_fit({"opts": {"path": "/etc/passwd"}, "opts.path": "/tmp/x"}, "opts.path", "/tmp/*")
    False
    >>> all_fit({"path": ["/tmp/x", "/tmp/y"]}, "path", "/tmp/*"), all_fit({}, "path", "*")
    (True, False)
    """
    found = list(_readings(arguments, path))
    return bool(found) and all(_fits(value, wanted, all) for value in found)


def _readings(value: Any, path: str) -> Iterator[Any]:
    """Yield what is at a path: each `.` parts two names, or belongs to one; a path goes on in the items of a list."""
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


def _or_absent(found: Iterator[Any]) -> Iterator[Any]:
    """Yield what was found; one that fits nothing, if nothing was."""
    first = next(found, _ABSENT)
    yield first
    yield from found


def _fits(value: Any, wanted: Any, how_many: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a value is what is wanted, as it is or item by item.

    Args:
        value: Of the call.
        wanted: A value, or a pattern.
        how_many: `any` or `all`: which of the readings have to be.
    """
    if value is _ABSENT:
        return False
    if isinstance(value, list) and json_equal(value, wanted):
        return True
    whole = _is_like(value, wanted) or (how_many is any and _is_written(value, wanted))
    inside = [_fits(item, wanted, how_many) for item in _items(value)]
    if isinstance(value, list) and inside and how_many is all:
        return all(inside)  # the text of a list may have anything in it
    return how_many([whole, *inside])


def _items(value: Any) -> list[Any]:
    """Return the items of a list; also of one that is written as text: servers read JSON where they expect none."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return value if isinstance(value, list) else []


def _is_like(value: Any, wanted: Any) -> bool:
    """Whether the text of a value is as a pattern says; numbers are compared as numbers."""
    if not isinstance(wanted, str):
        return json_equal(value, wanted)
    number = _number(wanted) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return fnmatchcase(_text(value), wanted) or (number is not None and number == value)


def _is_written(value: Any, wanted: Any) -> bool:
    """Whether a text spells a value: a server may turn it into that."""
    return isinstance(value, str) and not isinstance(wanted, str) and value == _text(wanted)


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
