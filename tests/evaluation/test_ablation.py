"""What each sentence of a description is worth: the sentence that a model depends on is the one that is found."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

from mcp_magic import Host
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.display.document import mimebundle
from mcp_magic.errors import ArgumentsError, ConfigError, ModelError, UnknownToolError
from mcp_magic.evaluation import ablation

CASES = "\n".join(
    f"How is {city} on day {day}? -> weather:get_weather place={{'city': '{name}'}}"
    for day in range(4)
    for city, name in (("Rom", "Rome"), ("Prag", "Prague"))
)
ENGLISH, COSTS = "Always in English.", "It costs 3.5 cents, e.g. now."


class Place(BaseModel):
    city: Annotated[str, Field(description=f"The city. {ENGLISH}")]


def get_weather(place: Annotated[Place, Field(description="Where.")]) -> str:
    """Tells the weather. It costs 3.5 cents, e.g. now."""
    return f"sunny in {place.city}"


def nothing() -> str:
    return ""


def reader(sentence: str = ENGLISH, *, hurts: bool = False) -> ScriptedModel:
    """Return a model that knows the English names if it reads a sentence; with `hurts`, if it does not."""

    def turn(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return "done"
        city = re.search("Rom|Prag", messages[-1].text)[0]
        if (sentence in str(model.seen[-1].tools)) != hurts:
            city = {"Rom": "Rome", "Prag": "Prague"}[city]
        return [("weather:get_weather", {"place": {"city": city}})]

    model = ScriptedModel([turn], repeat_last=True)
    return model


@pytest.fixture
async def host():
    server = MCPServer("weather", log_level="ERROR")
    server.add_tool(get_weather)
    server.add_tool(nothing, description="")
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(server, name="weather")
        yield host


async def test_sentence_that_a_model_depends_on_is_found(host):
    ablated = await host.ablate("weather:get_weather", CASES, reader(), runs=2, tools_only=True)
    df = ablated.df.set_index("sentence")
    assert df.index.tolist() == ["Tells the weather.", COSTS, "Where.", "The city.", ENGLISH]
    assert df["where"].tolist() == ["description", "description", "place", "Place.city", "Place.city"]
    assert df["difference"].tolist() == [0, 0, 0, 0, 1]
    assert df.loc[ENGLISH, "verdict"] == "helps"
    assert df["verdict"].str.startswith("cannot tell (about ").sum() == 4
    assert df.loc[COSTS, ["cases", "runs"]].tolist() == [8, 2]
    assert df["tokens"].between(2, 10).all()
    assert (df["low"] < df["difference"]).sum() == 5


async def test_whole_runs_call_the_real_tool_and_tell_what_hurts(host):
    ablated = await host.ablate("get_weather", CASES, reader(COSTS, hurts=True))
    assert ablated.df.set_index("sentence").loc[COSTS, ["difference", "verdict"]].tolist() == [-1, "hurts"]
    assert ablated.df["verdict"].eq("hurts").sum() == 1
    run = ablated.evaluation.df["run"].iloc[-1]
    assert "sunny in Prag" in str(run.messages)


async def test_display_begins_with_what_helps(host):
    ablated = await host.ablate("weather:get_weather", CASES, reader(), tools_only=True)
    lines = str(ablated).splitlines()
    assert re.sub(r"\d+ ms", "N ms", lines[0]) == "✓ 48 of 48 first turns of 8 cases, N ms"
    assert "weather:get_weather, 5 sentences: helps: 1, cannot tell: 4" in lines
    assert "scripted with all sentences: 100% [68%, 100%] right" in lines
    assert re.search(r"^helps +\+100 +\+\d+ to \+100 +\d+ +Place.city", str(ablated), re.MULTILINE)
    [*_, first, second] = str(ablated).partition("Tokens:")[0].partition("verdict")[2].splitlines()[1:3]
    assert (first[:5], second[:11]) == ("helps", "cannot tell")
    html = mimebundle(ablated)["text/html"]
    assert '<span class="mcp-badge mcp-badge-safe"' in html
    assert html.count('role="img"') == 5
    assert repr(ablated) == "<Ablation of weather:get_weather: 5 sentences, 48 runs>"


async def test_models_are_compared_each_with_itself(host):
    models = {"a": reader(), "b": reader(COSTS)}
    ablated = await host.ablate("weather:get_weather", CASES, models, tools_only=True)
    helps = ablated.df[ablated.df["verdict"] == "helps"]
    assert helps[["model", "sentence"]].to_numpy().tolist() == [["a", ENGLISH], ["b", COSTS]]
    assert "model  verdict" in str(ablated)


async def test_few_cases_have_no_verdict(host):
    ablated = await host.ablate("weather:get_weather", CASES.partition("\n")[0], reader(), tools_only=True)
    assert ablated.df["verdict"].str.startswith("cannot tell").all()
    assert "Below 6 cases there is no verdict: write more." in str(ablated)


async def test_surface_is_ablated_in_place_of_the_tool(host):
    surface = await host.surface("weather")
    surface["get_weather"].description = "Short. Sweet."
    surface.rename("get_weather", "look")
    ablated = await host.ablate("weather:get_weather", CASES, reader(), surfaces=[surface], tools_only=True)
    assert ablated.df["sentence"].tolist()[:3] == ["Short.", "Sweet.", "Where."]
    assert surface["look"].description == "Short. Sweet."


async def test_journal_and_budget_are_those_of_an_evaluation(host, tmp_path):
    options = {"tools_only": True, "journal": tmp_path / "runs.sqlite"}
    await host.ablate("weather:get_weather", CASES, reader(), **options)
    again = await host.ablate("weather:get_weather", CASES, reader(), **options)
    assert (again.evaluation.ok, again.df["difference"].tolist()) == (True, [0, 0, 0, 0, 1])
    resumed = await again.resume(runs=2)
    assert (resumed is again, len(again.evaluation)) == (True, 96)


async def test_ablation_without_runs_tells_the_error(host):
    ablated = await host.ablate("weather:get_weather", CASES, ScriptedModel([ModelError("down")], repeat_last=True))
    assert (len(ablated.df), ablated.ok) == (0, False)
    assert "down" in str(ablated)


@pytest.mark.parametrize(
    ("kind", "tool", "cases", "says"),
    [
        (ArgumentsError, "weather:nothing", CASES, "no sentence to drop: neither weather:nothing nor a parameter"),
        (UnknownToolError, "weather:get_wether", CASES, "get_weather"),
        (ConfigError, "weather:get_weather", "Hello -> weather:now", "line 1: there is no tool"),
    ],
    ids=["no text", "no tool", "no case"],
)
async def test_ablation_that_cannot_begin_runs_nothing(host, kind, tool, cases, says):
    model = reader()
    with pytest.raises(kind, match=says):
        await host.ablate(tool, cases, model)
    assert model.seen == []


async def test_sentences_above_the_limit_are_counted(host, monkeypatch):
    monkeypatch.setattr(ablation, "MOST", 2)
    ablated = await host.ablate("weather:get_weather", CASES, reader(), tools_only=True)
    assert len(ablated) == 2
    assert "Only the first 2 sentences of weather:get_weather are dropped." in str(ablated)
