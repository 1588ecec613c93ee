"""`%mcp up` in a kernel: what a file or a cell declares is connected, changed or left, and what it replaces."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.support.kernel_servers import LOAD, SMALL, command
from tests.support.processes import free_port, start_http

SETUP = [LOAD, "from mcp_magic import host\nimport json, os"]
MATH_LINES = f"[servers.math]\ncommand = {json.dumps(SMALL[0])}\nargs = {json.dumps(SMALL[1:])}\n"
STATE = "get_ipython().magics_manager.registry['MCPMagics'].state"


@pytest.fixture(scope="module")
def url():
    with start_http(command("holding_server", "--transport", "http", "--port", "0")) as running:
        yield running.url


@pytest.fixture(scope="module")
def declared(url):
    """A declaration of two servers that work."""
    return f'{MATH_LINES}\n[servers.holding]\nurl = "{url}"\n'


@pytest.fixture(autouse=True)
def nothing_connected(kernel, folder):
    for name in ("mcp_magic.toml", "pyproject.toml", "mcp.json"):
        (folder / name).unlink(missing_ok=True)
    kernel.ok(f"if len(host):\n    %mcp disconnect --all\n{STATE}.agents.clear()\n%mcp approvals --clear")


def done(kernel, code="r = %mcp up"):
    """Run `r = %mcp up` in some form; return by server what was done and its state."""
    kernel.ok(code)
    rows = kernel.ok("print(json.dumps([(x['server'], x['done'], x.get('state')) for x in r.rows]))")
    return {server: (action, state) for server, action, state in json.loads(rows.stdout)}


def echoes(kernel):
    assert kernel.ok("r = %mcp call math:echo a=1\nr.data").text == "{'a': '1'}"


def in_a_cell(declaration, options=""):
    return f"%%mcp up {options}\n{declaration}"


def test_up_connects_what_the_file_declares_once(kernel, folder, declared):
    (folder / "mcp_magic.toml").write_text(declared)
    assert done(kernel) == {"math": ("connect", "open"), "holding": ("connect", "open")}
    echoes(kernel)
    assert kernel.ok("%mcp call holding:ping").text == "pong"
    kernel.ok("before = dict(host.connections)")
    text = kernel.ok("%mcp up").text
    assert [
        word for word in ("declared by", "mcp_magic.toml", "keep", "open", "stdio", "http") if word not in text
    ] == []
    assert done(kernel) == {"math": ("keep", "open"), "holding": ("keep", "open")}
    assert kernel.ok("all(host[name] is before[name] for name in before)").text == "True"
    processes = kernel.process.children(recursive=True)
    (folder / "mcp_magic.toml").write_text(declared.replace("[servers.math]", "[servers.math]\nenv = { A = '1' }"))
    assert done(kernel) == {"math": ("reconnect", "open"), "holding": ("keep", "open")}
    assert kernel.ok("host['holding'] is before['holding'], host['math'] is before['math']").text == "(True, False)"
    assert kernel.ok("next(x['why'] for x in r.rows if x['server'] == 'math')").text == "'changed: env'"
    echoes(kernel)
    assert not [process for process in processes if process.is_running()]
    assert len(kernel.process.children(recursive=True)) == 1
    server = kernel.process.children(recursive=True)[0]
    server.terminate()
    server.wait(10)
    assert kernel.run("%mcp call math:echo a=1").ename == "SessionClosedError"
    assert done(kernel)["math"] == ("connect", "open"), "a server that died is connected again"
    echoes(kernel)


def test_the_body_of_a_cell_declares_too(kernel, declared, url):
    broken = (
        f'[servers.nobody]\nurl = "http://127.0.0.1:{free_port()}/mcp"\n'
        '[servers.missing]\ncommand = "no-such-command-at-all"\n[settings]\ndisplay_rows = 6\n'
    )
    text = kernel.ok(in_a_cell(declared + broken)).text
    assert [word for word in ("the cell", "UnreachableError", "CommandNotFoundError") if word not in text] == []
    assert kernel.ok("sorted(host)").text == "['holding', 'math']"
    echoes(kernel)
    assert kernel.ok("%config MCPMagics.display_rows").text == "6"
    kernel.ok("%config MCPMagics.display_rows = 20")
    kernel.ok(f"%mcp disconnect --all\nos.environ['HOLDING_URL'] = {url!r}")
    kernel.ok(in_a_cell('[servers.holding]\nurl = "${HOLDING_URL}"\n'))
    assert kernel.ok("%mcp call holding:ping").text == "pong"
    assert "NO_SUCH_VARIABLE" in str(kernel.run(in_a_cell('[servers.x]\nurl = "${NO_SUCH_VARIABLE}"\n')).__dict__)


@pytest.mark.parametrize(("file", "before"), [("pyproject.toml", "tool.mcp_magic."), ("mcp_magic.toml", "")])
def test_a_declaration_is_found_by_its_name(kernel, folder, file, before):
    (folder / file).write_text(MATH_LINES.replace("servers.", f"{before}servers."))
    kernel.ok("def f():\n    result = %mcp up\n    return result")
    assert done(kernel, "r = f()") == {"math": ("connect", "open")}


def test_the_mcp_json_of_another_host_serves_as_well(kernel, folder):
    math = {"command": SMALL[0], "args": SMALL[1:]}
    servers = {"math": math, "off": {**math, "disabled": True}, "bad": {"args": []}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    rows = done(kernel, "r = %mcp up mcp.json")
    assert (rows["math"], rows["off"][0], rows["bad"][0]) == (("connect", "open"), "disabled", "wrong")


def test_kept_server_says_its_program_has_changed(kernel, folder):
    (folder / "ed.py").write_text(Path(SMALL[1]).read_text())
    (folder / "mcp_magic.toml").write_text(f'[servers.ed]\ncommand = "{SMALL[0]}"\nargs = ["ed.py", "0"]\n')
    kernel.ok("r = %mcp up")
    os.utime(folder / "ed.py", (time.time() + 60,) * 2)
    kept = kernel.ok("r = %mcp up\nprint(r.rows[0]['done'], r.rows[0]['why'], sep=': ')").stdout
    assert kept == "keep: as declared; ed.py has changed since it was started; `%mcp reconnect ed` starts it again\n"


def test_a_dry_run_only_says_it_and_prune_drops_the_rest(kernel, folder, declared, url):
    (folder / "mcp_magic.toml").write_text(f"{declared}\n[settings]\ndisplay_rows = 3\n")
    rows = done(kernel, "r = %mcp up --dry-run --prune")
    assert {name: action for name, (action, _) in rows.items()} == {"math": "connect", "holding": "connect"}
    assert kernel.ok("len(host)").text == "0"
    assert kernel.ok("%config MCPMagics.display_rows").text == "20"
    assert "would be done" in kernel.ok("%mcp up --dry-run").text
    kernel.ok(f"%mcp connect {url} --name extra")
    (folder / "mcp_magic.toml").write_text(MATH_LINES)
    assert done(kernel)["extra"] == ("leave", "open")
    assert done(kernel, "r = %mcp up --prune")["extra"][0] == "disconnect"
    assert kernel.ok("sorted(host)").text == "['math']"


WRONG = {
    "[servers.math]\ncomand = 'x'\n": "command",
    "[server.math]\ncommand = 'x'\n": "servers",
    "[settings]\ndisplay_row = 3\n": "display_rows",
    "[settings]\ndisplay_rows = 'many'\n": "display_rows",
    "[settings]\ndisplay_rows = 0\n": "display_rows",
    "[servers\n": "the cell:1:9: not TOML",
}


def test_a_declaration_that_is_wrong_is_an_error_that_says_where(kernel):
    for code, names in [*((in_a_cell(text), names) for text, names in WRONG.items()), ("%mcp up", "mcp_magic.toml")]:
        cell = kernel.run(code)
        assert (cell.status, cell.ename) == ("error", "ConfigError")
        assert names in cell.evalue
        assert len(cell.shown_error.splitlines()) <= 3
    assert kernel.ok("len(host)").text == "0"


# What a declaration replaces

DENY = '[[consent]]\ndeny = "math:*"\n\n[agents.reader]\nmodel = "offline"\n'
NAMED = pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])


def run_in(kernel, cell, declaration, options=""):
    """Run a cell as the frontend that names its cells does; return what it shows."""
    return " ".join(kernel.ok(in_a_cell(declaration, options), cellId=cell).text.split())


def in_force(kernel):
    """The rules and agents."""
    both = f"print(json.dumps([[str(rule) for rule in host.consent.rules], [*{STATE}.agents]]))"
    rules, agents = json.loads(kernel.ok(both).stdout)
    return rules, agents


@NAMED
def test_another_cell_or_the_same_again_drops_nothing(kernel, named):
    one, other = ("a", "b") if named else ("", "")
    run_in(kernel, one, DENY)
    assert "in force" not in run_in(kernel, one, f"{DENY}\n")
    assert in_force(kernel) == (["deny 'math:*'"], ["reader"])
    said = run_in(kernel, other, f"{MATH_LINES}[settings]\ndisplay_rows = 20\n")
    assert kernel.run("%mcp call math:echo a=1").ename == "DeniedError"
    assert in_force(kernel) == (["deny 'math:*'"], ["reader"])
    assert "no longer in force" not in said
    assert ("still in force, from other cells: `deny 'math:*'`" in said) == (not named)


def test_changed_cell_replaces_its_rules_and_lists_dropped_ones(kernel):
    run_in(kernel, "a", DENY)
    run_in(kernel, "b", '[[consent]]\nallow = "fs:*"\n')
    changed = '[[consent]]\nask = "math:divide"\n'
    assert "would be dropped: `deny 'math:*'`, agent reader" in run_in(kernel, "a", changed, "--dry-run")
    assert in_force(kernel) == (["deny 'math:*'", "allow 'fs:*'"], ["reader"])
    assert "no longer in force: `deny 'math:*'`, agent reader" in run_in(kernel, "a", changed)
    assert in_force(kernel) == (["ask math:divide", "allow 'fs:*'"], [])


def test_changed_unnamed_cell_adds_to_rules_in_force(kernel):
    run_in(kernel, "", DENY)
    said = run_in(kernel, "", DENY.replace("deny", "allow"))
    assert in_force(kernel)[0] == ["deny 'math:*'", "allow 'math:*'"]
    assert "still in force, from other cells: `deny 'math:*'` (`%mcp approvals --remove N` drops one)" in said


def test_a_file_replaces_what_it_declared(kernel, folder):
    run_in(kernel, "a", DENY)
    (folder / "mcp_magic.toml").write_text('[[consent]]\ndeny = "fs:*"\n')
    kernel.ok("%mcp up")
    (folder / "mcp_magic.toml").write_text('[[consent]]\ndeny = "fs:read_*"\n')
    assert "no longer in force: `deny 'fs:*'`" in " ".join(kernel.ok("%mcp up").text.split())
    assert in_force(kernel)[0] == ["deny 'math:*'", "deny 'fs:read_*'"]
