"""The doctor finds the step at which a sick server fails, says why, and ends all that it started."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.server.mcpserver import MCPServer

from mcp_magic.consent.rules import Rule
from mcp_magic.doctor import DoctorReport, examine
from tests.support import SUPPORT
from tests.support.asgi import answer, answering, never, serving
from tests.support.bundled import load
from tests.support.certificates import self_signed
from tests.support.processes import free_port
from tests.support.websockets_server import serve_websocket

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

SICK = SUPPORT / "sick_server.py"
TOOL = {
    "name": "look",
    "description": "Looks.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def sick(**told: Any) -> list[str]:
    """Return the command of a server that is told what to say; `/` in a method is written `__`."""
    return [sys.executable, str(SICK), json.dumps({name.replace("__", "/"): value for name, value in told.items()})]


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def told(report: DoctorReport, step: str) -> str:
    return "\n".join(f"{status}: {text} -> {todo}" for status, text, todo in report[step].remarks)


def fails(report: DoctorReport, step: str, *says: str) -> None:
    """Hold that a report fails at a step and says certain things, and that the steps after it were not reached."""
    assert report.failed_at == step, str(report)
    assert not report.ok
    for words in says:
        assert words in told(report, step)
    after = [one.name for one in report.steps]
    late = after[after.index(step) + 1 :]
    assert {report[name].status for name in late} <= {"not reached", "not needed"}
    assert f" in: {step}" in str(report)


# Healthy ones


async def test_a_healthy_server_passes_all_steps_and_is_ended(host: Host) -> None:
    report = await examine(host, sick(tools__list={"tools": [TOOL]}, tools__call={"content": []}), call="")
    assert report.ok, str(report)
    assert report.problems == []
    assert repr(report) == "<DoctorReport of sick: healthy>"
    assert [step.name for step in report.steps] == [
        *("resolve", "connect", "TLS", "HTTP", "handshake", "version", "capabilities", "lists", "schemas"),
        *("ping", "call", "close"),
    ]
    assert (
        "refused, Method not found (-32601, method not found): an older server, which begins with initialize"
        in told(report, "handshake")
    )
    assert "initialize: answered in" in told(report, "handshake")
    assert "1 tool in" in told(report, "lists")
    assert "look() answered in" in told(report, "call")
    assert "after its stdin was closed" in told(report, "close")
    assert len(host) == 0  # and the fixture checks that no process is left
    assert list(report.df.columns) == ["step", "status", "what", "todo", "ms"]


async def test_a_server_of_2026_takes_both_beginnings(host: Host) -> None:
    async with serving(MCPServer("web").streamable_http_app(), lifespan="on") as url:
        report = await examine(host, f"{url}/mcp")
    assert report.ok, str(report)
    assert "server/discover: answered in" in told(report, "handshake")
    assert "it takes 2026-07-28" in told(report, "handshake")
    assert "initialize: answered in" in told(report, "handshake")
    assert "HTTP 200 with" in told(report, "HTTP")
    assert "it uses sessions" in told(report, "HTTP")
    assert "it is left" not in told(report, "close")


async def test_a_server_in_this_kernel_needs_no_network(host: Host) -> None:
    report = await examine(host, load("math_server").server)
    assert report.ok, str(report)
    assert report["connect"].status == "not needed"
    assert "8 tools" in told(report, "lists")
    assert "server/discover: " in told(report, "ping")


async def test_a_server_behind_a_websocket(host: Host) -> None:
    async with serve_websocket(MCPServer("socket")) as url:
        report = await examine(host, url)
    assert report.ok, str(report)
    assert report["HTTP"].status == "not needed"
    assert "the session speaks protocol" in told(report, "version")


async def test_doctor_examines_old_transport_on_request(host: Host) -> None:
    async with serving(MCPServer("web").sse_app(), lifespan="on") as url:
        report = await examine(host, f"{url}/sse", transport="sse")
    assert report.ok, str(report)


async def test_secrets_that_a_server_repeats_are_masked(host: Host) -> None:
    report = await examine(host, sick(tools__list={"error": -32500}), env={"API_TOKEN": "I am ill"})
    assert "*** (-32500" in told(report, "lists")
    assert "I am ill" not in str(report)


async def test_an_open_session_is_looked_at_and_left_as_it_is(host: Host) -> None:
    connection = await host.connect(sick(tools__list={"tools": [TOOL]}), name="mine")
    before = (connection.calls, connection.failures, connection.client)
    processes = set(psutil.Process().children(recursive=True))
    report = await examine(host, "mine")
    assert report.ok, str(report)
    assert "the session 'mine', stdio" in told(report, "resolve")
    assert report["close"].remarks[0].text == "the session is left open"
    assert (connection.calls, connection.failures, connection.client) == before
    assert connection.state == "open"
    assert set(psutil.Process().children(recursive=True)) == processes


# Resolve


async def test_a_target_that_means_nothing_fails_at_resolve(host: Host) -> None:
    fails(await examine(host, "nowhere"), "resolve", "'nowhere' is not a file, URL, variable or configured name")


async def test_a_command_that_is_not_there_fails_at_resolve(host: Host, tmp_path: Path) -> None:
    fails(await examine(host, ["nothing-of-the-kind"]), "resolve", "is not found -> is it installed and on PATH?")
    plain = tmp_path / "server.sh"
    plain.write_text("echo")
    fails(await examine(host, [str(plain)]), "resolve", "cannot be started: Permission denied -> `chmod +x")
    report = await examine(host, [sys.executable], cwd=tmp_path / "gone")
    fails(report, "resolve", "the working directory", "does not exist")


# Connect


async def test_a_server_that_dies_says_its_last_words_without_secrets(host: Host) -> None:
    code = "import os, sys; sys.exit('no licence for ' + os.environ['API_TOKEN'])"
    report = await examine(host, script(code), env={"API_TOKEN": "sesame-123"})
    fails(report, "connect", "it ended before it answered (exit code 1)", "stderr: no licence for ***")
    assert "sesame" not in str(report) + report._repr_mimebundle_()["text/html"] + report.df.to_csv()


async def test_a_program_that_is_no_server_is_told_from_one_that_hangs(host: Host) -> None:
    says = {
        "echo Welcome!; exec sleep 60": (
            "it printed something to stdout that is not an MCP message: 'Welcome!'",
            "is this command an MCP server?",
        ),
        "exec sleep 60": ("it runs, and answers nothing in 2 s", "--timeout S waits longer"),
        "echo listening on http://127.0.0.1:8123/mcp >&2; exec sleep 60": ("`%mcp doctor http://127.0.0.1:8123/mcp`",),
        "exec cat": ("it runs, and answers nothing in 2 s",),
    }
    reports = await asyncio.gather(*(examine(host, ["sh", "-c", code], timeout=2) for code in says))
    for report, words in zip(reports, says.values(), strict=True):
        fails(report, "connect", *words)


async def test_doctor_warns_of_stray_line_of_working_server(host: Host) -> None:
    report = await examine(host, sick(_banner="Starting up...", tools__list={"tools": []}))
    assert report.ok, str(report)
    words = "warning: it printed something to stdout that is not an MCP message: 'Starting up...'"
    assert words in told(report, "connect")
    assert report["connect"].status == "warning"
    await host.connect(sick(_banner="Starting up...", tools__list={"tools": []}), name="open")
    report = await examine(host, "open")
    assert words in told(report, "connect")
    assert report.verdict == "healthy, 1 warning"


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
async def test_a_print_that_waits_in_a_buffer_is_a_warning(host: Host, tmp_path: Path, version: str) -> None:
    server = tmp_path / "prints.py"
    server.write_text(
        "import json, os, sys\n"
        f"sys.path.insert(0, {str(SUPPORT)!r})\n"
        "from plain import Plain\n"
        f"server = Plain('prints', {version!r})\n"
        "wire = os.fdopen(os.dup(1), 'w')  # as the SDK does: messages go out beside the buffer of `print`\n"
        "server.say = lambda **message: print(json.dumps({'jsonrpc': '2.0', **message}), file=wire, flush=True)\n"
        "print('Ready')\n"
        "server.run()\n"
    )
    report = await examine(host, [sys.executable, str(server)])
    assert report.ok, str(report)
    words = "warning: it printed something to stdout that is not an MCP message: 'Ready'"
    assert told(report, "connect").count(words) == 1


async def test_a_print_in_a_server_of_the_sdk_is_a_warning(host: Host, tmp_path: Path) -> None:
    server = tmp_path / "prints.py"
    lines = ("from mcp.server.mcpserver import MCPServer", "server = MCPServer('prints')", "print('Ready')")
    server.write_text("\n".join((*lines, "server.run()")))
    report = await examine(host, str(server))
    assert "it printed something to stdout that is not an MCP message: 'Ready'" in told(report, "connect")


async def test_a_syntax_error_has_its_file_and_line_and_is_no_tick(host: Host, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text("name = 1\ndef tool(:\n    pass\n")
    report = await examine(host, str(server))
    fails(report, "connect", f"note: stderr: SyntaxError: invalid syntax ({server}, line 2)")


async def test_a_port_without_a_server_and_a_host_that_is_none(host: Host) -> None:
    port = free_port()
    fails(
        await examine(host, f"http://127.0.0.1:{port}/mcp"),
        "connect",
        f"nothing listens at 127.0.0.1:{port} -> is the server running?",
    )
    fails(await examine(host, "http://no-such-host.invalid/mcp"), "connect", "no such host: no-such-host.invalid")


# TLS


async def test_doctor_reads_untrusted_certificate_and_fails_at_tls(host: Host, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    app = MCPServer("web").streamable_http_app()
    async with serving(app, lifespan="on", ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        report = await examine(host, f"{url}/mcp")
        trusted = await examine(host, f"{url}/mcp", verify=str(certificate))
        loose = await examine(host, f"{url}/mcp", verify=False)
    fails(report, "TLS", "certificate of CN=127.0.0.1, for 127.0.0.1, issued by itself", "--ca FILE")
    assert "TLSv1.3" in told(report, "TLS")
    assert "it is not trusted: self-signed certificate" in told(report, "TLS")
    assert trusted.ok, str(trusted)
    assert "warning: it expires in 2.0 days" in told(trusted, "TLS")
    assert "it is trusted by " in told(trusted, "TLS")
    assert "the certificate is not checked" in told(loose, "TLS")


async def test_a_certificate_for_another_host_says_for_which(host: Host, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    app = answering(200)
    async with serving(app, ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        port = url.rpartition(":")[2]
        report = await examine(host, f"https://localhost:{port}/mcp", verify=str(certificate))
    fails(report, "TLS", "Hostname mismatch", "connect by a name that it is for (127.0.0.1)")


async def test_a_certificate_that_has_expired(host: Host, tmp_path: Path) -> None:
    certificate, key = expired(tmp_path)
    async with serving(answering(200), ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        report = await examine(host, f"{url}/mcp", verify=str(certificate))
    fails(report, "TLS", "it expired 10 days ago -> renew the certificate", "certificate has expired")


def expired(folder: Path) -> tuple[Path, Path]:
    """Return the paths of a self-signed certificate that expired ten days ago, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    end = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=10)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, end - datetime.timedelta(days=1), end)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, secret


async def test_a_port_that_speaks_no_tls(host: Host) -> None:
    async with serving(answering(200)) as url:
        report = await examine(host, f"{url.replace('http', 'https')}/mcp")
    fails(report, "TLS", "no TLS handshake", "is it http:// (ws://)?")


# HTTP


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "HTTP 403 (forbidden; fault: you)"),
        (429, "HTTP 429 (too many requests; fault: the caller)"),
        (500, "HTTP 500 (internal server error; fault: the server): 'out of order' -> the server failed"),
        (502, "HTTP 502 (bad gateway; fault: the network)"),
    ],
)
async def test_a_status_says_what_it_means_and_whose_fault_it_is(host: Host, status: int, says: str) -> None:
    async with serving(answering(status, b"out of order")) as url:
        fails(await examine(host, f"{url}/mcp"), "HTTP", says)


async def test_a_server_that_wants_basic_authentication_says_no_more(host: Host) -> None:
    report = await _locked(host, 'Basic realm="the vault"', {})
    fails(report, "HTTP", "it wants Basic authentication for 'the vault'", "no OAuth metadata", "--header 'Auth")


async def test_a_challenge_is_read_out_and_nobody_is_logged_in(host: Host) -> None:
    asked: list[str] = []
    documents = {
        "/.well-known/oauth-protected-resource/mcp": {
            "resource": "URL/mcp",
            "authorization_servers": ["URL/as"],
            "scopes_supported": ["read", "write"],
        },
        "/.well-known/oauth-authorization-server/as": {
            "issuer": "URL/as",
            "registration_endpoint": "URL/as/register",
            "code_challenge_methods_supported": ["plain"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
        },
    }
    report = await _locked(host, 'Bearer error="invalid_token", scope="read"', documents, asked, bearer="sesame-123")
    fails(report, "HTTP", "it says: error 'invalid_token', scope 'read'", "with the scopes read, write")
    assert "registers clients; grants: authorization_code, refresh_token" in told(report, "HTTP")
    assert "does not say that it takes PKCE with S256" in told(report, "HTTP")
    assert "the token that was sent is refused -> `%mcp connect URL` logs in" in told(report, "HTTP")
    assert "sesame" not in str(report)
    assert not [path for path, credentials in asked if "well-known" in path and credentials]
    assert not [path for path, _ in asked if "register" in path or "authorize" in path]


async def _locked(host: Host, challenge: str, documents: Any, asked: Any = None, bearer: str = "") -> DoctorReport:
    asked = [] if asked is None else asked
    base = ""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await answering(200)(scope, receive, send)
            return
        asked.append((scope["path"], dict(scope["headers"]).get(b"authorization", b"")))
        if scope["path"] in documents:
            body = json.dumps(documents[scope["path"]]).replace("URL", base)
            await answer(send, 200, body.encode())
            return
        status = 404 if "well-known" in scope["path"] else 401
        headers = [(b"www-authenticate", challenge.encode())] if status == 401 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with serving(app) as url:
        base = url
        return await examine(host, f"{url}/mcp", headers=headers)


async def test_a_wrong_path_is_told_where_the_server_is(host: Host) -> None:
    async with serving(MCPServer("web").streamable_http_app(), lifespan="on") as url:
        report = await examine(host, f"{url}/")
    fails(report, "HTTP", "HTTP 404", "but /mcp of the same server speaks it -> connect to /mcp")


async def test_a_server_of_the_old_transport_is_recognised(host: Host) -> None:
    async with serving(MCPServer("web").sse_app(), lifespan="on") as url:
        fallen_back = await examine(host, f"{url}/sse")
        report = await examine(host, f"{url}/sse", transport="http")
    assert fallen_back.ok, str(fallen_back)
    assert "warning: HTTP 405 with text/plain, which is not MCP; it is a server of the old" in told(fallen_back, "HTTP")
    fails(report, "HTTP", "a server of the old HTTP+SSE transport -> --transport sse")


async def test_what_is_no_mcp_at_all(host: Host) -> None:
    async with serving(answering(200, b"<html>hi</html>", "text/html")) as url:
        fails(await examine(host, f"{url}/"), "HTTP", "HTTP 200 with text/html, which is not MCP: '<html>hi</html>'")
    async with serving(answering(200, b'{"hello": "world"}', "application/json")) as url:
        fails(await examine(host, f"{url}/"), "HTTP", "with application/json, which is not MCP")


async def test_a_server_that_never_answers_over_http(host: Host) -> None:
    async with serving(never, lifespan="off") as url:
        report = await examine(host, f"{url}/mcp", timeout=0.5)
    fails(report, "HTTP", "it accepts the request, and gives no answer in 0.5 s")


async def test_a_redirect_is_named(host: Host) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"location", b"https://elsewhere.example/mcp")]
        await send({"type": "http.response.start", "status": 308, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app, lifespan="off") as url:
        report = await examine(host, f"{url}/mcp")
    fails(report, "HTTP", "it redirects to https://elsewhere.example/mcp, which leads to another server")


async def test_a_local_server_that_any_web_page_may_use_is_warned_of(host: Host) -> None:
    from mcp.server.transport_security import TransportSecuritySettings

    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = MCPServer("web").streamable_http_app(transport_security=open_to_all)
    async with serving(app, lifespan="on") as url:
        report = await examine(host, f"{url}/mcp")
    assert report.ok, str(report)
    assert "warning: it answers a request that comes from a web page of another site" in told(report, "HTTP")


# Handshake, capabilities, lists


async def test_a_version_that_nobody_knows_fails_at_the_handshake(host: Host) -> None:
    fails(
        await examine(host, sick(_version="1999-01-01")),
        "handshake",
        "protocol '1999-01-01', which is not a known version",
    )


async def test_an_old_version_is_a_warning(host: Host) -> None:
    report = await examine(host, sick(_version="2024-11-05", tools__list={"tools": []}))
    assert report.ok
    assert "warning: 2024-11-05 has no structured results" in told(report, "version")


async def test_announced_and_answered_are_compared(host: Host) -> None:
    command = sick(
        _capabilities={"resources": {}},
        resources__list={"resources": []},
        tools__list={"tools": [TOOL]},
        prompts__list={"prompts": []},
    )
    report = await examine(host, command)
    assert "warning: tools/list answers with 1 tools, which are not announced" in told(report, "capabilities")
    assert "prompts" not in told(report, "capabilities")
    report = await examine(host, sick(_capabilities={"prompts": {}}))
    assert "failed: prompts are announced, but prompts/list is unknown" in told(report, "capabilities")
    assert report.failed_at == "capabilities"
    assert report["ping"].status == "ok"  # what does not stand on the list is looked at all the same


async def test_doctor_checks_other_lists_after_one_fails(host: Host) -> None:
    report = await examine(
        host,
        sick(
            _capabilities={"tools": {}, "prompts": {}},
            tools__list={"error": -32603},
            prompts__list={"prompts": [{"name": "p", "description": "Says p."}]},
        ),
    )
    assert report.failed_at == "lists"
    assert "tools/list: I am ill (-32603, internal error; fault: the server)" in told(report, "lists")
    assert "1 prompt in" in told(report, "lists")


async def test_cursors_that_loop_and_duplicates(host: Host) -> None:
    pages = [
        {"tools": [TOOL], "nextCursor": "1"},
        {"tools": [TOOL, {**TOOL, "name": "other"}], "nextCursor": "0"},
    ]
    report = await examine(host, sick(tools__list=pages))
    lists = told(report, "lists")
    assert "tools: the cursor '1' came twice: the list never ends" in lists
    assert "tools: listed more than once: look" in lists
    assert report.failed_at == "lists"


async def test_items_and_pages_that_break_the_protocol_are_named(host: Host) -> None:
    report = await examine(host, sick(tools__list={"tools": [TOOL, {"name": "bare"}]}))
    odd = "the tool `bare` has no inputSchema; it is taken as an object without properties -> fix it in the server"
    assert f"warning: {odd}" in told(report, "lists")
    report = await examine(host, sick(tools__list={"items": []}))
    assert "warning: tools is null, not a list" in told(report, "lists")


async def test_doctor_lints_broken_list_entries_with_the_rest(host: Host) -> None:
    bad = [TOOL, {"name": "bare"}, {**TOOL, "name": "text", "inputSchema": {"type": "string"}}]
    report = await examine(host, sick(tools__list={"tools": bad}))
    why = 'its inputSchema is of type "string"; the arguments of a tool are an object'
    assert f"the tool `text` cannot be used: {why}" in told(report, "lists")
    assert f"tool text: not a valid definition: {why} [definition-invalid]" in told(report, "schemas")
    assert report.findings is not None
    assert "checked 2 tools" in report.findings.note


async def test_doctor_asks_if_a_program_that_ends_is_a_server(host: Host) -> None:
    report = await examine(host, script("import sys"))
    fails(report, "connect", "it ended before it answered (exit code 0)", "must call run()")


async def test_doctor_blames_no_example_arguments_without_arguments(host: Host) -> None:
    server = MCPServer("half")

    @server.tool()
    def bad() -> int:
        """Fails."""
        raise KeyError("no ink")

    report = await examine(host, server, call="bad")
    assert "bad() reports an error" in told(report, "call")
    assert "example arguments" not in told(report, "call")


async def test_a_list_that_hangs_is_given_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.doctor.session.PAGE_SECONDS", 0.3)
    report = await examine(host, sick(_hangs=["tools/list"]))
    assert "failed: tools/list: timed out: no answer within 0.3 s" in told(report, "lists")


async def test_bad_schemas_are_named_with_what_to_do(host: Host) -> None:
    bad = {
        "name": "bad",
        "description": "Bad.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "int"}}},
    }
    report = await examine(host, sick(tools__list={"tools": [bad]}))
    assert report.failed_at == "schemas"
    assert "tool bad: not valid JSON Schema at properties/a/type" in told(report, "schemas")
    assert report.findings is not None
    assert "schema-invalid" in report.findings.codes


# Call and close


async def test_a_call_goes_through_consent(host: Host) -> None:
    host.consent.rules.append(Rule("deny", "sick:*"))
    report = await examine(host, sick(tools__list={"tools": [TOOL]}, tools__call={"content": []}), call="look")
    assert report.ok
    assert "warning: look() was not called" in told(report, "call")


async def test_doctor_does_not_call_a_changing_tool_with_examples(host: Host) -> None:
    tool = {"name": "wipe", "inputSchema": {"type": "object", "required": ["disk"], "properties": {"disk": {}}}}
    report = await examine(host, sick(tools__list={"tools": [tool]}), call="wipe")
    assert "wipe needs disk, and is not marked read-only, so it was not called -> %mcp call" in told(report, "call")
    report = await examine(host, sick(tools__list={"tools": [tool]}), call="wype")
    assert "there is no tool 'wype'. Did you mean 'wipe'?" in told(report, "call")
    report = await examine(host, sick(tools__list={"tools": [tool]}), call="")
    assert report["call"].status == "not needed"


async def test_structured_content_without_a_schema_is_noted(host: Host) -> None:
    answered = {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": 1}}
    report = await examine(host, sick(tools__list={"tools": [TOOL]}, tools__call=answered), call="")
    assert "answers with structured content and has no outputSchema" in told(report, "call")


async def test_a_server_that_does_not_end_takes_a_signal(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.doctor.stdio.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.2)
    monkeypatch.setattr("mcp.client.stdio.FORCE_KILL_TIMEOUT", 0.2)
    report = await examine(host, sick(_stays=True, tools__list={"tools": []}))
    assert report.ok
    assert "it took SIGKILL" in told(report, "close")


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
async def test_a_server_that_leaves_children_behind(host: Host) -> None:
    report = await examine(host, sick(_child=True, tools__list={"tools": []}))
    assert report.ok
    assert "it leaves processes running that it started" in told(report, "close")


async def test_an_interrupted_examination_leaves_nothing_running(host: Host) -> None:
    examining = asyncio.ensure_future(examine(host, sick(_hangs=["tools/list"], **{"_capabilities": {"tools": {}}})))
    while "tools/list" not in [entry.method for entry in host.trace.entries()]:
        await asyncio.sleep(0.01)
    examining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await examining  # the fixture checks that no process and no task is left


# How it shows


async def test_the_report_reads_well_and_escapes_what_servers_say(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    report = await examine(host, script("import sys; sys.exit('<img src=x> \\x1b[31mred')"))
    shown = report._repr_mimebundle_()
    assert "<img" not in shown["text/html"]
    assert "&lt;img src=x&gt;" in shown["text/html"]
    assert "\x1b" not in shown["text/plain"]
    lines = shown["text/plain"].splitlines()
    assert lines[0] == "Doctor: python: 1 error in: connect"
    missed = "· not reached: handshake, version, capabilities, lists, schemas, ping, call, close"
    assert " ".join(" ".join(lines[-2:]).split()) == missed
    assert not [line for line in lines if len(line) > 80]
    assert "✗ failed" in shown["text/html"]
    assert "· not reached" in shown["text/html"]
