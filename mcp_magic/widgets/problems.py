"""What is wrong with arguments, and where: the messages of the command line, each with its place in the form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.schema import root_field
from mcp_magic.schema.check import MAX_ERRORS, schema_errors
from mcp_magic.schema.report import missing_names, path_text, problems_of, told_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.exceptions import ValidationError

    from mcp_magic.schema import Field
    from mcp_magic.widgets.inputs import Path, Unread

__all__ = ["Problem", "find_problems"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: Where; the root's is empty.
        text: What, as the command line says it.
        missing: Whether a value is missing; nobody needs to be told before they have come to it.
    """

    path: Path
    text: str
    missing: bool = False


def find_problems(arguments: Mapping[str, Any], of: Mapping[str, Any], unread: list[Unread]) -> list[Problem]:
    """Return all that is wrong with arguments; jsonschema decides.

    Args:
        arguments: What was read.
        of: The schema; pass the same object each time, its compiled form is kept for it.
        unread: What could not be read; what jsonschema says of its stand-in is left out.
    """
    unreadable = {each.path for each in unread}
    texts = (Problem(each.path, f"{path_text(each.path) or 'arguments'}: {each.text}") for each in unread)
    found = dict.fromkeys(texts)
    found.update((problem, None) for problem in _checked(arguments, of) if problem.path not in unreadable)
    return sorted(found, key=lambda problem: not problem.missing)


def _checked(arguments: Mapping[str, Any], of: Mapping[str, Any]) -> Iterator[Problem]:
    errors = schema_errors(arguments, of)
    if errors is None:
        return
    root = root_field(of)
    # Names that the schema does not list are no error of jsonschema's.
    yield from (Problem((), text) for text in problems_of([], dict(arguments), root))
    lacking: set[Path] = set()
    for error in errors:
        for told in told_of(error):  # of a union, what is wrong with the variant that was meant
            yield from _located(told, root, lacking)


def _located(error: ValidationError, root: Field, lacking: set[Path]) -> Iterator[Problem]:
    """Yield the problems of an error; `lacking` has the objects whose missing names were told, and gets more."""
    path = tuple(error.absolute_path)
    if error.validator == "required" and isinstance(error.instance, dict) and isinstance(error.validator_value, list):
        if path not in lacking:
            lacking.add(path)
            yield from (_missing((*path, name), root) for name in missing_names(error)[:MAX_ERRORS])
        return
    for text in problems_of([error], {}, root):
        yield Problem(path, text)


def _missing(path: Path, root: Field) -> Problem:
    field: Field | None = root
    for key in path:
        field = field.at(key) if field is not None else None
    expected = field.type_text if field is not None else "any"
    return Problem(path, f"missing: {path_text(path)} ({expected})", missing=True)
