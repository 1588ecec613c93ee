"""DataFrames with text of servers, whose printed form cannot control a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from mcp_magic._unicode import HIDDEN, escapes

if TYPE_CHECKING:
    from collections.abc import Callable


def _written_out(text: str) -> str:
    return HIDDEN.sub(lambda hidden: escapes(hidden[0]), text)


class EscapedSeries(pd.Series):
    """A Series whose printed form has control and invisible characters written out."""

    @property
    def _constructor(self) -> Callable[..., Any]:
        return EscapedSeries

    @property
    def _constructor_expanddim(self) -> Callable[..., Any]:
        return EscapedFrame

    def __repr__(self) -> str:
        return _written_out(super().__repr__())


class EscapedFrame(pd.DataFrame):
    """A DataFrame whose printed form has control and invisible characters written out; its values are unchanged."""

    @property
    def _constructor(self) -> Callable[..., Any]:
        return EscapedFrame

    @property
    def _constructor_sliced(self) -> Callable[..., Any]:
        return EscapedSeries

    def __repr__(self) -> str:
        return _written_out(super().__repr__())

    def _repr_html_(self) -> str | None:
        html: str | None = super()._repr_html_()  # type: ignore[misc]
        return None if html is None else _written_out(html)


def escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `frame`, as an `EscapedFrame` if printing it would send control or invisible characters.

    Other frames stay plain ones, because some libraries ask for the exact type.
    """
    columns = (frame.iloc[:, index] for index in range(frame.shape[1]))
    texts = (column for column in columns if column.dtype == "object" or column.dtype == "string")
    cells = (column.unique() if column.dtype == "string" else column.array for column in texts)
    has_hidden = any(map(_is_hidden, frame.columns)) or any(any(map(_is_hidden, values)) for values in cells)
    return EscapedFrame(frame) if has_hidden else frame


def _is_hidden(cell: object) -> bool:
    """Whether a cell may hold characters to write out; lists and objects may."""
    if isinstance(cell, str):
        return not cell.isprintable() and HIDDEN.search(cell) is not None
    return isinstance(cell, list | tuple | dict)
