"""An evaluation against the time that its model takes: 200 cases, two variants, five runs of each, eight at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

from benchmarks.timing import Pairs, Result, at_most, compared

__all__ = ["run"]

GOAL = 1.3
TURN = 0.02  # seconds of a turn of the model
CONCURRENCY, VARIANTS, RUNS = 8, 2, 5
GOAL_OF_A_RUN = 10  # milliseconds of the processor


def run(*, quick: bool = False) -> list[Result]:
    """Measure first turns and whole runs, of two turns and a call of a server in this process."""
    return asyncio.run(_measured(3 if quick else 200))


async def _measured(cases: int) -> list[Result]:
    from mcp.server.mcpserver import MCPServer

    from mcp_magic import Host, ScriptedModel

    server = MCPServer("weather", log_level="ERROR")

    @server.tool()
    async def get_weather(location: str) -> str:
        """Tells the weather of a place."""
        return f"sunny in {location}"

    async def turn(messages: list[Any]) -> Any:
        await asyncio.sleep(TURN)
        if messages[-1].type == "tool":
            return "It is sunny."
        return [("weather:get_weather", {"location": messages[-1].text.split()[-1]})]

    lines = "".join(f"How is it in City{n} -> weather:get_weather location=City{n}\n" for n in range(cases))
    results: list[Result] = []
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(server, name="weather")
        for tools_only, turns in ((True, 1), (False, 2)):
            model = ScriptedModel([turn], repeat_last=True)
            await host.evaluate(lines, model, tools_only=tools_only)  # warms up
            theirs = await _alone(cases * VARIANTS * RUNS * turns)
            began, used = time.perf_counter(), time.process_time()
            variants = dict.fromkeys(map(str, range(VARIANTS)))
            evaluation = await host.evaluate(lines, model, variants, runs=RUNS, tools_only=tools_only)
            ours, used = time.perf_counter() - began, time.process_time() - used
            assert all(trial.right for trial in evaluation.trials)
            what = "first turns" if tools_only else "runs"
            name = f"{len(evaluation):,} {what} of {cases} cases, a turn of {TURN * 1000:g} ms"
            results.append(compared(name, Pairs([ours], [theirs]), goal=GOAL, unit="s", note="against the turns alone"))
            each = 1000 * used / len(evaluation)
            results.append(at_most(f"processor time of one of the {what}", each, GOAL_OF_A_RUN, "ms"))
    return results


async def _alone(turns: int) -> float:
    """Return the seconds that so many turns take, eight at once."""
    numbers = itertools.count()

    async def work() -> None:
        while next(numbers) < turns:
            await asyncio.sleep(TURN)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return time.perf_counter() - began
