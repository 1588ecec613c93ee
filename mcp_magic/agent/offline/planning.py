"""What comes next in a conversation: calls, a question, or the answer.

Nothing is remembered between turns. The steps of a request follow from its words and from the results so far, so they
are gone through again at each turn: those whose results are there, and then the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline import answering
from mcp_magic.agent.offline.choosing import HARD, Choice, choose, writes
from mcp_magic.agent.offline.clauses import Part, actions, parts, refers, ways_to_part
from mcp_magic.agent.offline.conversation import Asked, Conversation
from mcp_magic.agent.offline.expressions import in_steps
from mcp_magic.agent.offline.filling import Clause, fill
from mcp_magic.agent.offline.replying import replied
from mcp_magic.agent.offline.results import Outcome, references
from mcp_magic.agent.offline.rewriting import spelt_out
from mcp_magic.agent.offline.several import several
from mcp_magic.agent.offline.words import STOP, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.agent.offline.ranking import Ranking

__all__ = ["Next", "plan"]

LONGEST = 4000
"""Characters of a request that are gone through: each word is weighed against each tool."""

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Next:
    """What the model does next: calls, or a text.

    Attributes:
        calls: Provider names and arguments, to be run at the same time.
        text: What it says, or "".
        asked: What the text asks back, or None.
    """

    calls: list[Call] = field(default_factory=list)
    text: str = ""
    asked: Asked | None = None


def plan(state: Conversation, ranking: Ranking) -> Next:
    """Return what comes next.

    Args:
        state: Where the conversation stands.
        ranking: The index of the tools that are bound.
    """
    if not re.search(r"\w", state.request):
        return Next(text=answering.no_request())
    if len(state.request) > LONGEST:
        return Next(text=answering.too_long(len(state.request), LONGEST))
    if not ranking.tools:
        return Next(text=answering.no_tools())
    done = [each for turn in state.turns for each in turn]
    steps = _Steps(state, ranking)
    for number in range(len(state.turns) + 1):
        step = steps.next(number)
        if step is None or (number < len(state.turns) and not step.calls):
            return Next(text=answering.answer(done))
        if number == len(state.turns):
            return replace(step, text=answering.answer(done, step.text) if step.text else "")
    return Next(text=answering.answer(done))


class _Steps:
    """The steps of a request, one after the other."""

    def __init__(self, state: Conversation, ranking: Ranking) -> None:
        self._state = state
        self._ranking = ranking
        self._vocabulary = ranking.vocabulary.__contains__
        self._known: dict[str, Choice | None] = {}
        self._given: dict[str, Any] = {}
        request, self._asked = state.request, state.asked
        if self._asked is not None:
            given = replied(state.request, self._asked, ranking)
            if given is None:
                self._asked = None
            else:
                request, self._given = self._asked.request, self._asked.given | given
        self._request = request
        found = self._merged(parts(spelt_out(in_steps(request)), actions(ranking.tools)))
        self._left = [each for part in found for each in self._split(part)]
        self._last: Choice | None = None
        self._before: dict[str, Any] = {}

    def next(self, number: int) -> Next | None:
        """Return the step of a turn, or None if there is none; to be called for each turn in order."""
        past = [*self._state.earlier, *(each for turn in self._state.turns[:number] for each in turn)]
        failed = [each for turn in self._state.turns[:number] for each in turn if each.failed]
        calls: list[Call] = []
        while self._left:
            part = self._left[0]
            if failed and (part.later or refers(part.text)) and self._needs(part, past):
                return None
            choice = self._choice(part, past, first=number == 0 and not calls)
            if choice is None:
                return Next(calls) if calls else Next(text=answering.no_tool(part.text, self._ranking))
            if calls and self._waits(part, choice):
                break
            if choice.filling.missing:
                return Next(calls) if calls else self._question(choice)
            calls += [(choice.tool.name, arguments) for arguments in several(choice)]
            self._left.pop(0)
            self._last = choice
            self._before |= choice.filling.arguments
        return Next(calls) if calls else None

    def _merged(self, found: list[Part]) -> list[Part]:
        """Put parts that ask for nothing of their own with those that they say more of."""
        merged: list[Part] = []
        for part in found:
            if merged and self._belongs(merged[-1], part):
                text = f"{merged[-1].text}. {part.text}"
                merged[-1] = replace(merged[-1], text=text)
            else:
                merged.append(part)
        return merged

    def _belongs(self, first: Part, second: Part) -> bool:
        if second.like_last or refers(second.text):
            before = None if first.like_last else self._alone(first.text)
            return before is None and not second.like_last and not first.like_last
        one, other = self._alone(first.text), self._alone(second.text)
        both = self._alone(f"{first.text}. {second.text}")
        if both is None or (one is not None and other is not None and not other.filling.missing):
            return False
        if not any(word.low not in STOP for word in words(second.text)):
            return True
        alone = other if one is None else one
        return alone is not None and len(both.filling.arguments) > len(alone.filling.arguments)

    def _split(self, part: Part) -> list[Part]:
        """Part what no one tool can do, but two tools can: "the weather in Paris and the time in Tokyo"."""
        whole = None if part.like_last else self._alone(part.text)
        if whole is None or not any(each.kind in HARD for each in whole.filling.left) or len(several(whole)) > 1:
            return [part]
        for left, right in ways_to_part(part.text):
            first, second = self._alone(left), self._alone(right)
            if first and second and not any((*first.filling.missing, *second.filling.missing, *second.filling.left)):
                return [replace(part, text=left), *self._split(Part(right))]
        return [part]

    def _alone(self, text: str) -> Choice | None:
        if text not in self._known:
            self._known[text] = choose(Clause(text, self._vocabulary), self._ranking)
        return self._known[text]

    def _needs(self, part: Part, past: Sequence[Outcome]) -> bool:
        """Whether a part cannot be done without the result that failed."""
        if refers(part.text):
            return True
        alone = self._alone(part.text)
        return alone is None or bool(alone.filling.missing)

    def _waits(self, part: Part, choice: Choice) -> bool:
        """Whether a part must not run at the same time as those before it."""
        if part.like_last:
            return False
        assert self._last is not None
        return part.later or bool(refers(part.text)) or writes(choice.tool) or writes(self._last.tool)

    def _choice(self, part: Part, past: Sequence[Outcome], *, first: bool) -> Choice | None:
        good = [each for each in past if not each.failed]
        own = len(good) > len(self._state.earlier)
        carried = tuple(each.mention for each in reversed(good)) if part.later and own else ()
        clause = Clause(
            part.text,
            self._vocabulary,
            references=references(part.text, past, len(self._state.earlier)),
            carried=carried,
            before=self._before,
        )
        if part.like_last and self._last is not None:
            return _like(clause, self._last)
        if first and self._asked is not None:
            named = next((tool for tool in self._ranking.tools if tool.name == self._asked.tool), None)
            if named is not None:
                filling = fill(replace(clause, named=(0, 0)), named)
                filling.arguments |= self._given
                filling.missing = [each for each in filling.missing if each.name not in self._given]
                return Choice(named, filling, clause, 0.0)
        plain = not (clause.references or clause.carried or clause.before)
        return self._alone(part.text) if plain else choose(clause, self._ranking)

    def _question(self, choice: Choice) -> Next:
        missing = choice.filling.missing
        asked = Asked(self._request, choice.tool.name, tuple(each.name for each in missing), self._given)
        return Next(text=answering.ask_for(choice.tool, missing), asked=asked)


def _like(clause: Clause, last: Choice) -> Choice:
    """Return the last call again with what a clause says otherwise: "... and in Rome"."""
    filling = fill(clause, last.tool)
    filling.arguments = last.filling.arguments | filling.arguments
    filling.missing = [each for each in filling.missing if each.name not in filling.arguments]
    return Choice(last.tool, filling, clause, last.score)
