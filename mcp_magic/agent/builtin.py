"""The agent's own tools, which are not asked about as such: `read_result`, `wait_for_job`, `search_tools` and `map`.

The tools that a search found are in the artifact of its message. So the messages alone decide which tools a turn has,
also after a restart and in a fork.
"""

from __future__ import annotations

import asyncio
import json
import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.agent.search import Index, words_of_tool
from mcp_magic.agent.tools import as_patterns, no_tool
from mcp_magic.consent.consent import Decision
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.calls import JOB, started_text
from mcp_magic.langchain.content import result_of, to_content
from mcp_magic.langchain.functions import own_arguments
from mcp_magic.langchain.large_results import READ_RESULT, Spill, read_result, spilled
from mcp_magic.langchain.names import Names
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.map.plan import Origin, Step
from mcp_magic.map.rows import PerRow, Row, col, read_table
from mcp_magic.map.run import MapRun, map_steps
from mcp_magic.results.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic._host import Host
    from mcp_magic.agent.settings import AgentSettings
    from mcp_magic.agent.tools import Offer, Registry
    from mcp_magic.consent.consent import Request
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
    def openai_tool(self) -> dict[str, Any]:
        """The tool as an OpenAI function."""
        return {"type": "function", "function": dict(self.function)}


def result_reader(limit: int) -> BuiltinTool:
    """Return `read_result`, which is given to the model once a result was too large for it."""

    async def answer(
        arguments: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        results = spilled(messages)
        handle, _, table = str(arguments["handle"]).partition(".")
        if handle not in results:
            near = did_you_mean(handle, results)
            raise ArgumentsError(f"no large result {one_line(handle, 60)!r}.{near} There are: {join_names(results)}")
        rest = {name: value for name, value in arguments.items() if name != "handle"}
        return read_result(result_of(results[handle]), table, **rest, limit=limit), {}

    return BuiltinTool(READ_RESULT, answer, when=lambda messages: bool(spilled(messages)))


# Jobs: calls that a server has made tasks of, and that go on while the model does something else.

WAIT_FOR_JOB = "wait_for_job"

WAIT_SECONDS, MOST_SECONDS = 60, 600
"""Seconds that the model waits for a job if it names none, and at most; you can interrupt the wait."""


def job_waiter(host: Host, limit: int, *, images: bool = False) -> BuiltinTool:
    """Return `wait_for_job`, which is given to the model once a call has become a job."""

    async def answer(
        arguments: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        number, jobs = int(arguments["job"]), _jobs_of(messages)
        if number not in jobs:
            raise ArgumentsError(f"no call of this thread is job {number}. There are: {join_names(map(str, jobs))}")
        job = next((job for job in host.jobs if job.began == jobs[number]), None)  # numbers are of one kernel
        if job is None:
            raise ArgumentsError(f"job {number} is of an earlier kernel; the user can type `%mcp jobs --resume`")
        await job.wait(min(float(arguments.get("seconds", WAIT_SECONDS)), MOST_SECONDS))
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

BEST, MATCHES = 5, 10
"""How many tools are bound for the words of a request, and how many a search finds."""

MAX_EARLIER = 40  # most tools that stay bound because they were found or called earlier in the thread

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
    def shown(self) -> Tool:
        """Its definition as the model reads it."""

    @property
    def openai_tool(self) -> dict[str, Any]:
        """The tool as the model gets it."""


C = TypeVar("C", bound=Candidate)


def _server(candidate: Candidate) -> str:
    return candidate.person_name.rpartition(":")[0]


def _names(name: str, candidate: Candidate) -> tuple[str, ...]:
    """Return the names under which a text may mention a tool."""
    return name.casefold(), candidate.shown.name.casefold(), candidate.person_name.casefold()


_indexes: WeakKeyDictionary[Any, tuple[list[Tool], Index]] = WeakKeyDictionary()
"""Host -> the tools of its last search, and their index, which takes a tenth of a second for a thousand tools."""


def _index_of(candidates: Mapping[str, Candidate], owner: Any) -> Index:
    tools = [candidate.shown for candidate in candidates.values()]
    earlier, index = _indexes.get(owner, ([], None)) if owner is not None else ([], None)
    if index is not None and len(earlier) == len(tools) and all(map(operator.is_, earlier, tools)):
        return index
    index = Index([words_of_tool(candidate.shown, _server(candidate)) for candidate in candidates.values()])
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
    def is_needed(self) -> bool:
        """Whether the tools are too many for the model."""
        offers = self._offers()
        if offers is not self._known:
            self._known, self._index, self._fitting = offers, None, (None, [])
            self._many = self._above is not None and self._is_above(self._above)
        return self._many

    def _is_above(self, above: float) -> bool:
        if above >= 1:
            return len(self._known) > above
        characters = sum(len(json.dumps(offer.openai_tool)) for offer in self._known.values())
        profile = getattr(self._model, "profile", None) or {}
        return characters / CHARACTERS_A_TOKEN > above * (profile.get("max_input_tokens") or CONTEXT)

    def select(self, messages: Sequence[BaseMessage]) -> list[C]:
        """Return the tools for the next turn of a thread, in the order of all tools; all if they are not too many."""
        offers = self._offers()
        if not self.is_needed:
            return list(offers.values())
        names = {
            name
            for name, offer in offers.items()
            if any(fnmatchcase(offer.person_name, pattern) for pattern in self._pinned)
        }
        request = next((message.text for message in reversed(messages) if message.type == "human"), "")
        if self._fitting[0] != request:
            self._fitting = (request, self._best(request, BEST))
        names.update(self._fitting[1])
        recent: dict[str, None] = {}  # the latest last
        for message in messages:
            artifact = getattr(message, "artifact", None)
            used = artifact.get(SEARCH_TOOLS, ()) if isinstance(artifact, dict) else ()
            for name in (*used, *(call["name"] for call in getattr(message, "tool_calls", ()))):
                recent.pop(name, None)
                recent[name] = None
        names.update(list(recent)[-MAX_EARLIER:])
        return [offer for name, offer in offers.items() if name in names]

    def _best(self, text: str, limit: int) -> list[str]:
        if self._index is None:
            self._index = _index_of(self._known, self._owner)
        mentioned = set(_NAME.findall(text.casefold()))
        by_name = [name for name, offer in self._known.items() if not mentioned.isdisjoint(_names(name, offer))]
        names = list(self._known)
        fitting = [names[number] for number in self._index.best(text, limit)]
        return list(dict.fromkeys([*by_name, *fitting]))[:limit]

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
            when=lambda _: self.is_needed,
        )

    async def _answer(
        self, arguments: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        if not self.is_needed:
            return "You have all tools.", {}
        matches = self._best(arguments["query"], MATCHES)
        if not matches:
            servers = dict.fromkeys(map(_server, self._known.values()))
            return f"No tool has any of these words. Try others; the servers are: {join_names(servers, 20)}", {}
        lines = [f"{name}: {one_line(self._known[name].shown.description or '', LINE)}" for name in matches]
        return "\n".join(lines), {SEARCH_TOOLS: matches}


# The tool `map`: one call of a server's tool for each row of a table, approved together.

MAP_DESCRIPTION = (
    "Calls one tool once for each row of a table, and returns a table of the answers. Use it instead of many calls of "
    "the same tool."
)

MAP_HEAD = 300  # characters of a table's first row that the model is shown

_COLUMN = re.compile(r"\{([^{}]+)\}")


def map_tool(registry: Registry, settings: AgentSettings) -> BuiltinTool:
    """Return the tool `map` over tables by name, and over rows that the model writes.

    Where the caller of the graph decides about calls (`ask="interrupt"`), those that nobody decides are denied.

    Args:
        registry: The tools that may be called.
        settings: Its tables are what `Host.map` takes as rows, but no iterators.

    Raises:
        ArgumentsError: A table cannot be read.
    """
    tables = {name: _rows_of(name, source) for name, source in (settings.tables or {}).items()}
    spill, limit = settings.spill, settings.result_limit

    async def refuse(_: Request) -> Decision:
        return Decision.deny("the calls of a map are not asked about by interrupt; a rule can allow them", by="default")

    approver = refuse if settings.ask == "interrupt" else None

    async def answer(
        request: Mapping[str, Any], _: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        rows = tables.get(request["table"]) if "table" in request else [Row(row) for row in request.get("rows", ())]
        if ("table" in request) == ("rows" in request) or rows is None:
            raise ArgumentsError(f"map takes either `rows` or one `table` of: {join_names(tables)}")
        offer = _offer(registry.offers, str(request["tool"]))
        arguments = own_arguments(request.get("arguments", {}), offer.renamed)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        run = map_steps(
            [Step("", offer.connection, offer.tool, _with_columns(arguments, columns))],
            rows,
            registry.host.services,
            origin=Origin(caller.asker, caller.run, settings.approve, approver, caller.on_progress),
            timeout=settings.timeout,
        )
        large = None if spill is None else Spill.above(spill, caller.handle)
        try:
            await run.run()
        except asyncio.CancelledError:
            caller.keep(*_content(run, limit, large))
            raise
        return _content(run, limit, large)

    return BuiltinTool(_map_function(tables), answer, when=lambda _: bool(registry.offers))


def _rows_of(name: str, source: Any) -> list[Row]:
    table = read_table(source)
    if table.size is None and not isinstance(source, str) and iter(source) is source:
        raise ArgumentsError(f"the table {name!r} is an iterator, which gives its rows only once; give a list")
    return list(table.rows)


def _map_function(tables: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    heads = [
        f"{name}: {plural(len(rows), 'rows')}, "
        f"the first is {one_line(json.dumps(dict(rows[0]), default=str), MAP_HEAD)}"
        for name, rows in tables.items()
        if rows
    ]
    properties: dict[str, Any] = {
        "tool": {"type": "string", "description": "the name of the tool, as you would call it"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "the rows"},
        "arguments": {
            "type": "object",
            "description": "the arguments of each call: a value for all rows, or {column} for the row's own; without "
            "them, the columns that are named like arguments are passed",
        },
    }
    if tables:
        properties["table"] = {"type": "string", "enum": list(tables), "description": "the table, instead of rows"}
    return {
        "name": "map",
        "description": "\n".join([MAP_DESCRIPTION, *(["Tables:", *heads] if heads else [])]),
        "parameters": {"type": "object", "properties": properties, "required": ["tool"]},
    }


def _offer(offers: Mapping[str, Offer], name: str) -> Offer:
    for offer in offers.values():
        if name in (offer.name, offer.person_name):
            return offer
    raise ArgumentsError(no_tool(Names(()).person(name), [offer.person_name for offer in offers.values()]))


def _with_columns(value: Any, columns: Sequence[str]) -> Any:
    """Return arguments with the columns that the model has written as `{column}`.

    >>> _with_columns({"text": "Hi {name}", "n": 3}, ["name"])["text"].text
    'Hi {name}'
    """
    if isinstance(value, dict):
        return {name: _with_columns(inner, columns) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_columns(inner, columns) for inner in value]
    if not isinstance(value, str):
        return value
    if column := _COLUMN.fullmatch(value):
        if column[1] not in columns:
            raise ArgumentsError(f"there is no column {column[1]!r}. Columns: {join_names(columns)}")
        return col(column[1])
    if any(name in columns for name in _COLUMN.findall(value)):
        return PerRow(value, lambda row, _: _COLUMN.sub(lambda match: str(row.get(match[1], match[0])), value))
    return value


def _content(run: MapRun, limit: int, large: Spill | None) -> tuple[Content, dict[str, Any]]:
    content, artifact = to_content(_result(run), limit=limit, spill=large)
    stopped = f"It stopped: {run.problem}\n" if run.problem else ""
    if run.failure_summary:
        artifact["failures"] = run.failure_summary
    return f"{run.summary}\n{stopped}{content}", artifact


def _result(run: MapRun) -> ToolResult:
    """Return the answers as the result of one call: a table."""
    from mcp_types import CallToolResult

    table = run.df.drop(columns=["attempts", "seconds"], errors="ignore")
    if "error" in table and table["error"].isna().all():
        table = table.drop(columns="error")
    rows = table.convert_dtypes().to_json(orient="records", date_format="iso", default_handler=str)
    [step] = run.steps
    return ToolResult(
        CallToolResult(
            content=[],
            structured_content={"rows": json.loads(rows)},
            is_error=bool(run.items) and not run.stats["done"],
        ),
        server=step.connection.name,
        tool=step.tool.name,
        seconds=run.stats["seconds"],
    )
