"""Servers added to a configuration file and removed: shown, agreed to once, tried, written, with real servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import threading
from pathlib import Path

import pytest

from mcp_magic import Host
from mcp_magic.ask.question import Reply
from mcp_magic.config.project import is_trusted, load_declaration
from mcp_magic.config.writing import ServerFile
from mcp_magic.errors import ArgumentsError, CommandError, ConfigError, ConnectError, DeniedError, RegistryError
from tests.environments import EVERYTHING, NODE_PACKAGES, needs_node
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.bundles import plain_bundle
from tests.support.hosts import checked
from tests.support.keyrings import backend  # noqa: F401
from tests.support.processes import PYTHON
from tests.support.registry_server import Answer, entry, npm, registry
from tests.support.sandboxes import REPOSITORY, boxed, needs_sandlock


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of a project, in which this Python is `python`."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
async def host(place):
    async with checked(Host()) as host:
        yield host


class Person:
    """A person who answers the question whether a server is added, and keeps what was shown."""

    def __init__(self, choice: str = "add", **values) -> None:
        self.reply = Reply(choice, values)
        self.questions = []

    async def __call__(self, question, seconds):
        self.questions.append(question)
        return self.reply

    @property
    def digest(self) -> str:
        return re.findall("sha256:([0-9a-f]{64})", self.shown)[0]

    @property
    def shown(self) -> str:
        [question] = self.questions
        return question.about(question.values).plain


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def servers(path: Path):
    return ServerFile(path, path.read_text()).servers


async def refusal(kind, host, what, **options) -> str:
    with pytest.raises(kind) as caught:
        await host.add(what, **options)
    return str(caught.value)


# Bundles


async def test_bundle_is_shown_tried_and_written(host, place):
    (place / "tool.mcpb").write_bytes(plain_bundle())
    host.secrets.asker = person = Person(token="sesame-1234")
    new = await host.add("./tool.mcpb")
    assert person.shown.startswith(f"Add the server plain to {place}/mcp_magic.toml?\n")
    assert "main.py 2025-06-18" in person.shown
    assert "token (optional, secret): Token" in person.shown
    assert "sha256:" in person.shown
    text = (place / "mcp_magic.toml").read_text()
    assert servers(place / "mcp_magic.toml")["plain"]["env"] == {"PLAIN_TOKEN": "${PLAIN_TOKEN}"}
    assert (new.name, new.report.ok, list(host)) == ("plain", True, ["plain"])
    assert "sesame" not in f"{new} {new!r} {text}"
    assert (await host.call("plain:where")).text.endswith(f"mcp_magic/bundles/{person.digest} sesame-1234")
    assert "it refers to PLAIN_TOKEN, to be set in the environment or in .env before `%mcp up`" in str(new)
    monkeyed = load_declaration(place / "mcp_magic.toml", environ={"PLAIN_TOKEN": "sesame-1234"})
    assert is_trusted(monkeyed)


async def test_server_is_removed_from_its_file(host, place):
    (place / "tool.mcpb").write_bytes(plain_bundle())
    (place / "mcp_magic.toml").write_text("# Mine.\n[servers.other]\ncommand = 'x'\n")
    host.secrets.asker = Person()
    await host.add("tool.mcpb", values={"protocol": "2025-03-26"}, name="db")
    assert servers(place / "mcp_magic.toml").keys() == {"other", "db"}
    [row] = await host.remove("db")
    assert (row["session"], list(host)) == ("disconnected", [])
    assert (place / "mcp_magic.toml").read_text() == "# Mine.\n[servers.other]\ncommand = 'x'\n"
    with pytest.raises(ConfigError, match=r"has a server 'othr'. Did you mean 'other'\?"):
        await host.remove("othr")


async def test_bundle_of_a_registry_is_checked_against_its_digest(host, place):
    package = {"registryType": "mcpb", "fileSha256": "0" * 64, "transport": {"type": "stdio"}}
    with registry() as served:
        served.replies["/files/tool.mcpb"] = Answer(200, plain_bundle())
        package["identifier"] = f"{served.url}/files/tool.mcpb"
        served.entries.append(entry("io.github.acme/tool", packages=[package]))
        message = await refusal(ConfigError, host, "io.github.acme/tool", registry=served.url)
        assert "is not what its publisher names" in message
        host.secrets.asker = Person("no")
        assert await refusal(DeniedError, host, package["identifier"]) == "plain was not added: you said no."
    assert not (place / "mcp_magic.toml").exists()
    assert not (place.parent / "data" / "mcp_magic" / "bundles").exists()


# Registries and remotes


async def test_remote_of_a_registry_is_added_for_vs_code(host, place):
    async with serving(load("math_server").server.streamable_http_app()) as url:
        token = {"name": "X-Token", "isRequired": True, "isSecret": True}
        remote = {"type": "streamable-http", "url": "{base}/mcp", "variables": {"base": {}}, "headers": [token]}
        math = entry("io.github.acme/math-mcp", status="deprecated", message="Use b.", title="Math", remotes=[remote])
        with registry(math) as served:
            host.secrets.asker, host.registry_address = Person(**{"X-Token": "sesame-12"}), served.url
            new = await host.add("io.github.acme/math-mcp", values={"base": url}, to=".vscode/mcp.json")
            shown = host.secrets.asker.shown
    assert new.connection is host["math"]
    assert "status       DEPRECATED: Use b." in shown
    assert "Math; Does what io.github.acme/math-mcp does." in shown
    assert "(nobody has checked this)" in shown
    assert json.loads((place / ".vscode" / "mcp.json").read_text()) == {
        "inputs": [
            {"type": "promptString", "id": "math-X-Token", "description": "X-Token of math", "password": True},
        ],
        "servers": {"math": {"type": "http", "url": f"{url}/mcp", "headers": {"X-Token": "${input:math-X-Token}"}}},
    }


async def test_deleted_entry_is_refused(host):
    deleted = entry("io.github.acme/old", status="deleted", message="Malware.", packages=[npm("x")])
    with registry(deleted) as served:
        message = await refusal(ConfigError, host, "io.github.acme/old", registry=served.url)
        assert message == f"io.github.acme/old is deleted from {served.url[7:]}: Malware; it is not added."
        assert "has no server io.github.acme/new" in await refusal(
            RegistryError, host, "io.github.acme/new", registry=served.url
        )


async def test_first_package_that_can_run_is_taken(host, place):
    cargo = {"registryType": "cargo", "identifier": "x"}
    odd = [
        {"registryType": "mcpb", "identifier": "http://[x", "fileSha256": "ab" * 32},
        {"registryType": "oci", "identifier": "x y", "registryBaseUrl": "http://[x"},
    ]
    async with serving(load("math_server").server.streamable_http_app()) as url:
        remote = {"type": "streamable-http", "url": f"{url}/mcp"}
        (place / "server.json").write_text(
            json.dumps({"name": "a/math", "packages": [*odd, cargo], "remotes": [remote]})
        )
        host.secrets.asker = Person()
        await host.add("server.json")
    assert "not taken: packages of 'cargo' cannot be run here" in host.secrets.asker.shown
    message = await refusal(ConfigError, host, "server.json", package="npm", name="b")
    assert message == "a/math has no package of the type npm; it has: mcpb, oci, cargo, remote."


async def test_program_that_is_missing_is_said_before_the_yes(host, place, monkeypatch):
    config = {"command": "uvx", "args": ["${__dirname}/main.py"]}
    server = {"type": "python", "entry_point": "main.py", "mcp_config": config}
    (place / "tool.mcpb").write_bytes(plain_bundle(server=server))
    monkeypatch.setenv("PATH", str(place))
    message = await refusal(DeniedError, host, "tool.mcpb")
    assert "there is no uvx here, so it will not start: `%pip install uv` brings it" in message


# Consent


async def test_nobody_who_can_be_asked_is_told_the_code_that_approves(host, place):
    (place / "tool.mcpb").write_bytes(plain_bundle())
    message = await refusal(DeniedError, host, "tool.mcpb")
    assert message.startswith("plain was not added: you cannot be asked here. It would be:\nAdd the server plain to ")
    [code] = re.findall(r"with `--yes (\w+)` approves exactly this", message)
    assert not (place.parent / "data" / "mcp_magic" / "bundles").exists()
    changed = plain_bundle(version="2.0.0")
    (place / "tool.mcpb").write_bytes(changed)
    assert f"--yes {code} approves something else" in await refusal(DeniedError, host, "tool.mcpb", yes=code)
    (place / "tool.mcpb").write_bytes(plain_bundle())
    assert (await host.add("tool.mcpb", yes=code)).ok
    assert (place / "mcp_magic.toml").is_file()


async def test_code_approves_no_other_default(host, place):
    def write(default: str) -> None:
        hints = ("mode", "more")
        arguments = [{"type": "positional", "valueHint": hint, "default": default} for hint in hints]
        image = {"registryType": "oci", "identifier": f"x@sha256:{'a' * 64}", "packageArguments": arguments}
        (place / "server.json").write_text(json.dumps({"name": "a/b", "packages": [image]}))

    write("careful")
    [code] = re.findall(r"with `--yes (\w+)`", await refusal(DeniedError, host, "server.json"))
    write("careless")
    assert f"--yes {code} approves something else" in await refusal(DeniedError, host, "server.json", yes=code)
    write("x" * 3000)
    assert "so that nobody reads it" in await refusal(ConfigError, host, "server.json")


async def test_no_and_silence_write_nothing(host, place):
    (place / "tool.mcpb").write_bytes(plain_bundle())

    async def late(question, seconds):
        raise TimeoutError

    host.consent.timeout = 20
    for host.secrets.asker, reason in ((Person("no"), "you said no"), (late, "you did not answer within 20 s")):
        assert reason in await refusal(DeniedError, host, "tool.mcpb")
    assert names(place) == ["tool.mcpb"]


async def test_value_that_is_missing_is_named(host, place):
    required = {"name": {"type": "string", "title": "Name", "required": True}}
    config = {"command": "python", "args": ["${__dirname}/main.py", "${user_config.name}"]}
    server = {"type": "python", "entry_point": "main.py", "mcp_config": config}
    (place / "tool.mcpb").write_bytes(plain_bundle(user_config=required, server=server))
    message = await refusal(DeniedError, host, "tool.mcpb")
    assert "plain needs name: --set name=VALUE." in message
    assert "main.py '<name>'" in message
    [code] = re.findall(r"--yes (\w+)", message)
    assert await refusal(ArgumentsError, host, "tool.mcpb", yes=code) == "plain needs name: --set name=VALUE."
    host.secrets.asker = Person()
    assert await refusal(ArgumentsError, host, "tool.mcpb") == "plain needs name: --set name=VALUE."
    [question] = host.secrets.asker.questions
    with pytest.raises(ArgumentsError, match="still to be filled in: name"):
        question.form.check({"name": ""})


# Sandboxes


@needs_sandlock
async def test_server_is_tried_and_written_with_its_sandbox(host, place, monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)
    monkeypatch.setenv("PATH", f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}")
    (place / "tool.mcpb").write_bytes(plain_bundle())
    rights = boxed("read=data", "memory=1G")
    message = await refusal(DeniedError, host, "tool.mcpb", sandbox=rights)
    (place / "data").mkdir()
    [code] = re.findall(r"with `--yes (\w+)` approves exactly this", message)
    assert re.search(
        r"\n  rights +isolated: read \S+ data \S+, write nothing, net nothing, memory 1G, preset python", message
    )
    changed = await refusal(DeniedError, host, "tool.mcpb", yes=code)
    assert f"--yes {code} approves something else" in changed
    assert re.search(r"\n  rights +all of yours: not isolated\n", changed)
    new = await host.add("tool.mcpb", sandbox=rights, yes=code)
    assert re.search(r"\nrights +isolated: read \S+ data ", str(new))
    [table] = servers(place / "mcp_magic.toml").values()
    assert table["sandbox"] == {"read": [str(REPOSITORY), "data", table["cwd"]], "memory": "1G"}
    assert "\n\n[servers.plain.sandbox]\nread = [" in (place / "mcp_magic.toml").read_text()
    [entry] = load_declaration(place / "mcp_magic.toml").servers.values()
    assert entry.spec.sandbox == new.connection.spec.sandbox
    await host.remove("plain")
    assert (place / "mcp_magic.toml").read_text() == ""


async def test_file_or_server_that_has_no_sandbox_is_refused(host, place):
    (place / "tool.mcpb").write_bytes(plain_bundle())
    message = await refusal(DeniedError, host, "tool.mcpb", to="mcp.json", sandbox=True)
    assert "other programs that read mcp.json start it without the sandbox" in message
    message = await refusal(ConfigError, host, "tool.mcpb", to=".vscode/mcp.json", sandbox="read=.")
    assert message == "sandbox: mcp.json of VS Code has no such sandbox; `--to mcp_magic.toml` has."
    message = await refusal(ConfigError, host, "https://example.com/mcp", name="b", sandbox="read=.")
    assert message == "sandbox: b is reached by its URL; only what is started here runs in a sandbox."
    assert "sandbox.reed: unknown key" in await refusal(ConfigError, host, "tool.mcpb", sandbox="reed=.")


# Servers that do not work


async def test_server_that_does_not_work_is_not_written(host, place):
    (place / "server.json").write_text(
        json.dumps({"name": "a/b", "remotes": [{"type": "streamable-http", "url": "http://127.0.0.1:9/mcp"}]})
    )
    host.secrets.asker = Person()
    message = await refusal(ConnectError, host, "server.json")
    assert message.startswith("b was not added, because it does not work: ")
    assert "127.0.0.1:9" in message
    assert message.endswith("`--keep` writes it all the same.")
    assert not (place / "mcp_magic.toml").exists()
    host.secrets.asker = Person()
    new = await host.add("server.json", keep=True)
    assert (new.ok, list(host), [*new.df["ok"]]) == (False, [], [False])
    assert "it does not work: " in str(new)
    assert servers(place / "mcp_magic.toml")["b"] == {"transport": "http", "url": "http://127.0.0.1:9/mcp"}


# Secrets


async def test_secret_is_kept_in_the_keyring(backend, host, place):  # noqa: F811
    (place / "tool.mcpb").write_bytes(plain_bundle())
    host.secrets.asker = Person(token="sesame-1234")
    new = await host.add("tool.mcpb")
    shown = "secrets   are kept in the system's keyring as mcp-magic/plain-token; the file only refers to them"
    assert shown in host.secrets.asker.shown
    assert servers(place / "mcp_magic.toml")["plain"]["env"] == {"PLAIN_TOKEN": "${keyring:mcp-magic/plain-token}"}
    assert backend.get_password("mcp-magic", "plain-token") == "sesame-1234"
    assert (await host.call("plain:where")).text.endswith("sesame-1234")
    assert "sesame" not in f"{new} {new!r} {new.connection.spec!r} {host.secrets.asker.shown}"
    host.secrets.asker = Person("no")
    await refusal(DeniedError, host, "tool.mcpb", name="second", values={"token": "sesame-5678"})
    host.secrets.asker = Person(token="sesame-5678")
    config = {"command": "python", "args": ["-c", "exit(3)"], "env": {"T": "${user_config.token}"}}
    server = {"type": "python", "entry_point": "main.py", "mcp_config": config}
    (place / "tool.mcpb").write_bytes(plain_bundle(server=server))
    await refusal(ConnectError, host, "tool.mcpb", name="second")
    assert [path.name for path in backend.folder.iterdir()] == ["mcp-magic%0Aplain-token"]


async def test_each_secret_has_an_entry_of_its_own(backend, host, place):  # noqa: F811
    backend.set_password("mcp-magic", "plain-token", "another")
    config = {
        "command": "python",
        "args": ["${__dirname}/main.py", "2025-06-18"],
        "env": {"A": "${user_config.token}", "B": "${user_config.token-2}"},
    }
    server = {"type": "python", "entry_point": "main.py", "mcp_config": config}
    secret = {"type": "string", "sensitive": True}
    bundle = plain_bundle(server=server, user_config={"token": secret, "token-2": secret})
    (place / "tool.mcpb").write_bytes(bundle)
    host.secrets.asker = Person(**{"token": "sesame-1234", "token-2": "sesame-5678"})
    await host.add("tool.mcpb")
    assert servers(place / "mcp_magic.toml")["plain"]["env"] == {
        "A": "${keyring:mcp-magic/plain-token-2}",
        "B": "${keyring:mcp-magic/plain-token-2-2}",
    }
    assert backend.get_password("mcp-magic", "plain-token") == "another"


# What cannot be added


@pytest.mark.parametrize(
    ("what", "options", "kind", "reason"),
    [
        ("postgres", {}, CommandError, "'postgres' is no name in a registry"),
        ("missing.mcpb", {}, ConfigError, "missing.mcpb cannot be read: No such file or directory"),
        ("bad.json", {}, ConfigError, "not JSON"),
        ("empty.json", {}, ConfigError, "has no package and no remote that can be read"),
        ("http://example.com/x.mcpb", {}, RegistryError, "is not asked: it is not https"),
        ("https://[x/tool.mcpb", {}, CommandError, "is no URL"),
        ("npm:../x", {}, ConfigError, "is not the name of an npm package"),
        ("tool.mcpb", {"name": "a b"}, Exception, "'a b' is not a server name"),
        (
            "tool.mcpb",
            {"name": "other"},
            ConfigError,
            "has a server 'other'; `--name NAME` gives this one another name",
        ),
        ("tool.mcpb", {"version": "2.0"}, ConfigError, "is version 1.0.0 of plain, not 2.0"),
        ("tool.mcpb", {"to": "x.yaml"}, ConfigError, "is not written"),
        (
            "tool.mcpb",
            {"values": {"nam": "x"}},
            ArgumentsError,
            "'nam' is no value of this server. It takes protocol, token.",
        ),
        ("tool.mcpb", {"registry": "http://x"}, DeniedError, "you cannot be asked here"),
        ("long.json", {}, ConfigError, "is longer than 4,000 characters, so that nobody reads it"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
async def test_what_cannot_be_added_is_refused(host, place, what, options, kind, reason):
    (place / "tool.mcpb").write_bytes(plain_bundle())
    (place / "mcp_magic.toml").write_text("[servers.other]\ncommand = 'x'\n")
    (place / "bad.json").write_text("{")
    (place / "empty.json").write_text("{}")
    many = [{"type": "positional", "value": "x" * 100}] * 50
    image = {"registryType": "oci", "identifier": f"x@sha256:{'a' * 64}", "packageArguments": many}
    (place / "long.json").write_text(json.dumps({"name": "a/b", "packages": [image]}))
    before = names(place)
    assert reason in await refusal(kind, host, what, **options)
    assert names(place) == before


async def test_another_declaration_that_would_be_hidden_is_named(host, place):
    (place / "mcp.json").write_text("{}")
    (place / "tool.mcpb").write_bytes(plain_bundle())
    message = await refusal(DeniedError, host, "tool.mcpb")
    assert "`%mcp up` reads mcp_magic.toml then, and no longer mcp.json; `--to mcp.json` adds it there" in message


# Public servers


@needs_node
async def test_public_server_of_npm_is_added(host, place):
    package = {
        **npm(EVERYTHING, NODE_PACKAGES[EVERYTHING]),
        "packageArguments": [{"type": "positional", "value": "stdio"}],
    }
    (place / "server.json").write_text(json.dumps({"name": "io.github.x/everything", "packages": [package]}))
    host.secrets.asker = Person()
    new = await host.add("server.json", to="mcp.json")
    assert " sha512-" in host.secrets.asker.shown
    command = {"command": "npx", "args": ["-y", f"{EVERYTHING}@{NODE_PACKAGES[EVERYTHING]}", "stdio"]}
    assert json.loads((place / "mcp.json").read_text()) == {"mcpServers": {"everything": command}}
    assert (await new.connection.call_tool("echo", {"message": "hello"})).text == "Echo: hello"


@pytest.mark.skipif(shutil.which("uvx", path=str(Path(sys.executable).parent)) is None, reason="uv is not installed")
async def test_public_server_of_pypi_is_added(host, place, tmp_path, monkeypatch):
    network = [name for name in ("SSL_CERT_FILE", "HTTPS_PROXY") if name in os.environ]
    exports = [f"export {name}={shlex.quote(os.environ[name])}" for name in network]  # of these, a server gets none
    program = tmp_path / "bin" / "uvx"
    program.parent.mkdir()
    program.write_text("\n".join(["#!/bin/sh", *exports, f'exec {shlex.quote(shutil.which("uvx"))} "$@"\n']))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    package = {"registryType": "pypi", "identifier": "mcp-server-time"}
    (place / "server.json").write_text(json.dumps({"name": "io.github.x/time", "packages": [package]}))
    host.secrets.asker = Person()
    new = await host.add("server.json")
    assert " sha256:" in host.secrets.asker.shown
    assert re.search(r"from  +/.*/server.json; the package from [\w.-]+$", host.secrets.asker.shown)
    [*_, pinned] = servers(place / "mcp_magic.toml")["time"]["args"]
    assert re.fullmatch(r"mcp-server-time==\d+\.\d+\.\d+", pinned)
    assert new.report.ok


@needs_node
async def test_interrupt_ends_what_asks_npm(host, place, monkeypatch):
    arrived, go = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        go.wait(60)

    with registry() as served:
        monkeypatch.setenv("npm_config_registry", served.url)
        served.replies["/slow"] = Answer(404, "", wait=wait)
        adding = asyncio.create_task(host.add("npm:slow"))
        await asyncio.to_thread(arrived.wait, 60)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        go.set()
    assert names(place) == []
