"""The search of tools by what they should do: BM25 over the words of their definitions."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_types import Tool

# Words and their stems.

WORD = re.compile(r"[^\W\d_]+")
PREPOSITIONS = {*WORD.findall("in at for of near to from by with on into about around between under within using")}
STOP = PREPOSITIONS | {
    *WORD.findall(
        "a an the this that these those it its is are was were be been am do does did can could would will shall "
        "should may might must i me my we us our you your he she they them their what which who whom whose how when "
        "where why if then than so but or and not no please just also there here let make get give show tell return "
        "display see look want need like have has had use call run find out much many some any all each every now "
        "first last next one tool function result calculate compute determine given s as"
    )
}
"""Words that do not tell which tool is meant."""

SYNONYMS = {"plus": "add", "sum": "add", "+": "add", "minus": "subtract", "difference": "subtract", "-": "subtract"}
SYNONYMS |= {"times": "multiply", "product": "multiply", "*": "multiply", "/": "divide", "average": "mean"}
"""Words and signs of arithmetic -> the verbs in names of tools."""


_ENDING = re.compile(r"(?<=\w{3})(?:ations?|at(?:ing|ed|es?)|ings?|ions?|ers?|or|ie[sd]|ed|es|ly|s|e)$")


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the common stem of a word's forms: "calcul" for "calculates" and "calculation"."""
    low = SYNONYMS.get(word.lower(), word.lower())
    low = _ENDING.sub(lambda ending: "i" if ending[0] in ("ies", "ied") else "", low)
    low = low[:-1] if len(low) > 3 and (low[-1] == low[-2] or low[-1] == "e") else low
    return low[:-1] + "i" if len(low) > 2 and low[-1] == "y" else low


def words(text: str) -> list[str]:
    """Return the words of a text or of a name: "getWeather_now" has three."""
    return WORD.findall(re.sub(r"(?<=[a-z\d])(?=[A-Z])", " ", text))


def stems(text: str) -> list[str]:
    """Return the stems of a text's words, without stop words."""
    return [root for word in words(text) if word.lower() not in STOP and (root := stem(word))]


# BM25.

K1, B, NAME_WEIGHT = 1.2, 0.5, 3
"""BM25's parameters, and the weight of a word in a tool's name; a word of its description weighs 1."""


class Index:
    """BM25 over documents, each given as the counts of its stems."""

    def __init__(self, documents: Sequence[Mapping[str, int]]) -> None:
        self._having: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        having = Counter(word for document in documents for word in document)
        average = sum(sum(document.values()) for document in documents) / max(len(documents), 1) or 1.0
        total = len(documents)
        # a word that all documents have still counts a little
        rarity = {word: 0.5 + math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in having.items()}
        for number, document in enumerate(documents):
            norm = K1 * (1 - B + B * sum(document.values()) / average)
            for word, count in document.items():
                self._having[word].append((number, rarity[word] * count * (K1 + 1) / (count + norm)))

    def scores(self, query_stems: Iterable[str]) -> dict[int, float]:
        """Return the score of each document that has any of some stems."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in query_stems:
            for number, score in self._having.get(word, ()):
                scores[number] += score
        return scores

    def best(self, text: str, limit: int) -> list[int]:
        """Return the documents that are closest to a text, best first."""
        scores = self.scores(stems(text))
        return heapq.nsmallest(limit, scores, key=lambda number: (-scores[number], number))


MOST_NODES = 500  # most parts of an input schema whose words are read


def words_of_tool(tool: Tool, server: str = "") -> Counter[str]:
    """Return the stems of a tool's definition: names, descriptions and choices, also of its parameters."""
    texts: list[Any] = [server, tool.title or "", tool.description or ""]
    pending: list[Any] = [tool.input_schema]
    for _ in range(MOST_NODES):
        if not pending:
            break
        node = pending.pop()
        if isinstance(node, list):
            pending += node[:MOST_NODES]
        elif isinstance(node, dict):
            properties, choices = node.get("properties"), node.get("enum")
            if isinstance(properties, dict):
                texts += properties
                pending += list(properties.values())[:MOST_NODES]
            if isinstance(choices, list):
                texts += choices[:MOST_NODES]
            if node is not tool.input_schema:
                texts.append(node.get("description") or "")
            pending += [node[key] for key in ("items", "anyOf", "oneOf", "allOf", "$defs") if key in node]
    counts = Counter(stems(" ".join(map(str, texts))))
    for word in words(tool.name):
        counts[stem(word)] += NAME_WEIGHT
    return counts
