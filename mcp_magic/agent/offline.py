"""Finds the tool that a request asks for, and its arguments.

Tools are ranked by BM25 over their definitions. The values in a request (quoted texts, numbers, dates, names, lists)
go to arguments by type and by the words beside them, the rest in order. The rules know English and JSON Schema, but
no particular server.

It is a demo, so that tutorials run without a key; `benchmarks/offline_model.py` measures it on a public benchmark. It
stays this small: for requests that it does not understand, use a real model and add no rule.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from mcp_magic._text import plural, sentence
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.agent.scripted import LocalModel
from mcp_magic.agent.search import NAME_WEIGHT, PREPOSITIONS, STOP, SYNONYMS, WORD, Index, stem, stems, words
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.schema.convert import UnfitText, from_text
from mcp_magic.schema.fields import root_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import Runnable

    from mcp_magic.schema.fields import Field


MISSING_COSTS, UNUSED_COSTS, LEAST_KNOWN = 4.0, 1.5, 0.4
"""The cost of a missing argument and of an unused value; the share of a step's words that a fitting tool must know."""

CANDIDATES, MOST_FIELDS, MOST_VALUES, MOST_CALLS = 12, 100, 50, 10
"""The most tools whose arguments are tried, arguments of a tool, values of a step, and calls that one step makes."""

ROLES = (
    ({"from"}, {"from", "sourc", "origin", "start", "departur", "bas", "begin", "initi"}),
    ({"to", "into"}, {"to", "target", "destin", "end", "arriv", "final"}),
    ({"in", "at", "near", "around", "for"}, {"loc", "citi", "plac", "countri", "stat", "region", "area", "address"}),
)
"""Prepositions, and the stems of the arguments whose values follow them."""

_VALUE = re.compile(
    r"""
      (?P<quoted>"[^"]*"|“[^”]*”|`[^`]*`|(?<!\w)'(?:[^']|(?<=\w)'(?=\w))*'(?!\w))
    | (?P<json>\[[^\[\]]*\]|\{[^{}]*\})
    | (?P<token>\bhttps?://[^\s"'<>]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w/.~])(?:~|\.{1,2})?/[\w./~-]*\w
        |\b[A-Za-z]{3,}/[A-Za-z]\w{2,}[\w/.]*|(?<![\w-])[A-Za-z_][\w-]*(?:\.[A-Za-z][\w-]*)+)
    | (?P<date>\b\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?\b)
    | (?P<time>\b\d{1,2}:\d\d(?::\d\d)?\b)
    | (?P<number>(?<![\w.])[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)
    | (?P<name>\b[A-Z][\w&-]*(?:\s+(?:of\s+(?:the\s+)?|de\s+|la\s+)?[A-Z][\w&-]*)*(?:,\s[A-Z]{2}\b)?)
    """,
    re.VERBOSE,
)
_PAIRED = r"""("[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\}|[^\s,;()]+)"""
_RESULT = re.compile(
    r"(?i)\b(?:both(?:\s+(?:of them|results|numbers|values))?|them|it|that(?!\s+\w+s\b)"
    r"|(?:the|this|that|its)\s+(?:last\s+)?(?:results?|answer|output|sum|total|product|difference|value))\b"
)
_STEP = re.compile(
    r"(?i)[\s;,]*\b(?:and\s+)?(?:then|afterwards|finally|after that)\b,?\s*|\s*;\s*|\s*\n\s*(?:\d+[.)]|[-*])?\s*"
    r"|^\d+[.)]\s+|(?<=[^\s.!?])[.!?]\s+(?-i:(?=[A-Z]))|,?\s+and\s+(?=([a-z]+)\b)"
)
_AND = r"\s*(?:,|,?\s*\band\b|&|\bvs\b\.?|\bor\b)?\s*"


class Tool:
    """A bound tool. `counts` has how often its definition has each stem; `known` has all stems, also of titles."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        """Read a definition in OpenAI's format; "server" and "tool" beside "function" name its origin."""
        function = definition["function"]
        self.name = str(function["name"])
        server, _, own = self.name.partition("__") if "__" in self.name else ("", "", self.name)
        server, self.own_name = str(definition.get("server", server)), str(definition.get("tool", own))
        self.person_name = f"{server}:{self.own_name}" if server else self.own_name
        self.description = f"{definition.get('title') or ''} {function.get('description') or ''}".strip()
        self.fields = root_field(function.get("parameters") or {}).children[:MOST_FIELDS]
        self.name_stems = [stem(word) for word in words(self.own_name)]
        self.own = frozenset((*self.name_stems, *stems(self.description)))
        self.counts = Counter([*stems(self.description), *(self.name_stems * NAME_WEIGHT)])
        for field in self.fields:
            self.counts.update({*stems(field.name), *(root for _, label in field.choices for root in stems(label))})
        self.known = {*self.counts, *stems(" ".join(f"{field.title} {field.description}" for field in self.fields))}


@dataclass(frozen=True)
class Value:
    """A value in a text: quoted, json, token (path, address), date, time, number, name, or an earlier result."""

    kind: str
    start: int
    end: int
    data: Any

    @property
    def span(self) -> tuple[int, int]:
        """The start and end of the value in the text."""
        return self.start, self.end


def values_in(text: str, *, reply: bool = False) -> list[Value]:
    """Return the values in a text, in order; only in a reply may the first word be a name."""
    values = []
    for match in _VALUE.finditer(text):
        kind, match_text, (start, end) = str(match.lastgroup), match[0], match.span()
        if kind == "name":
            first = re.match(r"[\w&-]+\s*", match_text)
            begins = not reply and re.search(r"(?:^|[.!?:]\s+|\n)\W*$", text[:start]) is not None
            if first is not None and (begins or first[0].strip().lower() in STOP):
                start, match_text = start + first.end(), match_text[first.end() :]
        data = _read(kind, match_text)
        if data not in (None, ""):
            values.append(Value(kind, start, end, data))
    return values


def _read(kind: str, text: str) -> Any:
    try:
        if kind == "json":
            return json.loads(text if '"' in text else text.replace("'", '"'))
        if kind == "number":
            digits = re.sub(r"[$,]", "", text)
            exact = re.fullmatch(r"[-+]?\d{1,300}", digits)
            return int(digits) if exact else float(digits) if math.isfinite(float(digits)) else None
    except (ValueError, RecursionError):
        return None
    return text[1:-1] if kind == "quoted" else text


def results_in(text: str, earlier: Sequence[Any]) -> list[Value]:
    """Return the mentions of earlier results ("the result", "it", "both") with their data."""
    mentions = []
    for match in _RESULT.finditer(text) if earlier else ():
        start, end = match.span()
        if re.match(r"(?i)both|them|.*results$", match[0]) and len(earlier) > 1 and not isinstance(earlier[-1], list):
            mentions.append(Value("result", start, start := start + 1, earlier[-2]))
        mentions.append(Value("result", start, end, earlier[-1]))
    return mentions


class Call:
    """A call of a tool with the arguments from a text.

    `more` has the arguments of further calls, as for "in Oslo and Rome". `missing` has required arguments without a
    value, `unused` values without an argument, and `left` the rest of the text.
    """

    def __init__(
        self, tool: Tool, text: str, results: Sequence[Any] = (), earlier: Mapping[str, Any] | None = None
    ) -> None:
        """Fill the arguments from a step, or from a reply, which adds to those of `earlier`."""
        self.tool, self.left = tool, text
        self.arguments: dict[str, Any] = dict(earlier or {})
        self._text, self._results = text, results
        self._at: dict[str, Value] = {}  # argument -> its value
        self._pairs()
        results = results_in(self.left, self._results)
        blank = _without(self.left, (value.span for value in results))
        values = [*results, *values_in(blank, reply=earlier is not None)][:MOST_VALUES]
        self._values = sorted(values, key=lambda value: value.start)
        self._choices()
        self._by_words()
        self._lists()
        self._in_order()
        self._texts()
        self.arguments = {
            field.name: self.arguments[field.name] for field in tool.fields if field.name in self.arguments
        }
        self.missing = [field for field in tool.fields if field.is_mandatory and field.name not in self.arguments]
        self.more = self._more()
        self.unused = self._free()

    def _open(self, *, required: bool = False) -> list[Field]:
        fields = (field for field in self.tool.fields if field.required or not required)
        return [field for field in fields if field.name not in self.arguments]

    def _free(self) -> list[Value]:
        return [value for value in self._values if "\0" not in self.left[value.start : value.end]]

    def _take(self, field: Field, data: Any, *spans: tuple[int, int]) -> None:
        self.arguments[field.name] = data
        self.left = _without(self.left, spans)

    def _take_value(self, field: Field, value: Value) -> None:
        self._take(field, fit(value, field), value.span)
        self._at[field.name] = value

    def _pairs(self) -> None:
        """Take `name=value`, and `name: value` except for lists."""
        for field in self._open():
            sign = "=" if field.kind == "array" else "[=:]"
            match = re.search(rf"(?<![\w-]){re.escape(field.name)}\s*{sign}\s*{_PAIRED}", self.left)
            if match and field.name:
                text = match[1][1:-1] if match[1][0] in "\"'" else match[1].rstrip(".?!")
                with contextlib.suppress(UnfitText):
                    self._take(field, from_text(text, field), match.span())

    def _choices(self) -> None:
        """Take choices from their words."""
        for field in self._open():
            if field.choices:
                for span, data in _choices(self.left, field)[:1]:
                    self._take(field, data, span)
            elif field.item is not None and (matches := _choices(self.left, field.item)):
                self._take(field, [data for _, data in matches], *(span for span, _ in matches))

    def _by_words(self) -> None:
        """Assign values to arguments whose names or descriptions occur beside them."""
        scored = []
        for place, field in enumerate(self._open()):
            for number, value in enumerate(self._free()):
                score = self._closeness(field, value) if fit(value, field) is not None else 0.0
                if score > 1.5 * (not field.required):
                    scored.append((-score, place, number, field, value))
        for *_, field, value in sorted(scored, key=lambda entry: entry[:3]):
            if field.name not in self.arguments and value in self._free():
                self._take_value(field, value)

    def _closeness(self, field: Field, value: Value) -> float:
        """Return a score: how well the words beside a value fit an argument."""
        begin = max((neighbour.end for neighbour in self._values if neighbour.end <= value.start), default=0)
        end = min(
            (neighbour.start for neighbour in self._values if neighbour.start >= value.end), default=len(self._text)
        )
        before = re.split(r"[.;!?]\s", self._text[begin : value.start])[-1]
        after = re.split(r"[.;,!?](?:\s|$)", self._text[value.end : end])[0]
        if len(field.name) == 1:
            return 3.0 * bool(re.search(rf"\b{re.escape(field.name)}\s*(?:=|is|:)\s*$", before))
        about = set(stems(re.split(r"[.;(]", field.description)[0])) - self.tool.own
        worth = dict.fromkeys(about, 1.2) | dict.fromkeys(stems(f"{field.name} {field.title}"), 3.0)
        leading = [word.lower() for word in words(before)][-4:]
        cut = max((place for place, word in enumerate(leading) if word in PREPOSITIONS - {"of"}), default=-1)
        near = [stem(word) for word in leading[cut + 1 :] if word not in STOP][::-1]
        far = [stem(word) for word in words(after)][:3]
        score = max([0.0, *(worth.get(word, 0.0) - 0.4 * i for i, word in enumerate(near))])
        score = max([score, *(worth.get(word, 0.0) - 0.1 - 0.5 * i for i, word in enumerate(far))])
        if value.kind in ("date", "time"):
            return score + 2.0 * _is_about(field, {"dat", "dai", "tim"})
        if value.kind == "token":
            address = re.search("[/@]", value.data) is not None
            score += 2.0 if address == _is_about(field, {"path", "url", "mail", "repo"}) else -2.0
        topics = about | {stem(word) for word in words(field.name)}
        if value.kind in ("name", "token") and any(cues & {*leading[-2:]} and role & topics for cues, role in ROLES):
            score += 1.5
        return score

    def _lists(self) -> None:
        """Assign runs of values ("1, 2 and 3") to required list arguments; whole lists are assigned in order."""
        for field, item in [(candidate, item) for candidate in self._open(required=True) if (item := candidate.item)]:
            run: list[Value] = []
            for value in self._free():
                joined = not run or re.fullmatch(_AND, self._text[run[-1].end : value.start])
                if joined and not isinstance(value.data, list | dict) and fit(value, item) is not None:
                    run.append(value)
                elif run or fit(value, field) is not None:
                    break
            if run:
                self._take(field, [fit(candidate, item) for candidate in run], *(candidate.span for candidate in run))

    def _in_order(self) -> None:
        """Assign the rest to the required arguments in order, or in the order of a description: "Subtract b from a"."""
        fields = [candidate for candidate in self._open(required=True) if candidate.kind != "boolean"]
        described = [re.search(rf"\b{re.escape(candidate.name)}\b", self.tool.description) for candidate in fields]
        if len(fields) == 2 and all(described):
            first, second = (match.start() for match in described if match)
            linking = set(words(self.tool.description[second:first].lower())) & PREPOSITIONS
            if linking & set(words(self._text.lower())):
                fields.reverse()
        free = [candidate for candidate in self._free() if candidate.kind in ("number", "result")]
        if self._results and len(fields) == len(free) + 1 > 1 and all(candidate.kind == "number" for candidate in free):
            result = Value("result", 0, 0, self._results[-1])  # "then divide by 2" has it as its first argument
            if isinstance(result.data, int | float) and fit(result, fields[0]) is not None:
                self._take_value(fields.pop(0), result)
        for field in fields:
            fitting = [candidate for candidate in self._free() if fit(candidate, field) is not None]
            strong = [candidate for candidate in fitting if candidate.kind in ("quoted", "token")] or fitting
            if strong:
                self._take_value(field, strong[0])

    def _texts(self) -> None:
        """Assign unquoted words to text arguments: "a branch called x", "text hello", "about coral reefs"."""
        texts = [
            candidate for candidate in self._open() if candidate.kind in ("string", "any") and not candidate.format
        ]
        alone = sum(candidate.required for candidate in texts) == 1
        for field in texts:
            terms = [word for word in words(field.name) if word.lower() != "name"] or words(field.name) or ["(?!)"]
            patterns = [rf"\b{r'[ _-]?'.join(terms)}\s+(?:is\s+)?(?:(?:called|named)\s+)?(?=\w)"]
            if alone and field.required:
                patterns.append(r"\b(?:called|named|titled|saying)\s+|\babout\s+")
                patterns.append(rf"^\W*(?:please\s+)?{re.escape(self.tool.own_name)}\b[\s:]*")
                patterns.append(r"\b(?:for|of|in|on)\s+(?:(?:an?|the)\s+)?(?=\w)")
            starts = [
                match for candidate in patterns for match in reversed([*re.finditer(rf"(?i){candidate}", self.left)])
            ]
            for start in (match.end() for match in starts):
                phrase = re.split(r"[\0.,;!?\n]|\s+(?:from|to|in|with|using|at|by)\b", self.left[start:])[0]
                phrase = re.sub(rf"(?:\s+(?:{'|'.join(STOP)}))*\s*$", "", phrase)
                if set(stems(phrase)) - self.tool.known:
                    self._take(field, phrase, (start, start + len(phrase)))
                    break

    def _more(self) -> list[dict[str, Any]]:
        """Return the arguments of further calls, from values that are joined to the value of an argument."""
        fields = {other_value.name: other_value for other_value in self.tool.fields}
        for name, value in self._at.items():
            row, end = [], value.end
            for other_value in self._free():
                if other_value.start < end:
                    continue
                joined = re.fullmatch(rf"{_AND}(?:(?:in|of|for)\s+)?", self._text[end : other_value.start])
                if not joined or other_value.kind != value.kind or (data := fit(other_value, fields[name])) is None:
                    break
                row.append({**self.arguments, name: data})
                end = other_value.end
            if row:
                self.left = _without(self.left, [(value.end, end)])
                return row[: MOST_CALLS - 1]
        return []


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def _is_about(field: Field, topics: set[str]) -> bool:
    text = f"{field.name} {field.title} {field.description} {field.format}"
    return not topics.isdisjoint(stem(word) for word in words(text))


def _choices(text: str, field: Field) -> list[tuple[tuple[int, int], Any]]:
    spans, matches = [(stem(match[0]), match.span()) for match in WORD.finditer(text)], []
    for data, label in field.choices:
        names = [stem(word) for word in words(label)]
        for part in (spans[place : place + len(names)] for place in range(len(spans)) if names):
            if [word for word, _ in part] == names:
                matches.append(((part[0][1][0], part[-1][1][1]), data))
    return sorted(matches, key=lambda entry: entry[0])


def fit(value: Value, field: Field) -> Any:
    """Return a value converted to an argument's type, or None if it does not fit."""
    data = value.data
    if field.choices:
        return data if any(data == choice and type(data) is type(choice) for choice, _ in field.choices) else None
    kinds = {variant.kind for variant in field.variants} or {field.kind}
    if isinstance(data, int | float) and not isinstance(data, bool):
        if "number" in kinds or "any" in kinds:
            return data
        return int(data) if "integer" in kinds and data == int(data) else None
    if "any" in kinds or ("array" if isinstance(data, list) else "object" if isinstance(data, dict) else "") in kinds:
        return data
    if "string" not in kinds or not isinstance(data, str) or value.kind == "result":
        return None
    timed = "time" if stem("time") in stems(field.name) or field.format == "time" else ""
    timed = "date" if field.format in ("date", "date-time") or _is_about(field, {"dat"}) else timed
    if (value.kind in ("date", "time") or timed) and value.kind not in (timed, "quoted", "result"):
        return None
    return data if timed or not field.format or value.kind in ("token", "quoted") else None


class Toolbox:
    """The tools that a model may call, indexed by their words."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        self.tools = [Tool(definition) for definition in definitions if isinstance(definition.get("function"), dict)]
        self._index = Index([tool.counts for tool in self.tools])

    def closest(self, text: str, limit: int) -> list[Tool]:
        """Return the tools whose words are closest to a text, best first."""
        return [tool for _, tool in self._ranked(stems(text), limit)]

    def steps(self, text: str) -> list[str]:
        """Return the steps of a request, split at "then", ";", lines, sentences, and "and" before a tool's verb."""
        begins = [words(phrase)[:1] for item in self.tools for phrase in (item.own_name, item.description)]
        verbs = {stem(word) for first in begins for word in first}
        literals = [item.span for item in values_in(text) if item.kind in ("quoted", "json", "token", "date")]
        parts, start = [], 0
        for match in _STEP.finditer(_without(text, literals)):
            if match[1] is None or stem(match[1]) in verbs:
                parts.append(text[start : match.start()])
                start = match.end()
        return [part.strip(" \t\n,.;") for part in [*parts, text[start:]] if re.search(r"\w", part)]

    def choose(self, text: str, results: Sequence[Any] = ()) -> Call | None:
        """Return the call that a step of a request asks for, or None if no tool fits it."""
        text = re.sub(r"(?<=\d)\s*([+*/]|(?<=\s)-(?=\s))\s*(?=\d)", lambda sign: f" {SYNONYMS[sign[1]]} ", text)
        if mention := self._find_mention(text):
            return Call(mention[0], _without(text, [mention[1]]).replace("\0", " "), results)
        best: tuple[float, Call | None] = (-math.inf, None)
        request_stems = stems(_without(text, (item.span for item in values_in(text) if item.kind != "name")))
        for score, tool in self._ranked(request_stems, CANDIDATES):
            call = Call(tool, text, results)
            if score > 0 and _fits(call, text):
                share = sum(name in request_stems for name in tool.name_stems) / max(len(tool.name_stems), 1)
                score += 2.0 * share - MISSING_COSTS * len(call.missing) - UNUSED_COSTS * len(call.unused)
                best = max(best, (score, call), key=lambda item: item[0])
        return best[1]

    def _ranked(self, request_stems: Sequence[str], limit: int) -> list[tuple[float, Tool]]:
        """Return the tools that are closest to stems, with their scores, best first."""
        scores = self._index.scores(request_stems)
        ranked = sorted(range(len(self.tools)), key=lambda number: -scores.get(number, 0.0))
        return [(scores.get(number, 0.0), self.tools[number]) for number in ranked[:limit]]

    def _find_mention(self, text: str) -> tuple[Tool, tuple[int, int]] | None:
        """Return the tool that a step names, and the place. A plain word is a name only with "use" or arguments."""
        mentions: list[tuple[int, int, Tool, tuple[int, int]]] = []
        for tool in self.tools:
            own, full = re.escape(tool.own_name), "|".join(map(re.escape, {tool.person_name, tool.name}))
            do, end = r"(?i:\b(?:call|use|run|invoke)\s+(?:the\s+)?(?:tool\s+)?)", r"[`'\"]?(?i:\s+tool\b)?"
            plain = rf"{do}[`'\"]?{own}\b{end}|`{own}`|\b{own}\s+tool\b|^\s*{own}(?=\s*\(|\s+\w+=|\s*$)"
            marked = rf"(?:{do})?[`'\"]?(?<![\w/.:-])(?i:{own})(?![\w/-]){end}"
            full_name = rf"(?:{do})?[`'\"]?(?<![\w:-])(?:{full})(?![\w-]){end}" if full != own else r"(?!)"
            for rank, pattern in enumerate((full_name, marked if re.search(r"[_\d-]", tool.own_name) else plain)):
                if match := re.search(pattern, text):
                    mentions.append((rank, match.start() - match.end(), tool, match.span()))
        return min(mentions, key=lambda mention: mention[:2])[2:] if mentions else None


def _fits(call: Call, text: str) -> bool:
    """Whether a tool knows enough of a step's words, one of them from its own name or description."""
    rest = stems(_without(call.left, (value.span for value in call.unused)))
    common = [word for word in rest if word in call.tool.known]
    own = any(word in call.tool.own for word in stems(text))
    return own and len(call.unused) <= 2 and (not rest or len(common) / len(rest) >= LEAST_KNOWN)


QUESTION = "asked_back"  # the key in an `AIMessage`'s `additional_kwargs` that stores the call of a question

LONGEST, MAX_ANSWER, MAX_QUOTE, MAX_ROWS, SUGGESTED = 4000, 4000, 600, 30, 5
"""Most characters of a request, of a result and of a quote; rows of a table; tools named if none fits."""

NO_REQUEST = "What should I do? Say it in a sentence, or name a tool and its arguments: `server:tool name=value`."
NO_TOOLS = "There is no tool to work with: no server is connected, or none of its tools was given to me."
METADATA = {"model_name": "offline", "finish_reason": "stop"}
WITHOUT_WEIGHTS = "(offline, a model without weights, which quotes)"


class OfflineModel(LocalModel):
    """A chat model without weights, so that tutorials and tests run without a key: deterministic, no network.

    It ranks the tools by the words of their definitions. It fills arguments by schema with values from the request and
    from earlier results. It takes several steps and answers from the results. It asks back if a required argument is
    missing, and says if no tool fits. It ignores system messages, and counts tokens in characters.

    >>> tool = {"name": "math__add", "description": "Add two numbers.", "parameters": {
    ...     "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}
    >>> OfflineModel().bind_tools([tool]).invoke("What is 3 plus 4?").tool_calls[0]["args"]
    {'a': 3, 'b': 4}
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Return the model with tools; `server__tool`, or "server" and "tool" in the metadata, name their origin."""
        definitions = []
        for tool in tools:
            about = tool.metadata if isinstance(tool, BaseTool) and isinstance(tool.metadata, dict) else {}
            origin = {name: about[name] for name in ("server", "tool") if isinstance(about.get(name), str)}
            definitions.append(convert_to_openai_tool(tool) | origin)
        return self.bind(tools=definitions, **kwargs)

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        return _message(messages, kwargs.get("tools") or [])


def _message(messages: Sequence[BaseMessage], definitions: Sequence[dict[str, Any]]) -> AIMessage:
    following = _following(messages, Toolbox(definitions))
    calls = []
    for number, (name, arguments) in enumerate(following.calls):  # the same call at the same place has the same id
        digest = hashlib.sha256(f"{len(messages)} {number} {name}".encode()).hexdigest()
        calls.append({"name": name, "args": arguments, "id": f"call_{digest[:16]}"})
    characters = sum(len(message.text) + len(_json(getattr(message, "tool_calls", []) or "")) for message in messages)
    read = -(-(characters + len(_json(definitions))) // CHARACTERS_A_TOKEN)
    output = -(-(len(following.text) + sum(len(_json(call)) for call in calls)) // CHARACTERS_A_TOKEN)
    return AIMessage(
        content=following.text,
        tool_calls=calls,
        additional_kwargs={QUESTION: following.pending} if following.pending else {},
        response_metadata=METADATA | ({"finish_reason": "tool_calls"} if calls else {}),
        usage_metadata={"input_tokens": read, "output_tokens": output, "total_tokens": read + output},
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""


@dataclass(frozen=True)
class Next:
    """The model's next turn: calls to run at the same time; or a text, and the call it asks about."""

    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    text: str = ""
    pending: dict[str, Any] | None = None


def _following(messages: Sequence[BaseMessage], tools: Toolbox) -> Next:
    """Return the model's next turn: it keeps no state, and goes through the steps with results again."""
    last = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    request = messages[last].text.strip() if last >= 0 else ""
    if len(request) > LONGEST:
        most = f"{LONGEST:,}. Say it shorter, please."
        return Next(text=f"That is {len(request):,} characters long, and I read requests of at most {most}")
    if not tools.tools:
        return Next(text=NO_TOOLS if re.search(r"\w", request) else NO_REQUEST)
    call, steps = _replied(request, messages[last - 1] if last > 0 else None, tools)
    names = {tool.name: tool.person_name for tool in tools.tools}
    earlier = [item.data for turn in _turns(messages[:last], names) for item in turn if not item.is_failure]
    outcomes: list[Outcome] = []
    for turn in [*_turns(messages[last + 1 :], names), None]:
        is_failure = bool(outcomes) and outcomes[-1].is_failure
        if call is None and steps and not (is_failure and results_in(steps[0], [None])):
            text = steps.pop(0)
            data = [*earlier, *(item.data for item in outcomes if not item.is_failure)]
            call = tools.choose(text, data if outcomes or results_in(text, data) else ())
            if call is None:
                return Next(text=answer(outcomes, _no_tool(text, tools)))
        if call is None or (call.missing and is_failure):
            break
        if call.missing:
            question, pending = _question(call, steps)
            return Next(text=answer(outcomes, question), pending=pending)
        if turn is None:
            return Next([(call.tool.name, arguments) for arguments in (call.arguments, *call.more)])
        outcomes, call = [*outcomes, *turn], None
    return Next(text=answer(outcomes) or NO_REQUEST)


def _replied(reply: str, last: BaseMessage | None, tools: Toolbox) -> tuple[Call | None, list[str]]:
    """Return the asked-about call with the values of the reply (None if there is none), and the steps that are left."""
    pending = last.additional_kwargs.get(QUESTION) if isinstance(last, AIMessage) else None
    tool = next(
        (candidate for candidate in tools.tools if isinstance(pending, dict) and candidate.name == pending["tool"]),
        None,
    )
    if (
        not isinstance(pending, dict)
        or tool is None
        or ((new_call := tools.choose(reply)) is not None and not new_call.missing)
    ):
        return None, tools.steps(reply)
    call = Call(tool, reply, earlier=pending["given"])
    if len(call.missing) == 1 and call.arguments == pending["given"]:
        field = call.missing[0]
        with contextlib.suppress(UnfitText):
            arguments = {**call.arguments, field.name: from_text(reply.strip("\"'` .\n"), field)}
            call = Call(tool, "", earlier=arguments)
    return call, list(pending["left"])


def _question(call: Call, steps: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the question for a call's missing arguments, and the state to keep until the reply."""
    missing = []
    for field in call.missing:
        limits = f", {field.constraints_text}" if field.constraints_text else ""
        about = f": {' '.join(field.description.split()).rstrip('.')}" if field.description else ""
        missing.append(f"`{field.name}` ({field.type_text}{limits}){about}")
    pending = {"tool": call.tool.name, "given": call.arguments, "left": list(steps)}
    if len(missing) == 1:
        return f"{sentence(f'`{call.tool.person_name}` needs {missing[0]}')} What should it be?", pending
    rows = "".join(f"\n- {field}" for field in missing)
    return f"`{call.tool.person_name}` needs {len(missing)} more arguments. What should they be?\n{rows}", pending


def _no_tool(request: str, tools: Toolbox) -> str:
    if [tool.name for tool in tools.tools] == [RUN_PROGRAM]:
        return "`offline` writes no programs; `--model PROVIDER:NAME` names a model that does."
    names = [f"`{tool.person_name}`" for tool in tools.closest(request, SUGGESTED)]
    others = f" and {len(tools.tools) - len(names)} more" if len(tools.tools) > len(names) else ""
    quote = " ".join(request.split()).replace("`", "'")
    quote = quote if len(quote) <= 80 else quote[:79] + "…"
    return f"No tool fits `{quote}`. There are: {', '.join(names)}{others}. Name one, as `server:tool name=value`."


@dataclass(frozen=True)
class Outcome:
    """A call's result; `data` is its structured content, else the JSON of its text, else the text."""

    tool: str
    text: str
    data: Any
    is_failure: bool
    denied: bool
    arguments: Mapping[str, Any]


def _turns(messages: Sequence[BaseMessage], names: Mapping[str, str]) -> list[list[Outcome]]:
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    turns = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            calls = [(answers[call["id"]], call) for call in message.tool_calls if call["id"] in answers]
            turns.append(
                [outcome(message, call["args"], names.get(call["name"], call["name"])) for message, call in calls]
            )
    return turns


def outcome(message: ToolMessage, arguments: Mapping[str, Any], tool: str) -> Outcome:
    """Return the outcome of a call of `tool` with `sent`; the artifact of the message overrides both."""
    from mcp_magic.langchain.content import FOR_PEOPLE

    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    text = _text(artifact[FOR_PEOPLE] if isinstance(artifact.get(FOR_PEOPLE), str) else message.content)
    structured = artifact.get("structured_content")
    data = structured if structured is not None else text
    if structured is None:
        with contextlib.suppress(ValueError, RecursionError):
            data = json.loads(text)
    data = data["result"] if isinstance(data, dict) and set(data) == {"result"} else data
    approval = artifact["approval"] if isinstance(artifact.get("approval"), dict) else {}
    tool = f"{artifact['server']}:{artifact['tool']}" if artifact.get("server") and artifact.get("tool") else tool
    arguments = artifact["arguments"] if isinstance(artifact.get("arguments"), dict) else arguments
    is_failure = message.status == "error" or bool(artifact.get("is_error"))
    return Outcome(tool, text, data, is_failure, approval.get("decision") == "deny", dict(arguments))


def _text(content: Any) -> str:
    blocks = [content] if isinstance(content, str) else content
    dicts = (block if isinstance(block, dict) else {"text": block} for block in blocks)
    return "\n".join(str(block.get("text", f"[{block.get('mime_type') or block.get('type')}]")) for block in dicts)


def answer(outcomes: Sequence[Outcome], stopped: str = "") -> str:
    """Return the answer from the results of a request, and why it stopped."""
    sentences = [_sentence(line) for line in outcomes]
    if len(sentences) == 1 or any("\n" in line for line in sentences):
        text = "\n\n".join(sentences)
    else:
        text = "\n".join(f"{number}. {line}" for number, line in enumerate(sentences, start=1))
    return "\n\n".join(part for part in (text, stopped) if part)


def _sentence(result: Outcome) -> str:
    call = f"{result.tool}({_arguments(result.arguments)})"
    if result.denied:
        return f"`{result.tool}` was not allowed."
    if result.is_failure:
        return f"`{result.tool}` failed: {_cell(_cut(result.text.strip())) or 'it did not say why'}"
    if isinstance(result.data, list) and result.data and all(isinstance(row, Mapping) for row in result.data):
        return f"`{call}` gives {plural(len(result.data), 'rows')}:\n\n{_table(result.data)}"
    flat = isinstance(result.data, Mapping) and not any(
        isinstance(value, list | Mapping) for value in result.data.values()
    )
    if flat and result.data and all(len(str(value)) <= 200 for value in result.data.values()):
        rows = "".join(f"\n- {_cell(key)}: {_cell(value)}" for key, value in result.data.items())
        return f"`{call}` gives:\n{rows}"
    if isinstance(result.data, list | Mapping):
        text = json.dumps(result.data, ensure_ascii=False)
        if len(text) <= 200:
            return f"`{call}` gives `{text}`."
        return f"`{call}` gives:\n\n{_fenced(_cut(json.dumps(result.data, ensure_ascii=False, indent=2)), 'json')}"
    if not isinstance(result.data, str):
        return f"`{call}` gives **{json.dumps(result.data, ensure_ascii=False)}**."
    if not result.data.strip():
        return f"`{call}` is done; it returned no text."
    if "\n" in result.data.strip() or len(result.data) > 200:
        return f"`{call}` says:\n\n{_fenced(_cut(result.data))}"
    return f"`{call}` says: {_cell(result.data)}"


def _arguments(arguments: Mapping[str, Any]) -> str:
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in arguments.items()}
    parts = (f"{name}={text if len(text) <= 40 else text[:39] + '…'}" for name, text in texts.items())
    return ", ".join(parts).replace("`", "'")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    lines = [[_cell(name) for name in names], ["---"] * len(names)]
    lines += [[_cell(row.get(name)) for name in names] for row in rows[:MAX_ROWS]]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + (f"\n\nand {len(rows) - MAX_ROWS} rows more" if len(rows) > MAX_ROWS else "")


def _cell(value: Any) -> str:
    """Return a value on one line, with characters escaped that Markdown or HTML would interpret."""
    if value is None:
        return ""
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return re.sub(r"([\\`*\[\]|<]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _fenced(text: str, language: str = "") -> str:
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ANSWER else f"{text[:MAX_ANSWER]}… ({len(text):,} characters in all)"


_INSTRUCTION = re.compile(r"^[^\n.!?:]{1,200}[:?]\s+(?=\S)")
_TWO_SENTENCES = re.compile(r"(?:.+?[.!?](?=\s|$)){1,2}", re.DOTALL)


def quoted(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return an answer without tools: the results of tools, else the beginning of the text of the last request."""
    results: list[str] = []
    for message in messages:
        results = [*results, _short(message.text)] if isinstance(message, ToolMessage) else []
    if results:
        return AIMessage(f"The tools gave: {'; '.join(results)} {WITHOUT_WEIGHTS}", response_metadata=METADATA)
    request = next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")
    about = _INSTRUCTION.sub("", request.strip(), count=1)
    match = _TWO_SENTENCES.match(about)
    text = " ".join((match[0] if match else about).split())
    return AIMessage(f"{_short(text)} {WITHOUT_WEIGHTS}".strip(), response_metadata=METADATA)


def limited(message: AIMessage, characters: int) -> AIMessage:
    """Return a message with its text cut to `characters`, and "length" as its finish reason."""
    if not isinstance(message.content, str) or len(message.content) <= characters:
        return message
    metadata = message.response_metadata | {"finish_reason": "length"}
    return message.model_copy(update={"content": message.content[:characters], "response_metadata": metadata})


def _short(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"
