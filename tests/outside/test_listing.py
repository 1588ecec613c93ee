"""Listings for clients: each definition by itself, so that an odd one never takes the others away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mcp_types import Icon, Tool

from mcp_magic.outside.listing import Listings
from mcp_magic.outside.offer import Item

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


def items(*tools: Tool) -> list[Item]:
    connection = SimpleNamespace(name="one")
    return [Item(connection, tool, f"one__{tool.name}") for tool in tools]


def tool(name: str, **members) -> Tool:
    return Tool.model_construct(name=name, **{"input_schema": {"type": "object"}, **members})


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
def test_odd_definition_is_left_out_alone(version):
    listing = Listings().result("tools", items(tool("bad", input_schema={"type": 7}), tool("good")), version)
    assert [form["name"] for form in listing["tools"]] == ["one__good"]


def test_definition_lacks_members_that_a_version_lacks():
    listed = items(tool("rows", output_schema={"type": "array"}, icons=[Icon(src="https://example.com/a.png")]))
    [form] = Listings().result("tools", listed, MODERN)["tools"]
    assert form["outputSchema"] == {"type": "array"}
    [form] = Listings().result("tools", listed, HANDSHAKE)["tools"]
    assert "outputSchema" not in form
    assert form["icons"] == [{"src": "https://example.com/a.png"}]


def test_definition_is_changed_once_for_each_version():
    adapted = []

    def adapt(form):
        adapted.append(form["name"])
        return {**form, "description": "other"}

    listings, listed = Listings(adapt), items(tool("add"))
    for _ in range(2):
        for version in (MODERN, HANDSHAKE):
            assert listings.result("tools", listed, version)["tools"][0]["description"] == "other"
    assert adapted == ["one__add", "one__add"]
