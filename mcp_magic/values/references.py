"""Values by reference: `{"$value": "df", "rows": [0, 100]}` in the arguments of a call stands for a shared value.

The references are replaced before a call is checked, asked about and sent. So the tool's own schema checks the values,
rules match them, and what is sent is what the question showed: later changes of the variable do not count. What has
come in for a reference is data. It is not searched for references, whoever has written it.

Where a table is put is said by the schema: where it takes texts or numbers, a single column is sent as a list of its
values; where it takes lists, each row is a list; else each row is an object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.config.masking import estimated_size
from mcp_magic.display import tables
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, NoTableError
from mcp_magic.results.content import Media
from mcp_magic.results.results import ToolResult, argument_value
from mcp_magic.schema import input_root, prepare_arguments
from mcp_magic.schema.resolve import json_key
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.schema.validate import path_text
from mcp_magic.values.classes import are_all, bases, is_among, loaded
from mcp_magic.values.plain import Writer
from mcp_magic.values.reading import RESULTS, nothing_in, part_of, readable, row_range
from mcp_magic.values.tables import as_json, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.results.results import ResourceResult
    from mcp_magic.schema import Field
    from mcp_magic.values.rows import Table
    from mcp_magic.values.tools import Values

MARK = "$value"

KEYS = {MARK: "", "columns": '["a", "b"]', "rows": "[0, 100]", "query": '"a > 1"'}
"""What a reference may have, each with an example."""

MAX_REFERENCES = 100  # most references in the arguments of one call
MAX_BYTES = 32_000_000  # most bytes that all of them may come to, as JSON
MAX_VALUES = 2_000_000  # most numbers, texts and so on of one value
MAX_DEPTH = 100  # levels of arguments that are searched

MAX_COLUMNS = 20  # most columns that a shape names
SAMPLE = 100  # rows that tell what a column holds, and how large a table is
MANY = 2_000  # rows of which some tell first whether all are taken


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that was put into arguments."""

    path: tuple[str | int, ...]  # where: `("rows",)`, `("items", 0, "data")`
    name: str  # of the variable
    shape: str  # in words: `10,000 rows x 3 columns (a, b, c)`
    reference: Mapping[str, Any]  # as the client wrote it


@dataclass(frozen=True, slots=True)
class Resolved:
    """Arguments with values in place of references."""

    arguments: dict[str, Any]
    references: tuple[Reference, ...] = ()


@dataclass(slots=True)
class _Resolution:
    """The references of one call as they are replaced."""

    values: Values
    hide: Callable[[str], str]
    masks: bool
    references: list[Reference] = field(default_factory=list)
    data: dict[Any, Any] = field(default_factory=dict)  # what was read already, by reference and place
    size: int = 0

    def walk(self, value: Any, place: Field | None, path: tuple[str | int, ...]) -> Any:
        """Return a part of the arguments with values in place of references."""
        if not isinstance(value, dict | list):
            return value
        if len(path) > MAX_DEPTH:
            raise ArgumentsError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, list):
            return [self.walk(item, _inner(place, at), (*path, at)) for at, item in enumerate(value)]
        if MARK in value:
            return self.read(value, place, path)
        return {name: self.walk(item, _inner(place, name), (*path, name)) for name, item in value.items()}

    def read(self, reference: dict[str, Any], place: Field | None, path: tuple[str | int, ...]) -> Any:
        """Return the value of a reference, in the form that its place takes."""
        where = path_text(path)
        if len(self.references) == MAX_REFERENCES:
            raise ArgumentsError(
                f"more than {MAX_REFERENCES} references in one call; put them together with `put_value`, or call twice"
            )
        try:
            name, selection = _read_reference(reference)
            with readable():
                data = self.taken(name, selection, (json_key(reference), _form(place)))
                size = estimated_size(data)
            self.check(size)
        except ArgumentsError as error:
            raise ArgumentsError(f"{where}: {self.hide(str(error))}") from None
        self.size += size
        self.references.append(Reference(path, name, json_shape(data), reference))
        return data

    def taken(self, name: str, selection: dict[str, Any], key: tuple[Any, _Form]) -> Any:
        """Return what is selected of a value, in a form; the same is read once."""
        if key not in self.data:
            variable, _, part = name.partition(".")
            value, is_masked = part_of(self.values.peek(variable), part, variable)
            if is_masked and selection:  # whether rows fit a query would tell what they hold
                raise ArgumentsError(f"{one_line(name, 60)} is masked: it is passed on whole, without a selection")
            self.data[key] = self.formed(name, MASK if is_masked and self.masks else value, selection, key[1])
        return self.data[key]

    def formed(self, name: str, value: Any, selection: dict[str, Any], form: _Form) -> Any:
        """Return a value of a name, or rows and columns of it, as JSON of a form."""
        if is_among(type(value), RESULTS):
            value = _of_result(value, selection, form)
        if type(value) is Media:
            return value.base64
        if type(value) in (tables.Records, tables.Columns):
            value = value.values  # as the server sent it
        table = table_of(value)
        columns, numbers = self.selected(table, **selection)
        is_grid = table is not None and not columns and form.items in ("array", "any") and _is_grid(value)

        def read(rows: Sequence[int] | None, names: Sequence[str] = columns) -> Any:
            if is_grid:  # lists in lists, of any number of dimensions
                part = self.writer().plain(value if rows is None else value[list(rows)])
                return self.masked(part) if self.masks else part
            part = as_json(value, names, rows, writer=self.writer(), table=table)
            return _shaped(name, self.masked(part) if self.masks else part, value, form)

        if table is not None and not isinstance(value, dict):  # lists in an object do not repeat the names
            self.check_size(read, range(len(table)) if numbers is None else numbers)
        data = read(numbers)
        if form.takes_list_only and isinstance(data, dict) and table is not None:
            return read(numbers, table.columns)  # as rows
        return data

    def selected(
        self, table: Table | None, columns: Sequence[str] = (), rows: list[int] | str | None = None, query: str = ""
    ) -> tuple[Sequence[str], Sequence[int] | None]:
        """Return the columns and the numbers of the rows that are taken; () and None for all."""
        numbers: Sequence[int] | None = None
        count = len(table) if table is not None else 0
        if rows is not None or query:
            span = row_range(rows or "", count)
            if rows and count and not span:
                raise ArgumentsError(nothing_in(rows, count))
            if query and table is not None:
                from mcp_magic.values.query import select  # with numpy, which comes late in a browser

                numbers = select(table, query, span, self.hide)
            else:
                numbers = span
        if table is not None:
            cells = (count if numbers is None else len(numbers)) * (len(columns) or table.width)
            if cells > MAX_VALUES:
                raise ArgumentsError(
                    f"{cells:,} cells are too many, the most are {MAX_VALUES:,}; "
                    'take fewer at a time: {"$value": ..., "columns": [...], "rows": [0, 1000]}'
                )
        return columns, numbers

    def check_size(self, read: Callable[[Sequence[int]], Any], rows: Sequence[int]) -> None:
        """Raise ArgumentsError if many rows are larger than is taken, as a few of them tell, before all are read."""
        if len(rows) < MANY:
            return
        few = rows[:: len(rows) // SAMPLE]
        self.check(estimated_size(read(few)) * len(rows) / len(few))

    def check(self, size: float) -> None:
        """Raise ArgumentsError if all values are too large with one of this size."""
        if self.size + size > MAX_BYTES:
            raise ArgumentsError(
                f"the values are more than {MAX_BYTES // 1_000_000} MB; "
                'send less of them at a time: {"$value": ..., "columns": [...], "rows": [0, 1000]}'
            )

    def masked(self, data: Any) -> Any:
        """Return JSON as a reader gets it; rows with the same names column by column, which takes less time."""
        writer = self.writer(self.hide)
        names = data[0] if isinstance(data, list) and data else None
        if not names or not all(type(row) is dict and row.keys() == names.keys() for row in data):
            return writer.plain(data)
        columns: dict[str, list[Any]] = {}
        for name, shown in zip(names, writer.plain(dict.fromkeys(names)), strict=True):
            cells = [row[name] for row in data]
            if is_secret_name(shown):
                columns[shown] = [None if cell is None else MASK for cell in cells]
            else:
                columns[shown] = [writer.plain(cell, depth=2) for cell in cells]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def writer(self, hide: Callable[[str], str] | None = None) -> Writer:
        """Return what makes a value plain, within limits."""
        return Writer(nodes=MAX_VALUES, characters=MAX_BYTES, strict=True, json_only=True, hide=hide)


def _is_grid(value: Any) -> bool:
    """Whether a value is an array of numpy without names of columns."""
    return loaded("numpy", "ndarray") is type(value) and value.dtype.names is None


def _shaped(name: str, data: Any, value: Any, form: _Form) -> Any:
    """Return the JSON of a value in a form: of a table, rows as objects, as lists, or the cells of one column."""
    if not (isinstance(data, list) and data and all(type(row) is dict for row in data)):
        return data
    if form.items == "array":
        return [list(row.values()) for row in data]
    is_column = _is_column(value)
    if form.items == "scalar" and (is_column or all(len(row) == 1 for row in data)):
        return [cell for row in data for cell in list(row.values())[-1:]]
    if form.items == "any" and is_column and all(len(row) == 1 for row in data):  # no index that says more
        return [cell for row in data for cell in row.values()]
    if form.takes_list_only and form.items == "scalar":
        raise ArgumentsError(_names_one_column(name, data, form.kinds))
    return data


def _is_column(value: Any) -> bool:
    """Whether a value is a single column, of which the values are meant, and not rows."""
    above = bases(type(value))
    if any(loaded(module, "Series") in above for module in ("pandas", "polars")):
        return True
    array = loaded("numpy", "ndarray")
    return array in above and array.ndim.__get__(value) == 1


def resolve_references(
    arguments: Mapping[str, Any],
    values: Values,
    schema: Mapping[str, Any] | None = None,
    *,
    hide: Callable[[str], str] = str,
    masks: bool = False,
) -> Resolved:
    """Return arguments in which shared values stand in place of references to them.

    Args:
        arguments: The arguments as the client sent them.
        values: What the client may read.
        schema: The input schema of the tool.
        hide: Masks known secrets in a text, so that no query can search for them.
        masks: Whether the values are masked as for a reader, for what the client reads again.

    Raises:
        ArgumentsError: A reference cannot be read, or its value is not shared; the message has the path.
    """
    if MARK not in arguments and not any(isinstance(value, dict | list) for value in arguments.values()):
        return Resolved(dict(arguments))
    root = input_root(schema or {})
    if MARK in arguments and root.child(MARK) is None:
        raise ArgumentsError(
            f'a reference stands in the place of one argument, not of all: {{"NAME": {{"{MARK}": "df"}}}}. '
            f"Arguments: {join_names(child.name for child in root.children)}"
        )
    resolution = _Resolution(values, hide, masks)
    replaced = {name: resolution.walk(value, root.at(name), (name,)) for name, value in arguments.items()}
    return Resolved(replaced, tuple(resolution.references))


def misfit(
    error: ArgumentsError, resolved: Resolved, masked: Callable[[], Resolved], schema: Mapping[str, Any]
) -> tuple[ArgumentsError, bool]:
    """Return the error of a tool's schema as the client may read it, and whether masked values are among the arguments.

    The error quotes values, so it is made anew from masked ones, which `masked` returns. Where values are masked, the
    person is asked before the client gets it: whether a value fits tells something of it.
    """
    if not resolved.references:
        return error, False
    try:
        shown = masked().arguments
        if shown == resolved.arguments:
            return error, False
        prepare_arguments(shown, schema)
    except ArgumentsError as problem:  # also since a mask takes more room than what it hides
        return problem, True
    text = "a value that a reference stands for does not fit; tools/list has what the tool takes"
    return ArgumentsError(text), True


def check_others(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise ArgumentsError if arguments without references do not fit by themselves, before values are read."""
    if not any(map(_has_reference, arguments.values())):
        return  # all are checked together
    root, properties = input_root(schema), schema.get("properties")
    unfit: dict[str, Any] = {}
    for name, raw in properties.items() if isinstance(properties, Mapping) else ():
        place = root.child(name)
        if place is not None and name in arguments and not _has_reference(arguments[name]):
            unfit |= {} if place.takes(arguments[name]) else {name: raw}
    if unfit:
        documents = {key: schema[key] for key in ("$schema", "$id", "$defs", "definitions") if key in schema}
        tool = {**documents, "type": "object", "properties": unfit}
        prepare_arguments({name: arguments[name] for name in unfit}, tool)


def _has_reference(value: Any, depth: int = 0) -> bool:
    """Whether there is a reference in an argument; in one that is nested too deeply there may be."""
    if not isinstance(value, dict | list) or depth > MAX_DEPTH:
        return depth > MAX_DEPTH
    if isinstance(value, dict) and MARK in value:
        return True
    return any(_has_reference(inner, depth + 1) for inner in (value.values() if isinstance(value, dict) else value))


def _read_reference(reference: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a reference, and what is taken of its value."""
    name = reference[MARK]
    if not isinstance(name, str):
        raise ArgumentsError(f'{MARK} is the name of one value, such as {{"{MARK}": "df"}}, not {_kind(name)}')
    for key in reference:
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            keys = ", ".join(f'"{valid}": {example}' for valid, example in KEYS.items() if example)
            raise ArgumentsError(
                f'a reference has no {one_line(repr(key), 60)}.{near} It may have: {keys}, beside "{MARK}"'
            )
    selection = {key: value for key, value in reference.items() if key != MARK and value is not None}
    columns, rows, query = (selection.get(key) for key in ("columns", "rows", "query"))
    if isinstance(columns, str):
        selection["columns"] = columns = [columns]
    if columns is not None and not (isinstance(columns, list) and columns and all(isinstance(n, str) for n in columns)):
        raise ArgumentsError(f'"columns" is a list of names, such as {KEYS["columns"]}')
    if rows is not None and not isinstance(rows, str) and not _is_range(rows):
        raise ArgumentsError(f'"rows" is [START, STOP], counted from 0, such as {KEYS["rows"]}')
    if query is not None and not isinstance(query, str):
        raise ArgumentsError(f'"query" is text, such as {KEYS["query"]}')
    return name, selection


def _is_range(rows: Any) -> bool:
    return isinstance(rows, list) and len(rows) == 2 and all(type(number) is int and number >= 0 for number in rows)


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def _inner(place: Field | None, key: str | int) -> Field | None:
    return None if place is None else place.at(key)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a place takes of a table."""

    items: str = "any"  # how it takes a row: "object", "array", "scalar" for a single column, or "any"
    takes_list_only: bool = False
    takes_text_only: bool = False
    kinds: frozenset[str] = frozenset()  # of the items, in the words of the schema


def _form(place: Field | None) -> _Form:
    """Return what a place takes of a table.

    >>> from mcp_magic.schema import root_field
    >>> [_form(root_field({"type": "array", "items": {"type": kind}})).items for kind in ("object", "array", "number")]
    ['object', 'array', 'scalar']
    """
    if place is None:
        return _Form()
    fields = place.variants or (place,)
    kinds = {variant.kind for variant in fields}
    items = [variant.item for variant in fields if variant.kind == "array" and variant.item is not None]
    inner = {kind.kind for item in items for kind in (item.variants or (item,))} - {"null"}
    form = next((kind for kind in ("any", "object", "array") if kind in inner), "scalar" if inner else "any")
    takes_list_only = "array" in kinds and not kinds & {"object", "any"}
    return _Form(form, takes_list_only, kinds <= {"string", "null"}, frozenset(inner))


_CLASSES: dict[str, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
    "boolean": (bool,),
}
"""Kind of a schema -> classes of what fits it."""


def _names_one_column(name: str, rows: Sequence[Mapping[str, Any]], kinds: frozenset[str]) -> str:
    """Return the error for several columns where a list of values is taken: which of them can be named."""
    kinds = kinds & _CLASSES.keys() or frozenset(_CLASSES)  # of an enum any column may be
    classes = [kind for name in kinds for kind in _CLASSES[name]]
    columns = dict.fromkeys(column for row in rows[:SAMPLE] for column in row)
    complete, others = [], []  # others: those in which values are missing
    for column in columns:
        cells = [row.get(column) for row in rows[:SAMPLE]]
        if are_all(cells, *classes):
            complete.append(column)
        elif are_all(cells, *classes, type(None)) and any(cell is not None for cell in cells):
            others.append(column)
    fit = [*complete, *others]
    takes = f"it takes a list of {' or '.join(sorted(kinds))} values"
    if not fit:
        listing = one_line(join_names(columns, MAX_COLUMNS), 400)
        return f"{takes}, and no column of {one_line(name, 60)} has these. There are: {listing}"
    example = json.dumps({MARK: name, "columns": fit[:1]}, ensure_ascii=False)
    listing = one_line(join_names(fit, MAX_COLUMNS), 400)
    return f"{takes}: name a column, as in {one_line(example, 200)}. Columns that fit: {listing}"


def _of_result(result: ToolResult | ResourceResult, selection: dict[str, Any], form: _Form) -> Any:
    """Return the value of an answer: its table if rows are wanted, its text if only text is, else its data."""
    if isinstance(result, ToolResult) and result.is_error:
        raise ArgumentsError("it is the error of a call, and has no value")
    if form.takes_text_only and not selection and result.texts:
        return "\n".join(result.texts)
    data = argument_value(result.data, result.texts, "")
    if selection or (form.takes_list_only and not isinstance(data, list)):
        with suppress(NoTableError):
            return result.df
    return data


def json_shape(data: Any) -> str:
    """Return the shape of JSON in words.

    >>> json_shape([{"a": 1, "b": 2}] * 10_000)
    '10,000 rows x 2 columns (a, b)'
    >>> json_shape([1, 2]), json_shape({"a": 1}), json_shape("x" * 5000), json_shape(True)
    ('2 numbers', 'an object with a', 'text of 5,000 characters', 'true')
    """
    if isinstance(data, list):
        if data and all(type(row) is dict for row in data):
            names = list(dict.fromkeys(name for row in data for name in row))
            columns = plural(len(names), "columns")
            listing = f" ({one_line(join_names(names, MAX_COLUMNS), 400)})" if names else ""
            return f"{plural(len(data), 'rows')} x {columns}{listing}"
        kinds = {_ITEMS.get(type(item), "values") for item in data}
        return plural(len(data), kinds.pop() if len(kinds) == 1 else "values")
    if isinstance(data, dict):
        return f"an object with {one_line(join_names(data, MAX_COLUMNS), 400)}" if data else "an empty object"
    if isinstance(data, str):
        return f"text of {plural(len(data), 'characters')}"
    return {True: "true", False: "false", None: "null"}[data] if data is None or isinstance(data, bool) else str(data)


_ITEMS: dict[type, str] = {int: "numbers", float: "numbers", str: "texts", dict: "objects", list: "lists"}
