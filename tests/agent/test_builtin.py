"""The agent's own tools in a run: they read on in large results, search for tools, and wait for jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from mcp_magic._host import Host
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.offline import OfflineModel
from mcp_magic.agent.run import display_messages
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import fork_thread, memory_threads, open_threads
from mcp_magic.consent.rules import Rule
from tests.support.agents import Agent, add_server, answers, asked, bound, play
from tests.support.asgi import serving
from tests.support.lowlevel import serving_tools, tool
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic
from tests.support.sampling_servers import PIXEL
from tests.support.schemas import TEXT
from tests.support.scripted_tasks import Scripted, done, state
from tests.support.waiting import until

# Large results

RAIN: list[tuple[str, dict[str, Any]]] = [("weather:rain", {})]
CITIES = [{"city": f"c{number}", "rain": number / 2, "tags": ["wet"]} for number in range(200)]


@pytest.fixture
async def weather(host):
    def rain(count: int = 200) -> list[dict[str, Any]]:
        return CITIES[:count]

    await add_server(host, "weather", rain)
    return host


def read(**arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("read_result", {"handle": "result_1", **arguments})]


async def test_a_model_reads_the_head_then_chosen_rows(weather):
    weather.consent.policy = "deny"
    weather.consent.add(Rule("allow", "weather:*"))
    agent = Agent(weather, RAIN, read(rows="10:12", columns=["city", "rain"]), "done", spill=300)
    run = await agent.run()
    begin = (
        "[result_1: table of 200 rows x 3 columns (city, rain, tags). About 3,117 tokens: too long to be shown whole, "
        "read_result reads on.]\nIt begins with:\ncity,rain,tags\n"
    )
    assert answers(run) == [
        ("success", begin + "\n".join(f'c{n},{n / 2},"[""wet""]"' for n in range(5))),
        ("success", "[rows 10 to 11 of 200]\ncity,rain\nc10,5.0\nc11,5.5"),
    ]
    first = run.results[0]
    assert first is not None
    assert (first.data, len(first.df)) == (CITIES, 200)
    assert "c199" in str(run.transcript.calls[0].result.raw)  # type: ignore[union-attr]
    card = run.transcript.calls[1]
    assert (card.name, card.status, card.by) == ("read_result", "ok", "")
    assert "read_result" in str(display_messages(run.messages))


async def test_read_result_is_bound_once_there_is_a_large_result(weather):
    few = [("weather:rain", {"count": 1})]
    model = (await play(weather, few, RAIN, "done", tools=["weather:*"], spill=300)).model
    assert bound(model) == [["weather__rain"], ["weather__rain"], ["weather__rain", "read_result"]]
    assert not openai_refuses(model.seen[-1].tools)
    assert not anthropic_refuses(to_anthropic(model.seen[-1].tools))
    played = await play(weather, [*RAIN, ("shop:price", {"item": "pear"}), *RAIN], RAIN, "done", spill=300)
    handles = [m.artifact.get("handle") for m in played.messages if isinstance(m, ToolMessage)]
    assert handles == ["result_1", None, "result_3", "result_4"], "numbered per thread, and never again"
    [(_, cut)] = (await play(weather, RAIN, "done", spill=None, result_limit=50)).answers
    assert "[cut here: these are the first" in cut, "as without the setting"


async def test_a_handle_works_after_a_restart_and_in_forks(weather, tmp_path):
    async with open_threads(tmp_path / "threads.sqlite", fall_back=False) as saver:
        await Agent(weather, RAIN, "done", spill=300, checkpointer=saver).run(thread="first")
    read_on = {}
    async with open_threads(tmp_path / "threads.sqlite", fall_back=False) as saver:  # as a new kernel opens it
        await fork_thread(saver, "first", None, "fork")
        for thread in ("first", "fork", "other"):
            run = await Agent(weather, read(rows="199"), "done", spill=300, checkpointer=saver).run(thread=thread)
            read_on[thread] = answers(run)[0]
    row = ("success", '[rows 199 to 199 of 200]\ncity,rain,tags\nc199,99.5,"[""wet""]"')
    assert read_on["first"] == read_on["fork"] == row
    assert read_on["other"] == ("error", "no large result 'result_1'. There are: none")


async def test_arguments_that_do_not_fit_come_back(weather):
    reads = [[("read_result", {"rows": 3})], read(columns=["cty"]), read(rows="a")]
    assert (await play(weather, RAIN, *reads, "done", spill=300)).answers[1:] == [
        ("error", "missing: handle (string)\nrows: expected string, got 3"),
        ("error", "no column 'cty'. Did you mean 'city'? There are: city, rain, tags"),
        ("error", "rows is START:STOP, counted from 0, such as 20:40; not 'a'"),
    ]


# The search of tools


@pytest.fixture
async def many():
    """A host with 153 tools."""
    tools = [
        tool("forecast", "Tells the weather of the next days.", city=TEXT),
        tool("send_mail", "Sends a message to a person.", to=TEXT),
        tool("convert", "Converts an amount of money.", currency={"enum": ["euro", "krona"]}),
        *(tool(f"register_{number}", f"Reads the register {number} of a device.") for number in range(150)),
    ]
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(serving_tools(*tools), name="office")
        yield host


def search(query: str) -> list[tuple[str, dict[str, Any]]]:
    return [("search_tools", {"query": query})]


async def test_what_a_search_brings_is_bound_from_the_next_turn(many):
    convert = [("office:convert", {"currency": "euro"})]
    searches = (search("money in another currency"), search("xylophone"))
    played = await play(many, *searches, convert, ".", request="Good morning")
    first, *others = map(set, bound(played.model))
    assert first == {"search_tools"}
    assert others == [{"search_tools", "office__convert"}] * 3
    (_, line), (_, nothing), (status, _) = played.answers
    assert line == "office__convert: Converts an amount of money."
    assert nothing == "No tool has any of these words. Try others; the servers are: office"
    assert status == "success"
    for seen in played.model.seen:
        assert not openai_refuses(seen.tools)
        assert not anthropic_refuses(to_anthropic(seen.tools))


async def test_tools_that_fit_the_request_are_bound_at_once(many):
    model = (await play(many, "Rain.", request="What will the weather be in Oslo?")).model
    assert set(bound(model)[0]) == {"search_tools", "office__forecast"}
    [names] = bound((await play(many, ".", request="call office:register_142, please")).model)
    assert "office__register_142" in names
    assert len(names) == 6
    graph = build_graph(OfflineModel(), many)
    state = await graph.ainvoke(asked('the weather in city "Oslo"'))
    calls = [call for m in state["messages"] if isinstance(m, AIMessage) for call in m.tool_calls]
    assert [(call["name"], call["args"]) for call in calls] == [("office__forecast", {"city": "Oslo"})]


async def test_tools_searched_or_called_stay_bound_after_a_restart(many):
    thread = memory_threads()
    mail = [("office:send_mail", {"to": "Ada"})]
    await Agent(many, search("currency"), mail, ".", checkpointer=thread).run("hello")
    second = Agent(many, ".", checkpointer=thread)
    await second.run("go on")
    assert set(bound(second.model)[0]) == {"search_tools", "office__convert", "office__send_mail"}


async def test_pinned_tools_are_always_bound(many):
    played = await play(many, ".", pinned=["office:register_1?", "send_*"], request="Good morning")
    tens = {f"office__register_1{digit}" for digit in range(10)}
    assert set(bound(played.model)[0]) == {"search_tools", "office__send_mail"} | tens


@pytest.mark.parametrize(("above", "searches"), [(152, True), (153, False), (0.5, False), (0.01, True), (None, False)])
async def test_the_setting_is_a_count_or_a_share_of_context(many, above, searches):
    [names] = bound((await play(many, ".", search_above=above, request="Good morning")).model)
    assert ("search_tools" in names) is searches
    assert (len(names) == 153) is not searches


async def test_rules_cards_and_audit_name_the_tool_itself(many):
    many.consent.add(Rule("deny", "office:convert"))
    run = await Agent(many, search("currency"), [("office:convert", {}), ("office:forecast", {})], ".").run("hello")
    cards = [(call.name, call.status) for call in run.transcript.calls]
    assert cards == [("search_tools", "ok"), ("office:convert", "denied"), ("office:forecast", "ok")]
    assert run.transcript.calls[0].by == ""
    records = [(record.server, record.tool, record.decision) for record in many.consent.audit.records]
    assert sorted(records) == [("office", "convert", "deny"), ("office", "forecast", "approve")]


# Jobs: calls that a server makes tasks

BUILD: list[tuple[str, dict[str, Any]]] = [("ci:build", {"ref": "main"})]


def wait(job: int = 1, seconds: float = 5) -> list[tuple[str, dict[str, Any]]]:
    return [("wait_for_job", {"job": job, "seconds": seconds})]


@pytest.fixture
async def ci(host, tmp_path, monkeypatch):
    """Connect a server whose build is a task, and let turns wait a moment only."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("mcp_magic.langchain.calls.JOB_SECONDS", 0.2)
    host.consent.add(Rule("allow", "ci:*"))
    script = Scripted(state(statusMessage="step 1 of 2"))
    async with serving(script) as url:
        await host.connect(f"{url}/mcp", name="ci")
        yield script
        await host.close()


async def ran(agent: Agent, ci: Scripted, turn: int, end: Any) -> Any:
    """Run, and let the task end once the model has come to a turn."""
    running = asyncio.ensure_future(agent.run())
    await until(lambda: len(agent.model.seen) >= turn)
    ci.steps = [end]
    return await running


async def test_a_turn_does_not_wait_for_a_background_task(host, ci):
    agent = Agent(host, BUILD, wait(seconds=0), wait(job=7), wait(seconds=30), "done")
    started, working, wrong, built = answers(await ran(agent, ci, 4, done("built main")))
    assert started == working
    assert started == (
        "success",
        "Started as job 1, which goes on in the background: working. The server says: step 1 of 2. "
        "`wait_for_job` gives its result.",
    )
    assert wrong == ("error", "no call of this thread is job 7. There are: 1")
    assert built == ("success", "built main")
    assert ["wait_for_job" in names for names in bound(agent.model)[:2]] == [False, True]
    assert host.jobs[1].status == "completed"


async def test_an_image_of_a_job_reaches_a_model_that_reads_images(host, ci):
    profile: Any = {"image_inputs": True, "image_tool_message": True}
    agent = Agent(host, model=ScriptedModel([BUILD, wait(seconds=30), "done"], profile=profile))
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    await ran(agent, ci, 2, state("completed", result={"content": [picture]}))
    content = agent.model.seen[2].messages[-1].content
    assert content == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]


async def test_a_task_that_ends_soon_is_a_call_like_any_other(host, ci):
    ci.steps = [done("built main")]
    assert answers(await Agent(host, BUILD, "done").run()) == [("success", "built main")]
    assert len(host.jobs) == 0


async def test_interrupting_a_run_cancels_its_task(host, ci, monkeypatch):
    monkeypatch.setattr("mcp_magic.langchain.calls.JOB_SECONDS", 60.0)
    running = asyncio.ensure_future(Agent(host, BUILD, "done").run())
    await until(lambda: bool(ci.params("tasks/get")))
    running.cancel()
    await asyncio.wait({running})
    await until(lambda: bool(ci.params("tasks/cancel")))
