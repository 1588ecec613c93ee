from __future__ import annotations

import pytest

from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.specs import HttpSpec, InProcessSpec, SseSpec, StdioSpec, WebSocketSpec

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "spec",
    [
        StdioSpec(command="run", env={"ANYTHING": SECRET}),
        StdioSpec(command="run", args=("--api-key", SECRET)),
        StdioSpec(command="run", args=(f"--access-token={SECRET}",)),
        StdioSpec(command="vault", args=("--passphrase", SECRET)),
        StdioSpec(command="vault", args=("--accessKey", SECRET)),
        StdioSpec(command="vault", args=(f"--spring.datasource.db-pass={SECRET}",)),
        StdioSpec(command="docker", args=("run", "-e", f"OPENAI_KEY={SECRET}", "image")),
        StdioSpec(command="docker", args=("run", "-e", f"GITHUB_PAT={SECRET}", "image")),
        StdioSpec(command="npx", args=("mcp-remote", "https://h", "--header", f"Authorization: Bearer {SECRET}")),
        StdioSpec(command="npx", args=("mcp-remote", "https://h", f"--header=Authorization:{SECRET}")),
        StdioSpec(command="npx", args=("mcp-remote", f"https://me:{SECRET}@h")),
        StdioSpec(command="npx", args=(f"--server=https://h/?token={SECRET}",)),
        HttpSpec(url="https://h/mcp", headers={"X-Custom": SECRET}),
        HttpSpec(url=f"https://me:{SECRET}@h/mcp"),
        SseSpec(url=f"https://h/sse?access_token={SECRET}&page=1"),
        HttpSpec(url=f"https://h/mcp?subscriptionKey={SECRET}"),
        WebSocketSpec(url=f"wss://h?sig={SECRET}"),
        WebSocketSpec(url=f"wss://[broken?x={SECRET}"),
    ],
    ids=lambda spec: f"{spec.transport}-{len(repr(spec))}",
)
def test_secrets_show_neither_in_repr_nor_in_the_place(spec):
    assert SECRET not in repr(spec)
    assert SECRET not in str(spec)
    assert SECRET not in spec.where
    assert "***" in repr(spec)


@pytest.mark.parametrize(
    "spec",
    [
        *(StdioSpec(command="run", env={"API_TOKEN": SECRET}), StdioSpec(command="run", args=("--password", SECRET))),
        *(StdioSpec(command="run", env={"DB_PASS": SECRET}), StdioSpec(command="run", env={"SSH_PASSPHRASE": SECRET})),
        *(StdioSpec(command="run", env={"MYSQL_PWD": SECRET}), StdioSpec(command="run", args=("--db-pass", SECRET))),
        HttpSpec(url=f"https://h?accessKey={SECRET}"),
        StdioSpec(command="run", args=(f"--url=https://me:{SECRET}@h",)),
        HttpSpec(url="https://h", headers={"Authorization": f"Bearer {SECRET}"}),
        *(HttpSpec(url="https://h", headers={"Cookie": SECRET}), HttpSpec(url=f"https://me:{SECRET}@h")),
        HttpSpec(url=f"https://h?api_key={SECRET}"),
    ],
    ids=repr,
)
def test_what_a_server_writes_is_masked(spec):
    assert spec.masked(f"refused: {SECRET} is wrong") == "refused: *** is wrong"


def test_encoded_query_secret_is_masked_raw_and_decoded():
    spec = HttpSpec(url="https://h/?token=ab%2Fcd+ef")
    assert spec.masked("ab%2Fcd+ef, ab/cd ef") == "***, ***"


def test_short_values_are_not_masked_in_messages():
    assert StdioSpec(command="run", env={"TOKEN": "1"}).masked("1 error") == "1 error"


@pytest.mark.parametrize("args", [("--author", "Ann"), ("--path=/tmp/x",), ("--port", "80"), ("a=b",), ("time: 10",)])
def test_arguments_that_are_no_secrets_stay(args):
    assert mask_arguments(args) == args


def test_option_after_secret_looking_one_is_not_its_value():
    assert mask_arguments(("--auth", "--port", "80")) == ("--auth", "--port", "80")


def test_a_url_without_secrets_is_shown_as_it_is():
    assert mask_url("http://127.0.0.1:8000/mcp?page=2") == "http://127.0.0.1:8000/mcp?page=2"


def test_repr_has_only_what_was_said():
    assert repr(HttpSpec(url="http://h/mcp")) == "HttpSpec(url='http://h/mcp')"
    assert repr(StdioSpec(command="python", args=("s.py",), timeout=5)) == (
        "StdioSpec(timeout=5, command='python', args=['s.py'])"
    )


def test_the_place_of_a_command_can_be_pasted_into_a_shell():
    assert StdioSpec(command="db", args=("sqlite:///tmp/x.db?a=b,c#top",)).where == "db 'sqlite:///tmp/x.db?a=b,c#top'"
    assert StdioSpec(command="python", args=("my server.py",)).where == "python 'my server.py'"


def test_in_process_server_is_placed_by_class_and_name():
    class Thing:
        name = "math"

    assert InProcessSpec(server=Thing()).where == "Thing 'math'"


def test_specs_are_values():
    assert HttpSpec(url="http://h", headers={"A": "1"}) == HttpSpec(url="http://h", headers={"A": "1"})
    assert HttpSpec(url="http://h") != SseSpec(url="http://h")
    with pytest.raises(AttributeError):
        HttpSpec(url="http://h").url = "http://other"


SHOWN = {
    "no host": ("sqlite:///tmp/x.db", "sqlite:///tmp/x.db"),
    "one slash": ("file:/tmp/x", "file:/tmp/x"),
    "two schemes": ("jdbc:sqlite:///tmp/x.db", "jdbc:sqlite:///tmp/x.db"),
    "capitals": ("HTTP://Example.com/A", "HTTP://Example.com/A"),
    "query": ("https://a.example/?q=a,b%20c&n=1+2", "https://a.example/?q=a,b%20c&n=1+2"),
    "secret in a query": ("postgres://h/db?password=pw&a=b,c", "postgres://h/db?password=***&a=b,c"),
    "user": ("postgres://me:pw@h:5/db", "postgres://***@h:5/db"),
    "fragment": ("https://a.example/#/page", "https://a.example/#/page"),
    "secret in a fragment": ("https://a.example/#access_token=pw&a=1", "https://a.example/#access_token=***&a=1"),
    "mark in a password": ("postgres://me:p#w@h/db", "postgres://***@h/db"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_command_is_shown_as_it_runs(kind: str) -> None:
    url, shown = SHOWN[kind]
    assert mask_arguments(("--db", url)) == ("--db", shown)
