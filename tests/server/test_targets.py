"""How a written program reaches a server: no secret is in it, and each has a variable of its own."""

from __future__ import annotations

import pytest

from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.server.literals import Joined, Variable
from mcp_magic.server.targets import target_of_spec


def test_each_secret_has_a_variable_of_its_own(tmp_path):
    words = ("--token", "very-secret-1", "--token=very-secret-2", "--password", "very-secret-1")
    env = {"API_KEY": "very-secret-3", "EMPTY_TOKEN": "", "PLACE": "Oslo"}
    target = target_of_spec(StdioSpec(command="serve", args=words, env=env), "shop", tmp_path / "a.py", {})
    one, two = Variable("SHOP_TOKEN"), Variable("SHOP_TOKEN_2")
    assert target.command == ["serve", "--token", one, Joined(("--token=", two)), "--password", one]
    assert target.options["env"] == {"API_KEY": Variable("API_KEY"), "EMPTY_TOKEN": Variable("EMPTY_TOKEN")} | {
        "PLACE": "Oslo"
    }
    assert target.variables == {"SHOP_TOKEN", "SHOP_TOKEN_2", "API_KEY", "EMPTY_TOKEN"}


def test_secret_is_read_from_the_variable_that_holds_it(tmp_path):
    spec = HttpSpec(url="https://example.com/mcp?key=very-secret-1", headers={"Authorization": "Bearer very-secret-2"})
    target = target_of_spec(spec, "shop", tmp_path / "a.py", {"mine": "very-secret-1", "other": 7})
    assert target.url == Joined(("https://example.com/mcp?key=", Variable("mine")))
    assert target.options == {"headers": {"Authorization": Joined(("Bearer ", Variable("SHOP_TOKEN")))}}


@pytest.mark.parametrize("protocol", ["auto", "handshake", "2026-07-28"])
def test_arguments_of_connect_have_the_settings_of_the_spec(tmp_path, protocol):
    spec = HttpSpec(url="https://example.com/mcp", verify=False, protocol=protocol)
    code = target_of_spec(spec, "shop", tmp_path / "a.py", {}).arguments_of_connect("shop", 4)
    setting = f'        protocol="{protocol}",\n' if protocol != "auto" else ""
    assert code == (f'\n        "https://example.com/mcp",\n        name="shop",\n{setting}        verify=False,\n    ')


def test_a_reference_to_a_secret_becomes_a_variable(tmp_path):
    fields = {
        "url": "https://example.com/mcp?page=${keyring:a/b}",
        "headers": {"X-Place": "in ${op://a/b/c}"},
        "headersHelper": "get-headers",
    }
    [entry] = parse_servers({"mcpServers": {"shop": fields}}, source="x", environ={}, base=None)
    target = target_of_spec(entry.spec, "shop", tmp_path / "a.py", {})
    assert target.url == Joined(("https://example.com/mcp?page=", Variable("SHOP_PAGE")))
    assert target.options == {"headers": {"X-Place": Joined(("in ", Variable("SHOP_X_PLACE")))}}
    assert target.token == Joined(("Bearer ", Variable("SHOP_TOKEN")))
