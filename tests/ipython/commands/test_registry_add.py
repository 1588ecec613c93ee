"""`%mcp add` and `%mcp remove`: the lines, their errors, Tab, secrets, and `%mcp up` afterwards."""

from __future__ import annotations

import re

import pytest

from mcp_magic.ask.question import Reply
from mcp_magic.config.writing import read_file
from mcp_magic.errors import ArgumentsError, CommandError, ConfigError, DeniedError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.bundles import plain_bundle
from tests.support.registry_server import entry, npm, registry


@pytest.fixture
def bundle(magic, monkeypatch):
    """A bundle in the folder, of a server that this Python runs."""
    monkeypatch.setenv("PATH", "")
    (magic.folder / "tool.mcpb").write_bytes(plain_bundle())
    return magic.folder / "tool.mcpb"


@pytest.fixture
def agreeing(monkeypatch):
    """A person who says yes, and what was shown."""
    shown = []

    async def ask(question, seconds):
        shown.append(question.about(question.values).plain)
        return Reply("add")

    monkeypatch.setattr(host.secrets, "asker", ask)
    return shown


async def test_line_adds_a_server_that_up_connects(magic, bundle, agreeing):
    new = await magic("add ./tool.mcpb --name tool")
    assert len(agreeing) == 1
    assert "written to /" in str(new).replace(str(magic.folder), "/")
    assert list(host) == ["math", "tool"]
    assert [row["done"] for row in await magic("up") if row["server"] == "tool"] == ["keep"]
    await magic("disconnect tool")
    assert [row["state"] for row in await magic("up") if row["server"] == "tool"] == ["open"]
    [row] = await magic("remove tool")
    assert row["session"] == "disconnected"
    assert (magic.folder / "mcp_magic.toml").read_text() == ""


async def test_secret_of_a_line_comes_from_a_variable(magic, bundle, agreeing, monkeypatch):
    message = await magic.error(CommandError, "add tool.mcpb --set token=sesame-1234")
    assert message == (
        "%mcp add: token is a secret, and the notebook keeps the line: --set token=$VARIABLE takes its value from a "
        "variable, --set token='${token}' from the environment each time"
    )
    await magic("add tool.mcpb --set token=$mine --to mcp.json", mine="sesame-1234")
    text = (magic.folder / "mcp.json").read_text()
    assert '"PLAIN_TOKEN": "${PLAIN_TOKEN}"' in text
    assert "sesame" not in text + "".join(agreeing)
    monkeypatch.setenv("MY_TOKEN", "sesame-5678")
    await magic("add tool.mcpb --name second --set 'token=${MY_TOKEN}' --to mcp.json")
    assert read_file(magic.folder / "mcp.json").servers["second"]["env"] == {"PLAIN_TOKEN": "${MY_TOKEN}"}
    assert (await host.call("second:where")).text.endswith("sesame-5678")


async def test_line_that_nobody_can_answer_names_the_code(magic, bundle):
    message = await magic.error(DeniedError, "add tool.mcpb")
    [code] = re.findall(r"The same line with `--yes (\w+)` approves exactly this", message)
    await magic(f"add tool.mcpb --yes {code}")
    assert "plain" in read_file(magic.folder / "mcp_magic.toml").servers


def offered(line, magic):
    return [*candidates(line, {}, magic.settings).texts]


async def test_names_of_the_registry_and_of_servers_are_completed(magic, monkeypatch, tmp_path):
    with registry(entry("io.github.acme/postgres", packages=[npm("x")])) as served:
        magic.settings.registry = served.url
        await magic("find postgres")
        assert "io.github.acme/postgres" in offered("add io.", magic)
        magic.settings.registry = ""
    (magic.folder / "mcp_magic.toml").write_text("[servers.db]\ncommand = 'x'\n")
    (magic.folder / "tool.mcpb").write_bytes(b"")
    assert offered("remove d", magic) == ["db"]
    assert "tool.mcpb" in offered("add too", magic)
    assert "pypi" in offered("add x --package p", magic)


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("add", CommandError, "the following arguments are required: WHAT"),
        ("add postgres", CommandError, "`%mcp find postgres` searches it"),
        ("add a/b --package cargo", CommandError, "invalid choice: 'cargo'"),
        ("add a/b --set x", CommandError, "--set takes KEY=VALUE, not 'x'"),
        ("add a/b --set x=$unset", ArgumentsError, "cannot evaluate 'unset'"),
        ("add a/b --registry http://example.com", ConfigError, "has no https"),
        ("add tool.mcpb --set nam=x", ArgumentsError, "'nam' is no value of this server"),
        ("add tool.mcpb --to x.yaml", ConfigError, "is not written"),
        ("remove", CommandError, "the following arguments are required: NAME"),
        ("remove db", ConfigError, "has a server 'db'"),
        ("remove db --file mcp.json", ConfigError, "mcp.json is not there"),
    ],
)
async def test_wrong_line_is_refused(magic, bundle, line, kind, reason):
    assert reason in await magic.error(kind, line)
    assert [path.name for path in magic.folder.iterdir() if path.is_file()] == ["tool.mcpb"]
