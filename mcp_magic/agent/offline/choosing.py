"""Which tool a clause is about: its words weighed by BM25, and how well the clause fills the tool's arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.filling import Clause, Filling, fill
from mcp_magic.agent.offline.mentions import masked, mentions
from mcp_magic.agent.offline.naming import named_server, named_tools
from mcp_magic.agent.offline.several import rows
from mcp_magic.agent.offline.words import STOP, name_words, near, stem, word_set, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.agent.offline.ranking import Ranking
    from mcp_magic.agent.offline.tools import Known

__all__ = ["HARD", "Choice", "choose", "writes"]

CANDIDATES = 15
"""Tools, best by their words, whose arguments are tried."""

LEAST_EXPLAINED = 0.4
"""The share of a clause's words that a tool must account for, or it does not fit.

Half of it is enough if the clause gives all the arguments.
"""

LEAST_EVIDENCE = 5.0
"""What arguments alone must be worth to make a tool fit."""

HARD = frozenset(
    ("quoted", "number", "path", "date", "datetime", "time", "url", "email", "uuid", "json", "code", "place")
)
"""Mentions that are there for a reason: a tool that cannot use them is the wrong one."""


@dataclass(frozen=True)
class Choice:
    """A tool with the arguments that a clause gives.

    Attributes:
        tool: The tool.
        filling: Its arguments, and what is missing.
        clause: The clause as it was read.
        score: How well all of it fits; comparable within one clause only.
    """

    tool: Known
    filling: Filling
    clause: Clause
    score: float


def choose(clause: Clause, ranking: Ranking) -> Choice | None:
    """Return the tool that fits a clause best, or None if none does."""
    tools = ranking.tools
    clause = replace(clause, text=_denied(clause))
    server = named_server(clause.text, (tool.server for tool in tools))
    if server is not None:
        start, end = server[1]
        clause = replace(clause, text=clause.text[:start] + " " * (end - start) + clause.text[end:])
        tools = [tool for tool in tools if tool.server == server[0]]
    named = named_tools(clause.text, tools)
    if named is not None:
        clause = replace(clause, named=named[1])
        tried = [
            Choice(tool, filled := fill(clause, tool), clause, _filled(filled, tool, clause.text)) for tool in named[0]
        ]
        return max(tried, key=lambda choice: choice.score)
    tried = _tried(clause, ranking, tools, trust=server is not None)
    return max(tried, key=lambda choice: choice.score, default=None)


def _denied(clause: Clause) -> str:
    """Return the text with "not staged" as "unstaged", if tools know that word; no place in it moves."""

    def joined(found: re.Match[str]) -> str:
        known = clause.vocabulary(stem(f"un{found[1].lower()}"))
        return f"un{found[1]}".ljust(len(found[0])) if known else found[0]

    return re.sub(r"(?i)\bnot\s+(?:yet\s+|been\s+)*(\w+ed)\b", joined, clause.text)


def _tried(clause: Clause, ranking: Ranking, tools: Sequence[Known], *, trust: bool) -> list[Choice]:
    said = _terms(clause)
    indexes = [i for i, tool in enumerate(ranking.tools) if tool in tools]
    scores = {i: ranking.score(i, said)[0] for i in indexes}
    if not said:
        return _by_arguments(clause, tools)
    best = sorted((i for i in indexes if scores[i] > 0), key=lambda i: -(scores[i] + _phrase(clause, ranking.tools[i])))
    choices = []
    for i in best[:CANDIDATES]:
        tool = ranking.tools[i]
        filling = fill(clause, tool)
        if not trust and not _explained(clause, tool, filling):
            continue
        score = (
            scores[i]
            + _phrase(clause, tool)
            + _verb(clause, tool)
            + _filled(filling, tool, clause.text)
            - 0.6 * _unexplained(clause, tool, filling)
        )
        choices.append(Choice(tool, filling, clause, score))
    return choices


def _by_arguments(clause: Clause, tools: Sequence[Known]) -> list[Choice]:
    """Return the tools that what a clause mentions fits without a gap, for a clause with no words about a tool."""
    choices = [Choice(tool, filled := fill(clause, tool), clause, _filled(filled, tool, clause.text)) for tool in tools]
    return [
        each for each in choices if each.score >= LEAST_EVIDENCE and not (each.filling.missing or each.filling.left)
    ]


def _terms(clause: Clause) -> list[tuple[str, float]]:
    """Return the stems that speak of the tool, with weights: what to do stands first."""
    seen = [each for each in mentions(clause.text, clause.vocabulary) if each.kind not in ("code",)]
    blank = masked(clause.text, [*seen, *clause.references])
    said = [word for word in words(blank) if word.low not in STOP]
    return [(word.stem, 1.25 if i == 0 else 1.0) for i, word in enumerate(said)]


def _phrase(clause: Clause, tool: Known) -> float:
    """Return what it is worth that a clause has the words of the tool's name, or all of its description."""
    said = [stem(word) for word in name_words(re.sub(r"['\u2019]", "", clause.text))]
    said = [str(int(each)) if each.isdecimal() else each for each in said]
    if stem_text(clause.text) == stem_text(tool.description):
        return 6.0
    names = [name for name in tool.name_stems if name != "get"] or list(tool.name_stems)
    found = sum(max((near(each, name) for each in said), default=0.0) for name in names)
    share = found / len(names)
    whole = len(names) > 1 and any(said[i : i + len(names)] == names for i in range(len(said)))
    return 2.0 * share + (2.5 if whole else 0.0) + (1.0 if share == 1.0 else 0.0)


_READING = frozenset(map(stem, word_set("show list get return display print what which view see look tell give read")))
_WRITING = frozenset(
    map(stem, word_set("create record commit delete remove write send set switch reset unstage update move end put"))
)


def writes(tool: Known) -> bool:
    """Whether a tool's description says that it changes something, so that the order of calls counts."""
    does = next((word.stem for word in words(tool.description)), "")
    return does in _WRITING or bool(_CHANGING & set(tool.name_stems) and len(tool.name_stems) > 1)


_CHANGING = frozenset(
    map(stem, word_set("add commit create delete remove write checkout reset toggle push move rename"))
)


def _verb(clause: Clause, tool: Known) -> float:
    """Return what it is worth that a clause begins with what a description begins with: "unstage", "Unstages ..."."""
    said = [word for word in words(clause.text) if word.low not in ("please", "can", "could", "you", "i", "now", "the")]
    does = next((word.stem for word in words(tool.description)), "")
    if not said or not does:
        return 0.0
    if {said[0].stem, said[0].low.removesuffix("'s")} & _READING:
        return -2.0 if does in _WRITING else float(said[0].stem in tool.name_stems)
    if said[0].low in STOP:
        return 0.0
    named = next((each for each in tool.name_stems if each != stem(tool.server)), "")
    used = 4.0 if re.match(r"\s+(?:the|a|an|this|in|at|to|with|all|my|[\"'])\b", clause.text[said[0].end :]) else 1.0
    return max(2.5 * near(said[0].stem, does), used if said[0].stem == named else 0.0)


def stem_text(text: str) -> tuple[str, ...]:
    """Return all stems and numbers of a text, to see whether two texts say the same."""
    return tuple(stem(part) for part in re.findall(r"[^\W_]+", text.lower()))


def _filled(filling: Filling, tool: Known, text: str) -> float:
    """Return what it is worth how a clause fills a tool's arguments: all that are needed, and nothing left over."""
    repeated = {mention.start for row in rows(text, tool, filling).values() for _, mention in row}
    left = 0.0
    for each in filling.left:
        if each.start in repeated:
            left += 0.4
        elif not _said_by(each.text, tool):
            left += 1.5 if each.kind in HARD else 0.5
    return 0.9 * min(filling.evidence, 9.0) - 5.0 * len(filling.missing) - left


def _said_by(text: str, tool: Known) -> bool:
    """Whether a tool's own words say the same as a mention: "today" in "Get today's weather"."""
    return bool(stems := [word.stem for word in words(text)]) and all(each in tool.own_stems for each in stems)


def _loose(clause: Clause, filling: Filling) -> list[str]:
    """Return the stems of words that no argument took."""
    text = clause.text
    for start, end in filling.spans:
        text = text[:start] + " " * (end - start) + text[end:]
    text = masked(text, [*filling.left, *clause.references])
    return [word.stem for word in words(text) if word.low not in STOP]


def _knows(word: str, tool: Known) -> bool:
    return any(near(word, own) for own in tool.own_stems | tool.argument_stems) or word == stem(tool.server)


def _unexplained(clause: Clause, tool: Known, filling: Filling) -> int:
    return sum(1 for word in _loose(clause, filling) if not _knows(word, tool))


def _explained(clause: Clause, tool: Known, filling: Filling) -> bool:
    """Whether a tool accounts for enough of a clause to be meant by it."""
    loose = _loose(clause, filling)
    known = [word for word in loose if _knows(word, tool)]
    own = any(near(word.stem, each) for word in words(clause.text) if word.low not in STOP for each in tool.own_stems)
    whole = filling.evidence >= LEAST_EVIDENCE and not (filling.missing or filling.left)
    least = LEAST_EXPLAINED / 2 if whole else LEAST_EXPLAINED
    return own and (not loose or len(known) / len(loose) >= least)
