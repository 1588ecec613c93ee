"""Hypothesis strategies from a schema: many parts vary at once, by a seed.

Decided here: the generator is our own, on Hypothesis' strategies. `hypothesis-jsonschema` 0.23.1 (2024) fails with
Hypothesis 6.170 for each schema that has an object, has no values that a schema forbids, and gives up at recursion.
`schemathesis` 4.32 has such values in private functions that need an OpenAPI operation, and brings 30 packages.

Two things of Hypothesis are not used. It mixes constants of the modules of this kernel into the values, so that a key
in your source code could be sent to a stranger's server, and one seed would mean different values in another kernel;
it also keeps them in a folder `.hypothesis`. Therefore the choices come from `Choices`. And it shrinks by some hundred
calls of a function that cannot be awaited or interrupted: `shrink.py` takes few, because a call that hangs costs
seconds. So no thread is needed: the values are made in small batches between the calls.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

from mcp_magic.fuzz.values import MAX_LEVELS, OTHERS, boundaries, matching_text, plain_value
from mcp_magic.schema.resolve import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from mcp_magic.schema.fields import Field

BACKEND = "mcp_magic"

MOST_CHILDREN = 50  # members of an object that vary together


class Choices(PrimitiveProvider):  # type: ignore[misc, unused-ignore]
    """The source of Hypothesis' choices: a seeded generator of random numbers, and nothing else."""

    lifetime = "test_function"
    source = random.Random(0)

    def draw_boolean(self, p: float = 0.5) -> bool:
        """Return whether."""
        return self.source.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: Any = None,  # noqa: ARG002, RUF100
        shrink_towards: int = 0,  # noqa: ARG002, RUF100
    ) -> int:
        """Return an integer, small ones more often."""
        if min_value is not None and max_value is not None:
            return self.source.randint(min_value, max_value)
        size = self.source.getrandbits(self.source.choice((3, 8, 16, 33, 65)))
        if min_value is not None or max_value is None:
            return (min_value or 0) + (size if min_value is not None or self.source.random() < 0.5 else -size)
        return max_value - size

    def draw_float(
        self,
        *,
        min_value: float = -math.inf,
        max_value: float = math.inf,
        allow_nan: bool = False,  # noqa: ARG002, RUF100
        smallest_nonzero_magnitude: float = 0.0,  # noqa: ARG002, RUF100
    ) -> float:
        """Return a number between the limits."""
        size = 10.0 ** self.source.randint(0, 12)
        low, high = max(min_value, -size), min(max_value, size)
        return self.source.uniform(low, high) if low <= high else min(max(0.0, min_value), max_value)

    def draw_string(self, *about: Any, **limits: Any) -> str:
        """Texts are made from characters: this is not used."""
        raise NotImplementedError

    def draw_bytes(self, *about: Any, **limits: Any) -> bytes:
        """JSON has no bytes."""
        raise NotImplementedError


def generate(strategy: SearchStrategy[Any], seed: int, count: int) -> list[Any]:
    """Return values of a strategy: the same for the same seed. Nothing is written to disk."""
    values: list[Any] = []
    AVAILABLE_PROVIDERS.setdefault(BACKEND, f"{Choices.__module__}.{Choices.__name__}")
    Choices.source = random.Random(seed)

    @settings(
        backend=BACKEND,
        database=None,
        deadline=None,
        max_examples=count,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values


_CHARACTERS = st.sampled_from("ab01 -_./,'\"\\%{}<\n\t\x00é\u0301\u05d0\u202e\ufeff\U0001f600")

_TEXTS = st.lists(_CHARACTERS, max_size=12).map("".join)

_ANYTHING: SearchStrategy[Any] = st.recursive(
    st.sampled_from(OTHERS) | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


def value_strategy(field: Field, depth: int = 0) -> SearchStrategy[Any]:
    """Return the strategy of a field: mostly values that fit, sometimes one at a limit, sometimes anything."""
    limits = list(itertools.islice(boundaries(field, plain_value(field, depth)), 200)) if depth else []
    unusual = st.sampled_from(limits) if limits else _ANYTHING
    fitting = _fitting(field, depth)
    if not depth:
        return fitting
    choices = st.integers(0, 19)
    return choices.flatmap(lambda choice: _ANYTHING if choice == 0 else unusual if choice < 4 else fitting)


def _fitting(field: Field, depth: int) -> SearchStrategy[Any]:
    limits = field.schema
    if depth > MAX_LEVELS:
        return st.just(plain_value(field, depth))
    match field.kind:
        case "enum" | "const" if field.choices:
            return st.sampled_from([value for value, _ in field.choices])
        case "integer":
            return _integers(limits)
        case "number":
            low, high = (limits.get(name) for name in ("minimum", "maximum"))
            return st.floats(low, high, allow_nan=False, allow_infinity=False) | _integers(limits)
        case "string":
            return _strings(field)
        case "boolean" | "null":
            return st.sampled_from([True, False] if field.kind == "boolean" else [None])
        case "array":
            return _arrays(field, depth)
        case "object":
            return _objects(field, depth)
        case "union" if field.variants:
            return st.one_of([_fitting(variant, depth) for variant in field.variants[:MOST_CHILDREN]])
    return _ANYTHING


def _arrays(field: Field, depth: int) -> SearchStrategy[Any]:
    least, most = _count(field.schema, "minItems", 0), _count(field.schema, "maxItems", 5)
    item = field.at(0)
    inner = _ANYTHING if item is None else value_strategy(item, depth + 1)
    return st.lists(inner, min_size=min(least, 50), max_size=min(max(least, min(most, least + 5)), 50))


def _objects(field: Field, depth: int) -> SearchStrategy[Any]:
    children = field.children[:MOST_CHILDREN]
    required = {child.name: value_strategy(child, depth + 1) for child in children if child.required}
    others = {child.name: value_strategy(child, depth + 1) for child in children if not child.required}
    members = st.fixed_dictionaries(required, optional=others)
    if children:
        return members
    return members | st.dictionaries(_TEXTS, _ANYTHING, max_size=3)


def _integers(limits: Mapping[str, Any]) -> SearchStrategy[Any]:
    bounds = [limits.get(name) for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")]
    at_least, above, at_most, below = (math.ceil(bound) if is_number(bound) else None for bound in bounds)
    low = at_least if above is None else above + 1
    high = at_most if below is None else below - 1
    if low is not None and high is not None and low > high:
        return st.just(low)
    step = limits.get("multipleOf")
    numbers = st.integers(low, high)
    return numbers.map(lambda number: number // step * step) if isinstance(step, int) and step > 1 else numbers


def _strings(field: Field) -> SearchStrategy[Any]:
    pattern = field.schema.get("pattern")
    if isinstance(pattern, str):
        return st.integers(0, 2**32).map(lambda seed: matching_text(pattern, random.Random(seed), field.takes))
    if field.format or field.is_base64:
        return st.just(plain_value(field, 1))
    least, most = _count(field.schema, "minLength", 0), _count(field.schema, "maxLength", 12)
    return st.lists(_CHARACTERS, min_size=min(least, 500), max_size=min(max(least, min(most, least + 12)), 512)).map(
        "".join
    )


def _count(limits: Mapping[str, Any], keyword: str, otherwise: int) -> int:
    count = limits.get(keyword)
    return int(count) if is_number(count) and count >= 0 else otherwise
