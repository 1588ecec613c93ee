"""References to secrets become values when a server is connected, for this server alone, and are shown nowhere."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.cassette.cassette import deck
from mcp_magic.config.servers import parse_servers
from mcp_magic.doctor import examine
from mcp_magic.errors import ConnectError, SecretError
from mcp_magic.session import secrets
from tests.support.asgi import serving
from tests.support.keyrings import backend, put_op  # noqa: F401
from tests.support.waiting import until

HERE = Path(__file__).parents[2]
SECRET = "s3same-0pen/you & me"
SERVER = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
from tests.support.plain import Plain

server = Plain("gives")
print("begins with", os.environ.get("TOKEN"), *sys.argv[1:], file=sys.stderr, flush=True)

@server.tool
def look(name: str) -> str:
    return os.environ.get(name, "")

@server.tool
def words() -> list:
    return sys.argv[1:]

server.run()
"""


def entry(fields: dict[str, Any], source: str = "mcp.json", inputs: Any = (), **environ: str) -> Any:
    data = {"servers": {"it": fields}, "inputs": inputs}
    [only] = parse_servers(data, source=source, environ=environ, base=None)
    return only


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "gives.py"
    path.write_text(SERVER, encoding="utf-8")
    return {"command": sys.executable, "args": [str(path)]}


async def test_a_secret_of_the_keyring_reaches_its_server_alone(host, backend, program):  # noqa: F811
    backend.set_password("acme", "db", SECRET)
    args = [*program["args"], "--key=${keyring:acme/db}"]
    mine = entry({**program, "args": args, "env": {"TOKEN": "Bearer ${keyring:acme/db}"}}).spec
    assert "s3same" not in repr(mine)
    connection = await host.connect_spec(mine, "mine")
    other = await host.connect_spec(entry(program).spec, "other")
    assert (await connection.call("look", name="TOKEN")).text == f"Bearer {SECRET}"
    assert (await connection.call("words")).data == [f"--key={SECRET}"]
    assert (await other.call("look", name="TOKEN")).text == ""
    assert connection.spec == mine
    shown = [repr(connection.spec), str(connection.info()), connection.place.stderr(), str(connection.trace.entries)]
    shown += [entry.json for entry in connection.trace.entries] if hasattr(connection.trace.entries[0], "json") else []
    assert not [text for text in shown if "s3same" in text]
    assert "begins with Bearer ***" in connection.place.stderr()


async def test_op_reads_a_secret(host, tmp_path, monkeypatch, program):
    put_op(tmp_path, monkeypatch, "print(f'value of {sys.argv[1:]}', end='')")
    connection = await host.connect_spec(entry({**program, "env": {"TOKEN": "${op://dev/db/pass word}"}}).spec, "it")
    text = (await connection.call("look", name="TOKEN")).text
    assert text == "value of ['read', '--no-newline', 'op://dev/db/pass word']"


async def test_the_value_of_a_secret_is_not_searched_for_references(host, backend, program):  # noqa: F811
    backend.set_password("a", "b", "${keyring:a/c} ${HOME} ${input:x}")
    backend.set_password("a", "c", SECRET)
    fields = {**program, "env": {"TOKEN": "${keyring:a/b}", "OTHER": "${keyring:a/c}"}}
    connection = await host.connect_spec(entry(fields).spec, "it")
    assert (await connection.call("look", name="TOKEN")).text == "${keyring:a/c} ${HOME} ${input:x}"
    assert (await connection.call("look", name="OTHER")).text == SECRET


async def test_forms_of_a_secret_are_masked_in_what_a_server_writes(host, backend, program):  # noqa: F811
    backend.set_password("a", "b", f"{SECRET}\nsecond line 2")
    connection = await host.connect_spec(entry({**program, "env": {"X": "${keyring:a/b}"}}).spec, "it")
    forms = [SECRET, f"Bearer {SECRET}", quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()]
    for form in [*forms, json.dumps(SECRET), "second line 2"]:
        assert "***" in connection.place.masked(form)
        assert "***" in connection.spec.masked(form)
        assert "s3same" not in connection.place.masked(form)
    await connection.call("look", name=SECRET)
    assert "s3same" not in json.dumps([e.message for e in connection.trace.entries])


INSIDE = {
    "Bearer s3same-4711": "the token s3same-4711 is old",
    "Basic bWU6czNzYW1lLTQ3MTE=": "s3same-4711 is wrong",
    "postgresql://me:s3same-4711@db.example/x": "postgresql+psycopg://me:s3same-4711@db.example/x",
}


@pytest.mark.parametrize(("value", "text"), INSIDE.items(), ids=["bearer", "basic", "url"])
async def test_a_secret_inside_a_secret_is_masked(host, backend, program, value, text):  # noqa: F811
    backend.set_password("a", "b", value)
    connection = await host.connect_spec(entry({**program, "env": {"X": "${keyring:a/b}"}}).spec, "it")
    await connection.call("look", name=text)
    shown = [
        connection.spec.masked(text),
        connection.place.masked(text),
        str([e.message for e in connection.trace.entries]),
    ]
    assert not [line for line in shown if "s3same" in line]


async def test_secrets_inside_headers_are_masked(host, backend):  # noqa: F811
    backend.set_password("a", "cookie", "sid=c00kie-4711; lang=en")
    backend.set_password("a", "basic", base64.b64encode(b"me:s3same-4711").decode())
    headers = {"Cookie": "${keyring:a/cookie}", "Authorization": "Basic ${keyring:a/basic}"}
    async with Seeing()() as url:
        connection = await host.connect_spec(entry({"url": url, "headers": headers}).spec, "it")
        assert connection.spec.masked("c00kie-4711 s3same-4711") == "*** ***"
        assert connection.trace.hide("c00kie-4711 s3same-4711") == "*** ***"
        await host.close()


async def test_a_reopened_session_reads_its_secrets_again(host, backend, program):  # noqa: F811
    backend.set_password("a", "b", "first-value-1")
    connection = await host.connect_spec(entry({**program, "env": {"TOKEN": "${keyring:a/b}"}}).spec, "it")
    backend.set_password("a", "b", "second-value-2")
    assert (await connection.call("look", name="TOKEN")).text == "first-value-1"
    await host.reconnect("it")
    assert (await connection.call("look", name="TOKEN")).text == "second-value-2"
    assert connection.spec.masked("first-value-1 second-value-2") == "*** ***"


async def failure(host, spec, kind=SecretError):
    with pytest.raises(kind) as caught:
        await host.connect_spec(spec, "it")
    assert not host.connections
    return str(caught.value)


async def test_a_missing_secret_says_how_to_store_it(host, backend, program):  # noqa: F811
    for service, line in (("mcp-magic", "secret set db"), ("acme", "secret set db --service acme")):
        spec = entry({**program, "env": {"TOKEN": f"${{keyring:{service}/db}}"}}).spec
        assert await failure(host, spec) == (
            f"it: TOKEN from keyring {service}/db: there is no such entry. `%mcp {line}` stores one."
        )
    backend.set_password("acme", "db", "")
    assert (await failure(host, spec)).endswith("it is empty")


OPS = {
    "print('[ERROR] 2026/11/28 you are not currently signed in', file=sys.stderr); sys.exit(1)": (
        "`op read` failed (exit code 1). Log in with `op signin` in a terminal, or set OP_SERVICE_ACCOUNT_TOKEN\n"
        "  stderr: [ERROR] *** you are not currently signed in"
    ),
    "print('s3same-4711 is it', file=sys.stderr); sys.exit(6)": ("`op read` failed (exit code 6)\n  stderr: *** is it"),
    "import time; time.sleep(600)": (
        "`op read` did not end within 0.5 s, and was ended; does 1Password ask for something in a window?"
    ),
    "sys.stdout.write('x' * 100_000_000)": "`op read` wrote more than 100,000 bytes, and was ended",
    "sys.stderr.write('x' * 10_000_000)": "it is empty",
    "sys.stdin.read(); sys.exit(3)": "`op read` failed (exit code 3)",
}


@pytest.mark.parametrize(("code", "message"), OPS.items(), ids=["log-in", "leaks", "hangs", "floods", "empty", "reads"])
async def test_op_that_fails_says_why_and_nothing_secret(host, tmp_path, monkeypatch, program, code, message):
    monkeypatch.setattr(secrets, "OP_SECONDS", 0.5 if "sleep" in code else 60.0)
    put_op(tmp_path, monkeypatch, code)
    spec = entry({**program, "env": {"TOKEN": "${op://dev/db/password}"}}).spec
    assert await failure(host, spec) == f"it: TOKEN from op://dev/db/password: {message}"


async def test_op_that_is_missing_says_what_to_install(host, monkeypatch, program):
    monkeypatch.setenv("PATH", "/nowhere")
    text = await failure(host, entry({**program, "env": {"TOKEN": "${op://dev/db/password}"}}).spec)
    assert "the command `op` of 1Password is not found; install it (https://developer.1password.com" in text


STAYS = """
import os, time
if os.fork() == 0:
    open({file!r}, "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists({file!r}) or not open({file!r}).read():
    time.sleep(0.01)
print("value", end="")
"""


async def test_children_that_a_program_leaves_are_ended(host, tmp_path, monkeypatch, program):
    file = tmp_path / "child"
    put_op(tmp_path, monkeypatch, STAYS.format(file=str(file)))
    connection = await host.connect_spec(entry({**program, "env": {"TOKEN": "${op://dev/db/password}"}}).spec, "it")
    assert (await connection.call("look", name="TOKEN")).text == "value"
    await until(lambda: not psutil.pid_exists(int(file.read_text())) or _is_dead(int(file.read_text())))


def _is_dead(number: int) -> bool:
    return psutil.Process(number).status() == psutil.STATUS_ZOMBIE


async def test_an_interrupted_program_is_ended(host, tmp_path, monkeypatch, program):
    file = tmp_path / "number"
    put_op(tmp_path, monkeypatch, f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    spec = entry({**program, "env": {"TOKEN": "${op://dev/db/password}"}}).spec
    opening = asyncio.ensure_future(host.connect_spec(spec, "it"))
    await until(lambda: file.exists() and file.read_text())
    opening.cancel()
    await asyncio.wait({opening})
    assert opening.cancelled()
    await until(lambda: not psutil.pid_exists(int(file.read_text())))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"], ids=["CRLF", "LF", "NUL"])
async def test_a_secret_cannot_inject_a_header(host, backend, value):  # noqa: F811
    backend.set_password("a", "b", value)
    spec = entry({"url": "http://127.0.0.1:9/mcp", "headers": {"X": "${keyring:a/b}"}}).spec
    assert await failure(host, spec) == (
        "it: the header X has a line break or another character that it cannot have; is the right secret stored?"
    )


# Over HTTP: headers, URLs, and the command that writes headers.


class Seeing:
    """A server over HTTP that keeps the headers and paths of requests; it wants a token once `wants` is set."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.queries: list[str] = []
        self.wants = ""
        server = MCPServer("seeing")

        @server.tool()
        def look() -> str:
            return "seen"

        self._server = server

    @asynccontextmanager
    async def __call__(self) -> Any:
        app = self._server.streamable_http_app()

        async def see(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
                self.headers.append(headers)
                self.queries.append(scope["query_string"].decode())
                if self.wants and headers.get("authorization") != self.wants:
                    await send({"type": "http.response.start", "status": 401, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await app(scope, receive, send)

        async with serving(see) as url:
            yield f"{url}/mcp"


def script(folder: Path, code: str) -> str:
    path = folder / "helper.py"
    path.write_text(code, encoding="utf-8")
    return f"{sys.executable} {path}"


NAMED = """
import json, os
name, url = os.environ["CLAUDE_CODE_MCP_SERVER_NAME"], os.environ["CLAUDE_CODE_MCP_SERVER_URL"]
print(json.dumps({"authorization": f"Bearer token-of-{name}-4711", "X-Url": url}))
"""


async def test_a_helper_writes_headers_at_each_connection(host, backend, tmp_path):  # noqa: F811
    backend.set_password("a", "b", "qu3ry-secret")
    seeing = Seeing()
    async with seeing() as url:
        fields = {
            "url": f"{url}?key=${{keyring:a/b}}",
            "headers": {"Authorization": "old", "X-More": "${keyring:a/b}"},
            "headersHelper": script(tmp_path, NAMED),
        }
        connection = await host.connect_spec(entry(fields).spec, "it")
        headers = seeing.headers[0]
        assert headers["authorization"] == "Bearer token-of-it-4711", "it wins over what is written"
        assert (headers["x-url"], headers["x-more"]) == (f"{url}?key=qu3ry-secret", "qu3ry-secret")
        assert set(seeing.queries) == {"key=qu3ry-secret"}
        assert connection.spec.masked("token-of-it-4711 qu3ry-secret") == "*** ***"
        assert "qu3ry" not in repr(connection.spec) + str(connection.info())
        await host.close()


async def test_a_helper_runs_again_where_its_token_has_expired(host, tmp_path):
    token = tmp_path / "token"
    token.write_text("first-token-1")
    seeing = Seeing()
    code = f"import json; print(json.dumps({{'Authorization': open({str(token)!r}).read()}}))"
    async with seeing() as url:
        seeing.wants = "first-token-1"
        connection = await host.connect_spec(entry({"url": url, "headersHelper": script(tmp_path, code)}).spec, "it")
        seeing.wants = "second-token-2"
        token.write_text(seeing.wants)
        assert (await connection.call("look")).text == "seen"
        assert connection.spec.masked("first-token-1 second-token-2") == "*** ***"
        await host.close()


async def test_the_doctor_runs_a_helper_once(host, tmp_path):
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('x'); print('{{\"X-Key\": \"s3same-4711\"}}')"
    seeing = Seeing()
    async with seeing() as url:
        report = await examine(host, entry({"url": url, "headersHelper": script(tmp_path, code)}).spec)
    assert report.ok
    assert runs.read_text() == "x"
    assert {headers.get("x-key") for headers in seeing.headers} == {"s3same-4711"}
    assert "s3same" not in str(report)


HELPERS = {
    "no JSON": ("print('Bearer s3same-4711')", "wrote no JSON; it must write an object of headers, such as "),
    "list": ("print('[1]')", "must write a JSON object whose values are texts"),
    "number": ("print('{\"A\": 1}')", "must write a JSON object whose values are texts"),
    "deep": ("print('[' * 90_000)", "wrote no JSON; it must write an object of headers, such as "),
    "CRLF": ("import json; print(json.dumps({'A': 'b\\r\\nC: d'}))", "wrote a header with a line break"),
    "name": ("import json; print(json.dumps({'A\\r\\nC': 'b'}))", "wrote a header with a line break"),
    "many": ("import json; print(json.dumps({f'A{n}': 'b' for n in range(101)}))", "wrote 101 headers, and at most"),
    "floods": ("while True: print('x' * 100_000)", "wrote more than 100,000 bytes, and was ended"),
    "leaks": (
        "import sys; print('s3same-4711'); print('the key s3same-4711 is old', file=sys.stderr); sys.exit(1)",
        "failed (exit code 1)\n  stderr: the key *** is old",
    ),
    "hangs": ("import time; time.sleep(600)", "did not end within 0.5 s, and was ended"),
}


@pytest.mark.parametrize(("code", "message"), HELPERS.values(), ids=HELPERS)
async def test_a_helper_that_fails_stops_the_connect(host, tmp_path, monkeypatch, code, message):
    monkeypatch.setattr(secrets, "HELPER_SECONDS", 0.5 if "sleep" in code else 60.0)
    seeing = Seeing()
    async with seeing() as url:
        spec = entry({"url": url, "headersHelper": script(tmp_path, code)}).spec
        text = await failure(host, spec, ConnectError)
    assert message in text
    assert text.startswith("it: the headers helper `")
    assert "s3same" not in text
    assert seeing.headers == []


async def test_a_helper_does_not_show_a_secret_of_its_environment(host, tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_TOKEN", "open-sesame-words")
    code = "import os, sys; print('token', os.environ['ACME_TOKEN'], file=sys.stderr); sys.exit(2)"
    spec = entry({"url": "http://127.0.0.1:9/mcp", "headersHelper": script(tmp_path, code)}).spec
    assert (await failure(host, spec, ConnectError)).endswith("failed (exit code 2)\n  stderr: token ***")


async def test_what_a_server_says_is_never_resolved(host, tmp_path, monkeypatch, program):
    file = tmp_path / "was_run"
    put_op(tmp_path, monkeypatch, f"open({str(file)!r}, 'w').write('x')")
    connection = await host.connect_spec(entry(program).spec, "it")
    answer = await connection.call("look", name="${op://dev/db/password}")
    assert answer.text == ""
    other = await host.connect([*_words(program)], env={"TOKEN": "${op://dev/db/password}"}, name="other")
    assert (await other.call("look", name="TOKEN")).text == "${op://dev/db/password}"
    assert not file.exists()


def _words(program: dict[str, Any]) -> list[str]:
    return [program["command"], *program["args"]]


async def test_what_is_waited_for_is_shown(host, tmp_path, monkeypatch, program):
    file = tmp_path / "goes_on"
    put_op(
        tmp_path,
        monkeypatch,
        f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.01)\nprint('value', end='')",
    )
    lines: list[str] = []

    def reporter(report: Any) -> Any:
        return lambda: lines.append(report.words())

    host.reports.reporter = reporter
    spec = entry({**program, "env": {"TOKEN": "${op://dev/db/password}"}}).spec
    opening = asyncio.ensure_future(host.connect_spec(spec, "it"))
    await until(lambda: any("waiting for TOKEN from op://dev/db/password" in line for line in lines))
    file.write_text("x")
    assert (await (await opening).call("look", name="TOKEN")).text == "value"


async def test_a_cassette_keeps_no_secret_and_needs_none(host, backend, tmp_path, program):  # noqa: F811
    backend.set_password("acme", "db", "s3same-4711")
    path = tmp_path / "it.jsonl"
    spec = entry({**program, "env": {"PLACE": "${keyring:acme/db}"}}).spec
    with deck.holding(path, "record"):
        connection = await host.connect_spec(spec, "it")
        assert (await connection.call("look", name="PLACE")).text == "s3same-4711"
        await host.disconnect("it")
    assert "s3same" not in path.read_text(encoding="utf-8")
    backend.delete_password("acme", "db")
    with deck.holding(path, "replay"):
        connection = await host.connect_spec(entry({**program, "env": {"PLACE": "${keyring:acme/db}"}}).spec, "it")
        assert (await connection.call("look", name="PLACE")).text == "***"
        await host.disconnect("it")


async def test_reconnecting_by_itself_runs_no_program_again(quick, tmp_path, monkeypatch, program):
    runs = tmp_path / "runs"
    put_op(tmp_path, monkeypatch, f"open({str(runs)!r}, 'a').write('x'); print('value', end='')")
    fields = {**program, "env": {"TOKEN": "${op://dev/db/password}"}}
    spec = replace(entry(fields).spec, reconnect=True)
    connection = await quick.connect_spec(spec, "it")
    for process in psutil.Process().children():
        if any(word.endswith("gives.py") for word in process.cmdline()):
            process.kill()
    await until(lambda: connection.reconnects == 1)
    assert (await connection.call("look", name="TOKEN")).text == "value"
    assert runs.read_text() == "x"
    await quick.reconnect("it")
    assert runs.read_text() == "xx"
    assert "value" not in repr(connection.place.wire)


async def test_a_fallback_to_sse_runs_no_program_again(host, tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    put_op(tmp_path, monkeypatch, f"open({str(runs)!r}, 'a').write('x'); print('s3same-4711', end='')")
    async with serving(MCPServer("old").sse_app()) as url:
        fields = {"url": f"{url}/sse", "headers": {"X": "${op://dev/db/password}"}}
        connection = await host.connect_spec(entry(fields).spec, "it")
        assert connection.spec.transport == "sse"
        assert runs.read_text() == "x"
        assert connection.trace.hide("s3same-4711") == "***"
        await host.reconnect("it")
        assert runs.read_text() == "xx"
        await host.close()


def test_a_spec_that_is_pickled_takes_no_value_along(program):
    spec = entry({**program, "env": {"TOKEN": "${keyring:a/b}"}}).spec
    spec.secret_values.add(["s3same-4711"])
    assert b"s3same" not in pickle.dumps(spec)
    assert pickle.loads(pickle.dumps(spec)).references == spec.references
