"""Whether the calls of a model meet an expectation, given the tools that it was offered.

A tool may be named as in `%mcp call` (`weather:get_weather`), as models see it (`weather__get_weather`), or by its own
name alone if only one server has it. Arguments are compared as the schema of the tool means them:

- Numbers are equal by value (3 and 3.0), but a text is no number, and `true` is not 1.
- Texts of the formats `date`, `date-time`, `time` and `uuid` are equal if they mean the same; a time without a zone is
  UTC, a date is its midnight. Any other text is exact.
- The order of a list counts, as given. An array with `uniqueItems` is a set: its order does not.
- An argument that is left out is its default. So an expected argument may be left out if its default is the expected
  value, and an argument that is not expected is wrong unless it is the default, or an optional one that is null. The
  same holds for the properties of objects. Where `*` is expected, the argument has to be there.

Calls that need not be in order are paired by a maximum matching (augmenting paths; Kuhn 1955), so that a call that
meets several expectations is never taken from the one that only it meets.
"""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, UnknownToolError
from mcp_magic.evaluation.cases import ANY, MAX_PROBLEMS, Case, Expectation, ExpectedCall, OneOf, Predicate
from mcp_magic.langchain.names import Names
from mcp_magic.schema import is_secret, shown
from mcp_magic.schema.fields import MISSING, Field, kept_root, root_field
from mcp_magic.schema.resolve import json_equal, json_key

ToolCall = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments, as a model gives them."""

MAX_DIFFERENCES = 8  # differences that a `Match` tells; it counts the others
MAX_COMPARED = 1_000  # calls of a model that are compared
MAX_SET = 200  # items of a set that are paired one by one
MAX_LINE = 160  # characters of a call in a difference

GAP, OTHER_TOOL = 2, 3
"""Costs of an alignment: a missing or an extra call, a call of another tool; one with wrong arguments costs 1."""

_UTC = datetime.UTC
_ANYTHING = root_field(True)

Pairs = list[tuple[int | None, int | None]]
"""Indexes of an expected call and of a call of the model; None for a call that is missing or not expected."""


PARTS = ("right", "right_tool", "right_arguments")
"""What is scored of a run: all of it, the choice of tools, and the arguments where the tools are right."""


@dataclass(frozen=True)
class Match:
    """How the calls of a model compare with what is expected.

    Attributes:
        right: Whether they meet the expectation.
        right_tool: Whether they are calls of the expected tools, in the expected order if that counts.
        right_arguments: Whether their arguments are right; None if the tools are not, or no call is expected.
        differences: What is wrong, a line each; empty if all is right.
        pairs: The expected tool and the one called instead, for each call; None where there is none.
    """

    right: bool
    right_tool: bool
    right_arguments: bool | None
    differences: tuple[str, ...] = ()
    pairs: tuple[tuple[str | None, str | None], ...] = ()

    def __str__(self) -> str:
        counts = Counter(self.differences)
        texts = [text if count == 1 else f"{text} ({count:,} times)" for text, count in counts.items()]
        return "; ".join(texts) or "right"


class Matcher:
    """Compares calls with expectations.

    >>> from mcp_magic.evaluation.cases import read_expectation
    >>> location = {"type": "string"}
    >>> weather = {"type": "object", "properties": {"location": location, "days": {"type": "integer", "default": 1}}}
    >>> matcher = Matcher({"weather:get_weather": weather})
    >>> expected = read_expectation("get_weather location=Oslo")
    >>> matcher.match(expected, [("weather__get_weather", {"location": "Oslo", "days": 1})]).right
    True
    >>> print(matcher.match(expected, [("weather__get_weather", {"location": "Bergen"})]))
    weather:get_weather: location is 'Bergen', expected 'Oslo'
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]], *, plain: Callable[[str], str] | None = None) -> None:
        """Take the input schemas of the offered tools by `server:tool`; `plain` makes texts equal, by default none."""
        self._tools = tools
        self._plain = plain
        self._arguments: dict[int, tuple[ExpectedCall, dict[str, Any]]] = {}
        pairs = [(server, tool) for server, colon, tool in (name.partition(":") for name in tools) if colon]
        names = Names(pairs)
        self._names = {name: [name] for name in tools}
        for pair in pairs:
            self._names.setdefault(names.provider(*pair), [":".join(pair)])
        bare: dict[str, list[str]] = {}
        for server, tool in pairs:
            bare.setdefault(tool, []).append(f"{server}:{tool}")
        self._names = {**bare, **self._names}

    # Names and schemas

    def offers(self, name: str) -> bool:
        """Return whether a tool of this name, as `server:tool`, is offered."""
        return name in self._tools

    def name(self, name: str) -> str:
        """Return a tool as `server:tool`; another name comes back as it is."""
        match = self._names.get(name, [])
        return match[0] if len(match) == 1 else name

    def tool(self, name: str) -> str:
        """Return a tool as `server:tool`. Raises UnknownToolError if it is not offered, or by several servers."""
        match self._names.get(name, []):
            case [tool]:
                return tool
            case []:
                if not self._tools:
                    raise UnknownToolError(f"there is no tool {name!r}, because none is offered")
                hint = did_you_mean(name, [*self._tools, *self._names]) or f" There are {join_names(self._tools)}."
                raise UnknownToolError(f"there is no tool {name!r}.{hint}")
            case several:
                raise UnknownToolError(f"{name!r} is a tool of several servers; write one of {join_names(several)}")

    def check(self, cases: Iterable[Case]) -> None:
        """Raise a ConfigError that names the cases whose tools are not offered, or whose arguments do not fit these."""
        problems = [f"{case.place or case.name}: {problem}" for case in cases for problem in self._problems(case)]
        more = [f"and {len(problems) - MAX_PROBLEMS:,} more"] if len(problems) > MAX_PROBLEMS else []
        if problems:
            raise ConfigError("\n".join([*problems[:MAX_PROBLEMS], *more]))

    def _problems(self, case: Case) -> Iterable[str]:
        for number, call in enumerate(case.expected.calls if case.expected else ()):
            try:
                self._read(call, self._tools[self.tool(call.tool)])
            except UnknownToolError as error:
                quote = " A value with a comma and a space goes in quotes." if number and not call.words else ""
                yield f"{error}{quote}"
            except ArgumentsError as error:
                yield f"{call.tool}: {error}"

    def _read(self, call: ExpectedCall, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an expected call, which are read once."""
        entry = self._arguments.get(id(call))
        if entry is None or entry[0] is not call:
            entry = self._arguments[id(call)] = call, call.read(schema)
        return entry[1]

    # Calls

    def match(self, expected: Expectation, calls: Sequence[ToolCall]) -> Match:
        """Return how calls, in their order, compare with an expectation. A tool that is not offered is never right."""
        return _Comparison(self, expected, calls).result()

    def difference(self, tool: str, expected: ExpectedCall, arguments: Mapping[str, Any]) -> str:
        """Return how the arguments of a call of a tool differ from the expected ones, or ""."""
        schema = self._tools.get(tool, {})
        try:
            return self._object(self._read(expected, schema), arguments, kept_root(schema), "", expected.others)
        except ArgumentsError as error:
            return f"the expectation does not fit the schema: {error}"
        except RecursionError:
            return "the arguments are nested too deeply to be compared"

    # Values

    def _object(
        self, expected: Mapping[str, Any], actual: Mapping[str, Any], field: Field, path: str, others: bool = False
    ) -> str:
        for name in {**expected, **actual}:
            place = f"{path}.{name}" if path else name
            inner = field.at(name) or _ANYTHING
            if name in expected and name in actual:
                problem = self._value(expected[name], actual[name], inner, place)
            elif name in expected:
                problem = self._left_out(expected[name], inner, place)
            else:
                problem = "" if others else self._extra(actual[name], inner, place)
            if problem:
                return problem
        return ""

    def _left_out(self, expected: Any, field: Field, place: str) -> str:
        if isinstance(expected, OneOf) and expected.optional:
            return ""
        default = _default(field)
        if default is not MISSING and expected is not ANY and not self._value(expected, default, field, place):
            return ""
        return f"{place} is left out, expected {_shown(expected, field, place)}"

    def _extra(self, actual: Any, field: Field, place: str) -> str:
        default = _default(field)
        if default is not MISSING and not self._value(default, actual, field, place):
            return ""
        return f"{place} is {_shown(actual, field, place)}, and is not expected"

    def _value(self, expected: Any, actual: Any, field: Field, place: str) -> str:
        """Return how a value differs, or ""."""
        if expected is ANY:
            return ""
        if isinstance(expected, Predicate):
            problem = expected.problem(actual)
            return problem and f"{place} is {_shown(actual, field, place)}, which {problem}"
        if isinstance(expected, OneOf):
            if not all(self._value(value, actual, field, place) for value in expected.values):
                return ""
        elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
            return self._object(expected, actual, field, place)
        elif isinstance(expected, list) and isinstance(actual, list):
            return self._list(expected, actual, field, place)
        elif self._same(expected, actual, field):
            return ""
        return f"{place} is {_shown(actual, field, place)}, expected {_shown(expected, field, place)}"

    def _list(self, expected: list[Any], actual: list[Any], field: Field, place: str) -> str:
        if len(expected) != len(actual):
            counts = f"{plural(len(actual), 'items')}, expected {len(expected):,}"
            return f"{place} is {_shown(actual, field, place)} with {counts}"
        items = [field.at(index) or _ANYTHING for index in range(len(expected))]
        values = enumerate(zip(expected, actual, items, strict=True))
        problems = (self._value(one, other, item, f"{place}[{index}]") for index, (one, other, item) in values)
        problem = next(filter(None, problems), "")
        return "" if problem and _is_set(field) and self._same_set(expected, actual, items[0]) else problem

    def _same_set(self, expected: list[Any], actual: list[Any], item: Field) -> bool:
        size = len(expected)
        if size > MAX_SET:
            return Counter(map(json_key, actual)) == Counter(map(json_key, expected))
        return len(maximum_matching(size, size, lambda i, j: not self._value(expected[i], actual[j], item, ""))) == size

    def _same(self, expected: Any, actual: Any, field: Field) -> bool:
        if json_equal(expected, actual):
            return True
        if not (isinstance(expected, str) and isinstance(actual, str)):
            return False
        if self._plain is not None and self._plain(expected) == self._plain(actual):
            return True
        readers = [READERS.get(variant.format) for variant in (field, *field.variants)]
        return any(_means_same(expected, actual, read) for read in readers if read is not None)


def _default(field: Field) -> Any:
    """Return what an argument is if it is left out, or MISSING: its default, or null for an optional one."""
    return None if field.default is MISSING and not field.required else field.default


def _is_set(field: Field) -> bool:
    return any(variant.schema.get("uniqueItems") is True for variant in (field, *field.variants))


def _shown(value: Any, field: Field, place: str) -> str:
    if isinstance(value, Predicate | OneOf):
        return str(value)
    return "a value" if value is ANY else shown(value, secret=is_secret(place, field))


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=_UTC)


def _time(text: str) -> datetime.time:
    time = datetime.time.fromisoformat(text.upper())
    return time if time.tzinfo else time.replace(tzinfo=_UTC)


READERS: dict[str, Callable[[str], Any]] = {"date": _moment, "date-time": _moment, "time": _time, "uuid": uuid.UUID}
"""Format -> what a text of it means; ValueError if it is none."""


def _means_same(first: str, second: str, read: Callable[[str], Any]) -> bool:
    try:
        return bool(read(first) == read(second))
    except ValueError:
        return False


def maximum_matching(left: int, right: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the largest set of pairs that fit, by their left index: each index is in one pair at most.

    >>> maximum_matching(2, 2, lambda i, j: j == 0 or i == 0)
    {1: 0, 0: 1}
    """
    owners: dict[int, int] = {}

    def find(i: int, seen: set[int]) -> bool:
        for j in range(right):
            if j not in seen and fits(i, j):
                seen.add(j)
                if j not in owners or find(owners[j], seen):
                    owners[j] = i
                    return True
        return False

    for i in range(left):
        find(i, set())
    return {i: j for j, i in owners.items()}


class _Comparison:
    """An expectation and the calls of a model, with what each pair of them differs in."""

    def __init__(self, matcher: Matcher, expected: Expectation, calls: Sequence[ToolCall]) -> None:
        self._matcher = matcher
        self._expected, self._calls = expected, calls[:MAX_COMPARED]
        self._wanted = [matcher.name(call.tool) for call in expected.calls]
        self._called = [matcher.name(tool) for tool, _ in self._calls]
        self._differences: dict[tuple[int, int], str] = {}

    def result(self) -> Match:
        """Return how they compare."""
        pairs = self._in_order() if self._expected.order == "->" else self._in_any_order()
        right = all(i is not None and j is not None and self._fits(i, j) for i, j in pairs)
        right_tool = self._has_right_tools()
        return Match(
            right,
            right_tool,
            right if right_tool and self._wanted else None,
            () if right else tuple(self._lines(pairs)),
            tuple((None if i is None else self._wanted[i], None if j is None else self._called[j]) for i, j in pairs),
        )

    def _has_right_tools(self) -> bool:
        if not all(map(self._matcher.offers, self._wanted)):
            return False
        if self._expected.order == "->":
            return self._wanted == self._called
        wanted, called = Counter(self._wanted), Counter(self._called)
        return wanted == called if self._expected.order == "~>" else wanted <= called

    def _is_same_tool(self, i: int, j: int) -> bool:
        return self._wanted[i] == self._called[j] and self._matcher.offers(self._wanted[i])

    def _fits(self, i: int, j: int) -> bool:
        return self._is_same_tool(i, j) and not self._difference(i, j)

    def _difference(self, i: int, j: int) -> str:
        """Return how the arguments of two calls of the same tool differ."""
        if (i, j) not in self._differences:
            expected, (_, arguments) = self._expected.calls[i], self._calls[j]
            self._differences[i, j] = self._matcher.difference(self._wanted[i], expected, arguments)
        return self._differences[i, j]

    def _in_order(self) -> Pairs:
        """Return the pairs of an alignment (edit distance) in which the fewest calls are wrong, missing or extra."""
        rows, columns = len(self._wanted), len(self._called)
        costs = [[GAP * (i + j) for j in range(columns + 1)] for i in range(rows + 1)]
        for i in range(rows):
            for j in range(columns):
                pair = 0 if self._fits(i, j) else 1 if self._is_same_tool(i, j) else OTHER_TOOL
                costs[i + 1][j + 1] = min(costs[i][j] + pair, costs[i][j + 1] + GAP, costs[i + 1][j] + GAP)
        pairs: Pairs = []
        i, j = rows, columns
        while i or j:
            if i and costs[i][j] == costs[i - 1][j] + GAP:
                i -= 1
                pairs.append((i, None))
            elif j and costs[i][j] == costs[i][j - 1] + GAP:
                j -= 1
                pairs.append((None, j))
            else:
                i, j = i - 1, j - 1
                pairs.append((i, j))
        return pairs[::-1]

    def _in_any_order(self) -> Pairs:
        """Return as many pairs that fit as there can be, then pairs of the same tool, then the rest."""
        matched: Pairs = []
        wanted, called = list(range(len(self._wanted))), list(range(len(self._called)))
        for fits in (self._fits, self._is_same_tool):
            owners = maximum_matching(len(wanted), len(called), lambda i, j: fits(wanted[i], called[j]))  # noqa: B023
            matched += [(wanted[i], called[j]) for i, j in owners.items()]
            wanted = [i for i in wanted if all(i != pair[0] for pair in matched)]
            called = [j for j in called if all(j != pair[1] for pair in matched)]
        rest = zip_longest(wanted, called if self._expected.order == "~>" else ())
        return sorted(matched, key=lambda pair: pair[0] or 0) + list(rest)

    def _lines(self, pairs: Pairs) -> Iterator[str]:
        rows = len(self._wanted)
        is_order = self._expected.order == "->" and rows == len(self._calls)
        if is_order and len(maximum_matching(rows, rows, self._fits)) == rows:
            yield f"the order is {', '.join(map(self._call_text, range(rows)))}"
            return
        lines = [line for line in (self._line(i, j) for i, j in pairs) if line]
        yield from lines[:MAX_DIFFERENCES]
        if len(lines) > MAX_DIFFERENCES:
            yield f"and {len(lines) - MAX_DIFFERENCES:,} more"

    def _line(self, i: int | None, j: int | None) -> str:
        """Return what is wrong with a pair, or ""."""
        if j is None:
            return "" if i is None else f"there is no call {one_line(str(self._expected.calls[i]), MAX_LINE)}"
        if i is None:
            return f"{self._call_text(j)} is not expected" + ("" if self._wanted else ", nor is any call")
        if self._is_same_tool(i, j):
            difference = self._difference(i, j)
            return difference and f"{self._wanted[i]}: {difference}"
        return f"{self._call_text(j)} instead of {one_line(str(self._expected.calls[i]), MAX_LINE)}"

    def _call_text(self, j: int) -> str:
        _, arguments = self._calls[j]
        items = [f"{name}={_shown(value, _ANYTHING, str(name))}" for name, value in arguments.items()]
        return one_line(" ".join([self._called[j], *items]), MAX_LINE)
