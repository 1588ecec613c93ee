"""Conversations outlive their kernel; two kernels use one file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.kernel_servers import MATH
from tests.support.kernels import Kernel, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETUP = f"""
import json, sys
sys.path.insert(0, {str(MATH.parent)!r})
from math_server import server as math
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.langchain.content import result_of
"""
CALLS = "[('math:add', {'a': 1, 'b': 2})], [('math:statistics', {'numbers': [1, 2, 6]})]"
THINK = """
import asyncio
async def think(messages):
    print('thinking', flush=True)
    await asyncio.Event().wait()
"""
SEEN = "json.dumps([[m.type, m.text] for m in m.seen[0].messages if m.type != 'system'])"


@pytest.fixture(scope="module")
def begin(folder: Path) -> Iterator[Callable[[], Kernel]]:
    """Starts kernels that keep their threads in one data directory."""
    running: list[Kernel] = []

    def begin() -> Kernel:
        own = environment(folder, JUPYTER_DATA_DIR=str(folder / "data"), MCP_MAGIC_APPROVAL="auto")
        running.append(Kernel(folder, own))
        prepare(running[-1])
        return running[-1]

    yield begin
    for kernel in running:
        kernel.shutdown()


@pytest.fixture(scope="module")
def kernel(begin: Callable[[], Kernel]) -> Kernel:
    return begin()


def prepare(kernel: Kernel) -> None:
    kernel.ok("%load_ext mcp_magic")
    kernel.ok(SETUP)
    kernel.ok("%mcp connect math")


def ask(kernel: Kernel, turns: str, request: str, options: str = "--thread trip") -> None:
    kernel.ok(f"m = ScriptedModel([{turns}])")
    kernel.ok(f"%%mcp_agent --model $m {options} -o made\n{request}")


def value(kernel: Kernel, expression: str) -> Any:
    """Return the JSON that an expression is."""
    return json.loads(kernel.ok(f"print({expression})").stdout)


def test_thread_and_its_results_survive_a_restart(kernel: Kernel) -> None:
    ask(kernel, f"{CALLS}, 'three'", "add 1 and 2")

    kernel.restart()
    prepare(kernel)
    assert kernel.complete("%mcp agent --show tri") == ["trip"]
    ask(kernel, "'six'", "double it")

    seen = value(kernel, SEEN)
    assert [kind for kind, _ in seen] == ["human", "ai", "tool", "ai", "tool", "ai", "human"]
    assert (seen[0][1], seen[2][1], seen[-1][1]) == ("add 1 and 2", "3", "double it")
    assert value(kernel, "json.dumps([m.text for m in made.messages])") == ["double it", "six"]

    kernel.ok("shown = %mcp agent --show trip")
    assert value(kernel, "json.dumps([c.name for c in shown.calls])") == ["math:add", "math:statistics"]
    kernel.ok("answers = [m for m in m.seen[0].messages if m.type == 'tool']")
    names = value(kernel, "json.dumps([[m.name, m.artifact['server'], m.artifact['tool']] for m in answers])")
    assert names == [["math__add", "math", "add"], ["math__statistics", "math", "statistics"]]
    assert value(kernel, "json.dumps(result_of(answers[1]).data)")["mean"] == 3
    assert value(kernel, "json.dumps(int(result_of(answers[1]).df['mean'][0]))") == 3
    assert value(kernel, "json.dumps(answers[0].artifact['approval']['by'])") == "approval = 'auto'"


def test_run_of_a_killed_kernel_can_be_continued(kernel: Kernel) -> None:
    kernel.ok("import os, signal\ndef die(messages):\n    os.kill(os.getpid(), signal.SIGKILL)")
    kernel.ok("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], die])")
    kernel.start("%%mcp_agent --model $m --thread lost\nadd 1 and 2")
    kernel.process.wait(30)

    kernel.restart()
    prepare(kernel)
    ask(kernel, "'going on'", "and?", "--thread lost")

    seen = value(kernel, SEEN)
    assert seen[0] == ["human", "add 1 and 2"]
    assert seen[-1] == ["human", "and?"]
    assert [kind for kind, _ in seen].count("ai") == [kind for kind, _ in seen].count("tool")


def test_two_kernels_use_one_file_at_the_same_time(begin: Callable[[], Kernel], kernel: Kernel) -> None:
    one, two = kernel, begin()
    for kernel, name in ((one, "one"), (two, "two")):
        kernel.ok(f"name = {name!r}")
        kernel.ok(f"m = ScriptedModel([{CALLS}] * 1 + [{CALLS}, {CALLS}, {CALLS}, {CALLS}, 'done by ' + name])")
    started = [
        (k, k.start("%%mcp_agent --model $m --thread {name} -o made\ngo".replace("{name}", n)))
        for k, n in ((one, "one"), (two, "two"))
    ]
    for kernel, message in started:
        assert kernel.finish(message).status == "ok"

    for kernel in (one, two):
        assert "kept in memory" not in kernel.ok("print(made.transcript)").stdout
        listing = "[row['thread'] for row in listing]"
        kernel.ok("listing = %mcp agent --threads")
        assert {"one", "two"} <= set(value(kernel, f"json.dumps({listing})"))
    ask(one, "'and mine'", "go on", "--thread two")
    assert value(one, SEEN)[-2:] == [["ai", "done by two"], ["human", "go on"]]


def test_interrupted_run_keeps_its_work_for_next_kernel(kernel: Kernel) -> None:
    kernel.ok(THINK)
    kernel.ok("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], think])")
    message = kernel.start("%%mcp_agent --model $m --thread cut\nadd 1 and 2")
    kernel.until_stream(message, "thinking")
    kernel.interrupt()
    assert kernel.finish(message).status == "error"

    kernel.restart()
    prepare(kernel)
    ask(kernel, "'going on'", "and?", "--thread cut")
    assert [text for kind, text in value(kernel, SEEN) if kind == "tool"] == ["3"]


def test_a_kernel_ends_at_once_while_a_run_goes_on(kernel: Kernel) -> None:
    kernel.ok(THINK)
    kernel.ok("m = ScriptedModel([think])")
    message = kernel.start("%%mcp_agent --model $m --thread ended\ngo")
    kernel.until_stream(message, "thinking")
    process = kernel.process
    kernel.client.shutdown()
    process.wait(10)
