"""`%mcp call --background` and `%mcp jobs` where there is no kernel."""

from __future__ import annotations

from mcp_magic.errors import CommandError
from mcp_magic.notebook import host
from tests.support.asgi import serving
from tests.support.scripted_tasks import Scripted, done, state


async def test_job_in_a_terminal_needs_a_server_that_makes_tasks(magic, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(magic.folder))
    assert await magic.error(CommandError, "call math:add a=3 b=4 --background") == (
        "%mcp call: math makes no tasks, and in a terminal nothing runs between the commands; leave out --background"
    )
    script = Scripted(state(statusMessage="step 1 of 2"))
    async with serving(script) as url:
        await magic(f"connect {url}/mcp --name ci")
        job = await magic("call ci:build ref=main --background")
        script.steps = [done("built main")]
        assert (await job).text == "built main"
        [row] = await magic("jobs")
        assert (row["job"], row["tool"], row["status"]) == (job.number, "ci:build", "completed")
        says = [row["says"] for row in await magic("trace ci --method tasks/get")]
        assert says[-2:] == ['{"taskId": "task-1"}', "task completed: built main"]
        await host.disconnect("ci")
