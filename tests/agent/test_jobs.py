"""Calls of a model that a server makes tasks: the turn does not wait, and the model asks for the result later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import memory_threads
from mcp_magic.consent.rules import Rule
from tests.support.asgi import serving
from tests.support.sampling_servers import PIXEL
from tests.support.scripted_tasks import Scripted, done, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic._host import Host

BUILD: list[tuple[str, dict[str, Any]]] = [("ci:build", {"ref": "main"})]


def wait(job: int = 1, seconds: float = 5) -> list[tuple[str, dict[str, Any]]]:
    return [("wait_for_job", {"job": job, "seconds": seconds})]


@pytest.fixture
async def ci(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scripted]:
    """Connect a server whose build is a task, and let turns wait a moment only."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("mcp_magic.langchain.calls.JOB_SECONDS", 0.2)
    host.consent.add(Rule("allow", "ci:*"))
    script = Scripted(state(statusMessage="step 1 of 2"))
    async with serving(script) as url:
        await host.connect(f"{url}/mcp", name="ci")
        yield script
        await host.close()


def answers(messages: list[Any]) -> list[tuple[str, str]]:
    return [(m.status, m.text) for m in messages if isinstance(m, ToolMessage)]


async def test_an_image_of_a_job_reaches_a_model_that_reads_images(host: Host, ci: Scripted) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    model = ScriptedModel([BUILD, wait(seconds=30), "done"], profile={"image_inputs": True, "image_tool_message": True})

    async def end_it() -> None:
        while len(model.seen) < 2:
            await asyncio.sleep(0.01)
        ci.steps = [state("completed", result={"content": [picture]})]

    ending = asyncio.create_task(end_it())
    await run_agent(build_graph(model, host, checkpointer=memory_threads()), host, "go", thread="jobs")
    await ending
    assert model.seen[2].messages[-1].content == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]


async def test_turn_does_not_wait_for_a_background_task(host: Host, ci: Scripted) -> None:
    model = ScriptedModel([BUILD, wait(seconds=0), wait(job=7), wait(seconds=30), "done"])

    async def end_it() -> None:
        while len(model.seen) < 4:
            await asyncio.sleep(0.01)
        ci.steps = [done("built main")]

    ending = asyncio.create_task(end_it())
    run = await run_agent(build_graph(model, host, checkpointer=memory_threads()), host, "go", thread="jobs")
    await ending
    tools = [[tool["function"]["name"] for tool in turn.tools] for turn in model.seen]
    started, working, wrong, built = answers(run.messages)
    assert started == (
        "success",
        "Started as job 1, which goes on in the background: working. The server says: step 1 of 2. "
        "`wait_for_job` gives its result.",
    )
    assert working == started
    assert wrong == ("error", "no call of this thread is job 7. There are: 1")
    assert built == ("success", "built main")
    assert "wait_for_job" not in tools[0]
    assert "wait_for_job" in tools[1]
    assert host.jobs[1].status == "completed"


async def test_a_task_that_ends_soon_is_a_call_like_any_other(host: Host, ci: Scripted) -> None:
    ci.steps = [done("built main")]
    model = ScriptedModel([BUILD, "done"])
    run = await run_agent(build_graph(model, host, checkpointer=memory_threads()), host, "go", thread="jobs")
    assert answers(run.messages) == [("success", "built main")]
    assert len(host.jobs) == 0


async def test_interrupting_a_run_cancels_its_task(host: Host, ci: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.langchain.calls.JOB_SECONDS", 60.0)
    graph = build_graph(ScriptedModel([BUILD, "done"]), host, checkpointer=memory_threads())
    running = asyncio.create_task(run_agent(graph, host, "go", thread="jobs"))
    async with asyncio.timeout(30):
        while not ci.times():
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait({running})
        while not ci.params("tasks/cancel"):
            await asyncio.sleep(0.01)
