"""Secrets of a declaration in real sessions: no card, error, trace, cassette or report shows one."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any
from urllib.parse import quote

import pytest
from IPython.core.interactiveshell import InteractiveShell
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic.cassette.cassette import deck
from mcp_magic.config.servers import load_config
from mcp_magic.doctor.examine import examine
from mcp_magic.errors import ConnectError
from tests.support.asgi import answering, serving
from tests.support.magic import own_home  # noqa: F401

PLAIN, PASSWORD, TENANT, NAME = "s3same-4711", "0pen-sesame", "a1b2c3d4e5f6a7b8", "bob-4711"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
DIES = "import os, sys; print('cannot log in with', *sys.argv[1:], os.environ['NOTE'], file=sys.stderr); sys.exit(3)"
"""A server that repeats what it was started with."""

Declare = Any


@pytest.fixture
def declared(tmp_path):
    """Read an entry of a file with variables."""
    environ = {"HOME": str(tmp_path), "MY_SECRET": PLAIN, "TENANT": TENANT, "NAME": NAME}

    def declare(table: dict[str, Any]) -> Any:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"theirs": table}}))
        [entry] = load_config(tmp_path / "mcp.json", environ=environ)
        return entry

    return declare


URL = {"url": "https://x.example/${MY_SECRET}/${TENANT}/mcp?q=${MY_SECRET}", "headers": {"X": "${MY_SECRET}"}}
COMMAND = {
    "command": "npx",
    "args": ["s", "${MY_SECRET}", "--at=${TENANT}", "${NAME}"],
    "env": {"NOTE": "${MY_SECRET}"},
}


@pytest.mark.parametrize("table", [URL, COMMAND], ids=["url", "command"])
def test_a_declaration_with_variables_is_shown_with_names(declared, table):
    entry = declared(table)
    shown = f"{entry.spec!r} {entry.spec.where} {entry.launch} {entry!r}"
    assert not [value for value in (PLAIN, TENANT, NAME) if value in shown], shown
    assert "${MY_SECRET}" in entry.spec.where
    assert "${TENANT}" in entry.spec.where
    assert {PLAIN, TENANT} <= entry.spec.secrets
    assert NAME not in entry.spec.secrets, "it is shown by name, and no secret"
    assert declared({"url": "http://x.example/${NO_TOKEN:-fallback}"}).spec.secrets == {"fallback"}


async def test_an_echo_leaks_no_secret_to_trace_tape_and_card(host, tmp_path, declared):
    server = MCPServer("mirror")

    @server.tool()
    def mirror(ctx: Context) -> str:
        request = ctx.request_context.request
        sent, cookie, url = request.headers["authorization"], request.headers["cookie"], str(request.url)
        decoded = base64.b64decode(sent.partition(" ")[2]).decode()
        said = [url, quote(url, ""), sent, decoded, decoded.partition(":")[2], json.dumps({"x": url})]
        return json.dumps([*said, cookie, base64.b64encode(cookie.encode()).decode()])

    app = server.streamable_http_app(streamable_http_path=f"/{PLAIN}/mcp")

    async def setting(scope: Any, receive: Any, send: Any) -> None:
        async def with_cookie(event: Any) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], (b"set-cookie", b"sid=c00kie-9; Path=/; HttpOnly")]}
            await send(event)

        await app(scope, receive, with_cookie)

    tape = tmp_path / "tape.jsonl"
    async with serving(setting) as at:
        headers = {"Authorization": f"Basic {BASIC}"}
        with deck.holding(tape, "record"):
            connection = await host.connect(
                declared({"url": f"{at.rstrip('/')}/${{MY_SECRET}}/mcp", "headers": headers}), name="mirror"
            )
            answer = await connection.call("mirror")
            card = f"{connection!r}{connection._repr_mimebundle_()}{host!r}"
            await host.close()
    for secret in (PLAIN, PASSWORD, "c00kie-9"):
        assert secret in answer.text, "the value itself is never changed"
    exported = json.dumps([entry.as_dict() for entry in host.trace.entries("mirror")], default=str)
    encoded = [base64.b64encode(f"{'x' * before}sid=c00kie-9yz".encode()).decode() for before in range(3)]
    for where, text in {"trace": exported, "cassette": tape.read_text(), "card": card}.items():
        for secret in (PLAIN, PASSWORD, BASIC, BASIC.rstrip("="), "c00kie-9", *encoded):
            assert secret not in text, f"{where}: {secret}"
    assert "${MY_SECRET}" in card


async def test_errors_and_stderr_of_a_server_have_no_secret(host, declared):
    command = {"command": sys.executable, "args": ["-c", DIES, "${MY_SECRET}"], "env": {"NOTE": "${MY_SECRET}"}}
    with pytest.raises(ConnectError) as caught:
        await host.connect(declared(command), name="theirs")
    assert "cannot log in with *** ***" in caught.value.stderr
    for text in (str(caught.value), repr(caught.value), caught.value.stderr, str(host.failed), repr(host)):
        assert PLAIN not in text
    async with serving(answering(500, f"no such path: /{PLAIN}/mcp".encode())) as at:
        with pytest.raises(ConnectError) as caught:
            await host.connect(declared({"url": f"{at.rstrip('/')}/${{MY_SECRET}}/mcp"}), name="web")
    assert PLAIN not in f"{caught.value} {caught.value!r}"
    assert "${MY_SECRET}" in str(caught.value)
    for table in ({"command": "/nonexistent/${MY_SECRET}"}, {"url": "http://127.0.0.1:9/${MY_SECRET}"}):
        with pytest.raises(ConnectError) as caught:
            await host.connect(declared(table), name="gone")
        assert PLAIN not in f"{caught.value} {caught.value!r}"


async def test_redirects_and_doctor_reports_show_no_secret(host, declared):
    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            location = f"http://elsewhere.example/{PLAIN}?token={PLAIN}".encode()
            await send({"type": "http.response.start", "status": 307, "headers": [(b"location", location)]})
            await send({"type": "http.response.body", "body": b""})

    async with serving(redirecting) as at:
        entry = declared({"url": f"{at.rstrip('/')}/${{MY_SECRET}}/mcp"})
        with pytest.raises(ConnectError) as caught:
            await host.connect(entry, name="web")
        report = await examine(host, entry)
    assert "redirects to http://elsewhere.example/***" in f"{report}"
    assert PLAIN not in f"{caught.value} {caught.value!r} {report} {report!r} {report._repr_mimebundle_()} {report.df}"


UNREADABLE = """
import os
class Unreadable(dict):
    def __ne__(self, other):
        inside = 'a value of the cell'
        raise RuntimeError(inside)
from mcp_magic import Host
def begin():
    return Host().connect('http://127.0.0.1:9/', headers=Unreadable(), env={'API_KEY': os.environ['OURS']})
await begin()
"""


@pytest.mark.usefixtures("own_home")
def test_verbose_traceback_shows_only_values_of_the_cell(monkeypatch, capsys):
    monkeypatch.setenv("OURS", PASSWORD)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell takes its place
    shell = InteractiveShell(colors="nocolor", xmode="Verbose")
    shell.run_line_magic("load_ext", "mcp_magic")
    try:
        for again in (UNREADABLE, "%tb"):
            shell.run_cell(again)
            shown = capsys.readouterr().out
            assert "targets.py" in shown, "our frames are there"
            assert "inside = 'a value of the cell'" in shown
            assert PASSWORD not in shown
    finally:
        shell.run_line_magic("unload_ext", "mcp_magic")
    assert "structured_traceback" not in vars(shell.InteractiveTB)
