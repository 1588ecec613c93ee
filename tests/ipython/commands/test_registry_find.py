"""`%mcp find`: the line, its options, its errors, Tab, and the setting `registry`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from mcp_magic.errors import ArgumentsError, CommandError, ConfigError, RegistryError
from mcp_magic.ipython.completion import candidates
from mcp_magic.ipython.settings import SettingError
from mcp_magic.notebook import host
from tests.support.registry_server import Answer, entry, npm, registry


@pytest.fixture
def served():
    with registry(
        entry("io.github.acme/postgres", packages=[npm("@acme/postgres")]),
        entry("com.example/weather", remotes=[{"type": "streamable-http", "url": "https://example.com/mcp"}]),
        entry("org.example/postgres", status="deleted"),
    ) as served:
        yield served


@pytest.fixture
def ours(magic, served):
    """A registry that the setting names."""
    magic.settings.registry = served.url
    yield served
    magic.settings.registry = ""


async def test_find_lists_servers_and_starts_none(magic, ours):
    listing = await magic('find "postgres"')
    assert [row["name"] for row in listing] == ["io.github.acme/postgres"]
    assert list(host) == ["math"]
    assert "`%mcp add io.github.acme/postgres` shows what would run" in str(listing)


async def test_line_names_another_registry(magic, served):
    assert len(await magic(f"find --registry {served.url}/")) == 2
    assert len(await magic("find --registry $url --all --refresh", url=served.url)) == 3
    listing = await magic(f"find acme --registry {served.url}/")
    assert f"`%mcp add io.github.acme/postgres --registry {served.url}` shows" in str(listing)
    secret = served.url.replace("http://", "http://me:sesame@")
    text = str(await magic(f"find acme --registry {secret}"))
    assert "`%mcp add io.github.acme/postgres --registry URL` shows" in text
    assert "sesame" not in text
    [row] = await magic(f"find --transport http --limit 1 --registry {served.url}")
    assert row["name"] == "com.example/weather"
    assert len(await magic(f"find --package npm --registry {served.url}")) == 1


async def test_words_may_be_variables_and_the_table_is_kept(magic, ours):
    await magic("find $word -o servers", word="weather")
    assert [row["name"] for row in magic.settings.shell.user_ns["servers"]] == ["com.example/weather"]
    assert ours.requests == ["/v0.1/servers?limit=100&search=weather&version=latest"]


async def test_python_searches_the_registry_of_the_setting(ours):
    assert [row["name"] for row in await host.search_registry("acme postgres")] == ["io.github.acme/postgres"]
    assert len(await host.search_registry(registry=ours.url, every=True)) == 3
    with pytest.raises(ArgumentsError, match="transport='tcp'"):
        await host.search_registry(transport="tcp")


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("find x --limit 0", CommandError, "expected 1 to 20,000, got '0'"),
        ("find x --limit many", CommandError, "expected 1 to 20,000, got 'many'"),
        ("find x --transport tcp", CommandError, "invalid choice: 'tcp' (choose from"),
        ("find x --timeout 0", CommandError, "expected seconds above 0"),
        ("find x -o 1a", CommandError, "argument -o/--out: expected a variable's name, got '1a'"),
        ("find x --registry http://example.com", ConfigError, "http://example.com has no https"),
        ("find x --registry https://me:sesame@[", ConfigError, "is not the address of a registry"),
        ("find $unset", ArgumentsError, "cannot evaluate 'unset'"),
    ],
)
async def test_wrong_line_is_refused_without_a_request(magic, ours, line, kind, reason):
    message = await magic.error(kind, line)
    assert reason in message
    assert "sesame" not in message
    assert ours.requests == []


async def test_registry_that_is_away_is_one_line(magic):
    message = await magic.error(RegistryError, "find postgres --registry http://127.0.0.1:1")
    assert message == (
        "nothing listens at 127.0.0.1:1; is the server running? Nothing of it is in the cache; `--registry URL` asks "
        "another, and `%mcp connect -- COMMAND` needs none."
    )


async def test_interrupted_search_ends(magic, ours):
    release, came = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait():
        loop.call_soon_threadsafe(came.set)
        release.wait()

    ours.answers.append(Answer(wait=wait))
    task = asyncio.ensure_future(magic("find postgres"))
    try:
        await asyncio.wait_for(came.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        release.set()


# The setting


@pytest.mark.parametrize("value", ["http://example.com", "ftp://example.com", "https://me:sesame@exa mple.com"])
def test_setting_takes_only_addresses_of_registries(magic, value):
    with pytest.raises(SettingError) as refused:
        magic.settings.registry = value
    assert "sesame" not in str(refused.value)
    assert magic.settings.registry == ""


def test_credentials_in_the_setting_are_not_shown(magic):
    magic.settings.registry = "https://me:sesame@registry.example.com"
    try:
        assert "sesame" not in repr(magic.settings.registry)
        assert "sesame" not in magic.settings.class_get_help(magic.settings)
    finally:
        magic.settings.registry = ""


# Tab


async def test_tab_completes_names_in_the_cache(magic, ours):
    assert candidates("find post", {}, magic.settings).texts == []
    await magic("find")
    assert candidates("find io.", {}, magic.settings).texts == ["io.github.acme/postgres"]
    assert {*candidates("find ", {}, magic.settings).texts} == {"io.github.acme/postgres", "com.example/weather"}
    assert len(ours.requests) == 1
    assert candidates("find x --transport ", {}, magic.settings).texts == ["stdio", "http", "sse"]


async def test_tab_offers_no_name_that_deceives(magic, ours):
    ours.entries[:] = [entry("evil.example/x\u202egpj"), entry("a b/$(c)"), entry("-o/x"), entry("org.example/ok")]
    await magic("find")
    assert "org.example/ok" in candidates("find ", {}, magic.settings).texts
    assert not [text for text in candidates("find ", {}, magic.settings).texts if "\u202e" in text or text[0] == "-"]


# Without a notebook


def test_terminal_prints_rows_and_connects_nothing(served, tmp_path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"postgres": {"command": "/no/such/program"}}}')
    command = [sys.executable, "-m", "mcp_magic", "find", "postgres", "--json", "--registry", served.url]
    environ = {"PATH": "", "HOME": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [
        {
            "name": "io.github.acme/postgres",
            "version": "1.0.0",
            "offers": "npm",
            "status": "active",
            "updated": "2026-11-01",
            "description": "Does what io.github.acme/postgres does.",
        }
    ]
