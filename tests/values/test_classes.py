"""Classes of values, of which nothing is run."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from mcp_magic.values.classes import attributes, bases, class_name, defined_in
from mcp_magic.values.plain import Writer

if TYPE_CHECKING:
    import pytest


def trap() -> type:
    """Return a class that fails wherever it or one of its objects is asked."""

    class Traps(type):
        def __getattribute__(cls, name):
            raise SystemExit(name)

        def __instancecheck__(cls, instance):
            raise SystemExit

    class Trap(metaclass=Traps):
        def __getattribute__(self, name):
            raise SystemExit(name)

        def __repr__(self):
            raise SystemExit

        def __eq__(self, other):
            raise SystemExit

        def __hash__(self):
            return 1

        __str__ = __bool__ = __int__ = __float__ = __index__ = __array__ = __len__ = __iter__ = __repr__

    return Trap


def test_a_class_is_named_without_its_metaclass():
    Trap = trap()
    assert class_name(Trap) == "Trap"
    assert bases(Trap)[1] is object
    assert Writer().plain(Trap()) == "<Trap>"
    assert Writer().plain({Trap(): [Trap()]}) == {"<Trap>": ["<Trap>"]}


def test_a_class_that_claims_a_library_is_not_of_it(monkeypatch: pytest.MonkeyPatch):
    claim = type("Real", (), {"__module__": "library.part"})
    assert defined_in(claim, "library") == ""
    module = ModuleType("library.part")
    monkeypatch.setitem(sys.modules, "library.part", module)
    assert defined_in(claim, "library") == ""
    module.Real = claim  # type: ignore[attr-defined]
    assert defined_in(claim, "library") == "library.part.Real"


def test_attributes_are_those_that_are_stored():
    class Point:
        __slots__ = ("__dict__", "x", "z")

        def __init__(self):
            self.x, self.y = 1, 2

        @property
        def size(self):
            raise SystemExit

        def __getattr__(self, name):
            raise SystemExit

    assert attributes(Point(), ("x", "y", "z", "size", "other")) == {"x": 1, "y": 2, "z": None}
