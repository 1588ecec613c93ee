"""Values of the notebook in the arguments of a call: what a question and the audit say of them.

A call has the values themselves, so that rules match what is sent. A question draws a large one by its name, shape and
head, and the audit has no values, but what was taken of which variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import join_names
from mcp_magic.display.arguments import hidden_arguments, value_text
from mcp_magic.display.visible import in_line
from mcp_magic.schema.resolve import json_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp_types import Tool

    Path = tuple[str | int, ...]

MAX_ITEMS = 10  # items of a list or an object that a question draws whole
MAX_TEXT = 200  # characters of a value that a question draws whole

HEAD_ITEMS = 3  # items of a large value that a question draws
MAX_ITEM = 120  # characters drawn of each, or of a large text

MAX_NAME = 60  # characters drawn of a variable's name
MAX_SHAPE = 200  # characters drawn of its shape

_NOTHING: Any = object()


class ValueNote(Protocol):
    """A value of the notebook that an argument was replaced by."""

    @property
    def path(self) -> Path:
        """Where it is in the arguments: `("rows",)`, `("items", 0, "data")`."""

    @property
    def name(self) -> str:
        """The variable that it was read from."""

    @property
    def shape(self) -> str:
        """What was taken of it, in words: its rows and columns with their names, or its type and length."""

    @property
    def reference(self) -> Mapping[str, Any]:
        """What the asker wrote: `{"$value": "df", "rows": [0, 100]}`."""


def note_line(note: ValueNote) -> str:
    """Return a note on one line: the variable, what was selected of it, and the shape of that."""
    shape = in_line(note.shape, MAX_SHAPE)
    columns, query = note.reference.get("columns"), note.reference.get("query")
    names = [in_line(str(name), MAX_NAME) for name in columns] if isinstance(columns, list) else []
    selected = [in_line(note.name, MAX_NAME)]
    if any(name not in shape for name in names):  # rows of objects name their columns
        selected.append(f"{'column' if len(names) == 1 else 'columns'} {join_names(names)}")
    if isinstance(query, str) and query:
        selected.append(f"rows where {in_line(query, MAX_SHAPE)}")
    return f"{', '.join(selected)}: {shape}"


def value_at(arguments: Any, path: Path) -> Any:
    """Return the value at a path; an object that equals nothing if there is none."""
    for step in path:
        try:
            arguments = arguments[step]
        except (LookupError, TypeError):
            return _NOTHING
    return arguments


def with_values(arguments: Mapping[str, Any], values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Return arguments with other values at some paths; what is beside them is not copied."""
    result: Any = dict(arguments)
    for path, value in values:
        result = _with_value(result, path, value)
    return result  # type: ignore[no-any-return]


def _with_value(inside: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    copy = dict(inside) if isinstance(inside, dict) else list(inside)
    copy[path[0]] = _with_value(copy[path[0]], path[1:], value)  # type: ignore[index]
    return copy


def unchanged(values: Sequence[ValueNote], before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[ValueNote]:
    """Return the notes of values that are in the arguments still after the user has changed these."""
    if before is after or not values:
        return values

    def is_same(path: Path) -> bool:
        old, new = value_at(before, path), value_at(after, path)
        return old is new or (new is not _NOTHING and json_equal(old, new))

    return [note for note in values if is_same(note.path)]


def is_large(value: Any) -> bool:
    """Whether a question draws a value by its shape and head."""
    if isinstance(value, list | dict) and len(value) > MAX_ITEMS:
        return True
    return len(value_text(value)) > MAX_TEXT


def with_notes(arguments: Mapping[str, Any], values: Sequence[ValueNote]) -> dict[str, Any]:
    """Return arguments with a line of text for each large value."""
    large = [note for note in values if is_large(value_at(arguments, note.path))]
    return with_values(arguments, [(note.path, f"← {note_line(note)}") for note in large])


def referenced(arguments: Mapping[str, Any], values: Sequence[ValueNote]) -> dict[str, Any]:
    """Return arguments with the references that the asker wrote."""
    return with_values(arguments, [(note.path, dict(note.reference)) for note in values])


def resolved(
    edited: Any,
    values: Sequence[tuple[ValueNote, Any]],
    fits: Callable[[Path, Any], bool] = lambda path, value: True,
    path: Path = (),
) -> Any:
    """Return JSON with the references that the asker wrote replaced by their values, wherever these are now.

    A reference has the value that it had at its place, which the place gave its form. One that was moved has the first
    of its values that `fits` says its new place takes, else its first.
    """
    if isinstance(edited, dict):
        equal = [(note, value) for note, value in values if json_equal(dict(note.reference), edited)]
        if equal:
            here = [value for note, value in equal if note.path == path]
            fitting = (value for _, value in equal if len(equal) == 1 or fits(path, value))
            return here[0] if here else next(fitting, equal[0][1])
        return {name: resolved(inner, values, fits, (*path, name)) for name, inner in edited.items()}
    if isinstance(edited, list):
        return [resolved(inner, values, fits, (*path, at)) for at, inner in enumerate(edited)]
    return edited


def audited(arguments: Mapping[str, Any], values: Sequence[ValueNote]) -> dict[str, Any]:
    """Return arguments with the reference and the shape of each value, and no value."""
    notes = [(note.path, {**note.reference, "is": in_line(note.shape, MAX_SHAPE)}) for note in values]
    return with_values(arguments, notes)


def head_of(arguments: Mapping[str, Any], note: ValueNote, definition: Tool | None) -> list[str]:
    """Return lines with the first items of a large value, secrets masked."""
    value = value_at(arguments, note.path)
    if isinstance(value, list):
        value = value[:HEAD_ITEMS]
    elif isinstance(value, dict):
        value = {name: _beginning(value[name]) for name in list(value)[:HEAD_ITEMS]}
    first = note.path[0]
    only = {first: _with_value(arguments[str(first)], note.path[1:], value)}
    masked = value_at(hidden_arguments(only, definition), note.path)  # type: ignore[arg-type]
    if isinstance(masked, list):
        return [in_line(value_text(item), MAX_ITEM) for item in masked]
    if isinstance(masked, dict):
        return [
            f"{in_line(str(name), MAX_NAME)}: {in_line(value_text(item), MAX_ITEM)}" for name, item in masked.items()
        ]
    return [in_line(value_text(masked), MAX_ITEM)]


def _beginning(value: Any) -> Any:
    return value[: MAX_ITEMS * HEAD_ITEMS] if isinstance(value, list) else value
