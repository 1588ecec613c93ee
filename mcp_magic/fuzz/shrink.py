"""Smaller arguments that still show a failure, by few calls.

Each attempt is a call of the server, and one that hangs or ends the server costs seconds. So what differs from plain
arguments is taken back member by member first; then what is left gets smaller by halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.fuzz.values import distinct_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping


async def smaller_arguments(
    arguments: Mapping[str, Any],
    plain: Mapping[str, Any],
    fails: Callable[[dict[str, Any]], Awaitable[bool]],
    attempts: int,
) -> dict[str, Any]:
    """Return smaller arguments for which `fails` is true, after at most so many attempts."""
    current, tried = dict(arguments), {distinct_key(arguments)}
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(current, plain):
            key = distinct_key(candidate)
            if key in tried:
                continue
            if attempts <= 0:
                return current
            tried.add(key)
            attempts -= 1
            if await fails(candidate):
                current, is_smaller = candidate, True
                break
    return current


def _candidates(arguments: dict[str, Any], plain: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield dict(plain)
    others = [name for name in arguments if name not in plain]
    changed = [name for name in arguments if name in plain and arguments[name] != plain[name]]
    if len(others) + len(changed) > 1:
        for name in (*others, *changed):  # this one alone differs
            yield {**plain, name: arguments[name]}
    for name in others:
        yield {other: value for other, value in arguments.items() if other != name}
    for name in changed:
        yield {**arguments, name: plain[name]}
    for name in (*changed, *others):
        for value in _smaller(arguments[name]):
            yield {**arguments, name: value}


def _smaller(value: Any) -> Iterator[Any]:
    """Yield smaller values of the same type, the smallest first."""
    match value:
        case None | bool():
            return
        case int():
            size = abs(value)
            sizes = [size >> bits for bits in (64, 48, 32, 16, 4, 1)] + [size - (size >> bits) for bits in (2, 4, 6, 8)]
            yield from ((1 if value > 0 else -1) * smaller for smaller in (*sizes, size - 1) if 0 <= smaller < size)
        case float() if abs(value) < 1e15 and value != int(value):
            yield int(value) + 0.5
        case str():
            yield from _shorter(value)
            if len(value) > 1 and set(value) != {"a"}:
                yield "a" * len(value)
        case list():
            yield from _shorter(value)
            for at, item in enumerate(value[:10]):
                yield from ([*value[:at], smaller, *value[at + 1 :]] for smaller in _smaller(item))
        case dict():
            for name, item in value.items():
                yield {other: inner for other, inner in value.items() if other != name}
                yield from ({**value, name: smaller} for smaller in _smaller(item))


def _shorter(value: Any) -> Iterator[Any]:
    size = len(value)
    counts = dict.fromkeys((0, 1, size // 8, size // 2, size - size // 4, size - size // 16, size - 1))
    yield from (value[-1:], *(value[:count] for count in counts if count < size))
    if size > 1:
        yield from (value[size // 2 :], value[1:])
