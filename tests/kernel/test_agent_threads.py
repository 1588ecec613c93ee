"""Conversations outlive their kernel; two kernels use one file."""

import json

import pytest

from tests.support.kernel_servers import MATH, connect_in_process
from tests.support.kernels import AT_ONCE, Kernel, environment

CALLS = "[('math:add', {'a': 1, 'b': 2})], [('math:statistics', {'numbers': [1, 2, 6]})]"
PREPARE = """
import asyncio, json, os, signal
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.langchain.content import result_of

async def think(messages):
    print('thinking', flush=True)
    await asyncio.Event().wait()

def die(messages):
    os.kill(os.getpid(), signal.SIGKILL)
"""
SEEN = "[[m.type, m.text] for m in m.seen[0].messages if m.type != 'system']"


@pytest.fixture(scope="module")
def begin(folder):
    """Starts kernels that keep their threads in one data directory."""
    running = []

    def begin():
        own = environment(folder, JUPYTER_DATA_DIR=str(folder / "data"), MCP_MAGIC_APPROVAL="auto")
        running.append(Kernel(folder, own))
        prepare(running[-1])
        return running[-1]

    yield begin
    for kernel in running:
        kernel.shutdown()


@pytest.fixture(scope="module")
def kernel(begin):
    return begin()


def prepare(kernel, *, again=False):
    if again:
        kernel.restart()
    kernel.ok("%load_ext mcp_magic")
    kernel.ok(PREPARE)
    connect_in_process(kernel, MATH, "math")


def ask(kernel, turns, request, thread="trip"):
    kernel.ok(f"m = ScriptedModel([{turns}])")
    kernel.ok(f"%%mcp_agent --model $m --thread {thread} -o made\n{request}")


def value(kernel, expression):
    return json.loads(kernel.ok(f"print(json.dumps({expression}))").stdout)


def test_thread_and_its_results_survive_a_restart(kernel):
    ask(kernel, f"{CALLS}, 'three'", "add 1 and 2")
    prepare(kernel, again=True)
    assert kernel.complete("%mcp agent --show tri") == ["trip"]
    ask(kernel, "'six'", "double it")
    seen = value(kernel, SEEN)
    assert [kind for kind, _ in seen] == ["human", "ai", "tool", "ai", "tool", "ai", "human"]
    assert (seen[0][1], seen[2][1], seen[-1][1]) == ("add 1 and 2", "3", "double it")
    assert value(kernel, "[m.text for m in made.messages]") == ["double it", "six"]
    kernel.ok("shown = %mcp agent --show trip\nanswers = [m for m in m.seen[0].messages if m.type == 'tool']")
    assert value(kernel, "[c.name for c in shown.calls]") == ["math:add", "math:statistics"]
    names = value(kernel, "[[m.name, m.artifact['server'], m.artifact['tool']] for m in answers]")
    assert names == [["math__add", "math", "add"], ["math__statistics", "math", "statistics"]]
    result = "result_of(answers[1])"
    assert value(kernel, f"[{result}.data['mean'], int({result}.df['mean'][0])]") == [3, 3]
    assert value(kernel, "answers[0].artifact['approval']['by']") == "approval = 'auto'"


def test_run_of_a_killed_or_interrupted_kernel_goes_on(kernel):
    kernel.ok("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], think])")
    message = kernel.start("%%mcp_agent --model $m --thread cut\nadd 1 and 2")
    kernel.until_stream(message, "thinking")
    assert kernel.stop(message).status == "error"
    kernel.ok("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], die])")
    kernel.start("%%mcp_agent --model $m --thread lost\nadd 1 and 2")
    kernel.process.wait(30)
    prepare(kernel, again=True)
    ask(kernel, "'going on'", "and?", "cut")
    assert [text for kind, text in value(kernel, SEEN) if kind == "tool"] == ["3"]
    ask(kernel, "'going on'", "and?", "lost")
    seen = value(kernel, SEEN)
    assert (seen[0], seen[-1]) == (["human", "add 1 and 2"], ["human", "and?"])
    assert [kind for kind, _ in seen].count("ai") == [kind for kind, _ in seen].count("tool")


def test_two_kernels_use_one_file_at_the_same_time(begin, kernel):
    kernels = {"one": kernel, "two": begin()}
    for name, other in kernels.items():
        other.ok(f"m = ScriptedModel([{CALLS}, {CALLS}, {CALLS}, {CALLS}, {CALLS}, 'done by {name}'])")
    begun = [
        (other, other.start(f"%%mcp_agent --model $m --thread {name} -o made\ngo")) for name, other in kernels.items()
    ]
    for other, message in begun:
        assert other.finish(message).status == "ok"
        assert "kept in memory" not in other.ok("print(made.transcript)").stdout
    for other in kernels.values():
        other.ok("listing = %mcp agent --threads")
        assert {"one", "two"} <= set(value(other, "[row['thread'] for row in listing]"))
    ask(kernel, "'and mine'", "go on", "two")
    assert value(kernel, SEEN)[-2:] == [["ai", "done by two"], ["human", "go on"]]


def test_a_kernel_ends_at_once_while_a_run_goes_on(kernel):
    kernel.ok("m = ScriptedModel([think])")
    kernel.until_stream(kernel.start("%%mcp_agent --model $m --thread ended\ngo"), "thinking")
    process = kernel.process
    kernel.client.shutdown()
    process.wait(AT_ONCE)
