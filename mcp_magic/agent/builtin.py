"""The agent's own tools, which are not asked about as such: they read on in large results, and search for tools.

The tools that a search found are in the artifact of its message. So the messages alone decide which tools a turn has,
also after a restart and in a fork.
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.search import Index, words_of_tool
from mcp_magic.agent.tools import as_patterns
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.calls import JOB, started_text
from mcp_magic.langchain.content import result_of, to_content
from mcp_magic.langchain.large_results import READ_RESULT, read_result, spilled
from mcp_magic.lint import CHARACTERS_A_TOKEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic._host import Host
    from mcp_magic.langchain.content import Content


class BuiltinCall(NamedTuple):
    """Who calls one of these tools, and with which call."""

    asker: str  # for consent
    run: str | None  # the run of the agent
    on_progress: ProgressFnT  # shows the progress of the call
    handle: str  # names the result if it is large
    # keeps an answer so far, for a run that is interrupted
    keep: Callable[[Content, dict[str, Any]], None] = lambda content, artifact: None


@dataclass(frozen=True)
class BuiltinTool:
    """A tool of the agent itself.

    Attributes:
        function: Name, description and parameters, as in OpenAI's functions.
        answer: Answers a call, from its arguments, the messages of the thread and the caller, with content and
            artifact. An MCPMagicError that it raises is the answer of a failed call.
        when: Whether the model is given the tool, from the messages of the thread.
    """

    function: Mapping[str, Any]
    answer: Callable[[Mapping[str, Any], Sequence[BaseMessage], BuiltinCall], Awaitable[tuple[Content, dict[str, Any]]]]
    when: Callable[[Sequence[BaseMessage]], bool] = lambda _: True

    @property
    def name(self) -> str:
        """The name, without a server: no tool of a server is called like this."""
        return str(self.function["name"])

    @property
    def bound(self) -> dict[str, Any]:
        """The tool as an OpenAI function."""
        return {"type": "function", "function": dict(self.function)}


def result_reader(limit: int) -> BuiltinTool:
    """Return `read_result`, which is given to the model once a result was too large for it."""

    async def answer(
        given: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        known = spilled(messages)
        handle, _, table = str(given["handle"]).partition(".")
        if handle not in known:
            near = did_you_mean(handle, known)
            raise ArgumentsError(f"no large result {one_line(handle, 60)!r}.{near} There are: {join_names(known)}")
        rest = {name: value for name, value in given.items() if name != "handle"}
        return read_result(result_of(known[handle]), table, **rest, limit=limit), {}

    return BuiltinTool(READ_RESULT, answer, when=lambda messages: bool(spilled(messages)))


# Jobs: calls that a server has made tasks of, and that go on while the model does something else.

WAIT_FOR_JOB = "wait_for_job"

WAIT_SECONDS, MOST_SECONDS = 60, 600
"""Seconds that the model waits for a job if it names none, and at most; you can interrupt the wait."""


def job_waiter(host: Host, limit: int, *, images: bool = False) -> BuiltinTool:
    """Return `wait_for_job`, which is given to the model once a call has become a job."""

    async def answer(
        given: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        number, known = int(given["job"]), _jobs_of(messages)
        if number not in known:
            raise ArgumentsError(f"no call of this thread is job {number}. There are: {join_names(map(str, known))}")
        job = next((job for job in host.jobs if job.began == known[number]), None)  # numbers are of one kernel
        if job is None:
            raise ArgumentsError(f"job {number} is of an earlier kernel; the user can type `%mcp jobs --resume`")
        await job.wait(min(float(given.get("seconds", WAIT_SECONDS)), MOST_SECONDS))
        if not job.ended:
            return started_text(job), {}
        if job.result is None:
            raise job.error or ArgumentsError(f"job {number} has no result")
        return to_content(job.result, images=images, limit=limit)

    parameters = {
        "type": "object",
        "properties": {
            "job": {"type": "integer", "description": "the number of the job"},
            "seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MOST_SECONDS,
                "description": f"how long to wait, {WAIT_SECONDS} by default",
            },
        },
        "required": ["job"],
    }
    says = "Waits for a call that goes on as a job, and returns its result, or how far it is."
    function = {"name": WAIT_FOR_JOB, "description": says, "parameters": parameters}
    return BuiltinTool(function, answer, when=lambda messages: bool(_jobs_of(messages)))


def _jobs_of(messages: Sequence[BaseMessage]) -> dict[int, float]:
    """Return the numbers of the jobs that the calls of a thread have become, and when they began."""
    # pydantic takes long to say that a message of another type has none
    artifacts = [getattr(message, "artifact", None) for message in messages if message.type == "tool"]
    return dict([artifact[JOB] for artifact in artifacts if isinstance(artifact, dict) and JOB in artifact])


# The search of tools: a model is given the tools that fit its request, and finds others.

FITTING, FOUND = 5, 10
"""How many tools are bound for the words of a request, and how many a search finds."""

KEPT = 40  # most tools that stay bound because they were found or called earlier in the thread

CONTEXT = 128_000  # tokens of a model's context, where its profile does not say

LINE = 120  # characters of a tool's description in the answer of a search

SEARCH_TOOLS = "search_tools"

_NAME = re.compile(r"[\w:.-]*\w")


class Candidate(Protocol):
    """A tool that can be searched, such as an `Offer`."""

    @property
    def person_name(self) -> str:
        """`"server:tool"`."""

    @property
    def tool(self) -> Tool:
        """Its definition."""

    @property
    def bound(self) -> dict[str, Any]:
        """The tool as the model gets it."""


C = TypeVar("C", bound=Candidate)


def _server(candidate: Candidate) -> str:
    return candidate.person_name.rpartition(":")[0]


def _names(name: str, candidate: Candidate) -> tuple[str, ...]:
    """Return the names under which a text may mention a tool."""
    return name.casefold(), candidate.tool.name.casefold(), candidate.person_name.casefold()


_indexes: WeakKeyDictionary[Any, tuple[list[Tool], Index]] = WeakKeyDictionary()
"""Host -> the tools of its last search, and their index, which takes a tenth of a second for a thousand tools."""


def _index_of(candidates: Mapping[str, Candidate], owner: Any) -> Index:
    tools = [each.tool for each in candidates.values()]
    known, index = _indexes.get(owner, ([], None)) if owner is not None else ([], None)
    if index is not None and len(known) == len(tools) and all(map(operator.is_, known, tools)):
        return index
    index = Index([words_of_tool(each.tool, _server(each)) for each in candidates.values()])
    if owner is not None:
        _indexes[owner] = (tools, index)
    return index


class ToolSearch(Generic[C]):
    """The choice of the tools for a turn: those that are pinned, fit the request, or were found or called before.

    Args:
        offers: Returns all tools that the agent may use, by the model's name; the same object while they stay the same.
        model: The model, whose context is meant by a share.
        above: How many tools there are at least before any is left out; below 1, their share of the model's context;
            None: never.
        pinned: Patterns for the tools that are always bound.
        owner: The host of the tools, whose index is kept for the next run.
    """

    def __init__(
        self,
        offers: Callable[[], Mapping[str, C]],
        model: BaseChatModel | None = None,
        *,
        above: float | None,
        pinned: Iterable[str] = (),
        owner: Any = None,
    ) -> None:
        self._offers = offers
        self._owner = owner
        self._model = model
        self._above = above
        self._pinned = as_patterns(pinned)
        self._known: Mapping[str, C] = {}
        self._many = False
        self._index: Index | None = None
        self._fitting: tuple[str | None, list[str]] = (None, [])

    @property
    def needed(self) -> bool:
        """Whether the tools are too many for the model."""
        offers = self._offers()
        if offers is not self._known:
            self._known, self._index, self._fitting = offers, None, (None, [])
            self._many = self._above is not None and self._is_above(self._above)
        return self._many

    def _is_above(self, above: float) -> bool:
        if above >= 1:
            return len(self._known) > above
        characters = sum(len(json.dumps(offer.bound)) for offer in self._known.values())
        profile = getattr(self._model, "profile", None) or {}
        return characters / CHARACTERS_A_TOKEN > above * (profile.get("max_input_tokens") or CONTEXT)

    def chosen(self, messages: Sequence[BaseMessage]) -> list[C]:
        """Return the tools for the next turn of a thread, in the order of all tools; all if they are not too many."""
        offers = self._offers()
        if not self.needed:
            return list(offers.values())
        names = {name for name, offer in offers.items() if self._pinned and self._is_pinned(offer)}
        request = next((message.text for message in reversed(messages) if message.type == "human"), "")
        if self._fitting[0] != request:
            self._fitting = (request, self._best(request, FITTING))
        names.update(self._fitting[1])
        known: dict[str, None] = {}  # the latest last
        for message in messages:
            artifact = getattr(message, "artifact", None)
            used = artifact.get(SEARCH_TOOLS, ()) if isinstance(artifact, dict) else ()
            for name in (*used, *(call["name"] for call in getattr(message, "tool_calls", ()))):
                known.pop(name, None)
                known[name] = None
        names.update(list(known)[-KEPT:])
        return [offer for name, offer in offers.items() if name in names]

    def _is_pinned(self, offer: C) -> bool:
        return any(fnmatchcase(offer.person_name, pattern) for pattern in self._pinned)

    def _best(self, text: str, limit: int) -> list[str]:
        if self._index is None:
            self._index = _index_of(self._known, self._owner)
        mentioned = set(_NAME.findall(text.casefold()))
        named = [name for name, offer in self._known.items() if not mentioned.isdisjoint(_names(name, offer))]
        names = list(self._known)
        fitting = [names[number] for number in self._index.best(text, limit)]
        return list(dict.fromkeys([*named, *fitting]))[:limit]

    def tool(self) -> BuiltinTool:
        """Return `search_tools`, which is given to the model where tools are left out."""
        return BuiltinTool(
            {
                "name": SEARCH_TOOLS,
                "description": "Finds tools of the servers by what they should do. You have only a few of them; those "
                "that it finds can be called from your next turn on.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string", "description": "what the tool should do, in keywords"}},
                    "required": ["query"],
                },
            },
            self._answer,
            when=lambda _: self.needed,
        )

    async def _answer(
        self, given: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        if not self.needed:
            return "You have all tools.", {}
        found = self._best(given["query"], FOUND)
        if not found:
            servers = dict.fromkeys(map(_server, self._known.values()))
            return f"No tool has any of these words. Try others; the servers are: {join_names(servers, 20)}", {}
        lines = [f"{name}: {one_line(self._known[name].tool.description or '', LINE)}" for name in found]
        return "\n".join(lines), {SEARCH_TOOLS: found}
