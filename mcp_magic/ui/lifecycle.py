"""Tracks which widgets a cell shows, so that running the cell again closes them.

A widget lives in the kernel until it is closed: a cell that is run two hundred times would leave two hundred
explorers behind. The frontend reports which cell it runs and which it has deleted; the shell's layer passes that on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Closable", "Place", "close_cells", "close_previous", "keep", "kept"]


class Closable(Protocol):
    """Anything with a `close()` that may be called more than once."""

    def close(self) -> None:
        """Close every comm."""


T = TypeVar("T", bound=Closable)


class Place(NamedTuple):
    """Where a widget is shown.

    Attributes:
        cell: The cell's id, or "" if the frontend does not report it; then nothing is replaced.
        run: An id of this run of the cell.
        deleted: Ids of deleted cells.
    """

    cell: str = ""
    run: str = ""
    deleted: tuple[str, ...] = ()


_kept: dict[str, list[tuple[str, Closable]]] = {}


def keep(thing: T, place: Place) -> T:
    """Remember that `thing` is shown at `place`, close what earlier runs of the cell showed, and return `thing`.

    >>> class Form:
    ...     def close(self): print("closed")
    >>> first = keep(Form(), Place("cell", "run 1"))
    >>> second = keep(Form(), Place("cell", "run 1"))
    >>> third = keep(Form(), Place("cell", "run 2"))
    closed
    closed
    >>> kept("cell") == [third]
    True
    >>> close_cells(["cell"])
    closed
    """
    close_previous(place)
    if place.cell:
        _kept.setdefault(place.cell, []).append((place.run, thing))
    return thing


def close_previous(place: Place) -> None:
    """Close what earlier runs of this cell and deleted cells showed."""
    close_cells(place.deleted)
    shown = _kept.pop(place.cell, [])
    for run, thing in shown:
        if run != place.run:
            thing.close()
    if same := [each for each in shown if each[0] == place.run]:
        _kept[place.cell] = same


def close_cells(cells: Iterable[str]) -> None:
    """Close everything that these cells show."""
    for cell in cells:
        for _, thing in _kept.pop(cell, []):
            thing.close()


def kept(cell: str) -> list[Closable]:
    """Return everything that a cell shows."""
    return [thing for _, thing in _kept.get(cell, [])]
