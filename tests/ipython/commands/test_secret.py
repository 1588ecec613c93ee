"""`%mcp secret`, and lines that refer to secrets: asked without echo, after trust, and shown nowhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_magic.ask.question import Question, Reply
from mcp_magic.ask.secrets import VALUE
from mcp_magic.config.project import alone, load_declaration, trust
from mcp_magic.config.servers import find_server
from mcp_magic.errors import ArgumentsError, CommandError, DeniedError, SecretError, UnreachableError
from mcp_magic.ipython.ask import Asking
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.keyrings import backend, put_op  # noqa: F401

HERE = Path(__file__).parents[3]
SERVER = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
from tests.support.plain import Plain

server = Plain("gives")

@server.tool
def words() -> list:
    return sys.argv[1:]

@server.tool
def look(name: str) -> str:
    return os.environ.get(name, "")

server.run()
"""


@pytest.fixture
def typed(monkeypatch):
    """What the user enters; each question is kept."""

    class Typing:
        value = "s3same-4711"

        def __init__(self) -> None:
            self.questions: list[str] = []

        async def ask(self, question: Question, seconds: float) -> Reply:
            self.questions.append(question.about(None).plain)
            return Reply("accept", {VALUE: self.value})

    typing = Typing()
    monkeypatch.setattr(Asking, "ask", lambda self, question, seconds: typing.ask(question, seconds))
    monkeypatch.setattr(host.secrets, "asker", typing.ask)
    return typing


@pytest.fixture
def program(magic):
    path = magic.folder / "gives.py"
    path.write_text(SERVER, encoding="utf-8")
    return {"command": sys.executable, "args": [str(path)]}


def declare(magic, program, **servers):
    tables = {name: {**program, "env": env} for name, env in servers.items()}
    (magic.folder / ".mcp.json").write_text(json.dumps({"mcpServers": tables}), encoding="utf-8")


async def test_a_secret_is_stored_listed_and_forgotten(magic, backend, typed, program):  # noqa: F811
    listing = await magic("secret set github")
    assert listing.note == "stored; a configuration refers to it as ${keyring:mcp-magic/github}"
    assert backend.get_password("mcp-magic", "github") == "s3same-4711"
    declare(magic, program, it={"TOKEN": "${keyring:mcp-magic/github}", "B": "${op://dev/db/x}"}, b={"K": "${input:k}"})
    assert (await magic("secret")).rows == [
        {"secret": "${keyring:mcp-magic/github}", "kept in": "keyring", "servers": "it"},
        {"secret": "${op://dev/db/x}", "kept in": "1Password", "servers": "it"},
        {"secret": "${input:k}", "kept in": "asked once a kernel", "servers": "b"},
    ]
    await magic("secret set db --service acme")
    assert await magic.error(CommandError, "secret forget db") == (
        "%mcp secret forget: there is no secret mcp-magic/db. It is stored under --service acme. "
        "`%mcp secret list` has the names."
    )
    assert "Did you mean 'github'?" in await magic.error(CommandError, "secret forget githup")
    listing = await magic("secret forget github")
    assert (listing.note, backend.get_password("mcp-magic", "github")) == ("forgotten: mcp-magic/github", None)
    assert listing.rows[1]["kept in"] == "keyring, not stored from here"
    assert "s3same" not in str(listing)
    assert candidates("secret forget ", {}).texts == ["db"]
    assert candidates("secret set ", {}).texts == ["github"]
    assert candidates("secret forget --service a", {}).texts == ["acme"]
    assert candidates("secret ", {}).texts == ["set", "list", "forget"]


WRONG = {
    "secret set": "%mcp secret set: name the secret: `%mcp secret set NAME [--service S]`.",
    "secret list x": "%mcp secret list: lists all, and takes no name.",
    "secret set ''": "%mcp secret set: name the secret: `%mcp secret set NAME [--service S]`.",
    "secret set a --service ' '": "%mcp secret set: neither the name nor the service can be empty.",
}


@pytest.mark.parametrize("line", WRONG)
async def test_a_line_that_is_wrong_says_what_is_right(magic, backend, line):  # noqa: F811
    assert await magic.error(CommandError, line) == WRONG[line]


async def test_nothing_is_stored_without_a_value(magic, backend, typed):  # noqa: F811
    typed.value = ""
    text = await magic.error(DeniedError, "secret set db")
    assert text == "%mcp secret set: nothing was entered, and nothing was stored as mcp-magic/db."
    assert (await magic("secret")).rows == []


async def test_a_secret_is_not_asked_for_where_nobody_is(magic, backend):  # noqa: F811
    assert await magic.error(DeniedError, "secret set 'my db' --service acme") == (
        "%mcp secret set: you cannot be asked here; in a terminal: "
        "`python -m mcp_magic secret set 'my db' --service acme`."
    )


async def test_a_line_refers_to_secrets(magic, backend, typed, program):  # noqa: F811
    backend.set_password("acme", "db", "s3same-4711")
    command = f"-- {program['command']} {program['args'][0]} '${{keyring:acme/db}}'"
    line = "connect --name it --env 'TOKEN=Bearer ${keyring:acme/db}' --env KEY=${input:key} --env A=$a " + command
    connection = await magic(line, a="${op://dev/db/x}")
    assert (await connection.call("look", name="TOKEN")).text == "Bearer s3same-4711"
    assert (await connection.call("look", name="KEY")).text == "s3same-4711"
    assert (await connection.call("look", name="A")).text == "${op://dev/db/x}", "a variable's value is no reference"
    assert (await connection.call("words")).data == ["${keyring:acme/db}"], "a command is taken as it is typed"
    assert typed.questions == ["Server it needs the input key of the line that connects it"]
    assert await magic(line, a="${op://dev/db/x}") is connection
    [row] = [row for row in (await magic("servers")).rows if row["server"] == "it"]
    assert row["secrets"] == "TOKEN from keyring acme/db, KEY from input key"
    assert "TOKEN from keyring acme/db" in connection.info().parts()[0].plain
    assert "s3same" not in connection.info().parts()[0].plain + repr(connection.info())


async def test_a_line_refers_to_the_environment(magic, monkeypatch, program):
    monkeypatch.setenv("OWN_TOKEN", "{4711}${env:B}")
    command = f"-- {program['command']} {program['args'][0]} '${{env:OWN_TOKEN}}'"
    env = "--env 'TOKEN=Bearer ${env:OWN_TOKEN}' --env 'B=${env:NOT_HERE:-b} \\${env:B}'"
    connection = await magic(f"connect --name it {env} {command}")
    assert (await connection.call("look", name="TOKEN")).text == "Bearer {4711}${env:B}", "a value is no reference"
    assert (await connection.call("look", name="B")).text == "b ${env:B}"
    assert (await connection.call("words")).data == ["{4711}${env:B}"]
    error = await magic.error(ArgumentsError, "connect http://127.0.0.1:9/mcp --header 'A: ${env:OWN_TOKE}'")
    assert error == "the environment has no variable OWN_TOKE. Did you mean 'OWN_TOKEN'?"
    assert "127.0.0.1:9" in await magic.error(
        UnreachableError, "connect http://127.0.0.1:9/mcp --client-id a --client-secret '${env:OWN_TOKEN}'"
    )


async def test_a_reference_of_a_line_that_is_wrong_is_told(magic):
    assert "is not complete; it is written ${keyring:SERVICE/NAME}" in await magic.error(
        CommandError, "connect http://127.0.0.1:9/mcp --header 'A: ${keyring:x}'"
    )


async def test_a_strangers_file_reads_no_secret_before_a_yes(magic, tmp_path, monkeypatch, program):
    ran = tmp_path / "was_run"
    put_op(tmp_path, monkeypatch, f"open({str(ran)!r}, 'w').write('x'); print('value', end='')")
    declare(magic, program, it={"TOKEN": "${op://Private/aws/secret}"})
    assert "give the secret op://Private/aws/secret to the server it" in await magic.error(DeniedError, "connect it")
    [row] = (await magic("config")).rows
    assert row["state"] == "ready"
    assert "TOKEN from op://Private/aws/secret" in (await magic("up .mcp.json --dry-run")).rows[0]["runs"]
    assert "op://Private" in await magic.error(DeniedError, "up .mcp.json")
    assert "op://Private" in await magic.error(DeniedError, "doctor it")
    await magic("secret")
    with pytest.raises(
        DeniedError, match=r"refers to secrets \(TOKEN from op://Private/aws/secret\), and you have not"
    ):
        await host.connect("it")
    assert not ran.exists()
    trust(alone(find_server("it", magic.folder)))
    connection = await magic("connect it")
    assert (await connection.call("look", name="TOKEN")).text == "value"
    await host.disconnect("it")
    assert (await host.connect("it")).state == "open"
    report = await magic("doctor it --name another")
    assert report.ok


async def test_the_doctor_says_which_secret_is_missing(magic, backend, program):  # noqa: F811
    declare(magic, program, it={"TOKEN": "${keyring:mcp-magic/db}"})
    trust(alone(find_server("it", magic.folder)))
    text = " ".join(str(await magic("doctor it")).split())
    assert "TOKEN from keyring mcp-magic/db: there is no such entry. `%mcp secret set db` stores one." in text
    assert "TOKEN" in await magic.error(SecretError, "connect it")


async def test_up_asks_for_inputs_once(magic, typed, program):
    servers = "".join(
        f"[servers.{name}]\ncommand = {json.dumps(program['command'])}\nargs = {json.dumps(program['args'])}\n"
        f"env = {{ KEY = '${{input:key}}' }}\n"
        for name in "ab"
    )
    text = f"{servers}[[inputs]]\nid = 'key'\ndescription = 'The key of acme'\n"
    (magic.folder / "mcp_magic.toml").write_text(text, encoding="utf-8")
    trust(load_declaration(magic.folder / "mcp_magic.toml"))
    await magic("up")
    assert [await text_of(name) for name in "ab"] == ["s3same-4711"] * 2
    [question] = typed.questions
    assert question.splitlines()[1] == "  The key of acme"
    row = (await magic("secret")).rows[0]
    assert (row["kept in"], row["servers"]) == ("this kernel's memory", "a, b")
    assert (await magic("secret forget key")).note == "forgotten: mcp-magic/key"


async def text_of(name: str) -> str:
    return str((await host[name].call("look", name="KEY")).text)
