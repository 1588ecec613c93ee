"""Answers to what servers ask for, from a file: for notebooks that run where nobody is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.config.jsonfile import LARGEST_DATA, read_bytes
from mcp_magic.core.elicitation import Answer
from mcp_magic.errors import ArgumentsError
from mcp_magic.magics.answers_sampling import Replies
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.core.elicitation import Elicitation

__all__ = ["Answers"]

ACTIONS = ("accept", "decline", "cancel")


class Answers:
    """An elicitor that answers from a list, in order, or from an object, by message.

    An answer is `"accept"`, `"decline"`, `"cancel"`, `{"action": ..., "content": {...}}`, or the values themselves. An
    object with a list `"sampling"` has the replies of models, too; its answers may stand in `"elicitation"` then.

    Args:
        answers: As JSON holds them.
        name: What to call them in messages.

    Attributes:
        replies: Replies to what the server asks models for; None where the file says nothing of that.
        problem: What was wrong first; "" if nothing was.
    """

    def __init__(self, answers: Any, name: str) -> None:
        self.replies: Replies | None = None
        if isinstance(answers, dict) and isinstance(answers.get("sampling"), list):
            answers = dict(answers)
            self.replies = Replies(answers.pop("sampling"), name)
            answers = _elicitation(answers, name)
        if not isinstance(answers, list | dict):
            problem = f"{name} must hold a list of answers, or an object with an answer for each message"
            raise ArgumentsError(problem)
        self._answers = answers if isinstance(answers, dict) else iter(answers)
        self._name = name
        self.problem = ""
        for answer in answers.values() if isinstance(answers, dict) else answers:
            _read(answer, name)

    @classmethod
    def load(cls, path: Path) -> Answers:
        """Read a file.

        Raises:
            ArgumentsError: It cannot be read, or holds no answers.
        """
        try:
            answers = json.loads(read_bytes(path, LARGEST_DATA))
        except OSError as error:
            problem = f"cannot read {path}: {error.strerror or error}"
        except (ValueError, RecursionError) as error:
            problem = f"{path} holds no JSON: {error}"
        else:
            return cls(answers, path.name)
        raise ArgumentsError(problem)

    async def __call__(self, asked: Elicitation) -> Answer:
        """Return the answer; "decline" if there is none, or none that fits."""
        found = self._next(asked)
        message = one_line(asked.message, 100)
        if found is None:
            return self._refused(f"{self._name} has no answer to {message!r}")
        answer = _read(found, self._name)
        if answer.action == "accept" and asked.mode == "form":
            try:
                schema.check_arguments(answer.content or {}, asked.schema)
            except ArgumentsError as error:
                return self._refused(f"the answer to {message!r} in {self._name} does not fit: {error}")
        return answer

    def raise_for_problem(self) -> None:
        """Raise what was wrong, if anything was.

        Raises:
            ArgumentsError: An answer or a reply was missing, or did not fit; the server was told no.
        """
        problem = self.problem or (self.replies.problem if self.replies is not None else "")
        if problem:
            raise ArgumentsError(problem)

    def _next(self, asked: Elicitation) -> Any:
        if isinstance(self._answers, dict):
            return self._answers.get(asked.message)
        return next(self._answers, None)

    def _refused(self, problem: str) -> Answer:
        self.problem = self.problem or problem
        return Answer.decline(problem)


def _elicitation(answers: dict[str, Any], name: str) -> Any:
    """Return what stands beside "sampling": the section "elicitation", or answers by message."""
    section = answers.get("elicitation")
    if not isinstance(section, list | dict):
        return answers
    if len(answers) > 1:
        beside = next(key for key in answers if key != "elicitation")
        raise ArgumentsError(f'{name}: {beside[:60]!r} stands beside "sampling" and "elicitation"; move it into one')
    return section


def _read(answer: Any, name: str) -> Answer:
    if answer in ACTIONS:
        return Answer(answer)
    if isinstance(answer, Mapping):
        if answer.get("action") not in ACTIONS or not answer.keys() <= {"action", "content"}:
            return Answer.accept(answer)
        content = answer.get("content")
        if content is None or isinstance(content, Mapping):
            return Answer(answer["action"], content)
    problem = f'{name}: an answer is "accept", "decline", "cancel" or an object, not {schema.shown(answer)}'
    raise ArgumentsError(problem)
