"""`python -m mcp_magic LINE...` as a process: what it prints where, its exit status, its servers, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from tests.support import plain_server, shop_server
from tests.support.cassettes import written
from tests.support.kernels import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "python -m mcp_magic"
SERVER = plain_server.__file__
PLAIN = f"{SERVER} --name plain"
DECLARED = f"[servers.plain]\ncommand = '{sys.executable}'\nargs = ['{SERVER}']\n"
SECRET = "sk-proj-0123456789abcdefghij"


class Program:
    """The program in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = environment(folder, COLUMNS="150")

    def words(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "mcp_magic", *words]

    def __call__(self, *words: str, status: int = 0) -> tuple[str, str]:
        """Run a line where nobody can be asked; return what it wrote to stdout and to stderr."""
        ran = subprocess.run(
            self.words(words), cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True
        )
        out, err = ran.stdout.decode(), ran.stderr.decode()
        assert ran.returncode == status, f"{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def declare(self, text: str) -> None:
        (self.folder / "mcp_magic.toml").write_text(text)


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def test_a_result_goes_to_stdout_as_text_or_json(program):
    assert program("--connect", PLAIN, "call", "plain:add", "a=1", "b=2") == ("3\n", "")
    out, _ = program("--connect", PLAIN, "call", "plain:where", "--json")
    assert json.loads(out)["content"][0]["text"].startswith(str(program.folder))


def test_a_listing_and_a_definition_are_json(program):
    program.declare(DECLARED)
    rows = json.loads(program("--json", "tools", "--search", "add")[0])
    assert [(row["tool"], row["arguments"]) for row in rows] == [("plain:add", "a, b")]
    assert json.loads(program("tool", "plain:add", "--json")[0])["inputSchema"]["required"] == ["a", "b"]


def test_config_lists_what_a_wrong_declaration_does_not_concern(program):
    program.declare("[servers.db]\ncommand = 'x'\n[servers.db.sandbox]\nreed = '.'\n")
    (program.folder / "mcp.json").write_text('{"mcpServers": {"a": {"url": "http://h"}, "b": {"type": "http"}}}')
    rows = json.loads(program("--json", "config", "mcp.json", status=1)[0])
    assert [(row["server"], row["state"]) for row in rows] == [("a", "ready"), ("b", "wrong")]
    assert rows[1]["problem"] == "needs a url."
    out, _ = program("config", status=1)
    assert "✗ line 4: servers.db.sandbox.reed: unknown key. Did you mean 'read'?" in out


def test_a_doctor_takes_its_target_and_fails_with_errors(program):
    program.declare(DECLARED)
    assert "healthy" in program("doctor", "plain")[0]
    out, _ = program("doctor", "--json", "--", sys.executable, "-c", "raise SystemExit(5)", status=1)
    assert {row["step"]: row["status"] for row in json.loads(out)}["connect"] == "failed"


def test_a_failed_check_has_status_one(program):
    program.declare(DECLARED)
    out, err = program("assert", "plain:add", "a=1", "b=2", "--equals", "4", status=1)
    assert (out, err.partition(":")[0]) == ("", "CheckFailedError")
    assert "-4" in err
    assert f"`{PROGRAM} diff plain` says" in program("snapshot")[0]
    assert program("diff", "plain")[0].endswith("nothing has changed\n")
    snapshot = program.folder / "plain.mcp.json"
    before = json.loads(snapshot.read_text())
    before["tools"]["gone"] = before["tools"]["add"]
    snapshot.write_text(json.dumps(before))
    out, err = program("diff", "plain", "--check", "--json", status=1)
    assert [row["name"] for row in json.loads(out)] == ["gone"]
    assert "1 breaking change" in err
    out, err = program("bench", "plain:add", "a=1", "b=2", "--seconds", "0.1", "--under", "p50=0ms", status=1)
    assert ("calls/s" in out, err.partition(":")[0]) == (True, "CheckFailedError")
    (program.folder / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    assert "2 of 2 rows" in program("map", "plain:add", "--rows", "rows.csv")[0]
    assert "0 of 2 rows" in program("map", "plain:fail", "--rows", "rows.csv", "text=x{row.a}", status=1)[0]


def test_a_cassette_is_verified_against_declared_servers(program):
    def message(to: str, number: int, **members: object) -> dict[str, object]:
        return {"session": 1, "to": to, "id": number, **members}

    item = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    tool = {"name": "price", "inputSchema": item, "annotations": {"readOnlyHint": True}}
    written(
        program.folder / "shop.jsonl",
        {"cassette": 1},
        {"session": 1, "server": "shop", "transport": "stdio", "where": "python shop.py"},
        message("server", 1, method="tools/list", params={}),
        message("client", 1, result={"tools": [tool]}),
        message("server", 2, method="tools/call", params={"name": "price", "arguments": {"item": "tea"}}),
        message("client", 2, result={"content": [{"type": "text", "text": "3.0"}], "structuredContent": {"result": 3}}),
    )
    table = f"[servers.{{}}]\ncommand = '{sys.executable}'\nargs = ['{shop_server.__file__}', '{{}}']\n"
    program.declare(table.format("shop", 1))
    assert program("verify", "shop.jsonl")[0].startswith("shop.jsonl: 1 same, 1 ignored\n")
    assert "nothing varies" in program("record", "shop.jsonl", "--again")[0]
    program.declare(table.format("next", 2))
    out, err = program("verify", "shop.jsonl", "shop=next", "--json", status=1)
    assert [row["status"] for row in json.loads(out)] == ["ignored", "changed value"]
    assert err.startswith("CheckFailedError: 1 of 2 requests of shop.jsonl: 1 changed value")
    assert "declares no server 'shop'" in program("verify", "shop.jsonl", status=2)[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(["tolls"], "Did you mean 'tools'?", id="subcommand"),
        pytest.param(["call", "plain:add", "--jsno"], "`python -m mcp_magic call --help` shows", id="option"),
        pytest.param(["--token=" + SECRET, "tools"], "--json and --connect before the subcommand", id="first option"),
        pytest.param(["https://x.example/mcp?token=" + SECRET], "no subcommand", id="address"),
        pytest.param(["call", "plain:add", "a=x", "b=2"], "a: expected integer, got 'x'", id="argument"),
        pytest.param(["call", "plain:nope"], "nope", id="tool"),
        pytest.param(["call", "plian:add"], "Did you mean 'plain'?", id="server"),
        pytest.param(["--connect", "nope.py", "tools"], "no server file", id="target"),
        pytest.param(
            ["diff", "plain", "--check"], f"`{PROGRAM} snapshot plain -o plain.mcp.json` writes", id="snapshot"
        ),
        pytest.param(["diff", "plain", "nope"], f"`{PROGRAM} --connect 'TARGET --name nope' ...` opens", id="connect"),
        pytest.param(["serve", "plain", "--stdio"], f"{PROGRAM} serve: --stdio and --pauses need", id="title"),
        pytest.param(["record", "a.jsonl"], f"MCP_MAGIC_CASSETTE=FILE {PROGRAM} call", id="record"),
        pytest.param(
            ["share", "df"], f"{PROGRAM} share: this program has no variables; in a notebook: `%mcp", id="share"
        ),
        pytest.param([], "no subcommand", id="nothing"),
    ],
)
def test_a_wrong_line_has_status_two_and_a_short_error(program, words, text):
    program.declare(DECLARED)
    out, err = program(*words, status=2)
    assert out == ""
    assert text in err
    assert len(err.splitlines()) <= 2
    assert SECRET not in err


def test_a_line_without_a_server_says_how_to_connect_one(program):
    _, err = program("tools", status=2)
    assert "`python -m mcp_magic --connect TARGET tools ...` connects one" in err


def test_a_suggested_line_opens_the_session_again(program):
    for target, opening in ((PLAIN, f"'{PLAIN}'"), (f"{PLAIN} --env TOKEN={SECRET}", "TARGET")):
        _, err = program("--connect", target, "diff", "plain", status=2)
        assert f"`{PROGRAM} --connect {opening} snapshot plain -o plain.mcp.json` writes one" in err
    assert f"`{PROGRAM} --help` lists" in program("--connect", PLAIN, "tolls", status=2)[1]
    _, err = program("--connect", PLAIN, "call", "plain:add", "--jsno", status=2)
    assert f"`{PROGRAM} call --help` shows" in err


def test_a_server_that_does_not_start_has_status_one(program):
    program.declare("[servers.plain]\ncommand = 'no-such-program'\n")
    for words in (["tools"], ["--connect", "plain", "tools"]):
        assert program(*words, status=1)[1].startswith("CommandNotFoundError: plain: the command 'no-such-program'")


def test_help_is_of_the_program(program):
    out, _ = program("--help")
    assert "--connect TARGET" in out
    assert "\n  doctor  " in out
    assert program("help") == (out, "")
    for name, *words in (["call", "call", "--help"], ["call", "help", "call"], ["doctor", "doctor", "x.py", "-h"]):
        out, _ = program(*words)
        assert out.startswith(f"{PROGRAM} {name} [--")
        examples = out.partition("\nexamples:\n")[2].splitlines()
        assert len(examples) > 2
        assert all(example.startswith(f"  {PROGRAM} {name} ") for example in examples)
    assert program("record", "--help")[0].endswith(f"\nexamples:\n  {PROGRAM} record tutorial.jsonl --again\n")


def test_a_variable_of_the_environment_is_a_value(program):
    program.variables["TOKEN"] = SECRET
    out, _ = program("--connect", f"{PLAIN} --env PLAIN_TOKEN=$TOKEN", "call", "plain:where")
    assert out.split()[-1] == SECRET
    _, err = program("--connect", PLAIN, "call", "plain:add", "a=$TOKE", "b=2", status=2)
    assert f"the environment has no variable TOKE; `TOKE=VALUE {PROGRAM} ...` sets it" in err


def test_what_needs_a_yes_is_denied_where_nobody_is_asked(program):
    program.declare(f"{DECLARED}[[consent]]\nallow = 'plain:*'\n")
    _, err = program("call", "plain:add", "a=1", "b=2", status=1)
    assert err.startswith("DeniedError")
    line = err.split("`")[1]
    subprocess.run(line, shell=True, check=True)
    assert program("call", "plain:add", "a=1", "b=2") == ("3\n", "")
    program.declare(f"{DECLARED}[[consent]]\nask = 'plain:*'\n")
    out, err = program("call", "plain:add", "a=1", "b=2", status=1)
    assert (out, err.startswith("DeniedError: plain:add was not called")) == ("", True)


def test_a_terminal_is_asked_and_only_the_value_is_piped(program):
    program.declare(f"{DECLARED}[[consent]]\nask = 'plain:*'\n")
    line = " ".join(program.words(["call", "plain:add", "a=1", "b=2"]))
    shell = pexpect.spawn("sh", ["-c", f"{line} > out"], cwd=str(program.folder), env=program.variables, timeout=60)
    shell.expect(r"\[y\]es, .*: ")
    shell.sendline("y")
    shell.expect(pexpect.EOF)
    shell.close()
    assert (shell.exitstatus, (program.folder / "out").read_text()) == (0, "3\n")


def test_ctrl_c_ends_a_call_and_its_server(program):
    program.declare(DECLARED)
    shell = pexpect.spawn(
        sys.executable, program.words(["call", "plain:slow"])[1:], cwd=str(program.folder), env=program.variables
    )
    shell.expect("slow", timeout=60)  # the progress that it reports
    shell.kill(signal.SIGINT)
    shell.expect(pexpect.EOF, timeout=60)
    shell.close()
    assert shell.exitstatus == 130
    assert b"Traceback" not in shell.before


def test_a_mock_serves_over_stdio_and_http_until_ctrl_c(program):
    program.declare(DECLARED)
    program.variables["MCP_MAGIC_CASSETTE"] = "plain.jsonl"
    program("call", "plain:add", "a=1", "b=2")
    del program.variables["MCP_MAGIC_CASSETTE"]
    mock = " ".join(program.words(["serve", "--cassette", "plain.jsonl", "--stdio"]))
    assert program("--connect", f"--name mock -- {mock}", "call", "mock:add", "a=1", "b=2") == ("3\n", "")
    line = program.words(["serve", "plain", "--cassette", "plain.jsonl", "--json"])
    with subprocess.Popen(line, cwd=program.folder, env=program.variables, stdout=subprocess.PIPE) as serving:
        try:
            rows = json.loads("".join(iter(lambda: serving.stdout.readline().decode(), "]\n")) + "]")
            token = Path(rows[0]["token in"]).read_text().strip()
            target = f"{rows[0]['url']} --name mock --header 'Authorization: Bearer {token}'"
            assert program("--connect", target, "call", "mock:add", "a=1", "b=2") == ("3\n", "")
            serving.send_signal(signal.SIGINT)
            assert serving.wait(60) == 130
        finally:
            serving.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_mock_over_stdio_ends_at_once_and_leaves_nothing(program, number, status):
    cassette = Path(__file__).parents[2] / "notebooks" / "cassettes" / "quickstart.jsonl"
    line = program.words(["serve", "math", "--cassette", str(cassette), "--stdio"])
    temporary = program.folder / "temporary"
    temporary.mkdir()
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, env={**program.variables, "TMPDIR": str(temporary)}, **streams) as serving:
        serving.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        serving.stdin.flush()
        serving.stdout.readline()
        serving.send_signal(number)
        assert serving.wait(60) == status
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("closed", "status", "shows"),
    [("<&-", 0, "3\n"), (">&-", 0, ""), ("a=x 2>&-", 2, ""), (">/dev/full", 1, "OSError: [Errno 28] No space left")],
)
def test_closed_and_full_streams_leave_the_exit_status(program, closed, status, shows):
    program.declare(DECLARED)
    line = f"{' '.join(program.words(['call', 'plain:add', 'a=1', 'b=2']))} {closed}"
    ran = subprocess.run(line, shell=True, capture_output=True, env=program.variables, cwd=program.folder, check=False)
    assert ran.returncode == status
    assert (ran.stdout + ran.stderr).decode()[: len(shows) or None] == shows


@pytest.mark.parametrize("closed", ["| true", ">&-", "<&-"])
def test_a_mock_over_stdio_ends_quietly_without_its_streams(program, closed):
    cassette = Path(__file__).parents[2] / "notebooks" / "cassettes" / "quickstart.jsonl"
    line = " ".join(program.words(["serve", "math", "--cassette", str(cassette), "--stdio"]))
    pings = '{ for n in 1 2 3; do echo \'{"jsonrpc":"2.0","id":1,"method":"ping"}\'; done; }'
    ran = subprocess.run(
        f"{pings} | {line} {closed}", shell=True, capture_output=True, env=program.variables, check=True
    )
    assert ran.stderr == b""


def test_a_recorded_session_is_exported_without_its_server(program):
    program.declare(DECLARED)
    program.variables["MCP_MAGIC_CASSETTE"] = "plain.jsonl"
    program("call", "plain:add", "a=1", "b=2")
    del program.variables["MCP_MAGIC_CASSETTE"]
    out, err = program("export", "plain.jsonl", "--pytest", "test_plain.py")
    assert out.startswith("test_plain.py: 1 test, run once as recorded; ")
    assert 'await server.call("add", a=1, b=2)' in (program.folder / "test_plain.py").read_text()
    assert err == ""
    assert "check it" not in out, "the folder declares it"
    _, err = program("export", "plain", "--report", "plain.html", status=2)
    assert f"`{PROGRAM} export FILE.jsonl ...`" in err


def test_a_reader_that_has_enough_ends_it_quietly(program):
    line = " ".join(program.words(["--help"]))
    ran = subprocess.run(f"{line} | true", shell=True, capture_output=True, env=program.variables, check=True)
    assert ran.stderr == b""


def test_doctor_of_all_declared_servers_ends_by_errors_only(program):
    program.declare(DECLARED)
    out, _ = program("doctor", "--all", "--sarif", "all.sarif")
    assert "Doctor: 1 server together: plain: " in out
    assert json.loads((program.folder / "all.sarif").read_text())["version"] == "2.1.0"
    _, err = program("doctor", "--all", "plain", status=2)
    assert "python -m mcp_magic doctor: --all looks at the connected servers together" in err
    (program.folder / "mcp_magic.toml").unlink()
    assert "which server?" in program("doctor", "--all", status=2)[1]


def test_an_evaluation_ends_with_the_status_of_its_gate(program):
    program.declare(DECLARED)
    cases = program.folder / "cases.toml"
    cases.write_text("[[case]]\nrequest = 'add 3 and 4'\nexpected = 'plain:add a=3 b=4'\n")
    out, err = program("eval", "cases.toml", "--models", "offline", "--tools-only", "--save", "scores.json")
    assert "✓ 1 of 1 first turns of 1 case" in out
    assert err == ""
    [row] = json.loads(program("--json", "eval", "cases.toml", "--tools-only", "--against", "scores.json")[0])
    assert (row["model"], row["right"], row["called"]) == ("offline", True, "plain:add(a=3, b=4)")
    _, err = program("eval", "cases.toml", "--gate", "low > 0.9", "--junit", "report.xml", status=1)
    assert err.startswith("CheckFailedError: the evaluation fails: offline: low is 21%, not > 0.9")
    assert 'failures="1"' in (program.folder / "report.xml").read_text()
    assert "line" not in program("eval", "cases.toml", "--gate", "rigth > 1", status=2)[1]


def test_an_ablation_is_rows_of_sentences(program):
    program.declare(DECLARED)
    (program.folder / "cases.toml").write_text("[[case]]\nrequest = 'add 3 and 4'\nexpected = 'plain:add a=3 b=4'\n")
    [row] = json.loads(program("--json", "eval", "cases.toml", "--tools-only", "--ablate", "plain:add")[0])
    assert (row["sentence"], row["where"], row["difference"]) == ("Add.", "description", 0)
