"""References to secrets: how they are written, where they may stand, and what never becomes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.config.parsing import FieldError
from mcp_magic.config.project import load_declaration, loosened, parse_declaration, runs
from mcp_magic.config.references import find_references, find_uses, keyring_reference, parse_inputs, parse_reference
from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import HttpSpec

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(lambda text: text.strip())


@given(name=TEXTS, service=TEXTS)
def test_any_name_of_the_keyring_can_be_written(name, service):
    reference = parse_reference(keyring_reference(name, service))
    assert (reference.service, reference.name) == (service, name)


WRONG = {
    "${keyring:db}": "is not complete; it is written ${keyring:SERVICE/NAME}.",
    "${keyring:/db}": "is not complete; it is written ${keyring:SERVICE/NAME}.",
    "${op://dev/db}": "is not complete; it is written ${op://VAULT/ITEM/FIELD}.",
    "${op://dev//x}": "is not complete; it is written ${op://VAULT/ITEM/FIELD}.",
    "${op://dev/db/a\nb}": "is not complete; it is written ${op://VAULT/ITEM/FIELD}.",
    "${input:}": "is not complete; it is written ${input:ID}.",
    "${keyring:a/b:-sesame}": "has a default, and secrets have none: ${keyring:SERVICE/NAME}.",
    "${A:-${keyring:a/b}}": "a reference to a secret cannot be inside another `${...}`, or hold one.",
    "${keyring:${A}/b}": "a reference to a secret cannot be inside another `${...}`, or hold one.",
    "${op://a/${keyring:a/b}/c}": "a reference to a secret cannot be inside another `${...}`, or hold one.",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_incomplete_or_nested_reference_is_refused(text):
    with pytest.raises(FieldError) as caught:
        find_references(f"Bearer {text}")
    assert str(caught.value).endswith(WRONG[text])


ALLOWED = [
    {"command": "x", "env": {"A": "${keyring:a/b}"}, "args": ["--x=${op://a/b/c}"]},
    {"command": "x", "env": [{"name": "A", "value": "${keyring:a/b}"}]},
    {"url": "https://h/${keyring:a/b}?k=${op://a/b/c d}", "headers": {"A": "Bearer ${input:x}"}},
    {"url": "https://h?k=${keyring:a/b}", "oauth": {"clientId": "i", "clientSecret": "${keyring:a/b}"}},
]
REFUSED = [
    {"command": "${keyring:a/b}"},
    {"command": "x", "cwd": "/${keyring:a/b}"},
    {"command": "x", "env_file": "${keyring:a/b}"},
    {"url": "${input:url}"},
    {"url": "https://${keyring:a/b}/mcp"},
    {"url": "https://h.example${keyring:a/b}/mcp"},
    {"url": "https://me:${keyring:a/b}@h.example/mcp"},
    {"url": "https://h/", "cert": "${keyring:a/b}"},
    {"url": "https://h/", "headersHelper": "get ${keyring:a/b}"},
    {"url": "https://h/", "auth": {"issuer": "${keyring:a/b}"}},
]


def entry(fields, environ=None, **more):
    [only] = parse_servers({"servers": {"it": fields}, **more}, source="x.json", environ=environ or {}, base=None)
    return only


@pytest.mark.parametrize("fields", ALLOWED, ids=range(len(ALLOWED)))
def test_secrets_can_be_where_values_are(fields):
    it = entry(fields)
    assert it.problem is None
    assert it.spec is not None
    assert it.spec.references
    assert "***" not in repr(it.spec.references)


@pytest.mark.parametrize("fields", REFUSED, ids=range(len(REFUSED)))
def test_secrets_cannot_choose_programs_files_or_hosts(fields):
    assert entry(fields).spec is None


def test_the_value_of_a_variable_is_never_a_reference():
    fields = {"command": "x", "env": {"A": "${V}", "B": "${keyring:a/b}"}}
    problem = str(entry(fields, {"V": "${keyring:a/b}"}).problem)
    assert problem.endswith("the value of a variable holds ${keyring:a/b}, and only the file itself may name a secret.")
    assert entry(fields, {"V": "x"}).problem is None


def test_an_override_of_a_command_line_keeps_shell_texts():
    assert find_uses({"args": ["-c", "echo ${1} ${A:2} $(x)"]}) == ()


def test_inputs_are_read_as_far_as_they_are_understood():
    inputs = parse_inputs(
        [
            {"type": "promptString", "id": "key", "description": "API key", "password": True},
            {"id": "plain", "password": False, "default": "x"},
            {"type": "pickString", "id": "region", "options": ["eu", {"label": "US", "value": "us"}, 3, {}]},
            {"type": "command", "id": "run", "command": "evil"},
            {"id": 3},
            "odd",
            {"id": "key", "description": "again"},
        ],
        "x.json",
    )
    assert list(inputs) == ["key", "plain", "region"]
    assert (inputs["key"].description, inputs["key"].is_secret) == ("API key", True)
    assert (inputs["plain"].default, inputs["plain"].is_secret) == ("x", False)
    assert (inputs["region"].options, inputs["region"].is_secret) == ((("eu", "eu"), ("US", "us")), False)
    assert parse_inputs({"a": 1}, "") == {}


DECLARED = """
[servers.it]
url = "https://h.example/mcp"
headers = { Authorization = "Bearer ${op://dev/it/token}" }
headers_helper = "get-headers it"

[[inputs]]
id = "key"
description = "The key"

[servers.other]
command = "x"
env = { KEY = "${input:key}", TOKEN = "${keyring:acme/db}" }
"""


def test_a_declaration_with_secrets_needs_trust(tmp_path):
    path = tmp_path / "mcp_magic.toml"
    path.write_text(DECLARED, encoding="utf-8")
    declaration = load_declaration(path)
    assert loosened(declaration, {}) == [
        "give the secret op://dev/it/token to the server it",
        "run `get-headers it` for the headers of the server it",
        "give the secret keyring acme/db to the server other",
    ]
    it, other = declaration.servers["it"], declaration.servers["other"]
    assert isinstance(it.spec, HttpSpec)
    assert it.spec.headers_helper is not None
    assert it.spec.headers_helper.cwd == tmp_path
    assert other.spec is not None
    assert other.spec.inputs["key"].description == "The key"
    assert other.spec.secret_sources == ["KEY from input key", "TOKEN from keyring acme/db"]
    assert runs(other) == "x (secrets: KEY from input key, TOKEN from keyring acme/db) (sets the variables KEY, TOKEN)"


@pytest.mark.parametrize("text", ["inputs = 3", "[[inputs]]\nx = 1", "[[inputs]]\nid = 'a'\ntype = 'command'"])
def test_inputs_of_a_declaration_are_checked(text):
    with pytest.raises(Exception, match=r"x\.toml(:\d+)?: inputs"):
        parse_declaration(text, source="x.toml", environ={})
