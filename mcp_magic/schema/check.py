"""Whether arguments fit a schema, said before anything is sent."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.budget import StepsExceeded, limited_steps
from mcp_magic.schema.example import example_arguments
from mcp_magic.schema.fields import Field, root_field
from mcp_magic.schema.formats import FORMATS, fits_format
from mcp_magic.schema.messages import together
from mcp_magic.schema.native import native_check
from mcp_magic.schema.patterns import unchecked
from mcp_magic.schema.report import path_text, problems_of
from mcp_magic.schema.validation import import_jsonschema, make_validator, schema_problem
from mcp_magic.schema.values import json_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["check_answer", "check_arguments", "is_bounded", "prepare_arguments", "schema_errors"]

MAX_COMPILED = 512
"""Schemas whose compiled form is kept."""

MAX_ERRORS = 200
"""Errors taken from jsonschema; each row of a long table may have one."""


@dataclass(slots=True)
class _Compiled:
    """A schema made ready. It holds the schema, so that the `id` it is kept under stays its own.

    Attributes:
        fits: Whether a value surely fits.
        names: The arguments that there are; None if it takes others.
        validator: Made at the first need.
        given_up: Whether a validation by jsonschema has taken all its steps; it is not tried again then.
    """

    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    names: frozenset[str] | None = None
    validator: Validator | None = None
    given_up: bool = False

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Whether arguments surely fit, and there are no others."""
        return (self.names is None or self.names.issuperset(arguments)) and self.fits(arguments)


_compiled: dict[tuple[int, bool], _Compiled] = {}
"""By the schema's id, and whether it is one of answers."""


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise unless the arguments are valid, by the draft that the schema names (else 2020-12).

    A name that the schema does not list is a mistake, too, unless the schema says that it takes more
    (`additionalProperties`, `patternProperties`) or has no list of them. What cannot be decided here (a reference
    to another document, an invalid schema) is left to the server: nothing is ever fetched.

    Args:
        arguments: JSON values; see `to_json_value`.
        schema: The tool's input schema. Its compiled form is kept for the object, so pass the same one.

    Raises:
        ArgumentsError: At most three problems, each on a line that names the argument, what was expected
            and what was got.

    >>> check_arguments({"n": "x"}, {"properties": {"n": {"type": "integer"}}})
    Traceback (most recent call last):
    mcp_magic.errors.ArgumentsError: n: expected integer, got 'x'
    """
    compiled = _compile(schema)
    if not compiled.takes(arguments):
        _check(dict(arguments), compiled)


def prepare_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call as they are sent: JSON values that are valid, with what was left out filled in.

    Filled in is what the schema requires and has a default for, also inside of objects and lists.

    Args:
        arguments: Python objects by name; see `to_json_value`.
        schema: As for `check_arguments`.

    Returns:
        The arguments, and by path the defaults that were filled in.

    Raises:
        ArgumentsError: One has no JSON form, or they are not valid.

    >>> schema = {"properties": {"scale": {"default": "css"}, "type": {}}, "required": ["scale"]}
    >>> prepare_arguments({"type": "png"}, schema)
    ({'type': 'png', 'scale': 'css'}, {'scale': 'css'})
    """
    sent = json_arguments(arguments, schema)
    compiled, filled = _compile(schema), dict[str, Any]()
    if not compiled.takes(sent):
        sent = _completed(sent, root_field(schema), (), filled)
        if not (filled and compiled.takes(sent)):
            _check(sent, compiled)
    return sent, filled


def _completed(value: Any, field: Field | None, path: tuple[str | int, ...], filled: dict[str, Any]) -> Any:
    """Return a value with the required defaults that it lacks, each noted in `filled`."""
    if isinstance(value, list) and field is not None:
        return [_completed(item, field.at(index), (*path, index), filled) for index, item in enumerate(value)]
    if not isinstance(value, dict) or field is None or field.kind != "object":
        return value
    made = {name: _completed(item, field.at(name), (*path, name), filled) for name, item in value.items()}
    for child in field.children:
        if child.required and not child.needed and child.name not in made:
            made[child.name] = filled[path_text((*path, child.name))] = copy.deepcopy(child.default)
    return made


def schema_errors(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[ValidationError] | None:
    """Return all that jsonschema finds wrong with arguments; None if they obviously fit.

    Args:
        arguments: JSON values.
        schema: As for `check_arguments`; names that it does not list are no error of jsonschema's.
    """
    compiled = _compile(schema)
    return None if compiled.takes(arguments) else _errors(compiled, dict(arguments))


def check_answer(structured: Any, schema: Mapping[str, Any]) -> list[str]:
    """Raise unless structured content fits a tool's output schema, as far as patterns and steps are bounded.

    Args:
        structured: JSON values.
        schema: The output schema. Its compiled form is kept for the object, so pass the same one.

    Returns:
        The patterns against which a text of it could not be checked.

    Raises:
        ValueError: It does not fit, or the schema is invalid or refers to another document.
    """
    compiled = _compile(schema, answers=True)
    with unchecked() as patterns:
        if compiled.given_up or compiled.fits(structured):
            return list(patterns)
    import_jsonschema()
    from jsonschema.exceptions import best_match

    try:
        if compiled.validator is None:
            if (invalid := schema_problem(schema)) is not None:
                raise ValueError(f"the output schema is invalid: {invalid}")
            compiled.validator = make_validator(schema)
        with unchecked() as patterns, limited_steps(structured):
            problem = best_match(compiled.validator.iter_errors(structured))
    except (StepsExceeded, RecursionError):
        compiled.given_up = True
        return []
    except ValueError:
        raise
    except Exception as error:  # a reference that leads nowhere, or whatever an invalid keyword happens to raise
        raise ValueError(f"the output schema is invalid: {error}") from error
    if problem is not None:
        raise ValueError(f"Invalid structured content: {problem}") from problem
    return list(patterns)


def is_bounded(schema: Mapping[str, Any]) -> bool:
    """Return whether checking a value takes a bounded number of steps, as far as examples tell.

    >>> is_bounded({"properties": {"n": {"type": "integer"}}, "required": ["n"]})
    True
    """
    schema_errors(example_arguments(schema), schema)
    schema_errors({child.name: {} for child in root_field(schema).children if child.required}, schema)  # fits nothing
    return not _compile(schema).given_up


def _compile(schema: Mapping[str, Any], *, answers: bool = False) -> _Compiled:
    key = id(schema), answers
    known = _compiled.get(key)
    if known is not None and known.schema is schema:
        return known
    while len(_compiled) >= MAX_COMPILED:
        _compiled.pop(next(iter(_compiled)), None)
    compiled = _compiled[key] = _Compiled(schema, native_check(schema, formats=not answers))
    root = root_field(schema)
    if not answers and not root.is_open:
        compiled.names = frozenset(child.name for child in root.children)
    return compiled


def _check(arguments: dict[str, Any], compiled: _Compiled) -> None:
    problems = problems_of(_errors(compiled, arguments), arguments, root_field(compiled.schema))
    if problems:
        raise together(problems)


def _validator(schema: Mapping[str, Any]) -> Validator:
    import_jsonschema()
    from jsonschema import FormatChecker

    formats = FormatChecker(formats=())
    for name in FORMATS:
        formats.checks(name)(lambda text, name=name: fits_format(text, name))
    return make_validator(schema, formats)


def _errors(compiled: _Compiled, arguments: dict[str, Any]) -> list[ValidationError]:
    """Return what jsonschema finds, up to where it cannot go on."""
    found: list[ValidationError] = []
    if compiled.given_up:
        return found
    try:
        if compiled.validator is None:
            compiled.validator = _validator(compiled.schema)
        with limited_steps(arguments):
            found.extend(itertools.islice(compiled.validator.iter_errors(arguments), MAX_ERRORS))
    except StepsExceeded:
        compiled.given_up = True
    except Exception:
        # An invalid schema raises whatever its keyword happens to (TypeError, re.error, UnknownType,
        # Unresolvable, RecursionError). The server made the schema, so the server shall judge.
        pass
    return found
