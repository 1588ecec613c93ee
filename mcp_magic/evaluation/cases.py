r"""Cases of an evaluation: a request, the calls that are expected of a model, and a check of its run.

A case is a line `REQUEST -> CALL[, CALL...]`:

    What is the weather in Oslo?    -> weather:get_weather location=Oslo
    Compare London and Tokyo        -> weather:compare locations=["London", "Tokyo"]
    Rain in Rome, and in Oslo?      ~> weather:get_weather location=Rome, weather:get_weather location=Oslo
    Find me a warm place            >= weather:search limit={value <= 10} *
    "What does a -> b mean?"        -> no call

`->` expects exactly these calls in this order, `~>` exactly these in any order, `>=` at least these in any order, and
`no call` none. A call has the words of `%mcp call`, so the schema of the tool decides how a value is read, and a value
with spaces or with a comma at the end of a word goes in quotes. A value may also be

- `*`: any value, but there has to be one (`name:='"*"'` is the text);
- `{predicate}`: a Python expression with `value`, the argument, or one that gives a function; any other `{expression}`
  and `$variable` is a value, evaluated when the case is read.

A `*` alone allows any other arguments. Without it, an argument that the call does not name has to be left out, or be
the schema's default; `matching` has the details. A request that has an arrow or begins with `#` goes in quotes, in
which `\n` is a line end. Empty lines and lines that begin with `#` are no cases, and a line that ends with a comma goes
on in the next one.

>>> [case] = read_cell("Rain in Rome? -> weather:get_weather location=Rome days={value > 2}")
>>> case.request, str(case.expected)
('Rain in Rome?', '-> weather:get_weather location=Rome days={value > 2}')
>>> case.expected.calls[0].read({"properties": {"location": {"type": "string"}, "days": {"type": "integer"}}})
{'location': 'Rome', 'days': Predicate('value > 2')}

In TOML, a `[[case]]` has `request` (a text or a list of messages), `expected` (a text as after the arrow, or with it,
or a list of tables with `tool` and `arguments`, whose order the key `order` may name by its arrow), `check` and
`name`. The columns of a table have the same names. `check` is a function of the run; as a text it is a Python
expression with `run`, or one that gives a function: `judge("openai:gpt-5", "Does the answer say that it rains?")`.
Expressions are evaluated as the code of whoever gives the cases.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args

from mcp_magic._text import did_you_mean, free_name, join_names, plural
from mcp_magic.config.masking import mask_arguments
from mcp_magic.config.parsing import (
    FieldError,
    KeyPath,
    find_line,
    kind_of,
    parse_toml,
    read_text,
    reject_unknown,
    text,
)
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, MCPMagicError
from mcp_magic.map.rows import FILES, is_missing, read_table
from mcp_magic.schema import parse_arguments, to_json_value
from mcp_magic.schema.commandline import Evaluate, escape_name, python_source, read_item, stray_error
from mcp_magic.schema.fields import Field, label
from mcp_magic.schema.words import split_list

Order = Literal["->", "~>", ">="]
"""Exactly these calls in this order, exactly these in any order, at least these in any order."""

ARROWS: tuple[Order, ...] = get_args(Order)
NO_CALL = "no call"

KEYS = ("request", "expected", "check", "name", "order")  # of a [[case]], and the columns of a table that are read

MAX_CALLS = 100  # calls that a case may expect
MAX_PROBLEMS = 8  # cases that cannot be read and that an error tells; it counts the others
MAX_NAME = 80  # characters of a case's name

_ARROW = re.compile(r"(?:^|\s)(->|~>|>=)(?=\s|$)")
_QUOTED = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')\s*(?=(?:->|~>|>=)(?:\s|$))""")


# What is expected


class _Any(Enum):
    ANY = "*"

    def __repr__(self) -> str:
        return self.value


ANY: Final = _Any.ANY
"""Any value of an argument that has to be there."""


@dataclass(frozen=True, repr=False)
class Predicate:
    """A condition of an argument, compiled once."""

    source: str
    function: Callable[[Any], Any] = field(compare=False)

    def problem(self, value: Any) -> str:
        """Return "" if the value meets it, else what is wrong, which may be the exception that it raises."""
        try:
            return "" if self.function(value) else f"does not meet {self}"
        except Exception as error:
            return f"{self} raises {type(error).__name__}: {one_line(str(error), 80)}"

    def __repr__(self) -> str:
        return f"Predicate({self.source!r})"

    def __str__(self) -> str:
        return f"{{{self.source}}}"


@dataclass(frozen=True, eq=False)
class OneOf:
    """An argument that may be any of several values, and be left out if it is `optional`."""

    values: tuple[Any, ...]
    optional: bool = False

    def __str__(self) -> str:
        return " or ".join(map(_value_text, self.values))


@dataclass(frozen=True)
class ExpectedCall:
    """A call that a model should make.

    Attributes:
        tool: The tool as the case names it.
        arguments: JSON values by name, at any depth also `ANY`, a `Predicate` or a `OneOf`.
        words: More arguments, as in a line of `%mcp call`.
        values: What the expressions in `words` give, by their source.
        others: Whether arguments that are not named may have any value.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    others: bool = False

    def read(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the schema of the tool reads them. Raises ArgumentsError if one does not fit."""
        given = parse_arguments(self.words, schema, evaluate=self.values.__getitem__, convert=_as_json)
        return {**self.arguments, **given}

    def __str__(self) -> str:
        named = tuple(f"{escape_name(name)}={_value_text(value)}" for name, value in self.arguments.items())
        words = tuple(_quoted(f"{word[:-3]}*" if word.endswith("={*}") else word) for word in self.words)
        return " ".join([self.tool, *mask_arguments(named + words), *(["*"] if self.others else [])])


@dataclass(frozen=True)
class Expectation:
    """The calls that are expected of a model; without any, it should make no call."""

    calls: tuple[ExpectedCall, ...] = ()
    order: Order = "->"

    def __str__(self) -> str:
        return f"{self.order} {', '.join(map(str, self.calls)) or NO_CALL}"


@dataclass(frozen=True)
class Case:
    """A request and what is expected of a model.

    Attributes:
        request: A text, or the messages of a conversation, of which the last is to be answered.
        expected: The expected calls; None if only `check` decides.
        check: A function of the run, such as a `judge`, or None.
        name: A unique name among the cases that are read together: the given one, or the beginning of the request.
        place: Where the case is, such as "line 3", for messages.
    """

    request: str | tuple[Any, ...]
    expected: Expectation | None = None
    check: Callable[[Any], Any] | None = None
    name: str = ""
    place: str = ""

    @property
    def text(self) -> str:
        """The request, or the text of its last message."""
        if isinstance(self.request, str):
            return self.request
        last = self.request[-1]
        content = last.get("content") if isinstance(last, Mapping) else getattr(last, "content", last)
        return content if isinstance(content, str) else label(content)


def _as_json(value: Any, field: Field | None = None, path: str = "") -> Any:
    return value if isinstance(value, _Any | Predicate | OneOf) else to_json_value(value, field, path)


def _value_text(value: Any) -> str:
    if isinstance(value, _Any):
        return value.value
    return str(value) if isinstance(value, Predicate | OneOf) else label(value)


def _quoted(word: str) -> str:
    name, equals, value = word.partition("=")
    is_one_word = not re.search(r"""[\s'"]|,$""", value) or value[:1] in ("{", "[") or name.endswith(":")
    return word if is_one_word else f"{name}{equals}{json.dumps(value, ensure_ascii=False)}"


# Expectations from texts and tables


def read_expectation(line: str, *, evaluate: Evaluate | None = None) -> Expectation:
    """Return what a text expects: `[->] CALL[, CALL...]` or `no call`.

    Args:
        line: The text. An arrow may come first; without one, the calls are expected in their order.
        evaluate: Evaluates a Python expression in the scope of the cases; without it, only builtins are there.

    Raises:
        ArgumentsError: It cannot be read.

    >>> read_expectation("~> git:add files=*, git:commit").calls[1].tool
    'git:commit'
    """
    arrow, _, rest = line.strip().partition(" ")
    order = next((known for known in ARROWS if known == arrow), None)
    lists = split_list(line if order is None else rest)
    if lists == [NO_CALL.split()]:
        return Expectation()
    if not all(lists):
        problem = "there is no call after the arrow" if lists == [[]] else "there is a comma without a call"
        raise ArgumentsError(f"{problem}; write server:tool name=value, or {NO_CALL!r}")
    return _expectation([_call(words, evaluate or _evaluate) for words in lists], order or "->")


def _expectation(calls: Sequence[ExpectedCall], order: Order) -> Expectation:
    if len(calls) > MAX_CALLS:
        raise ArgumentsError(f"a case may expect {MAX_CALLS} calls, not {len(calls):,}")
    if order == ">=" and not calls:
        raise ArgumentsError(f"'>=' expects at least one call; {NO_CALL!r} is `-> {NO_CALL}`")
    return Expectation(tuple(calls), order)


def _call(words: Sequence[str], evaluate: Evaluate) -> ExpectedCall:
    tool, items = words[0], [word for word in words[1:] if word != "*"]
    if tool in ARROWS or "=" in tool:
        raise ArgumentsError(f"expected a tool, got {tool!r}: a comma separates calls, a space arguments")
    values: dict[str, Any] = {}
    for index, word in enumerate(items):
        try:
            item = read_item(word)
        except ArgumentsError:
            if index == 0 and ":" not in tool and re.fullmatch(r"[\w.-]+\w", word):
                raise ArgumentsError(f"a tool is SERVER:TOOL, in one word; did you mean {tool}:{word}?") from None
            raise stray_error(items, index) from None
        if item.source == "text" and item.text == "*":
            items[index], values["*"] = f"{word[:-1]}{{*}}", ANY  # as an expression, so that it fits each schema
        elif item.source == "python":
            values[item.text] = _value(item.text, evaluate)
    return ExpectedCall(tool, words=tuple(items), values=values, others="*" in words[1:])


def _evaluate(source: str) -> Any:
    return eval(source, {})


def _value(source: str, evaluate: Evaluate) -> Any:
    """Return the value of an expression, or a `Predicate` if it has the name `value` or gives a function."""
    result = _evaluated(source, "value", evaluate)
    return Predicate(source, result) if callable(result) else result


def _evaluated(source: str, name: str, evaluate: Evaluate) -> Any:
    """Return a function of `name` if an expression has that name, else its value."""
    try:
        names = {node.id for node in ast.walk(ast.parse(source, mode="eval")) if isinstance(node, ast.Name)}
        return evaluate(f"lambda {name}: ({source}\n)" if name in names else source)
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else one_line(str(error), 120)
        problem = f"cannot evaluate {one_line(source, 60)!r}: {type(error).__name__}: {reason}"
    raise ArgumentsError(problem)


def _of_tables(tables: Sequence[Any], order: Any, evaluate: Evaluate) -> Expectation:
    if order not in ARROWS:
        raise FieldError(f"expected {join_names(ARROWS)}, got {order!r}.", "order")
    return _expectation([_of_table(number, table, evaluate) for number, table in enumerate(tables)], order)


def _of_table(number: int, table: Any, evaluate: Evaluate) -> ExpectedCall:
    if not isinstance(table, Mapping):
        raise FieldError(f"expected a table with tool and arguments, got {kind_of(table)}.", "expected", number)
    reject_unknown(table, ("tool", "arguments"), "expected", number)
    if "tool" not in table:
        raise FieldError("it has no tool.", "expected", number)
    arguments = table.get("arguments", {})
    if arguments == "*":
        return ExpectedCall(text(table, "tool"), others=True)
    if not isinstance(arguments, Mapping):
        raise FieldError(f"expected a table, got {kind_of(arguments)}.", "expected", number, "arguments")
    return ExpectedCall(text(table, "tool"), {str(key): _special(item, evaluate) for key, item in arguments.items()})


def _special(value: Any, evaluate: Evaluate) -> Any:
    r"""Return a value of a table: a text `*` or `{expression}` is as in a line, and begins with `\` to be a text."""
    if isinstance(value, Mapping):
        return {str(key): _special(item, evaluate) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_special(item, evaluate) for item in value]
    if value == "*":
        return ANY
    if isinstance(value, str):
        if value.startswith(("\\*", "\\{")):
            return value[1:]
        source = python_source(value)
        value = value if source is None else _value(source, evaluate)
    return _as_json(value)


# Cases from a cell, a file and a table


def read_cases(source: Any, *, evaluate: Evaluate | None = None) -> list[Case]:
    """Return the cases of a cell, a file or a table.

    Args:
        source: Lines of cases; the path of a TOML file, or of a table as `Host.map` reads them; a DataFrame, an
            iterable of dicts, or of cases.
        evaluate: Evaluates a Python expression in the scope of the cases; without it, only builtins are there.

    Raises:
        ConfigError: Cases cannot be read; the message names the lines of all that are wrong, up to `MAX_PROBLEMS`.
    """
    if isinstance(source, str) and ("\n" in source or _ARROW.search(source)):
        return read_cell(source, evaluate=evaluate)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if path.suffix.lower() == ".toml":
            return read_toml(read_text(path), source=str(path), evaluate=evaluate)
        if path.suffix.lower() not in FILES:
            raise ConfigError(f"{str(path)!r} has no ending of cases; .toml, {', '.join(FILES)} are read")
    return _read_rows(source, evaluate)


def read_cell(cell: str, *, first: int = 1, evaluate: Evaluate | None = None) -> list[Case]:
    """Return the cases of a cell, of which the first line has the number `first`; see `read_cases`."""
    return _gathered((f"line {number}", partial(_of_line, line, evaluate)) for number, line in _lines(cell, first))


def _lines(cell: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield the lines with cases and their numbers; a line that ends with a comma goes on in the next one."""
    begun, start = "", first
    for number, line in enumerate(cell.split("\n"), first):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not begun:
            start = number
        begun = f"{begun} {line.strip()}".strip()
        if not (begun.endswith(",") and _ARROW.search(begun)):
            yield start, begun
            begun = ""
    if begun:
        yield start, begun


def _of_line(line: str, evaluate: Evaluate | None) -> Case:
    if quoted := _QUOTED.match(line):
        request, rest = _unquoted(quoted[1]), line[quoted.end() :]
    elif arrow := _ARROW.search(line):
        request, rest = line[: arrow.start()].strip(), line[arrow.start(1) :]
    else:
        raise ArgumentsError(f"no arrow; write {one_line(line, 40)} -> server:tool name=value, or -> {NO_CALL}")
    if not request:
        raise ArgumentsError("there is no request before the arrow")
    try:
        return Case(request, read_expectation(rest, evaluate=evaluate))
    except MCPMagicError as error:
        problem = str(error)
    if not quoted and len(_ARROW.findall(line)) > 1:
        problem += '; a request that has an arrow itself goes in quotes: "What is -> here?" -> ...'
    raise ArgumentsError(problem)


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except ValueError as error:
        problem = str(error).partition(":")[0]
    raise ArgumentsError(f"the quoted request is no JSON string: {problem}; in single quotes a backslash is one")


def read_toml(content: str, *, source: str = "the TOML", evaluate: Evaluate | None = None) -> list[Case]:
    """Return the cases of a TOML document; see `read_cases`."""
    try:
        document = parse_toml(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not TOML: {error}") from None
    tables = document.get("case")
    if not isinstance(tables, list) or not tables:
        raise ConfigError(f"{source} has no [[case]].{did_you_mean('case', document)}")

    def line_of(number: int, path: KeyPath) -> str:
        line = find_line(content, ("case", number, *path))
        return f"{source}:{line}" if line else f"{source}: case {number + 1}"

    entries = ((f"case {number}", partial(_of_row, table, evaluate)) for number, table in enumerate(tables, 1))
    return _gathered(entries, line_of)


def _read_rows(source: Any, evaluate: Evaluate | None) -> list[Case]:
    if not hasattr(source, "columns") and isinstance(source, Iterable) and not isinstance(source, str | Mapping):
        source = list(source)
    if isinstance(source, list) and source and all(isinstance(case, Case) for case in source):
        return _gathered((case.place or f"case {number}", partial(replace, case)) for number, case in enumerate(source))
    try:
        table = read_table(source)
        if table.columns and "request" not in table.columns:
            columns = f"it has {join_names(table.columns)}.{did_you_mean('request', table.columns)}"
            raise ArgumentsError(f"the table of cases has no column 'request'; {columns}")
        rows = map(_members, table.rows)
        return _gathered((f"row {number}", partial(_of_row, row, evaluate)) for number, row in enumerate(rows))
    except ArgumentsError as error:
        problem = str(error)
    raise ConfigError(problem)


def _members(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a row. A column `order` may as well be one of other things, such as numbers."""
    members = {key: row[key] for key in KEYS if key in row}
    order = members.get("order")
    if not isinstance(members.get("expected"), list | tuple) and not (isinstance(order, str) and order in ARROWS):
        members.pop("order", None)
    return members


def _of_row(row: Any, evaluate: Evaluate | None) -> Case:
    """Return the case of a row or a [[case]]. Raises FieldError."""
    if not isinstance(row, Mapping):
        raise FieldError(f"expected a table, got {kind_of(row)}.")
    reject_unknown(row, KEYS)
    row = {key: value for key, value in row.items() if not is_missing(value)}
    if not {"expected", "check"} & row.keys():
        raise FieldError(f"it has neither expected nor check; a case without calls has expected = {NO_CALL!r}.")
    if "request" not in row:
        raise FieldError("it has no request.")
    expected, check = row.get("expected"), row.get("check")
    evaluate = evaluate or _evaluate
    if "order" in row and not isinstance(expected, list | tuple):
        raise FieldError(
            "it goes with a list of tables; in a text the arrow comes first, as in '~> a:b, a:c'.", "order"
        )
    try:
        if isinstance(expected, str):
            expected = read_expectation(expected, evaluate=evaluate)
        elif isinstance(expected, list | tuple):
            expected = _of_tables(expected, row.get("order", "->"), evaluate)
    except MCPMagicError as error:
        raise FieldError(str(error), "expected") from None
    if not isinstance(expected, Expectation | None):
        raise FieldError(f"expected a text or a list of tables, got {kind_of(expected)}.", "expected")
    return Case(
        _request(row["request"]),
        expected,
        _check(check, evaluate),
        name=text(row, "name") if "name" in row else "",
    )


def _request(request: Any) -> str | tuple[Any, ...]:
    if isinstance(request, str) and request.strip():
        return request
    if isinstance(request, list | tuple) and request:
        wrong = [item for item in request if not hasattr(item, "content") and not _is_message(item)]
        if not wrong:
            return tuple(request)
        raise FieldError(f"expected messages with role and content, got {kind_of(wrong[0])}.", "request")
    raise FieldError(f"expected a text or a list of messages, got {kind_of(request)}.", "request")


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and {"role", "content"} <= item.keys()


def _check(check: Any, evaluate: Evaluate) -> Callable[[Any], Any] | None:
    if isinstance(check, str):
        try:
            check = _evaluated(check.strip(), "run", _with_judge(evaluate) if "judge(" in check else evaluate)
        except ArgumentsError as error:
            raise FieldError(str(error), "check") from None
    if check is not None and not callable(check):
        raise FieldError(f"expected a function, or an expression with `run`, got {kind_of(check)}.", "check")
    return check  # type: ignore[no-any-return]


def _with_judge(evaluate: Evaluate) -> Evaluate:
    """Return what evaluates an expression in which `judge` is the function of that name."""
    from mcp_magic.evaluation.judge import judge

    return lambda source: evaluate(f"lambda judge: ({source}\n)")(judge)


def _gathered(
    entries: Iterable[tuple[str, Callable[[], Case]]], line_of: Callable[[int, KeyPath], str] | None = None
) -> list[Case]:
    """Return the cases with their places and unique names. Raises one ConfigError for all that cannot be read."""
    cases: list[Case] = []
    problems: list[str] = []
    names: set[str] = set()
    for number, (place, make) in enumerate(entries):
        try:
            case = make()
        except (MCPMagicError, FieldError) as error:
            path = error.path if isinstance(error, FieldError) else ()
            problems.append(f"{line_of(number, path) if line_of and len(problems) < MAX_PROBLEMS else place}: {error}")
            continue
        name = free_name(case.name or one_line(case.text, MAX_NAME), names, MAX_NAME)
        names.add(name)
        cases.append(replace(case, name=name, place=case.place or place))
    if problems:
        more = [f"and {plural(len(problems) - MAX_PROBLEMS, 'cases')} more"] if len(problems) > MAX_PROBLEMS else []
        raise ConfigError("\n".join([*problems[:MAX_PROBLEMS], *more]))
    if not cases:
        raise ConfigError(
            f"there are no cases; write a line such as: What is 2 + 3? -> math:add a=2 b=3, or -> {NO_CALL}"
        )
    return cases
