"""Which tools a request may be about: BM25 over the fields of their definitions.

BM25F, Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, section 3.6: the counts of a word in the
fields are weighted and added up before they are saturated.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.words import STOP, name_words, near, stem, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_magic.agent.offline.tools import Known

__all__ = ["Ranking"]

SATURATION = 1.2
"""BM25's k1: how fast more of the same word stops to count."""

LENGTH = 0.5
"""BM25's b: how much long descriptions are marked down."""

WEIGHTS = {"name": 3.0, "title": 1.0, "description": 1.5, "server": 1.0, "arguments": 0.8, "choices": 0.6, "about": 0.3}
"""What a word counts for in each part of a definition."""

Document = dict[str, list[str]]


class Ranking:
    """An index of tools."""

    def __init__(self, tools: Sequence[Known]) -> None:
        self.tools = tools
        self._documents = [_document(tool) for tool in tools]
        self._counts = self._weighted()
        self._vocabulary = frozenset(each for tool in tools for each in tool.own_stems)
        self._among = Counter(term for counts in self._counts for term in counts)

    @property
    def vocabulary(self) -> frozenset[str]:
        """All stems of the tools' names, titles and descriptions."""
        return self._vocabulary

    def rarity(self, term: str) -> float:
        """Return BM25's inverse document frequency, and one more, so that a word counts among few tools, too."""
        among = self._among[term]
        return 1.0 + math.log(1 + (len(self.tools) - among + 0.5) / (among + 0.5))

    def score(self, index: int, terms: Iterable[tuple[str, float]]) -> tuple[float, float]:
        """Return how well a tool fits stems with weights: the score, and how many of the stems it has."""
        counts = self._counts[index]
        score = matched = 0.0
        for term, weight in terms:
            best = max((self._gain(counts, found, alike) for found, alike in self._alike(term, index)), default=0.0)
            score += weight * best
            matched += 1.0 if best > 1.0 else 0.0
        return score, matched

    def order(self, text: str) -> list[int]:
        """Return the indexes of all tools, those first whose words are closest to a text."""
        said = [(term, 1.0) for term in _stems(text)]
        return sorted(range(len(self.tools)), key=lambda i: (-self.score(i, said)[0], i))

    def _alike(self, term: str, index: int) -> list[tuple[str, float]]:
        counts = self._counts[index]
        if term in counts:
            return [(term, 1.0)]
        return [(found, alike) for found in counts if (alike := near(term, found))]

    def _gain(self, counts: dict[str, float], term: str, alike: float) -> float:
        count = counts[term]
        return alike * self.rarity(term) * count * (SATURATION + 1) / (count + SATURATION)

    def _weighted(self) -> list[dict[str, float]]:
        sizes = {part: [len(document[part]) for document in self._documents] for part in WEIGHTS}
        averages = {part: (sum(each) / len(each) if each else 0) or 1.0 for part, each in sizes.items()}
        found = []
        for document in self._documents:
            counts: dict[str, float] = {}
            for part, terms in document.items():
                norm = 1 - LENGTH + LENGTH * len(terms) / averages[part]
                for term, count in Counter(terms).items():
                    counts[term] = counts.get(term, 0.0) + WEIGHTS[part] * count / norm
            found.append(counts)
        return found


def _document(tool: Known) -> Document:
    choices = [str(label) for field in tool.fields for _, label in field.choices]
    return {
        "name": list(tool.name_stems),
        "title": _stems(tool.title),
        "description": _stems(tool.description),
        "server": [stem(word) for word in name_words(tool.server)],
        "arguments": [stem(word) for field in tool.fields for word in name_words(field.name)],
        "choices": _stems(" ".join(choices)),
        "about": _stems(" ".join(field.description for field in tool.fields)),
    }


def _stems(text: str) -> list[str]:
    return [word.stem for word in words(text) if word.low not in STOP]
