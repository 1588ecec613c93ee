"""Keys by which JSON refers to objects of this kernel: an answer or a stored message cannot carry them."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Handles(Generic[T]):
    """The latest objects of one kind, each with a key that a server cannot guess.

    >>> handles = Handles[str](most=2)
    >>> first, *others = [handles.keep(text) for text in "abc"]
    >>> handles.find(first), [handles.find(key) for key in others], handles.find(None)
    (None, ['b', 'c'], None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, T] = OrderedDict()

    def keep(self, value: T) -> str:
        """Keep an object, and return its key."""
        key = secrets.token_hex(8)
        self._kept[key] = value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return key

    def find(self, key: object) -> T | None:
        """Return the object of a key, or None."""
        return self._kept.get(key) if isinstance(key, str) else None
