"""What a value's class is called and derived from, without running anything that the class defines.

`isinstance`, `type(value).__name__` and `hasattr` run code of a class that has a `__class__`, a metaclass or a
`__getattr__` of its own. A class counts as one of a library only if it is in the library's module under its name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from mcp_magic.display.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MRO: Final[Any] = type.__dict__["__mro__"]
_NAME: Final[Any] = type.__dict__["__name__"]
_MODULE: Final[Any] = type.__dict__["__module__"]
_MEMBERS: Final[Any] = type.__dict__["__dict__"]

NAME = 60  # most characters of a class's name that are shown


def class_name(kind: type) -> str:
    """Return the name of a class, on one line."""
    return one_line(str.__str__(_NAME.__get__(kind)), NAME)


def bases(kind: type) -> tuple[type, ...]:
    """Return a class and those that it is derived from; only `object` if to compare it would run code of its own."""
    return _mro(kind) if _is_comparable(kind) else (object,)


def _mro(kind: type) -> tuple[type, ...]:
    mro: tuple[type, ...] = _MRO.__get__(kind)
    return mro


def _is_comparable(kind: type) -> bool:
    """Whether a class has no `==` and no hash of its own, which `in` and the keys of a dict call."""
    above = type(kind)
    return above is type or all(member(above, name) is member(type, name) for name in ("__eq__", "__hash__"))


def is_among(kind: type, kinds: Iterable[type]) -> bool:
    """Whether a class is one of some classes."""
    return any(kind is candidate for candidate in kinds)


def kinds_of(values: Iterable[Any]) -> list[type]:
    """Return the classes of some values, each once.

    >>> kinds_of([1, "a", 2, None])
    [<class 'int'>, <class 'str'>, <class 'NoneType'>]
    """
    return list({id(kind): kind for kind in map(type, values)}.values())


def are_all(values: Iterable[Any], *kinds: type) -> bool:
    """Whether each value is of one of some classes, and of none that is derived from it.

    >>> are_all([1, "a"], int, str), are_all([True], int), are_all([], int)
    (True, False, True)
    """
    return set(map(id, map(type, values))) <= set(map(id, kinds))


def members(kind: type) -> Mapping[str, Any]:
    """Return what a class itself defines, by name."""
    own: Mapping[str, Any] = _MEMBERS.__get__(kind)
    return own


def member(kind: type, name: str) -> Any:
    """Return what a class, or one that it is derived from, defines under a name; None if nothing."""
    return next((members(base)[name] for base in _mro(kind) if name in members(base)), None)


def module_of(kind: type) -> str:
    """Return the name of the module that a class says it is of, "" if it is no text."""
    module = _MODULE.__get__(kind)
    return module if type(module) is str else ""


def defined_in(kind: type, library: str) -> str:
    """Return `"module.Name"` if a class is one of a library, which is imported; else "".

    >>> import decimal
    >>> defined_in(decimal.Decimal, "decimal"), defined_in(type("Decimal", (), {"__module__": "decimal"}), "decimal")
    ('decimal.Decimal', '')
    """
    module = module_of(kind)
    if module.partition(".")[0] != library:
        return ""
    name = _NAME.__get__(kind)
    place = sys.modules.get(module)
    return f"{module}.{name}" if place is not None and vars(place).get(name) is kind else ""


def loaded(module: str, name: str) -> Any:
    """Return an object of a module if the module is imported already, else None."""
    place = sys.modules.get(module)
    return None if place is None else vars(place).get(name)


def attributes(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return stored attributes of an object, by name: of its `__dict__` and its slots, and nothing computed."""
    kind = type(value)
    descriptor: Any = member(kind, "__dict__")
    stored: Any = descriptor.__get__(value) if type(descriptor) is _GETSET else {}
    result: dict[str, Any] = {}
    for name in names:
        if type(stored) is dict and name in stored:
            result[name] = stored[name]
        elif type(member(kind, name)) is _SLOT:
            slot: Any = member(kind, name)
            try:
                result[name] = slot.__get__(value)
            except AttributeError:  # it was never assigned
                result[name] = None
    return result


class _Slots:
    __slots__ = ("name",)


class _Plain:
    pass


_SLOT: Final = type(_Slots.__dict__["name"])
_GETSET: Final = type(_Plain.__dict__["__dict__"])
