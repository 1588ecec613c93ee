"""Where a cell shows something: which cell it is, and which run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from mcp_magic.widgets.lifecycle import Closable, Place, close_previous, keep

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["current_place", "keep_here"]

T = TypeVar("T", bound=Closable)

_followed: WeakSet[InteractiveShell] = WeakSet()


def keep_here(thing: T, shell: InteractiveShell) -> T:
    """Remember that the running cell shows `thing`, and return it; any other run of that cell closes it."""
    place = current_place(shell)
    if place.cell and shell not in _followed:
        _followed.add(shell)
        # also a run that shows nothing any more, and the deletion of the cell
        shell.events.register("pre_run_cell", lambda *_: close_previous(current_place(shell)))
    return keep(thing, place)


def current_place(shell: InteractiveShell) -> Place:
    """Return the cell that is running and which run of it this is, as the frontend says in its request.

    JupyterLab, Notebook 7 and VS Code send `metadata.cellId`, the first two also `metadata.deletedCells`.
    Where nobody says it (a terminal, nbclient) the place is nowhere.
    """
    get_parent = getattr(shell, "get_parent", None)  # terminal IPython has none
    request = (get_parent() if get_parent is not None else None) or {}
    metadata, header = request.get("metadata") or {}, request.get("header") or {}
    deleted = metadata.get("deletedCells")
    return Place(
        cell=str(metadata.get("cellId") or ""),
        run=str(header.get("msg_id") or ""),
        deleted=tuple(map(str, deleted)) if isinstance(deleted, list) else (),
    )
