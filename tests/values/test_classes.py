"""Classes of values, of which nothing is run."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.values.classes import attributes, bases, class_name, defined_in
from mcp_magic.values.plain import Writer
from mcp_magic.values.reading import Reader
from mcp_magic.values.tables import as_json


def trap() -> type:
    """Return a class that fails wherever it or one of its objects is asked."""

    class Traps(type):
        def __getattribute__(cls, name):
            raise SystemExit(name)

        def __instancecheck__(cls, instance):
            raise SystemExit

        __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __call__ = __instancecheck__  # type: ignore[assignment]

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
    kind = trap()
    assert class_name(kind) == "Trap"
    assert bases(kind) == (object,)


def test_objects_that_fail_wherever_they_are_asked_are_read():
    thing = object.__new__(trap())
    assert Writer().plain(thing) == "<Trap>"
    assert Writer().plain({thing: [thing, (thing,), {"a": thing}]}) == {
        "<Trap>": ["<Trap>", ["<Trap>"], {"a": "<Trap>"}]
    }
    frame = pd.DataFrame({"a": pd.Series(np.fromiter([thing, "x", 1, None], object, 4), dtype=object)})
    cells = {"list": [thing, "x", 1, None], "frame": frame, "rows": [{"a": thing}, {"a": "x"}, {"a": 1}, {}]}
    for value in cells.values():
        assert "<Trap>" in Reader().read(value)
        assert "<Trap>" in Reader().describe(value, "it")
        assert "Trap" not in Reader().summary(value)
        name = "value" if type(value) is list and len(value) and value[0] is thing else "a"
        assert Reader().read(value, query=f"{name} == 1 or {name} == 'x'").startswith("[2 of 4 rows fit the query")
    with pytest.raises(ArgumentsError, match="it is of the class Trap, which is not read"):
        Reader().read(thing)
    assert Reader().summary(thing) == "Trap"
    assert as_json({"a": thing}) == {"a": "<Trap>"}


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
