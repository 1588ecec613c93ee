"""The agent on tasks of others: plays the gold calls of public benchmarks, and compares the end states.

- BFCL v4, multi-turn, base: 200 tasks of the package `bfcl-eval` (Apache-2.0)
- tau2-bench, airline (50 tasks) and retail (114): as the package `inspect-evals` (MIT) has them

`make yardsticks` runs it in an environment with these packages; docs/conformance.md says what is compared.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import copy
import importlib
import inspect
import itertools
import json
import signal
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from benchmarks.offline_model import _schema as json_schema
from benchmarks.yardstick_player import Played, Player, Task

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY = 10  # of so many tasks, one is disturbed

Calls = list[tuple[str, dict[str, Any]]]


class Backend(Protocol):
    """The executable backend of one task, and the same once more, on which the gold calls are made directly."""

    id: str
    requests: list[tuple[str, Calls]]
    servers: list[str]

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; raise what it raises."""

    def gold(self) -> list[str]:
        """Make the gold calls on the bare backend; return the answers, "" for an error, or [] if they are not kept."""

    def difference(self) -> str:
        """Return how the two states differ, or ""."""


@dataclass
class Suite:
    """A benchmark: its tools by server, and the backends of its tasks."""

    name: str
    tools: dict[str, list[Tool]]
    backends: Iterable[Backend]


def as_text(value: Any) -> str:
    """Return what a backend returns as text, as BFCL does."""
    if isinstance(value, dict):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(value)
    return str(value)


# BFCL v4, multi-turn


class BFCL:
    """A task of BFCL."""

    def __init__(self, task: dict[str, Any], answers: list[list[str]]) -> None:
        from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES

        self.id, self._task, self._gold = task["id"], task, answers
        self.servers = task["involved_classes"]
        self._instances: dict[str, Any] = {}
        for name in self.servers:
            self._instances[name] = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in STATELESS_CLASSES:
                self._instances[name]._load_scenario(copy.deepcopy(task["initial_config"].get(name, {})))
        texts = [" ".join(message["content"] for message in turn) or "Go on." for turn in task["question"]]
        self.requests = [
            (text, [self._call(line) for line in lines]) for text, lines in zip(texts, answers, strict=True)
        ]
        self._bare: dict[str, Any] = {}

    def _call(self, line: str) -> tuple[str, dict[str, Any]]:
        """Return a call that is written as Python, with the names of its arguments."""
        call: Any = ast.parse(line, mode="eval").body
        tool = call.func.id
        server = next(name for name in self.servers if callable(getattr(self._instances[name], tool, None)))
        method = inspect.signature(getattr(self._instances[server], tool))
        given = [ast.literal_eval(each) for each in call.args]
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        return f"{server}:{tool}", dict(method.bind(*given, **named).arguments)

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; raise what it raises."""
        return as_text(getattr(self._instances[server], tool)(**arguments))

    def gold(self) -> list[str]:
        """Make the gold calls on the bare backend; return the answers, "" for an error."""
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

        answers = []
        for lines in self._gold:
            made, instances = execute_multi_turn_func_call(
                lines, self._task["initial_config"], self.servers, "gold", self.id
            )
            answers += ["" if each.startswith("Error during execution") else each for each in made]
            self._bare = instances
        return answers

    def difference(self) -> str:
        """Return how the two states differ, or ""."""
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import state_checker

        found = state_checker(self._instances, self._bare)
        return "" if found["valid"] else f"{found['error_message']} {found['details']['differences']}"


def bfcl() -> Suite:
    """Return the 200 tasks of BFCL v4, multi-turn, base."""
    import bfcl_eval
    from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

    data = Path(bfcl_eval.__file__).parent / "data"

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (data / name).read_text(encoding="utf-8").splitlines()]

    tasks = lines("BFCL_v4_multi_turn_base.json")
    answers = {each["id"]: each["ground_truth"] for each in lines("possible_answer/BFCL_v4_multi_turn_base.json")}
    servers = sorted({name for task in tasks for name in task["involved_classes"]})
    tools = {
        name: [
            Tool(name=each["name"], description=each["description"], input_schema=json_schema(each["parameters"]))
            for each in lines(f"multi_turn_func_doc/{MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]}")
        ]
        for name in servers
    }
    # The gold call of task 173 is close_ticket(ticket_id='ticket_001'): by its schema it is no integer, and is refused.
    [close] = [tool for tool in tools["TicketAPI"] if tool.name == "close_ticket"]
    close.input_schema["properties"]["ticket_id"]["type"] = ["integer", "string"]
    return Suite("BFCL v4 multi-turn, base", tools, (BFCL(task, answers[task["id"]]) for task in tasks))


# tau2-bench


class Tau:
    """A task of tau2-bench."""

    def __init__(self, domain: str, task: Any) -> None:
        self.id, self.servers, self._domain = f"{domain}-{task.id}", [domain], domain
        self._actions = list(task.evaluation_criteria.actions or [])
        self._tools = importlib.import_module(f"inspect_evals.tau2.{domain}.tools")
        kind = f"{domain.title()}AgentTools"
        agent = importlib.import_module(f"inspect_evals.tau2.{domain}.{kind}")
        self._state = getattr(agent, kind)(instance=self.id)
        self._state.initialize()
        calls = [(f"{domain}:{action.name}", dict(action.arguments)) for action in self._actions]
        self.requests = [(str(task.user_scenario.instructions), calls)]
        self._bare: Any = None

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; raise what it raises."""
        method = getattr(self._state, tool, None)
        if method is None:  # without state: `calculate` and `transfer_to_human_agents`
            return as_text(await getattr(self._tools, tool)()(**arguments))
        return as_text(method(**arguments))

    def gold(self) -> list[str]:
        """Make the gold calls on the bare backend, which keeps no answers."""
        from inspect_evals.tau2.common.scorer import get_expected_db

        self._bare = get_expected_db(self._domain, self._actions)  # type: ignore[arg-type]
        return []

    def difference(self) -> str:
        """Return how the two databases differ, or ""."""
        same = self._state.db.get_hash() == self._bare.db.get_hash()
        return "" if same else "the databases differ"


def tau(domain: str) -> Suite:
    """Return the tasks of a domain of tau2-bench."""
    from inspect_ai.tool import ToolDef

    dataset = importlib.import_module(f"inspect_evals.tau2.{domain}.dataset").read_dataset(instance="agent")
    metadata = importlib.import_module("inspect_evals.tau2.common.metadata").Tau2MetaData
    tasks = [metadata.model_validate(sample.metadata).task for sample in dataset]
    module = importlib.import_module(f"inspect_evals.tau2.{domain}.tools")
    made = [each() for each in vars(module).values() if hasattr(each, "__registry_info__")]
    tools = [
        Tool(
            name=each.name,
            description=each.description,
            input_schema=each.parameters.model_dump(exclude_none=True, by_alias=True),
        )
        for each in map(ToolDef, made)
    ]
    return Suite(f"tau2-bench, {domain}", {domain: tools}, (Tau(domain, task) for task in tasks))


# Playing a suite


@dataclass
class Score:
    """What came of a suite."""

    name: str
    tasks: int = 0
    equal: int = 0
    calls: int = 0
    errors: int = 0
    disturbed: int = 0
    seconds: float = 0.0


class Serving:
    """The servers of a suite; the backend of the present task answers."""

    def __init__(self, tools: dict[str, list[Tool]]) -> None:
        self._tools = tools
        self.backend: Backend | None = None
        self.urls: dict[str, str] = {}
        self.calls = 0

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        """Serve them on free ports of 127.0.0.1."""
        async with contextlib.AsyncExitStack() as stack:
            for name, tools in self._tools.items():
                self.urls[name] = await stack.enter_async_context(_served(self._server(name, tools)))
            yield self

    def _server(self, name: str, tools: list[Tool]) -> Server[Any]:
        async def listed(context: Any, params: Any) -> ListToolsResult:
            return ListToolsResult(tools=tools)

        async def called(context: Any, params: Any) -> CallToolResult:
            assert self.backend is not None
            self.calls += 1
            try:
                text = await self.backend.call(name, params.name, params.arguments or {})
            except Exception as error:
                return CallToolResult(content=[TextContent(text=f"{type(error).__name__}: {error}")], is_error=True)
            return CallToolResult(content=[TextContent(text=text)])

        return Server(name, on_list_tools=listed, on_call_tool=called)


@contextlib.asynccontextmanager
async def _served(server: Server[Any]) -> Any:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve(sockets=[listener]))
    while not running.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        await task
        listener.close()


async def in_a_process(task: Task) -> Played:
    """Play a task in a process of its own, which is killed in the middle, and then in another one."""
    for restarted in (False, True):
        task.restarted = restarted
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.yardstick_player",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate(json.dumps(asdict(task)).encode())
        expected = 0 if restarted else -signal.SIGKILL
        if process.returncode != expected:
            raise RuntimeError(f"the process ended with {process.returncode}, not {expected}")
    return Played(**json.loads(out))


async def play(suite: Suite, limit: int | None) -> Score:
    """Play the tasks of a suite; say on stderr how far it is, and what is wrong."""
    score, began = Score(suite.name), time.perf_counter()
    async with Serving(suite.tools).running() as serving:
        with tempfile.TemporaryDirectory() as folder:
            for number, backend in enumerate(itertools.islice(suite.backends, limit)):
                problem = await _play_one(number, backend, serving, f"{folder}/threads.sqlite", score)
                score.equal += not problem
                if problem:
                    print(f"{backend.id}: {problem}", file=sys.stderr)
                if score.tasks % EVERY == 0:
                    print(f"{suite.name}: {score.tasks} tasks", file=sys.stderr)
    score.seconds = time.perf_counter() - began
    return score


async def _play_one(number: int, backend: Backend, serving: Serving, threads: str, score: Score) -> str:
    """Play a task; return what is wrong, or ""."""
    serving.backend, before = backend, serving.calls
    count = sum(len(calls) for _, calls in backend.requests)
    disturbed = number % EVERY == EVERY - 1 and count > 0
    urls = {name: serving.urls[name] for name in backend.servers}
    task = Task(backend.id, urls, backend.requests, threads, count // 2 if disturbed else None)
    score.tasks += 1
    score.calls += count
    score.disturbed += disturbed
    try:
        played = await (in_a_process(task) if disturbed else Player(task).play())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    gold = backend.gold()
    score.errors += sum(failed for _, failed in played.answers)
    problems = [backend.difference()]
    cards = count + (2 if disturbed else 0)  # the interrupt and the restart left a card without an answer each
    if (len(played.answers), played.cards) != (count, cards):
        problems.append(f"{count} calls, but {len(played.answers)} answers and {played.cards} cards")
    if serving.calls - before != count:
        problems.append(f"{count} calls, of which {serving.calls - before} reached the backend")
    if not disturbed and played.approved != count:
        problems.append(f"{count} calls, but {played.approved} approvals")
    for (text, failed), wanted in zip(played.answers, gold, strict=False):
        if text != wanted and not (failed and not wanted):
            problems.append(f"the model read {text[:80]!r} instead of {wanted[:80]!r}")
    return "; ".join(filter(None, problems))


def main(argv: list[str] | None = None) -> int:
    """Play all suites and print a table; return 1 if a final state differs."""
    parser = argparse.ArgumentParser(prog="make yardsticks", description="The agent on tasks of others.")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N tasks of each")
    options = parser.parse_args(argv)
    suites = (bfcl, partial(tau, "airline"), partial(tau, "retail"))
    scores = [asyncio.run(play(suite(), options.limit)) for suite in suites]
    print("| benchmark | tasks | state equals gold | calls | of them errors | interrupted and restarted | seconds |")
    print("|---|---|---|---|---|---|---|")
    for score in scores:
        row = (score.name, score.tasks, score.equal, score.calls, score.errors, score.disturbed, f"{score.seconds:.0f}")
        print("|", " | ".join(map(str, row)), "|")
    return 0 if all(score.equal == score.tasks for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
