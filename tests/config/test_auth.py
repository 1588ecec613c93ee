"""`auth`: how a declaration and a line say how to log in, and that its secrets are not shown."""

from __future__ import annotations

import doctest
import importlib
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from mcp_magic.config.parsing import FieldError
from mcp_magic.config.project import parse_declaration, plan
from mcp_magic.config.servers import load_config
from mcp_magic.config.specs import AuthOptions, HttpSpec, SseSpec, make_auth
from mcp_magic.config.targets import resolve_target

if TYPE_CHECKING:
    from pathlib import Path

PEM = "-----BEGIN PRIVATE KEY-----\nMHc\n-----END PRIVATE KEY-----\n"

DECLARATION = """
[servers.notes]
url = "https://notes.example.com/mcp"
auth = { client_id = "notebook", client_secret = "${NOTES_SECRET}", scopes = ["read", "write"] }

[servers.reports]
url = "https://reports.example.com/sse"
transport = "sse"

[servers.reports.auth]
grant = "client-credentials"
client_id = "nightly"
private_key = "nightly.pem"
issuer = "https://login.example.com"

[servers.open]
url = "https://open.example.com/mcp"
auth = "none"
"""


@pytest.mark.parametrize("name", ["config.specs", "auth.store", "auth.addresses"])
def test_the_examples_of_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"mcp_magic.{name}"))
    assert result.attempted
    assert not result.failed


def test_a_declaration_says_how_to_log_in(tmp_path: Path) -> None:
    (tmp_path / "nightly.pem").write_text(PEM)
    found = parse_declaration(DECLARATION, source="x.toml", environ={"NOTES_SECRET": "sesame-1234"}, base=tmp_path)
    notes, reports, opened = (entry.spec for entry in found.servers.values())
    assert isinstance(notes, HttpSpec)
    assert notes.auth == AuthOptions(
        mode="oauth", client_id="notebook", client_secret="sesame-1234", scopes=("read", "write")
    )
    assert isinstance(reports, SseSpec)
    assert (reports.auth.grant, reports.auth.private_key, reports.auth.interactive) == (
        "client_credentials",
        PEM,
        False,
    )
    assert isinstance(opened, HttpSpec)
    assert opened.auth.mode == "none"


def test_its_secrets_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "nightly.pem").write_text(PEM)
    found = parse_declaration(DECLARATION, source="x.toml", environ={"NOTES_SECRET": "sesame-1234"}, base=tmp_path)
    specs = [entry.spec for entry in found.servers.values() if entry.spec]
    assert "sesame" not in repr(specs)
    assert "PRIVATE" not in repr(specs)
    assert "client_secret=***" in repr(specs)
    assert specs[0].masked("wrong: sesame-1234") == "wrong: ***"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("ouath", "auth: unknown value 'ouath'. Did you mean 'oauth'? Valid: auto, none, oauth, client-credentials"),
        (3, "auth: expected 'oauth', 'none' or a table, got a number."),
        ({"client_idd": "x"}, "auth.client_idd: unknown key. Did you mean 'client_id'?"),
        ({"grant": "password"}, "auth.grant: unknown value 'password'."),
        ({"grant": "client_credentials"}, "auth.client_id: client credentials need a client_id."),
        (
            {"grant": "client_credentials", "client_id": "x"},
            "auth.client_secret: client credentials need a client_secret, or a private_key.",
        ),
        ({"client_secret": "sesame"}, "auth.client_id: a client_secret needs the client_id that it belongs to."),
        ({"client_id": "x", "private_key": PEM}, "auth.private_key: is for the grant client_credentials."),
        ({"grant": "jwt_bearer"}, "auth.assertion: the grant jwt_bearer needs an assertion."),
        ({"redirect_port": 70000}, "auth.redirect_port: expected a port from 1 to 65535."),
        ({"scopes": 3}, "auth.scopes: expected a list of scopes, got a number."),
        ({"client_metadata_url": "http://x.example/c"}, "auth.client_metadata_url: expected an https URL with a path"),
        ({"issuer": "login.example.com"}, "auth.issuer: expected the http(s) URL of the authorization server."),
        ({"private_key": "no.pem"}, "auth.private_key: expected a private key in PEM form, or the path of a file"),
        ({"token_endpoint_auth_method": "basic"}, "auth.token_endpoint_auth_method: unknown value 'basic'."),
        ({"dpop": "yes"}, "auth.dpop: expected true or false, got text."),
    ],
)
def test_a_mistake_names_its_key_and_no_secret(said: Any, problem: str) -> None:
    with pytest.raises(FieldError) as caught:
        make_auth(said)
    assert str(caught.value).startswith(problem)
    assert "sesame" not in str(caught.value)


def test_a_mistake_in_a_declaration_has_its_line() -> None:
    text = '[servers.x]\nurl = "https://h/mcp"\n\n[servers.x.auth]\nscope = ["a"]\n'
    with pytest.raises(errors.ConfigError, match=r"x\.toml:5: servers\.x\.auth\.scope: unknown key\. Did you mean 'sc"):
        parse_declaration(text, source="x.toml")


def test_a_line_adds_to_what_is_declared() -> None:
    spec = HttpSpec(url="https://h/mcp", auth=AuthOptions(mode="oauth", client_id="me"))
    found, _ = resolve_target(spec, auth={"scopes": ["read"]})
    assert isinstance(found, HttpSpec)
    assert found.auth == AuthOptions(mode="oauth", client_id="me", scopes=("read",))


def test_only_http_servers_log_in() -> None:
    with pytest.raises(errors.TargetError, match="a server with a command has no auth; HTTP servers have"):
        resolve_target(["python"], auth="oauth")
    with pytest.raises(errors.TargetError, match="a server with a URL has no auth; HTTP servers have"):
        resolve_target("ws://h/mcp", auth="oauth")


def test_another_log_in_is_another_session() -> None:
    before = HttpSpec(url="https://h/mcp", auth=AuthOptions(client_secret="a-secret", client_id="a"))
    after = HttpSpec(url="https://h/mcp")
    [step] = plan({"x": after}, {"x": before}, prune=False)
    assert (step.action, step.reason) == ("reconnect", "changed: auth")


def test_what_another_host_wrote_is_taken_as_far_as_it_is_known(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    servers = '{"a": {"url": "https://h/mcp", "auth": {"CLIENT_ID": "abc"}}, "b": {"url": "https://h/b", "auth": 7}}'
    file.write_text(f'{{"mcpServers": {servers}}}')
    first, second = (entry.spec for entry in load_config(file))
    assert isinstance(first, HttpSpec)
    assert first.auth.client_id == "abc"
    assert isinstance(second, HttpSpec)
    assert second.auth == AuthOptions()
