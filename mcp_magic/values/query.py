"""Queries over the columns of a table, such as `price > 10 and city in ["Oslo", "Rome"]`.

A language of its own, with Python's grammar: `ast` reads it, and only the nodes below are computed. Nothing is
evaluated by Python, and no method of a table, a column or a cell can be named. A comparison with a missing value is
neither true nor false, as in SQL; `x is null` asks for one.
"""

from __future__ import annotations

import ast
import datetime
import operator
import re
import warnings
from bisect import bisect
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

import numpy as np

from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.secrets import is_secret_name
from mcp_magic.values.vectors import Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_magic.values.rows import Table
    from mcp_magic.values.vectors import Kind

LENGTH = 2_000  # most characters of a query

DEEPEST = 40  # most levels of a query

MAX_NODES = 800  # most parts of a query, as `ast` counts them

MAX_WORK = 100_000_000  # most parts that are computed, times rows: some seconds

BLOCK = 1_000_000  # characters that are searched for secrets at once

MAX_READ, MAX_SEARCHED = 200_000_000, 2_000_000_000
"""Characters of texts that are searched for secrets, and those that are searched for texts: some seconds."""

VALID: Final = (
    "\nValid are columns, numbers, texts, lists, comparisons, `in`, `is null`, `and`, `or`, `not`, and + - * / // %, "
    'such as: price > 10 and city in ["Oslo", "Rome"]'
)

_LITERALS: Final = {"null": None, "true": True, "false": False, "NULL": None, "TRUE": True, "FALSE": False}

_NOUNS: Final[dict[str, str]] = {
    "number": "numbers",
    "text": "text",
    "time": "times",
    "truth": "true and false",
    "mixed": "values of several kinds",
}

_COMPARISONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_WORDS: Final[dict[type, str]] = {
    ast.Call: "a call",
    ast.Attribute: "an attribute",
    ast.Subscript: "an index",
    ast.Lambda: "a function",
    ast.ListComp: "a loop",
    ast.SetComp: "a loop",
    ast.DictComp: "a loop",
    ast.GeneratorExp: "a loop",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment",
    ast.IfExp: "`if`",
    ast.Pow: "`**`",
    ast.MatMult: "`@`",
    ast.LShift: "`<<`",
    ast.RShift: "`>>`",
    ast.BitXor: "`^`",
}


def select(table: Table, query: str, rows: range, hide: Callable[[str], str] = str) -> list[int]:
    """Return the numbers of the rows that fit a query.

    Args:
        table: The table.
        query: The query.
        rows: The rows to look at.
        hide: Masks secrets in texts, so that they cannot be searched for.

    Raises:
        ArgumentsError: The query is not valid; the message says what is.
    """
    try:
        tree, names = parse(query)
        if len(rows) * sum(1 for _ in ast.walk(tree)) > MAX_WORK:
            raise ArgumentsError(f"it is too long for {len(rows):,} rows; shorten it, or name fewer rows")
        result = _Computation(table, rows, names, hide).condition(tree)
    except ArgumentsError as error:
        raise ArgumentsError(f"query: {error}") from None
    numbers: list[int] = (np.flatnonzero(result.values & ~result.missing) * rows.step + rows.start).tolist()
    return numbers


_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`((?:[^`\n]|``)*)`|\#""")
"""A text, a column in backticks, or a comment."""


def parse(query: str) -> tuple[ast.expr, dict[str, str]]:
    """Return a query as a tree within limits, and the columns in backticks by the names that stand for them there."""
    if len(query) > LENGTH:
        raise ArgumentsError(f"it has {len(query):,} characters, and at most {LENGTH:,} are read")
    names: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        text, column = match.groups()
        if text is not None:
            return text
        if column is None:
            raise ArgumentsError(f"`#` stands in texts and in names only; a column is written `item #`.{VALID}")
        names[f"_column_{len(names)}_"] = column.replace("``", "`")
        return f" {list(names)[-1]} "

    query = query.replace("\r", " ").replace("\n", " ")
    text = _TOKEN.sub(plain, query)
    try:
        with warnings.catch_warnings(action="ignore"):  # of `1in city` and "\\d": the person did not write it
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise _unreadable(query) from None
    except (ValueError, MemoryError, RecursionError, OverflowError):
        raise ArgumentsError(f"it cannot be read: it is too deep, or has a character 0.{VALID}") from None
    _check_size(tree)
    return tree, names


def _unreadable(query: str) -> ArgumentsError:
    words = _TOKEN.sub(" _ ", query)
    hint = ""
    if re.match(r"(?i)\s*(select|where)\b", words):
        hint = " A query is the condition alone: what is after WHERE in SQL."
    elif re.search(r"(?<![=!<>])=(?!=)", words):
        hint = " Equality is ==."
    elif "<>" in words:
        hint = " Inequality is !=."
    elif re.search(r"(?i)\bbetween\b", words):
        hint = " A range is written 1 <= price <= 2."
    elif re.search(r"&&|\|\||\bAND\b|\bOR\b|\bNOT\b|\bIN\b|\bIS\b|(?i:\b(like|contains)\b)", words):
        hint = ' Write `and`, `or`, `not`, `in`, `is null`; a text is searched with "text" in column.'
    elif re.search(r"\w \w", re.sub(r"(?i)\b(and|or|not|in|is|null)\b", "", words)):
        hint = " A column with a blank is written `unit price`."
    return ArgumentsError(f"it cannot be read: {one_line(query, 80)!r}.{hint}{VALID}")


def _check_size(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        count += len(level)
        depth += 1
        if depth > DEEPEST or count > MAX_NODES:
            raise ArgumentsError(f"it is too long or too deep: at most {MAX_NODES:,} parts in {DEEPEST} levels")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


class _Computation:
    """Computes the parts of a query over some rows of a table."""

    def __init__(self, table: Table, rows: range, names: dict[str, str], hide: Callable[[str], str]) -> None:
        self._table, self._rows, self._names, self._hide = table, rows, names, hide
        self._vectors: dict[int, Vector] = {}
        self._room = {"read": MAX_READ, "searched": MAX_SEARCHED}

    # Conditions: true, false, or missing.

    def condition(self, node: ast.expr) -> Vector:
        """Return a part as a vector of truth values."""
        if isinstance(node, ast.BoolOp):
            join = _both if isinstance(node.op, ast.And) else _either
            return reduce(join, map(self.condition, node.values))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            join = _both if isinstance(node.op, ast.BitAnd) else _either
            return join(self.condition(node.left), self.condition(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
            return _negated(self.condition(node.operand))
        if isinstance(node, ast.Compare):
            return self._chain(node)
        value = self._value(node)
        if isinstance(value, bool):
            return self._constant(value)
        truth = value.of_kind("truth") if isinstance(value, Vector) else None
        if truth is None:
            raise ArgumentsError(f"{self._source(node)} is no condition: compare it, as in `price > 10`.{VALID}")
        return truth

    def _chain(self, node: ast.Compare) -> Vector:
        """Return `1 < price < 10` as both of its comparisons."""
        result: Vector | None = None
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            part = self._comparison(left, operation, right)
            result = part if result is None else _both(result, part)
            left = right
        assert result is not None
        return result

    def _comparison(self, left: ast.expr, operation: ast.cmpop, right: ast.expr) -> Vector:
        if isinstance(operation, ast.In | ast.NotIn):
            result = self._membership(left, right)
            return _negated(result) if isinstance(operation, ast.NotIn) else result
        first, second = self._value(left), self._value(right)
        if first is None:
            first, second, left = second, first, right
        if second is None:
            return self._emptiness(first, operation, left)
        if isinstance(operation, ast.Is | ast.IsNot):
            raise ArgumentsError("`is` asks for missing values only: `x is null`, `x is not null`; else write ==")
        if not isinstance(first, Vector) and not isinstance(second, Vector):
            raise ArgumentsError(f"it compares {self._source(left)} with {self._source(right)}: name a column")
        first, second = self._aligned(first, second, left, right)
        missing = _missing(first) | _missing(second)
        with np.errstate(all="ignore"):
            values = _COMPARISONS[type(operation)](_plain(first), _plain(second))
        return Vector("truth", np.asarray(values, bool), missing)

    def _emptiness(self, value: Any, operation: ast.cmpop, node: ast.expr) -> Vector:
        if not isinstance(value, Vector):
            raise ArgumentsError(f"`is null` needs a column, not {self._source(node)}")
        if not isinstance(operation, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            raise ArgumentsError("null is compared by `is null` and `is not null`")
        nothing = np.zeros(len(self._rows), bool)
        is_negated = isinstance(operation, ast.IsNot | ast.NotEq)
        return Vector("truth", ~value.missing if is_negated else value.missing, nothing)

    def _membership(self, left: ast.expr, right: ast.expr) -> Vector:
        """Return `column in [...]`, or `"text" in column`, which searches."""
        if isinstance(right, ast.List | ast.Tuple | ast.Set):
            return self._in_list(left, right)
        text, column = self._value(left), self._value(right)
        if isinstance(text, str) and isinstance(column, Vector):
            texts = self._texts(column)
            if texts is None:
                raise self._unfit(right, column, "text")
            self._reserve("searched", texts.values)
            hits = np.fromiter((text in cell for cell in texts.values), bool, len(texts.values))
            return Vector("truth", hits, texts.missing)
        raise ArgumentsError('`in` needs a list, `city in ["Oslo", "Rome"]`, or a text first, `"os" in city`')

    def _in_list(self, left: ast.expr, right: ast.List | ast.Tuple | ast.Set) -> Vector:
        column = self._value(left)
        if not isinstance(column, Vector):
            raise ArgumentsError(f"`in` needs a column first, not {self._source(left)}")
        result = Vector("truth", np.zeros(len(self._rows), bool), column.missing)
        items = [self._value(item) for item in right.elts]
        if any(isinstance(item, Vector) for item in items):
            raise ArgumentsError('a list has numbers or texts, such as ["Oslo", "Rome"]')
        texts = {item for item in items if isinstance(item, str)}
        kind = column.kind
        if texts and kind in ("text", "mixed"):
            cells = self._texts(column)
            assert cells is not None
            hits = np.fromiter((cell in texts for cell in cells.values), bool, len(cells.values)) & ~cells.missing
            result = replace(result, values=hits)
            items = [item for item in items if not isinstance(item, str)]
        for item in items:
            if item is None:
                result = Vector("truth", result.values | column.missing, np.zeros(len(self._rows), bool))
                continue
            first, second = self._aligned(column, item, left, right)
            with np.errstate(all="ignore"):
                hits = np.asarray(_plain(first) == _plain(second), bool) & ~_missing(first)
            result = replace(result, values=result.values | hits)
        return result

    # Values: of columns, of literals, and computed ones.

    def _value(self, node: ast.expr) -> Any:
        """Return a part as a vector, or as the number, text, truth value or None that it is."""
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.Name):
            return self._column(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self._number(node.operand)
            if isinstance(node.op, ast.UAdd):
                return number
            return -number if isinstance(number, int) else _arithmetic(operator.sub, 0, number)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _arithmetic(_ARITHMETIC[type(node.op)], self._number(node.left), self._number(node.right))
        if isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp):
            return self.condition(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            return self.condition(node)
        part = node.op if isinstance(node, ast.BinOp) else node
        raise ArgumentsError(f"{_WORDS.get(type(part), 'a part')} is not valid here.{VALID}")

    def _literal(self, node: ast.Constant) -> Any:
        value = node.value
        if type(value) is int and value.bit_length() > 64:
            raise ArgumentsError("a number has more than 64 bits")
        if type(value) not in (int, float, str, bool, type(None)):
            raise ArgumentsError(f"{self._source(node)} is neither number nor text.{VALID}")
        return value

    def _column(self, name: str) -> Any:
        name = self._names.get(name, name)
        if name in _LITERALS and name not in self._table.columns:
            return _LITERALS[name]
        name = self._as_written(name)
        position = self._table.position(name)
        if is_secret_name(name) and self._table.noun != "lines":
            raise ArgumentsError(f"the column {one_line(name, 60)!r} is masked, as its name is a secret's")
        if position not in self._vectors:
            vector = self._table.vector(position, self._rows)
            self._vectors[position] = self._masked(vector) if vector.kind == "text" else vector
        return self._vectors[position]

    def _as_written(self, name: str) -> str:
        """Return the name of the column that a name means: Python's parser normalises names, as `µ` to `μ`."""
        columns = self._table.columns
        if name.isascii() or name in columns:
            return name
        equal = [column for column in columns if not column.isascii() and normalize("NFKC", column) == name]
        return equal[0] if len(equal) == 1 else name

    def _number(self, node: ast.expr) -> Any:
        value = self._value(node)
        if isinstance(value, Vector):
            numbers = value.of_kind("number")
            if numbers is None:
                raise self._unfit(node, value, "number")
            return numbers
        if isinstance(value, str | None):
            raise ArgumentsError(f"{self._source(node)} is no number")
        return value

    def _constant(self, value: bool) -> Vector:
        count = len(self._rows)
        return Vector("truth", np.full(count, value), np.zeros(count, bool))

    # Kinds.

    def _aligned(self, first: Any, second: Any, left: ast.expr, right: ast.expr) -> tuple[Any, Any]:
        """Return two values, of which one is a vector at least, as values of one kind."""
        if not isinstance(first, Vector):
            second, first = self._aligned(second, first, right, left)
            return first, second
        self._check_comparable((left, first), (right, second))
        kind: Kind = second.kind if isinstance(second, Vector) else _kind_of(second)
        if kind == "mixed" and first.kind == "mixed":
            raise ArgumentsError(f"{self._source(left)} and {self._source(right)} hold values of several kinds")
        if kind == "mixed":
            kind = first.kind
        if first.kind == "time" and kind == "text" and isinstance(second, str):
            moment, has_zone = _moment(second)
            return first if has_zone else first.local, moment
        if first.kind == "number" and kind == "truth":
            second = int(second) if isinstance(second, bool) else second.of_kind("number")
            kind = "number"
        column = self._texts(first) if kind == "text" else first.of_kind(kind)
        if column is None:
            raise self._unfit(left, first, kind)
        if not isinstance(second, Vector):
            return column, second
        aligned = self._texts(second) if kind == "text" else second.of_kind(kind)
        if aligned is None:
            raise self._unfit(right, second, kind)
        return column, aligned

    def _check_comparable(self, *sides: tuple[ast.expr, Any]) -> None:
        for node, value in sides:
            if isinstance(value, Vector) and value.kind == "other":
                raise self._unfit(node, value, "other")

    def _texts(self, vector: Vector) -> Vector | None:
        """Return the texts of a vector, masked."""
        texts = vector.of_kind("text")
        return texts if texts is None or texts is vector else self._masked(texts)

    def _masked(self, texts: Vector) -> Vector:
        if self._hide is str:
            return texts
        self._reserve("read", texts.values)
        values = texts.values
        for start, stop in _blocks(values):
            block = values[start:stop].tolist()
            joined = "\0".join(block)
            if self._hide(joined) != joined:
                if values is texts.values:
                    values = values.copy()
                values[start:stop] = [self._hide(text) for text in block]
        return replace(texts, values=values)

    def _reserve(self, verb: str, texts: Iterable[str]) -> None:
        """Count the characters of texts that are about to be read; ArgumentsError if they are too many."""
        ends = list(accumulate(map(len, texts)))
        count, room = ends[-1] if ends else 0, self._room[verb]
        if count > room:
            start = self._rows.start
            stop = start + max(bisect(ends, room) * self._rows.step, 1)
            raise ArgumentsError(
                f"the texts have {count:,} characters, and at most {room:,} are {verb}; "
                f'name fewer rows, such as rows="{start}:{stop}"'
            )
        self._room[verb] -= count

    def _unfit(self, node: ast.expr, vector: Vector, kind: str) -> ArgumentsError:
        if vector.kind == "other":
            return ArgumentsError(f"{self._source(node)} holds values that cannot be compared, only by `is null`")
        hint = '; a time is written "2026-01-31"' if vector.kind == "time" else ""
        return ArgumentsError(f"{self._source(node)} holds {_NOUNS[vector.kind]}, not {_NOUNS[kind]}{hint}")

    def _source(self, node: ast.expr) -> str:
        """Return a part of the query as it was written."""
        text = ast.unparse(node)
        for name, column in self._names.items():
            text = text.replace(name, f"`{column}`")
        return one_line(text, 60)


def _blocks(texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the first place and the end of parts with some characters, of one text at least."""
    start = stop = count = 0
    for text in texts:
        stop += 1
        count += len(text)
        if count > BLOCK:
            yield start, stop
            start, count = stop, 0
    if start < stop:
        yield start, stop


def _plain(value: Any) -> Any:
    return value.values if isinstance(value, Vector) else value


def _missing(value: Any) -> Any:
    return value.missing if isinstance(value, Vector) else False


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _moment(text: str) -> tuple[Any, bool]:
    """Return a time that is written as a text, and whether it has a zone; then it is in UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        problem = f'a time is written "2026-01-31" or "2026-01-31T12:00", not {one_line(text, 40)!r}'
        raise ArgumentsError(problem) from None
    has_zone = moment.tzinfo is not None
    if has_zone:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us"), has_zone


def _arithmetic(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compute with numbers, as floats: what cannot be computed is missing."""
    first, second = (np.asarray(_plain(value), "float64") for value in (left, right))
    with np.errstate(all="ignore"):
        values = np.asarray(compute(first, second), "float64")
    if values.ndim == 0:
        return float(values)
    missing = _missing(left) | _missing(right) | ~np.isfinite(values)
    return Vector("number", values, missing)


# Logic with three values: what is not decided by one side is missing if the other is.


def _both(first: Vector, second: Vector) -> Vector:
    true = (first.values & ~first.missing) & (second.values & ~second.missing)
    false = (~first.values & ~first.missing) | (~second.values & ~second.missing)
    return Vector("truth", true, ~true & ~false)


def _either(first: Vector, second: Vector) -> Vector:
    return _negated(_both(_negated(first), _negated(second)))


def _negated(vector: Vector) -> Vector:
    return Vector("truth", ~vector.values, vector.missing)
