"""The surface of a server: what a model reads of its tools is edited, and the real tools are called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import Tool

from mcp_magic.agent.tools import Registry
from mcp_magic.agent.transcript import Transcript
from mcp_magic.ask.approval import approval_part
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import (
    ArgumentsError,
    ConfigError,
    TargetError,
    UnknownServerError,
    UnknownToolError,
)
from mcp_magic.server.snapshot import interface_of, snapshot_text
from tests.support.agents import BUY, Agent, add_server, answers, ask, bound, coder, play
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

COST = [("shop:cost", {"item": "pear"})]


@pytest.fixture
async def surface(host):
    """The shop, whose `price` a model reads as `cost`, without `buy`."""
    surface = await host.surface("shop")
    surface["price"].description = "Says what an item costs."
    surface["price"].parameters["item"].description = "apple or pear"
    surface.rename("price", "cost")
    del surface["buy"]
    return surface


def functions(played: Any, turn: int = 0) -> dict[str, Any]:
    """Return the tools that the model was given, by name."""
    return {tool["function"]["name"]: tool["function"] for tool in played.model.seen[turn].tools}


# What a model reads, and what is called.


async def test_an_unedited_surface_is_what_the_server_lists(host):
    surface = await host.surface("shop")
    offers = await Registry(host).refresh()
    assert list(surface) == ["price", "buy", "wait", "fail"]
    assert [*surface.functions.values()] == [offer.openai_tool for offer in offers.values()]
    run = await Agent(host, "done", surfaces=[surface]).run()
    assert "variant" not in str(run.transcript)
    assert len(surface.diff()) == 0


async def test_the_model_reads_the_variant_and_the_real_tool_is_called(host, shop, surface):
    played = await play(host, COST, "ok", surfaces=[surface])
    assert bound(played.model)[0] == ["shop__cost", "shop__wait", "shop__fail"]
    cost = functions(played)["shop__cost"]
    assert cost["description"] == "Says what an item costs."
    assert cost["parameters"]["properties"]["item"]["description"] == "apple or pear"
    assert played.answers == [("success", "2.0")]
    assert shop.called == [("price", {"item": "pear"})]


async def test_other_servers_are_read_as_they_are(host, surface):
    def small() -> str:
        return ""

    await add_server(host, "other", small)
    played = await play(host, "ok", surfaces=[surface])
    assert bound(played.model)[0] == ["shop__cost", "shop__wait", "shop__fail", "other__small"]


@pytest.mark.parametrize("call", [BUY, [("shop:price", {"item": "pear"})]], ids=["deleted", "renamed"])
async def test_what_the_model_does_not_read_cannot_be_called(host, shop, surface, call):
    played = await play(host, call, "ok", surfaces=[surface])
    name = call[0][0].replace(":", "__")
    [(status, text)] = played.answers
    assert (status, shop.called) == ("error", [])
    assert text.startswith(f"there is no tool '{name}'.")
    assert text.endswith("There are: shop__cost, shop__wait, shop__fail")
    assert "Did you mean 'shop:price'" not in str(Transcript.from_messages(played.messages))


async def test_consent_is_asked_about_the_real_tool_and_says_so(host, shop, surface):
    requests = ask(host)
    run = await Agent(host, COST, "ok", surfaces=[surface]).run()
    [request] = requests
    assert (request.name, request.definition.description) == ("shop:price", "Tells the price of an item.")
    assert request.variant == "the name 'cost', another description, other descriptions of parameters"
    question = approval_part(request, request.arguments).plain
    assert "agent wants to call shop:price" in question
    assert f"agent read a variant of this tool: {request.variant}." in question
    [call] = run.calls.to_dict("records")
    assert (call["server"], call["tool"], call["error"]) == ("shop", "price", None)
    assert shop.called == [("price", {"item": "pear"})]


async def test_rules_are_about_the_real_name(host, shop, surface):
    host.consent.rules.append(Rule("deny", "shop:price"))
    played = await play(host, COST, "ok", surfaces=[surface])
    assert "shop:price was not called; denied by rule `deny shop:price`" in played.answers[0][1]
    assert shop.called == []
    [record] = host.consent.audit.records
    assert (record.tool, record.decision) == ("price", "deny")


async def test_a_run_says_once_that_the_model_reads_a_variant(host, surface):
    run = await Agent(host, COST, COST, "ok", surfaces=[surface]).run()
    remark = (
        "The model reads a variant of the tools of shop: price has the name 'cost', another description, "
        "other descriptions of parameters; it has no buy"
    )
    text = " ".join(str(run.transcript).split())
    assert text.count(remark) == 1
    assert "shop:price" in text


async def test_edits_do_not_change_an_agent_that_is_made(host, surface):
    agent = Agent(host, COST, "ok", surfaces=[surface])
    surface.rename("cost", "value")
    run = await agent.run()
    assert answers(run) == [("success", "2.0")]
    assert bound(agent.model)[0][0] == "shop__cost"


async def test_real_tools_check_the_arguments_that_a_model_read(host, shop, surface):
    schema = surface["cost"].input_schema
    schema["properties"]["thing"] = schema["properties"].pop("item")
    schema["required"] = ["thing"]
    surface["cost"].input_schema = schema
    played = await play(host, [("shop:cost", {"thing": "pear"})], "ok", surfaces=[surface])
    assert "thing" in functions(played)["shop__cost"]["parameters"]["properties"]
    [(status, text)] = played.answers
    assert (status, shop.called) == ("error", [])
    assert "item" in text
    assert (await host["shop"].listing("tools"))[0].input_schema["required"] == ["item"]


async def test_tools_are_searched_by_what_the_model_reads(host, surface):
    surface["wait"].description = "Plants trees in the garden."
    played = await play(host, "ok", request="plants trees", surfaces=[surface], search_above=1)
    assert "shop__wait" in functions(played)
    played = await play(host, "ok", request="until the test", surfaces=[surface], search_above=1)
    assert "shop__wait" not in functions(played)


async def test_a_map_of_the_model_calls_the_real_tool(host, shop, surface):
    rows = [{"item": "pear"}, {"item": "apple"}]
    played = await play(host, [("map", {"tool": "shop__cost", "rows": rows})], "ok", surfaces=[surface], tables={})
    assert played.answers[0][0] == "success"
    assert sorted(item["item"] for _, item in shop.called) == ["apple", "pear"]


async def test_langchain_tools_read_the_variant_and_call_the_tool(host, shop, surface):
    requests = ask(host, Decision.approve())
    tools = {tool.name: tool for tool in host.langchain_tools("shop", surfaces=[surface])}
    assert list(tools) == ["shop__cost", "shop__wait", "shop__fail"]
    cost = tools["shop__cost"]
    assert (cost.description, cost.metadata["tool"]) == ("Says what an item costs.", "price")
    assert cost.args["item"]["description"] == "apple or pear"
    assert await cost.ainvoke({"item": "pear"}) == "2.0"
    assert shop.called == [("price", {"item": "pear"})]
    assert [request.variant for request in requests] == [
        "the name 'cost', another description, other descriptions of parameters"
    ]


# Other sources.


async def test_a_snapshot_is_read_instead_of_the_server(host, shop, tmp_path):
    interface = await interface_of(host["shop"])
    interface["tools"]["price"]["description"] = "The old words."
    interface["tools"]["gone"] = {"inputSchema": {"type": "object"}}
    interface["tools"]["odd"] = {"inputSchema": 3}
    del interface["tools"]["fail"]
    path = tmp_path / "v1.mcp.json"
    path.write_text(snapshot_text(interface))
    surface = await host.surface(path)
    assert (surface.server, surface.source, surface.left_out) == ("shop", "v1.mcp.json", ["gone"])
    played = await play(host, [("shop:price", {"item": "pear"})], "ok", surfaces=[surface])
    assert functions(played)["shop__price"]["description"] == "The old words."
    assert list(functions(played)) == ["shop__buy", "shop__price", "shop__wait"]
    assert played.answers == [("success", "2.0")]
    assert "left out, as shop does not have them: gone" in str(surface)


async def test_another_server_is_read_instead(host, shop):
    def price(item: str) -> float:
        """Other words."""
        raise AssertionError(item)

    def more() -> str:
        """More."""
        raise AssertionError

    other = await add_server(host, "other", price, more)
    for surface in (
        await host.surface("other", server="shop"),
        await host.surface(serving_other(), server="shop"),
    ):
        assert (surface.server, [*surface], surface.left_out) == ("shop", ["price"], ["more"])
        played = await play(host, [("shop:price", {"item": "pear"})], "ok", surfaces=[surface], servers=["shop"])
        assert functions(played)["shop__price"]["description"] == "Other words."
        assert played.answers == [("success", "2.0")]
    assert other.name == "other"
    assert list(host) == ["shop", "other"], "the session to the source is closed again"


def serving_other() -> MCPServer:
    schema: dict[str, Any] = {"type": "object", "properties": {"item": {"type": "string"}}}
    return serving_tools(
        Tool(name="price", description="Other words.", input_schema=schema), Tool(name="more", input_schema=schema)
    )


async def test_a_surface_says_that_the_server_has_changed_since(host, shop, surface):
    shop.server.remove_tool("price")

    def price(item: str) -> float:
        """Tells much more than a price."""
        return 3.0

    shop.server.add_tool(price)
    shop.server.remove_tool("fail")
    await host["shop"].listing("tools", refresh=True)
    assert surface.outdated == ["price", "fail"]
    changed = "the server has changed it since the surface was made"
    assert f"price, fail: {changed}" in str(surface)
    assert f"price, fail: {changed}" in str(surface.diff())
    run = await Agent(host, COST, "ok", surfaces=[surface]).run()
    assert answers(run) == [("success", "3.0")]
    text = " ".join(str(run.transcript).split())
    assert f"other descriptions of parameters; {changed}" in text
    assert "the server no longer has fail" in text
    assert (await host.surface("shop")).outdated == []


async def test_a_snapshot_of_an_unconnected_server_needs_a_name(host, tmp_path):
    interface = await interface_of(host["shop"])
    interface["server"]["name"] = "market"
    path = tmp_path / "v1.json"
    path.write_text(json.dumps(interface))
    with pytest.raises(UnknownServerError) as caught:
        await host.surface(path)
    assert str(caught.value) == (
        "v1.json: no connected server of the name 'market', as it is in the snapshot; say whose tools are called: "
        "server='NAME'. Connected: shop"
    )
    assert (await host.surface(path, server="shop")).server == "shop"


async def test_sources_that_are_none_are_errors(host, tmp_path):
    with pytest.raises(UnknownServerError, match=r"no server 'shpo'\. Did you mean 'shop'\?"):
        await host.surface("shpo")
    with pytest.raises(UnknownServerError, match="no server 'shpo'"):
        await host.surface("shop", server="shpo")
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a snapshot of a server"):
        await host.surface(tmp_path / "a.json")
    with pytest.raises(TargetError):
        await host.surface(17, server="shop")


# Editing and display.


async def test_names_are_checked(surface):
    with pytest.raises(UnknownToolError) as caught:
        surface["cots"]
    assert str(caught.value) == (
        "no tool 'cots' on this surface of shop. Did you mean 'cost'? It has: cost, wait, fail"
    )
    with pytest.raises(ArgumentsError, match="this surface of shop has a tool 'wait' already"):
        surface.rename("cost", "wait")
    with pytest.raises(ArgumentsError, match="a tool needs a name, got ''"):
        surface.rename("cost", "")
    with pytest.raises(ArgumentsError, match=r"no parameter 'itme'\. Did you mean 'item'\? The tool has: item"):
        surface["cost"].parameters["itme"]
    with pytest.raises(ArgumentsError, match="a description is text, got 3"):
        surface["cost"].description = 3
    tool = surface["cost"]
    del surface["cost"]
    with pytest.raises(UnknownToolError, match="the tool 'price' was deleted from this surface of shop"):
        tool.description = "x"
    assert "cost" not in surface
    assert len(surface) == 2


async def test_a_copy_is_edited_by_itself(surface):
    other = surface.copy()
    other["cost"].description = ""
    other["cost"].name = "value"
    assert surface["cost"].description == "Says what an item costs."
    assert other.functions["value"]["function"]["description"] == "value"
    assert [*surface] == ["cost", "wait", "fail"]
    other["value"].reset()
    assert other["price"].description == "Tells the price of an item."
    assert other["price"].tool == "price"


async def test_parameter_descriptions_can_be_removed(surface):
    item = surface["cost"].parameters["item"]
    assert item.description == "apple or pear"
    tokens = surface["cost"].tokens
    item.description = ""
    assert "description" not in item.schema
    assert surface["cost"].tokens < tokens
    assert repr(item) == "<SurfaceParameter item: >"


async def test_a_difference_has_the_texts_side_by_side(surface):
    changes = surface.diff()
    rows = [(row["name"], row["where"], row["change"]) for row in changes]
    assert rows == [
        ("buy", "", "is gone"),
        ("price", "item", "description added"),
        ("price", "name", "changed"),
        ("price", "description", "changed"),
    ]
    text = str(changes)
    assert "what a model reads of shop instead" in text
    assert "[-Tells the price of-]" in text


async def test_a_surface_shows_what_a_model_reads_with_tokens(surface):
    text = str(surface)
    assert text.splitlines()[0] == (f"shop as a model reads it: 3 tools, about {surface.tokens:,} tokens at each turn")
    assert "shop__cost (about " in text
    assert "calls price): the name 'cost', another description, other descriptions of parameters" in text
    assert "  item string: apple or pear" in text
    assert "not given to the model: buy" in text
    assert repr(surface) == f"<Surface of shop: 3 tools, about {surface.tokens:,} tokens>"
    assert repr(surface["cost"]) == "<SurfaceTool cost, calls price: Says what an item costs.>"


async def test_texts_of_a_surface_are_escaped(surface):
    surface["cost"].description = "<script>alert(1)</script>\u202e"
    html = surface._repr_mimebundle_()["text/html"]
    assert "<script>" not in html
    assert "\u202e" not in html
    assert "\u202e" not in str(surface)


async def test_what_no_agent_can_read_is_an_error(host, surface):
    with pytest.raises(ArgumentsError, match="a model can read one surface of a server at a time, but shop has two"):
        Agent(host, surfaces=[surface, surface.copy()])
    with pytest.raises(ArgumentsError, match=r"expected a surface, as `await host\.surface\(\.\.\.\)` returns it"):
        Agent(host, surfaces=["shop"])
    with pytest.raises(ArgumentsError, match="a model that writes programs reads modules"):
        coder(host, "1", surfaces=[surface])
