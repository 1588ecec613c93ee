"""Secrets that come back: a server repeats what it was sent, in every spelling, and a declaration names a variable."""

from __future__ import annotations

import base64
import html
import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic.cassette.cassette import deck
from mcp_magic.config.masking import Masker, to_json
from mcp_magic.config.servers import load_config
from mcp_magic.config.specs import HttpSpec, StdioSpec, WebSocketSpec
from mcp_magic.doctor.examine import examine
from mcp_magic.errors import ConnectError
from tests.support.asgi import answering, serving

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

SECRET = 's3same/+ "ö\\4711'
PLAIN = "s3same-4711"
PASSWORD = "0pen-sesame"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()

DIES = "import os, sys; print('cannot log in with', *sys.argv[1:], os.environ['NOTE'], file=sys.stderr); sys.exit(3)"
"""A server that repeats what it was started with."""


def spellings(secret: str) -> dict[str, str]:
    """Return a secret as servers and libraries write it."""
    in_json = json.dumps(secret)[1:-1]
    prefixed = [base64.b64encode(f"{'x' * before}{secret}yz".encode()).decode() for before in range(3)]
    return {
        "as it is": secret,
        "in a URL": f"https://x.example/{quote(secret, '')}",
        "in a URL, in small letters": quote(secret, "").lower() if secret.islower() else secret,
        "in a query": quote_plus(secret),
        "as a path": quote(secret, "/"),
        "as httpx writes paths": quote(secret, "!$&'()*+,;=:@/"),
        "in JSON": in_json,
        "in JSON, not ASCII": json.dumps(secret, ensure_ascii=False)[1:-1],
        "in JSON of PHP": secret.replace("/", "\\/"),
        "in JSON in JSON": json.dumps(in_json)[1:-1],
        "in HTML": html.escape(secret),
        "in base64": base64.b64encode(secret.encode()).decode(),
        "in base64 of URLs": base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
        **{f"in base64 behind {before}": text for before, text in enumerate(prefixed)},
    }


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "MY_SECRET": PLAIN, "TENANT": "a1b2c3d4e5f6a7b8", "NAME": "bob-4711"}


def declared(tmp_path: Path, environ: dict[str, str], table: dict[str, Any]) -> Any:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"theirs": table}}))
    (entry,) = load_config(path, environ=environ)
    return entry


def masked(masker: Masker, message: dict[str, Any]) -> str:
    return masker.mask(to_json(message)).decode()


@pytest.mark.parametrize("secret", [SECRET, PLAIN])
def test_a_known_secret_is_masked_however_it_is_written(secret: str) -> None:
    spec = HttpSpec(url="https://x.example/", headers={"X-API-Key": secret})
    masker = Masker(spec.secrets)
    for name, written in spellings(secret).items():
        for shown in (spec.masked(f"it says {written}!"), masker.text(f"it says {written}!")):
            assert shown.count("***") == 1, f"{name}: {shown}"
        kept = masked(masker, {"result": {"content": [{"type": "text", "text": f"it says {written}!"}]}})
        assert "***" in kept, f"{name}: {kept}"


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ({"Authorization": f"Basic {BASIC}"}, [BASIC, f"me:{PASSWORD}", PASSWORD]),
        ({"Proxy-Authorization": f"basic {BASIC}"}, [BASIC, PASSWORD]),
        ({"Cookie": f"theme=dark; sid={PASSWORD}"}, [PASSWORD]),
        ({"Sec-WebSocket-Protocol": "mcp, bearer.a1b2c3, a1b2c3d4e5f6a7b8c9"}, ["a1b2c3d4e5f6a7b8c9"]),
    ],
)
def test_what_a_header_stands_for_is_a_secret_too(headers: dict[str, str], secrets: list[str]) -> None:
    spec = WebSocketSpec(url="ws://x.example/", headers=headers)
    for secret in secrets:
        assert secret not in spec.masked(f"I was sent {secret} just now")


def test_url_credentials_are_masked_like_their_header() -> None:
    spec = HttpSpec(url=f"https://me:{quote(PASSWORD)}%21@x.example/")
    sent = base64.b64encode(f"me:{PASSWORD}!".encode()).decode()
    for said in (sent, sent.rstrip("="), f"me:{PASSWORD}!", f"{PASSWORD}!"):
        assert PASSWORD not in spec.masked(f"got {said}")
        assert said not in spec.masked(f"got {said}")


def test_a_declaration_with_variables_is_shown_with_their_names(tmp_path: Path, environ: dict[str, str]) -> None:
    url = {"url": "https://x.example/${MY_SECRET}/${TENANT}/mcp?q=${MY_SECRET}", "headers": {"X": "${MY_SECRET}"}}
    command = {
        "command": "npx",
        "args": ["s", "${MY_SECRET}", "--at=${TENANT}", "${NAME}"],
        "env": {"NOTE": "${MY_SECRET}"},
    }
    for table in (url, command):
        entry = declared(tmp_path, environ, table)
        shown = f"{entry.spec!r} {entry.spec.where} {entry.written} {entry!r}"
        assert not [value for value in (PLAIN, environ["TENANT"], environ["NAME"]) if value in shown], shown
        assert "${MY_SECRET}" in entry.spec.where
        assert "${TENANT}" in entry.spec.where
        assert {PLAIN, environ["TENANT"]} <= entry.spec.secrets
        assert environ["NAME"] not in entry.spec.secrets, "it is shown by name, and no secret"
    assert declared(tmp_path, environ, {"url": "http://x.example/${NO_TOKEN:-fallback}"}).spec.secrets == {"fallback"}


async def test_echoed_request_leaks_no_secret_to_trace_cassette_card(
    host: Host, tmp_path: Path, environ: dict[str, str]
) -> None:
    server = MCPServer("mirror")

    @server.tool()
    def mirror(ctx: Context) -> str:
        request = ctx.request_context.request
        sent = request.headers["authorization"]
        decoded = base64.b64decode(sent.partition(" ")[2]).decode()
        url = str(request.url)
        return json.dumps([url, quote(url, ""), sent, decoded, decoded.partition(":")[2], json.dumps({"x": url})])

    app = server.streamable_http_app(streamable_http_path=f"/{PLAIN}/mcp")
    tape = tmp_path / "tape.jsonl"
    async with serving(app) as at:
        base = at.rstrip("/")
        table = {"url": f"{base}/${{MY_SECRET}}/mcp", "headers": {"Authorization": f"Basic {BASIC}"}}
        entry = declared(tmp_path, environ, table)
        with deck.holding(tape, "record"):
            connection = await host.connect(entry, name="mirror")
            answer = await connection.call("mirror")
            card = f"{connection!r}{connection._repr_mimebundle_()}{host!r}"
            await host.close()
    assert PLAIN in answer.text, "the value itself is never changed"
    assert PASSWORD in answer.text
    exported = json.dumps([each.as_dict() for each in host.trace.entries("mirror")], default=str)
    recorded = tape.read_text()
    for where, text in {"trace": exported, "cassette": recorded, "card": card}.items():
        for secret in (PLAIN, PASSWORD, BASIC, BASIC.rstrip("=")):
            assert secret not in text, f"{where}: {secret}"
    assert "${MY_SECRET}" in card


async def test_errors_and_what_a_server_wrote_to_stderr_have_no_secret(
    host: Host, tmp_path: Path, environ: dict[str, str]
) -> None:
    table = {"command": sys.executable, "args": ["-c", DIES, "${MY_SECRET}"], "env": {"NOTE": "${MY_SECRET}"}}
    with pytest.raises(ConnectError) as caught:
        await host.connect(declared(tmp_path, environ, table), name="theirs")
    error = caught.value
    assert "cannot log in with *** ***" in error.stderr
    for text in (str(error), repr(error), error.stderr, str(host.failed), repr(host)):
        assert PLAIN not in text
    async with serving(answering(500, f"no such path: /{PLAIN}/mcp".encode())) as at:
        with pytest.raises(ConnectError) as caught:
            await host.connect(declared(tmp_path, environ, {"url": f"{at.rstrip('/')}/${{MY_SECRET}}/mcp"}), name="web")
    assert PLAIN not in f"{caught.value} {caught.value!r}"
    assert "${MY_SECRET}" in str(caught.value)
    for table in ({"command": "/nonexistent/${MY_SECRET}"}, {"url": "http://127.0.0.1:9/${MY_SECRET}"}):
        with pytest.raises(ConnectError) as caught:
            await host.connect(declared(tmp_path, environ, table), name="gone")
        assert PLAIN not in f"{caught.value} {caught.value!r}"


def test_no_variable_is_no_change() -> None:
    spec = StdioSpec(command="npx", args=("server",))
    assert (spec.where, spec.secrets, spec.masked("as it is")) == ("npx server", frozenset(), "as it is")


async def test_no_redirect_and_no_report_of_the_doctor_shows_a_secret(
    host: Host, tmp_path: Path, environ: dict[str, str]
) -> None:
    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            location = f"http://elsewhere.example/{PLAIN}?token={PLAIN}".encode()
            await send({"type": "http.response.start", "status": 307, "headers": [(b"location", location)]})
            await send({"type": "http.response.body", "body": b""})

    async with serving(redirecting) as at:
        entry = declared(tmp_path, environ, {"url": f"{at.rstrip('/')}/${{MY_SECRET}}/mcp"})
        with pytest.raises(ConnectError) as caught:
            await host.connect(entry, name="web")
        report = await examine(host, entry)
    assert "redirects to http://elsewhere.example/***" in f"{report}"
    assert PLAIN not in f"{caught.value} {caught.value!r} {report} {report!r} {report._repr_mimebundle_()} {report.df}"


def in_base64(secret: str) -> list[str]:
    return [base64.b64encode(f"{'x' * before}{secret}yz".encode()).decode() for before in range(3)]


def test_named_secret_is_masked_in_base64_too() -> None:
    masker = Masker(())
    masked(masker, {"params": {"arguments": {"password": PLAIN}}})
    for written in [base64.b64encode(PLAIN.encode()).decode(), *in_base64(PLAIN)]:
        shown = masked(masker, {"result": {"content": [{"type": "text", "text": f"it says {written}!"}]}})
        assert "***" in shown, shown


@pytest.mark.parametrize(
    "message",
    [
        {"params": {"headers": {"Authorization": f"Basic {BASIC}"}}},
        {"params": {"text": f"curl -H 'Authorization: Basic {BASIC}' https://x.example"}},
        {"params": {"text": f"authorization: I sent basic {BASIC.rstrip('=')}"}},
    ],
)
def test_base64_credentials_are_masked_everywhere(message: Any) -> None:
    masker = Masker(())
    assert BASIC.rstrip("=") not in masked(masker, message)
    for secret in (BASIC, BASIC.rstrip("="), f"me:{PASSWORD}", PASSWORD, *in_base64(PASSWORD)):
        shown = masked(masker, {"result": {"content": [{"type": "text", "text": f"got {secret}"}]}})
        assert "***" in shown, shown
    masker.text("no authorization for basic arithmetic")
    assert masker.text("arithmetic") == "arithmetic", "a word of prose is not learned"


@pytest.mark.parametrize(
    "text",
    [
        *(f"Set-Cookie: sid={PASSWORD}; Path=/; HttpOnly", f"Set-Cookie: s={PASSWORD}"),
        *(f"Cookie: theme=dark; sid={PASSWORD}", f"{{'set-cookie': 'sid={PASSWORD}; Path=/'}}"),
        json.dumps({"headers": [["x", "y"], ["set-cookie", f"sid={PASSWORD}"]]}),
        json.dumps({"text": json.dumps({"Cookie": f"a=b; sid={PASSWORD}"})}),
    ],
)
def test_cookies_in_text_are_masked_everywhere(text: str) -> None:
    masker = Masker(())
    for message in ({"result": {"text": text}}, {"result": {"text": f"got {PASSWORD} and {in_base64(PASSWORD)}"}}):
        shown = masked(masker, message)
        assert PASSWORD not in shown
        assert "***" in shown
    assert masker.text("the theme is dark") == "the theme is dark"


async def test_http_cookie_stays_out_of_trace_and_cassette(host: Host, tmp_path: Path) -> None:
    server = MCPServer("mirror")

    @server.tool()
    def mirror(ctx: Context) -> str:
        sent = ctx.request_context.request.headers["cookie"]
        return json.dumps([sent, base64.b64encode(sent.encode()).decode()])

    app = server.streamable_http_app()

    async def setting(scope: Any, receive: Any, send: Any) -> None:
        async def with_cookie(event: Any) -> None:
            if event["type"] == "http.response.start":
                cookie = f"sid={PASSWORD}; Path=/; HttpOnly".encode()
                event = {**event, "headers": [*event["headers"], (b"set-cookie", cookie)]}
            await send(event)

        await app(scope, receive, with_cookie)

    tape = tmp_path / "tape.jsonl"
    async with serving(setting) as at:
        with deck.holding(tape, "record"):
            connection = await host.connect(f"{at.rstrip('/')}/mcp", name="mirror")
            assert PASSWORD in (await connection.call("mirror")).text, "the value itself is never changed"
            await host.close()
    exported = json.dumps([each.as_dict() for each in host.trace.entries("mirror")], default=str)
    for text in (exported, tape.read_text()):
        assert PASSWORD not in text
        assert not [form for form in in_base64(f"sid={PASSWORD}") if form in text]


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


def test_verbose_traceback_shows_only_values_of_the_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("OURS", PASSWORD)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
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
