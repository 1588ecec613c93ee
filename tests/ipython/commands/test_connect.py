"""`%mcp connect`, `disconnect`, `reconnect`, `ping`, `config`, and `%mcp` alone, which lists the servers."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.config.targets import resolve_target
from mcp_magic.errors import CommandError
from mcp_magic.ipython.completion import candidates
from mcp_magic.ipython.execution import interruptible
from mcp_magic.notebook import host
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.proxy import proxied
from tests.support.sampling_servers import sampling_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.magic import Magic

SMALL = {"command": sys.executable, "args": [str(ROOT / "benchmarks" / "slow_server.py"), "0"]}


def write_config(magic: Magic, **servers: Any) -> None:
    (magic.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


# Targets


async def test_servers_of_a_file_connect_and_failure_shows(magic):
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}
    write_config(magic, show=SMALL, broken=broken, off={**SMALL, "disabled": True}, wrong={"type": "stdio"})
    listing = await magic("connect --config mcp.json")
    state = {row["server"]: row["state"] for row in listing}
    assert state == {"show": "open", "broken": "failed", "off": "disabled", "wrong": "not started"}
    assert "no licence" in str(listing.df.set_index("server").loc["broken", "problem"])
    assert set(host) == {"math", "show"}
    write_config(magic, show=SMALL, paging=SMALL)
    listing = await magic("connect --config mcp.json paging")
    assert [row["server"] for row in listing] == ["paging"]
    error = await magic.error(errors.ConfigError, "connect --config mcp.json pagin")
    assert "mcp.json has no server 'pagin'. Did you mean 'paging'?" in error
    await magic("disconnect paging")
    assert (await magic("connect paging")).state == "open"
    assert "paging" in [row["server"] for row in await magic("config")]


async def test_file_of_the_home_folder_is_typed_with_a_tilde(magic, monkeypatch):
    home = magic.folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "mcp.json").write_text('{"mcpServers": {"paging": {"command": "server"}}}')
    (home / "answers.json").write_text("[]")
    assert [row["server"] for row in await magic("config ~/mcp.json")] == ["paging"]
    assert (await magic("call math:add a=1 b=2 --answers ~/answers.json")).data == 3


PLAIN = """
import os, sys
sys.path.insert(0, {root!r})
from tests.support.plain import Plain
server = Plain("it")
@server.tool
def told() -> str:
    return os.environ.get("WORD", "")
server.run()
"""
FILES = {
    ".config/Code/User/mcp.json": '{"servers": {"it": {"command": PYTHON, "args": [FILE], "env": {"WORD": "w"}}}}',
    ".codex/config.toml": '[mcp_servers.it]\ncommand = PYTHON\nargs = [FILE]\nenv_vars = ["WORD"]\n',
    ".gemini/settings.json": '{"mcpServers": {"it": {"command": PYTHON, "args": [FILE], "env": {"WORD": "$WORD"}}}}',
    ".codeium/windsurf/mcp_config.json": '{"mcpServers": {"it": {"command": PYTHON, "args": [FILE], '
    '"env": {"WORD": "${env:WORD}"}}}}',
    ".config/goose/config.yaml": "extensions:\n  it: {cmd: PYTHON, args: [FILE], env_keys: [WORD], type: stdio}\n",
    ".config/opencode/opencode.json": '{"mcp": {"it": {"type": "local", "command": [PYTHON, FILE], '
    '"environment": {"WORD": "{env:WORD}"}}}}',
    ".copilot/mcp-config.json": '{"mcpServers": {"it": {"type": "local", "command": PYTHON, "args": [FILE], '
    '"tools": ["*"], "env": {"WORD": "${WORD}"}}}}',
}


@pytest.mark.parametrize("file", FILES)
async def test_servers_of_other_hosts_connect_by_name(magic, monkeypatch, file):
    program = magic.folder / "server.py"
    program.write_text(PLAIN.format(root=str(ROOT)))
    monkeypatch.setenv("HOME", str(magic.folder / "home"))
    monkeypatch.setenv("WORD", "w")
    path = magic.folder / "home" / file
    path.parent.mkdir(parents=True)
    path.write_text(FILES[file].replace("PYTHON", json.dumps(sys.executable)).replace("FILE", json.dumps(str(program))))
    (row,) = await magic("config")
    assert (row["server"], row["state"], row["file"]) == ("it", "ready", f"~/{file}")
    assert row["host"]
    await magic("connect it")
    assert (await magic("call it:told")).text == "w"
    await magic("disconnect it")


async def test_headers_of_codex_reach_the_server(magic, monkeypatch):
    monkeypatch.setenv("HOME", str(magic.folder / "home"))
    monkeypatch.setenv("OWN_TOKEN", "sesame-123")
    monkeypatch.setenv("TEAM", "blue")
    (magic.folder / "home" / ".codex").mkdir(parents=True)
    seen: list[dict[bytes, bytes]] = []
    app = MCPServer("show").streamable_http_app()

    async def looking(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope.get("headers", ())))
        await app(scope, receive, send)

    async with serving(looking) as url:
        (magic.folder / "home" / ".codex" / "config.toml").write_text(
            f'[mcp_servers.show]\nurl = "{url}/mcp"\nbearer_token_env_var = "OWN_TOKEN"\n'
            'http_headers = {"X-Region" = "eu"}\nenv_http_headers = {"X-Team" = "TEAM"}\n'
        )
        connection = await magic("connect show")
        names = (b"authorization", b"x-region", b"x-team")
        assert [seen[-1][name] for name in names] == [b"Bearer sesame-123", b"eu", b"blue"]
        assert "sesame" not in repr(connection.spec) + str(connection._repr_mimebundle_())
        await magic("disconnect show")


async def test_config_says_what_is_missing_and_where_it_is_from(magic, monkeypatch):
    monkeypatch.setenv("HOME", str(magic.folder / "home"))
    monkeypatch.setenv("PATH", str(magic.folder))
    (magic.folder / ".codex").mkdir()
    (magic.folder / ".codex" / "config.toml").write_text(
        '[mcp_servers.a]\ncommand = "npx"\n[mcp_servers.b]\nurl = "http://h"\nbearer_token_env_var = "NOT_SET"\n'
        '[mcp_servers.c]\nurl = "http://h"\nenabled_tools = ["x"]\n[mcp_servers.d]\ncommand = "npx"\nenabled = false\n'
    )
    listing = await magic("config")
    assert [(row["server"], row["state"], row["host"]) for row in listing] == [
        ("a", "missing", "Codex"),
        ("b", "wrong", "Codex"),
        ("c", "ready", "Codex"),
        ("d", "disabled", "Codex"),
    ]
    problems = [str(row["problem"] or "") for row in listing]
    assert problems[0] == "no program 'npx': it comes with Node.js, https://nodejs.org"
    assert problems[1] == "the variable NOT_SET is not set (environment, .env)."
    assert listing[2]["without effect"] == "enabled_tools"
    (magic.folder / "mcp_magic.toml").write_text('[servers.own]\ncommand = "npx"\n')
    assert [row["server"] for row in await magic("config mcp_magic.toml")] == ["own"]


async def test_project_of_a_stranger_starts_nothing_by_itself(magic, monkeypatch):
    monkeypatch.setenv("LIBRARY_TOKEN", "t0ken-of-mine")
    (magic.folder / ".codex").mkdir()
    (magic.folder / ".codex" / "config.toml").write_text(
        '[mcp_servers.it]\nurl = "http://127.0.0.1:1/mcp"\nbearer_token_env_var = "LIBRARY_TOKEN"\n'
    )
    for line in ("connect it", "connect --config .codex/config.toml", "up .codex/config.toml"):
        error = await magic.error(errors.DeniedError, line)
        assert "give LIBRARY_TOKEN of your environment or .env to the server it" in error
    error = await magic.error(errors.ConfigError, "up")
    assert "Another host's servers: `%mcp up .codex/config.toml`." in error
    listing = await magic("up .codex/config.toml --dry-run")
    assert (listing[0]["server"], listing[0]["done"]) == ("it", "connect")
    assert "needs your approval: give LIBRARY_TOKEN" in listing.note
    assert "it" not in host


async def test_variables_are_targets_and_options(magic):
    connection = await magic("connect mine --trust", mine=load("showcase_server").server)
    assert connection.name == "mine"
    assert connection.spec.trust
    line = "connect --cwd $where --name here -- {sys.executable} slow_server.py 0"
    assert (await magic(line, where=ROOT / "benchmarks", sys=sys)).state == "open"
    with_options = "connect server --name other --sampling off --protocol handshake"
    connection = await magic(with_options, server=sampling_server())
    assert (connection.spec.sampling, host["math"].spec.sampling) == ("off", "ask")
    assert connection.protocol_version == "2025-11-25"
    for option in ("--sampling never", "--protocol 2025-11-25"):
        assert option.split()[0] in await magic.error(CommandError, f"connect s {option}", s=MCPServer("s"))


async def test_headers_take_variables_and_show_masked(magic):
    seen: list[dict[bytes, bytes]] = []
    app = MCPServer("show").streamable_http_app()

    async def looking(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope.get("headers", ())))
        await app(scope, receive, send)

    async with serving(looking) as url:
        line = "connect $url --name show --header 'Authorization: Bearer {secret.strip()}' --header 'X-Team: blue'"
        connection = await magic(line, url=f"{url}/mcp", secret=" sesame-123 ")
        assert (seen[-1][b"authorization"], seen[-1][b"x-team"]) == (b"Bearer sesame-123", b"blue")
        assert "sesame" not in repr(connection.spec) + str(connection._repr_mimebundle_())
        await magic("disconnect show")


async def test_open_server_is_named_and_not_opened_again(magic):
    before = host["math"]
    assert await magic("connect math") is before
    assert "open already since" in str(before._repr_mimebundle_()["text/plain"])
    error = await magic.error(errors.TargetError, "connect maths")
    assert "'maths' is not a file, URL, variable or configured name" in error
    assert await magic("reconnect math") is host["math"] is before
    assert "name the servers, or say --all" in await magic.error(CommandError, "disconnect")
    assert len(await magic("disconnect math")) == 0
    assert "math" not in host
    await magic.error(errors.UnknownServerError, "reconnect math")


# Where it runs


@pytest.fixture
def gone(magic, monkeypatch):
    """The kernel's folder is deleted."""
    folder = magic.folder / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


@pytest.mark.usefixtures("gone")
async def test_deleted_folder_is_named_and_open_servers_work(magic):
    for line in ("connect x.py", "connect -- python x.py", "connect somewhere", "up", "config"):
        assert "the folder of this kernel was deleted; `%cd FOLDER`" in await magic.error(errors.ConfigError, line)
    assert (await magic("call math:add a=1 b=2")).data == 3
    listing = str(await magic("servers"))
    assert "math" in listing
    assert "the folder of this kernel was deleted" in listing
    assert candidates("connect ", {"shop": host["math"].spec}).texts
    await magic("reconnect math")
    await magic("disconnect math")
    assert not len(host)


async def test_trio_is_named_where_a_cell_runs_on_it(magic, monkeypatch):
    lowlevel = SimpleNamespace(current_task=lambda: "a task of trio")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "trio", SimpleNamespace(lowlevel=lowlevel))
        with pytest.raises(CommandError, match="`%autoawait asyncio` goes back"):
            await interruptible(magic("servers"))


# Sessions that last


@pytest.fixture
def soon_again():
    plan, before = host.reconnection, dict(vars(host.reconnection))
    plan.first, plan.longest, plan.wait = 0.02, 0.1, 0.1
    yield
    vars(plan).update(before)


@pytest.mark.usefixtures("soon_again")
async def test_ping_and_listing_show_health_and_why_one_is_down(magic):
    (row,) = await magic("")
    assert (row["server"], row["state"], row["transport"], row["tools"]) == ("math", "open", "in-process", 8)
    assert row["latency"].endswith(" ms")
    app = load("math_server").server.streamable_http_app(transport_security=None)
    async with serving(app) as url, proxied(url) as proxy:
        connection = await magic(f"connect {proxy.url()} --name away")
        await magic("ping math")
        (math, _) = await magic("")
        assert (math["seen"], math["failed"], math["reconnects"]) == ("now", None, None)
        proxy.refuse()
        proxy.cut()
        rows = {row["server"]: row for row in await magic("ping")}
        assert rows["math"]["answered in"].endswith(" ms")
        assert (rows["math"]["state"], rows["math"]["problem"]) == ("open", None)
        assert rows["away"]["answered in"] is None
        assert rows["away"]["state"] == "reconnecting"
        assert "away: ping: not sent: the session did not come back within 0.1 s" in rows["away"]["problem"]
        assert [row["server"] for row in await magic("ping math --timeout 1")] == ["math"]

        await magic.error(errors.SessionClosedError, "call away:add a=1 b=2")
        listing = await magic("")
        (_, away) = listing
        assert (away["state"], away["tools"]) == ("reconnecting", 8)
        assert "away: the session has ended" in str(listing)
        assert "tried" in str(listing)
        assert "reconnecting" in str(connection._repr_mimebundle_()["text/plain"])
        assert "away:add" in str(await magic("tools away")), "the listing of before"
        await proxy.listen()
        await until(lambda: connection.state == "open")
        (_, away) = await magic("")
        assert (away["state"], away["reconnects"]) == ("open", 1)
        await host.disconnect("away")


async def test_setting_and_option_say_which_sessions_come_back(magic):
    magic.settings.reconnect = "all"
    assert host.reconnection.mode == "all"
    magic.settings.reconnect = "remote"
    assert host.reconnection.mode == "remote"
    with pytest.raises(errors.ConfigError, match="remote"):
        magic.settings.apply({"reconnect": "never"})
    async with serving(MCPServer("once").streamable_http_app()) as url:
        connection = await magic(f"connect {url}/mcp --name once --no-reconnect")
        assert connection.spec.reconnect is False
        assert not host.reconnection.covers(connection.spec)
        await host.disconnect("once")
    spec, _ = resolve_target({"command": "python", "reconnect": True})
    assert host.reconnection.covers(spec)
    with pytest.raises(errors.TargetError, match="reconnect"):
        resolve_target({"command": "python", "reconnect": "perhaps"})


async def test_servers_of_a_declaration_are_listed_and_named(magic, monkeypatch):
    monkeypatch.chdir(magic.folder)
    path = magic.folder / "mcp_magic.toml"
    path.write_text('[servers.own]\ncommand = "python"\nargs = ["s.py"]\n[servers.own.sandbox]\nread = ["."]\n')
    listing = await magic("config")
    [row] = [row for row in listing if row["server"] == "own"]
    assert (row["file"], row["rights"]) == (str(path), "isolated: read ., write nothing, net nothing, preset python")
    assert listing.note == "`%mcp up` opens those of mcp_magic.toml"
    error = await magic.error(errors.TargetError, "connect own")
    assert "mcp_magic.toml declares it: `%mcp connect --config mcp_magic.toml own` opens it, `%mcp up` all" in error
    path.write_text("[servers")
    assert [row["state"] for row in await magic("config") if row["file"] == str(path)] == ["wrong"]
