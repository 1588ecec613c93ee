"""Stands in for rpds-py, which Pyodide has in a distribution of its own that no package registry carries."""

from __future__ import annotations

from typing import Any


class HashTrieMap(dict[Any, Any]):
    @classmethod
    def convert(cls, value: Any) -> HashTrieMap:
        return value if isinstance(value, cls) else cls(value)

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        return HashTrieMap({**self, key: value})

    def remove(self, key: Any) -> HashTrieMap:
        return HashTrieMap({name: value for name, value in self.items() if name != key})

    def update(self, *more: Any, **named: Any) -> HashTrieMap:  # type: ignore[override]
        made = HashTrieMap(self)
        dict.update(made, *more, **named)
        return made


class HashTrieSet(frozenset[Any]):
    def insert(self, value: Any) -> HashTrieSet:
        return HashTrieSet(self | {value})

    def update(self, *more: Any) -> HashTrieSet:
        return HashTrieSet(self.union(*more))


class List(tuple[Any, ...]):
    __slots__ = ()

    def push_front(self, value: Any) -> List:
        return List((value, *self))
