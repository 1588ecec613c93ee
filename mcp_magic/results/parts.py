"""Parts of an output, and the mimebundle that they make together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from .html import Markup, note, page
from .safe import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from .limits import Budget

__all__ = ["Faceted", "Part", "Value", "bundle", "counted", "fitting", "mimebundle", "only"]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to show.

    Attributes:
        plain: For terminals.
        html: For pages.
        native: A richer form under its own MIME type, which is used when the part stands alone.
        media: Whether it is media, which count against their own limit.
    """

    plain: str
    html: Markup
    native: Mapping[str, Any] | None = None
    media: bool = False


def only(
    data: dict[str, Any], include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the MIME types that IPython asks for."""
    return {key: data[key] for key in data if (not include or key in include) and key not in (exclude or ())}


def bundle(
    parts: Sequence[Part], include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the mimebundle of parts one below the other.

    A native form goes without HTML: frontends prefer HTML and would never show it, and carrying media
    twice would double the notebook.
    """
    # Each part is clean but for names and titles; cleaning what is clean changes nothing.
    plain = clean("\n\n".join(part.plain for part in parts if part.plain))
    if len(parts) == 1 and parts[0].native:
        return only({"text/plain": plain, **parts[0].native}, include, exclude)
    return only({"text/plain": plain, "text/html": page(part.html for part in parts)}, include, exclude)


def mimebundle(
    value: Any, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    """Return what a notebook shows of a value, by MIME type: it asks as IPython does."""
    data: dict[str, Any] = value._repr_mimebundle_(include, exclude)
    return data


def fitting(items: Sequence[Any], show: Callable[[Any, Budget], Part], budget: Budget, how: str) -> list[Part]:
    """Return the parts of the items that fit into the budget, and a line about the rest.

    Args:
        items: What to show, in order; what does not fit is not looked at.
        show: Makes the part of one.
        budget: Counts what the parts take.
        how: Where the rest is.
    """
    parts: list[Part] = []
    for number, item in enumerate(items):
        if budget.spent:
            rest = f"… {len(items) - number:,} more: {how}"
            parts.append(Part(rest, note(rest)))
            break
        parts.append(counted(show(item, budget), budget))
    return parts


def counted(part: Part, budget: Budget) -> Part:
    """Take what `part` needs from the budget; media have done so themselves.

    Its text may be longer than its HTML, which has strings cut: the longer one counts.
    """
    budget.blocks -= 1
    if not part.media:
        budget.bytes -= min(max(_saved(part.html), _saved(part.plain)), budget.bytes)
    return part


def _saved(text: str) -> int:
    r"""Return the bytes that a text takes in a notebook file, which is JSON.

    >>> _saved("\n&")
    3
    """
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


class Value:
    """What all results share: they are displayed by their parts and computed when asked.

    Subclasses name their constructor's arguments in `_fields`.
    """

    __slots__ = ("_cache",)
    _fields: tuple[str, ...] = ()
    _cache: dict[str, Any] | None

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return what is displayed.

        Args:
            budget: What may be shown, for a display that holds more than this value; None for a display of its own.
        """
        raise NotImplementedError

    def _once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what `compute` returned the first time."""
        cache = self._cache
        if cache is None:
            cache = self._cache = {}
        if name not in cache:
            cache[name] = compute()
        return cache[name]

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle(self.parts(), include, exclude)

    def __str__(self) -> str:
        text: str = bundle(self.parts())["text/plain"]
        return text

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields if name != "seconds")

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._cache = None
        for name, value in state.items():
            setattr(self, name, value)


class Faceted(Value):
    """A value with several forms: which of them has a length, or items, nobody can know, so it says what they are.

    Subclasses name them in `_facets`.
    """

    __slots__ = ()
    _facets = ""

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is neither a list nor a dict; {self._facets}")

    __len__ = __iter__ = __getitem__ = __contains__ = _refuse

    def __bool__(self) -> bool:
        return True
