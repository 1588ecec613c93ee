"""The arguments of a call for display and editing: shortened, secrets masked, invisible characters written out."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic._text import join_names, plural
from mcp_magic.display.document import Markup, facts, joined, page, preformatted, tag
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import escaped_json, in_line, is_long, outline, visible
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.fields import kept_root
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_types import Tool

    from mcp_magic.schema.fields import Field

# A call on one line, and argument by argument.
#
# Names and values come from servers and models, so invisible characters are written out, markup is escaped and secrets
# are masked. A long value shows its beginning and its end.

MAX_VALUE = 1000  # most characters shown of one argument's value
MAX_NAME = 80  # most characters shown of an argument's name
MAX_IN_LINE = 60  # most characters of one argument's value in a line
MAX_LINE = 200  # most characters of all arguments in a line

_PLAIN = re.compile(r"[\w.:/@+*-]+")


class Hidden(NamedTuple):
    """A masked value, its path (`login.password`), and whether the tool's schema or only its name marks it so."""

    path: str
    value: Any
    by_server: bool


def hidden_arguments(
    arguments: Mapping[str, Any], definition: Tool | None, mask: Callable[[Any], str] = lambda _: MASK
) -> dict[str, Any]:
    """Return arguments with masked secrets: values that their name or the tool's schema marks as secret."""
    return masked_parts(arguments, definition, mask)[0]


def hidden_parts(arguments: Mapping[str, Any], definition: Tool | None) -> list[Hidden]:
    """Return the values that `hidden_arguments` masks, each with its path and the reason."""
    return masked_parts(arguments, definition)[1]


def masked_parts(
    arguments: Mapping[str, Any], definition: Tool | None, mask: Callable[[Any], str] = lambda _: MASK
) -> tuple[dict[str, Any], list[Hidden]]:
    """Return what `hidden_arguments` and `hidden_parts` return, at once."""
    hidden: list[Hidden] = []

    def masked(value: Any, field: Field | None, name: str, path: str) -> Any:
        if value is not None and schema.is_secret(name, field):
            hidden.append(Hidden(path, value, schema.is_secret("", field)))
            return mask(value)
        if isinstance(value, dict):
            return members(value, field, f"{path}.")
        if isinstance(value, list):
            item = field.item if field else None
            return [masked(inner, item, "", f"{path}[{index}]") for index, inner in enumerate(value)]
        return value

    def members(value: Mapping[str, Any], field: Field | None, prefix: str) -> dict[str, Any]:
        fields = {child.name: child for child in field.children} if field else {}
        return {name: masked(inner, fields.get(name), str(name), f"{prefix}{name}") for name, inner in value.items()}

    root = kept_root(definition.input_schema) if definition is not None else None
    return members(arguments, root, ""), hidden


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return the changed arguments by name, and how each was changed."""
    # unlike ==, repr distinguishes 1 from True and 1.0
    kinds = {}
    for name in {**before, **after}:
        if name not in after:
            kinds[name] = "left out"
        elif name not in before:
            kinds[name] = "added"
        elif repr(before[name]) != repr(after[name]):
            kinds[name] = "changed"
    return kinds


def call_line(arguments: Mapping[str, Any], definition: Tool | None, limit: int = MAX_LINE) -> str:
    """Return arguments on one line, secrets masked and long values cut."""
    parts: list[str] = []
    room = limit
    for name, value in hidden_arguments(arguments, definition).items():
        part = f"{in_line(name, 40)}={short_value(value)}"
        room -= len(part)
        if room < 0:
            parts.append("…")
            break
        parts.append(part)
    return ", ".join(parts)


def value_text(value: Any, indent: int | None = None) -> str:
    """Return a value as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def short_value(value: Any) -> str:
    """Return a value as short text for a line; a string gets quotes only if it could be misread without them."""
    text = in_line(value_text(value), MAX_IN_LINE)
    return f'"{text}"' if isinstance(value, str) and not _PLAIN.fullmatch(value) else text


def argument_rows(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    definition: Tool | None,
    limit: int = MAX_VALUE,
    *,
    mask: Callable[[Any], str] = lambda _: MASK,
) -> Iterable[tuple[str, str, str]]:
    """Yield each argument's name, value and change ("" if unchanged), including arguments that were left out."""
    old, new = hidden_arguments(before, definition, mask), hidden_arguments(after, definition, mask)
    kinds = changes(before, after)
    for name in {**new, **old}:
        was = f"; was {short_value(old[name])}" if kinds.get(name) == "changed" else ""
        text = outline(value_text(new[name] if name in new else old[name]), limit)
        yield in_line(name, MAX_NAME), text, f"{kinds[name]}{was}" if name in kinds else ""


def long_arguments(arguments: Mapping[str, Any], definition: Tool | None) -> dict[str, Any]:
    """Return the arguments that `argument_rows` shortens, secrets masked."""
    return {
        name: value
        for name, value in hidden_arguments(arguments, definition).items()
        if is_long(value_text(value), MAX_VALUE) or is_long(name, MAX_NAME)
    }


def argument_cell(value: str, mark: str) -> Markup:
    """Return the value of an argument as markup, with its change."""
    text = preformatted(value) if "\n" in value else tag("code", value, style="white-space:pre-wrap")
    # a word, because colour alone is not visible to everybody
    return joined([text, " ", tag("b", f"✎ {mark}")]) if mark else text


# The masked values of a call that needs approval: where they are, how long, and why they are masked.
#
# The server's schema and the names that a model chooses decide what is masked. So the user who approves the call must
# see that values are masked, and can look at them in full, a page at a time.

MAX_NAMED = 5  # most masked values that a note names
PAGE = 100_000  # characters of full values on one page


def sized(mask: str, value: Any) -> str:
    """Return a mask with the length of the value that it hides."""
    return f"{mask} ({plural(len(value_text(value)), 'characters')})"


def hidden_note(parts: Iterable[Hidden]) -> str:
    """Return a line that says which values are hidden and why; "" if none is."""
    why = {True: "the server calls it a secret", False: "the name of a secret"}
    notes = [f"{one_line(part.path, 40)} ({why[part.by_server]})" for part in parts]
    return f"hidden: {join_names(notes, MAX_NAMED)}" if notes else ""


def pages(values: Iterable[tuple[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return full values with their names, split into pages that a frontend can take."""
    chunks: list[list[tuple[str, str]]] = [[]]
    room = PAGE
    for name, value in values:
        text = value_text(value, indent=2)
        at, label = 0, in_line(name, PAGE)
        while at == 0 or at < len(text):
            if room <= 0:
                chunks.append([])
                room = PAGE
            part = text[at : at + room]
            where = f"{label}, characters {at + 1:,} to {at + len(part):,}" if len(part) < len(text) else label
            chunks[-1].append((where, part))
            room -= max(len(part), 1)
            at += max(len(part), 1)
    return chunks


def page_html(rows: Iterable[tuple[str, str]]) -> str:
    """Return a page of values as HTML that scrolls, with invisible characters written out."""
    table = facts([(name, preformatted(visible(text))) for name, text in rows])
    return page([tag("div", table, style="max-height:28em;overflow:auto")])


def page_text(rows: Iterable[tuple[str, str]]) -> str:
    """Return a page of values as plain text, with invisible characters written out."""
    lines = ((name, visible(text).replace("\n", "\n      ")) for name, text in rows)
    return "\n".join(f"  {name} = {text}" for name, text in lines)


# Arguments that the user edits: secrets are masked in the editor, and restored where the mask is unchanged.


def restored(edited: Any, masked: Any, original: Any) -> Any:
    """Return `edited`, a version of `shown`, with the values of `original` for its masks, if the lists match."""
    if edited == MASK and masked == MASK:
        return original
    if isinstance(edited, dict) and isinstance(masked, dict) and isinstance(original, dict):
        return {name: restored(value, masked.get(name), original.get(name)) for name, value in edited.items()}
    if isinstance(edited, list) and isinstance(masked, list) and len(edited) == len(masked):
        return [restored(*three) for three in zip(edited, masked, original, strict=True)]
    return edited


def lost_secret(value: Any, original: Any) -> bool:
    """Whether `value` still has a mask that `original` does not: the mask itself would be sent."""
    return _has_mask(value) and not _has_mask(original)


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_mask, value.values()))
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return bool(value == MASK)


def written_arguments(arguments: Mapping[str, Any], definition: Tool | None, *, indent: int | None = 2) -> str:
    """Return arguments as JSON for editing: secrets are masked, invisible characters escaped."""
    return escaped_json(hidden_arguments(arguments, definition), indent)


def read_arguments(text: str, original: Mapping[str, Any], definition: Tool | None) -> dict[str, Any]:
    """Return the arguments in `text`, edited JSON with masks for `original` values, or raise ArgumentsError."""
    try:
        edited = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"this is not JSON: {error}") from None
    if not isinstance(edited, dict):
        raise ArgumentsError(f"the arguments must be a JSON object, not {type(edited).__name__}")
    original = dict(original)
    arguments: dict[str, Any] = restored(edited, hidden_arguments(original, definition), original)
    if lost_secret(arguments, original):
        raise ArgumentsError("a hidden value was moved; write it out, or discard the changes")
    if definition is not None:
        schema.check_arguments(arguments, definition.input_schema)
    return arguments
