from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import SMALL, command
from tests.support.processes import free_port, start_http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kernels import Kernel

MATH_LINES = f"[servers.math]\ncommand = {json.dumps(SMALL[0])}\nargs = {json.dumps(SMALL[1:])}\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_http(command("holding_server", "--transport", "http", "--port", "0")) as running:
        yield running.url


@pytest.fixture(scope="module")
def declared(url: str) -> str:
    """A declaration of two servers that work."""
    return f'{MATH_LINES}\n[servers.holding]\nurl = "{url}"\n'


@pytest.fixture(autouse=True)
def nothing_connected(kernel: Kernel, folder: Path) -> None:
    for name in ("mcp_magic.toml", "pyproject.toml", "mcp.json"):
        (folder / name).unlink(missing_ok=True)
    kernel.ok("from mcp_magic import host")
    kernel.ok("if len(host):\n    %mcp disconnect --all")


def done(kernel: Kernel, code: str) -> dict[str, tuple[str, str | None]]:
    """Run `r = %mcp up` in some form; return by server what was done and its state."""
    kernel.ok(code)
    rows = kernel.ok("import json\nprint(json.dumps([(x['server'], x['done'], x.get('state')) for x in r.rows]))")
    return {server: (action, state) for server, action, state in json.loads(rows.stdout)}


def in_a_cell(declaration: str, options: str = "") -> str:
    return f"%%mcp up {options}\n{declaration}"


def test_up_connects_what_the_file_declares(kernel: Kernel, folder: Path, declared: str) -> None:
    (folder / "mcp_magic.toml").write_text(declared)

    assert done(kernel, "r = %mcp up") == {"math": ("connect", "open"), "holding": ("connect", "open")}
    assert kernel.ok("r = %mcp call math:echo a=1\nr.data").text == "{'a': '1'}"
    assert kernel.ok("%mcp call holding:ping").text == "pong"


def test_up_shows_what_was_done(kernel: Kernel, folder: Path, declared: str) -> None:
    (folder / "mcp_magic.toml").write_text(declared)

    text = kernel.ok("%mcp up").text

    assert "declared by" in text
    assert "mcp_magic.toml" in text
    assert all(word in text for word in ("math", "connect", "not connected", "open", "stdio", "http"))


def test_again_it_keeps_everything(kernel: Kernel, folder: Path, declared: str) -> None:
    (folder / "mcp_magic.toml").write_text(declared)
    kernel.ok("%mcp up")
    kernel.ok("before = dict(host.connections)")

    assert done(kernel, "r = %mcp up") == {"math": ("keep", "open"), "holding": ("keep", "open")}
    assert kernel.ok("all(host[name] is before[name] for name in before)").text == "True"


def test_the_body_of_a_cell_declares_too(kernel: Kernel, declared: str) -> None:
    text = kernel.ok(in_a_cell(declared)).text

    assert "the cell" in text
    assert kernel.ok("sorted(host)").text == "['holding', 'math']"


@pytest.mark.parametrize(("file", "before"), [("pyproject.toml", "tool.mcp_magic."), ("mcp_magic.toml", "")])
def test_a_declaration_is_found_by_its_name(kernel: Kernel, folder: Path, file: str, before: str) -> None:
    (folder / file).write_text(MATH_LINES.replace("servers.", f"{before}servers."))

    assert done(kernel, "r = %mcp up") == {"math": ("connect", "open")}


def test_the_mcp_json_of_another_host_serves_as_well(kernel: Kernel, folder: Path) -> None:
    math = {"command": SMALL[0], "args": SMALL[1:]}
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"math": math, "off": {**math, "disabled": True}, "bad": {"args": []}}})
    )

    found = done(kernel, "r = %mcp up mcp.json")

    assert found["math"] == ("connect", "open")
    assert found["off"][0] == "disabled"
    assert found["bad"][0] == "wrong"


def test_what_changed_is_reconnected_and_the_rest_is_left(kernel: Kernel, folder: Path, declared: str) -> None:
    (folder / "mcp_magic.toml").write_text(declared)
    kernel.ok("%mcp up")
    kernel.ok("before = dict(host.connections)")
    processes = kernel.process.children(recursive=True)
    (folder / "mcp_magic.toml").write_text(declared.replace("[servers.math]", "[servers.math]\nenv = { A = '1' }"))

    assert done(kernel, "r = %mcp up") == {"math": ("reconnect", "open"), "holding": ("keep", "open")}
    assert kernel.ok("host['holding'] is before['holding'], host['math'] is before['math']").text == "(True, False)"
    assert kernel.ok("next(x['why'] for x in r.rows if x['server'] == 'math')").text == "'changed: env'"
    assert kernel.ok("r = %mcp call math:echo a=1\nr.data").text == "{'a': '1'}"
    assert not [process for process in processes if process.is_running()]
    assert len(kernel.process.children(recursive=True)) == 1


def test_kept_server_says_its_program_has_changed(kernel: Kernel, folder: Path) -> None:
    (folder / "ed.py").write_text(Path(SMALL[1]).read_text())
    (folder / "mcp_magic.toml").write_text(f'[servers.ed]\ncommand = "{SMALL[0]}"\nargs = ["ed.py", "0"]\n')
    kernel.ok("r = %mcp up")
    os.utime(folder / "ed.py", (time.time() + 60,) * 2)

    kept = kernel.ok("r = %mcp up\nprint(r.rows[0]['done'], r.rows[0]['why'], sep=': ')").stdout
    assert kept == "keep: as declared; ed.py has changed since it was started; `%mcp reconnect ed` starts it again\n"


def test_a_server_that_died_is_connected_again(kernel: Kernel, folder: Path) -> None:
    (folder / "mcp_magic.toml").write_text(MATH_LINES)
    kernel.ok("%mcp up")
    kernel.process.children(recursive=True)[0].kill()
    kernel.run("%mcp call math:echo a=1")

    assert done(kernel, "r = %mcp up") == {"math": ("connect", "open")}
    assert kernel.ok("r = %mcp call math:echo a=1\nr.data").text == "{'a': '1'}"


def test_what_is_not_declared_is_left_unless_it_is_pruned(kernel: Kernel, folder: Path, url: str) -> None:
    kernel.ok(f"%mcp connect {url} --name extra")
    (folder / "mcp_magic.toml").write_text(MATH_LINES)

    assert done(kernel, "r = %mcp up")["extra"] == ("leave", "open")
    assert done(kernel, "r = %mcp up --prune")["extra"][0] == "disconnect"
    assert kernel.ok("sorted(host)").text == "['math']"


def test_a_dry_run_only_says_it(kernel: Kernel, folder: Path, declared: str) -> None:
    (folder / "mcp_magic.toml").write_text(f"{declared}\n[settings]\ndisplay_rows = 3\n")

    found = done(kernel, "r = %mcp up --dry-run --prune")

    assert {name: action for name, (action, _) in found.items()} == {"math": "connect", "holding": "connect"}
    assert kernel.ok("len(host)").text == "0"
    assert kernel.ok("%config MCPMagics.display_rows").text == "20"
    assert "would be done" in kernel.ok("%mcp up --dry-run").text


def test_one_server_that_fails_leaves_the_rest(kernel: Kernel, declared: str) -> None:
    broken = (
        f'[servers.nobody]\nurl = "http://127.0.0.1:{free_port()}/mcp"\n'
        '[servers.missing]\ncommand = "no-such-command-at-all"\n'
    )

    text = kernel.ok(in_a_cell(declared + broken)).text

    assert "UnreachableError" in text
    assert "CommandNotFoundError" in text
    assert kernel.ok("sorted(host)").text == "['holding', 'math']"
    assert kernel.ok("r = %mcp call math:echo a=1\nr.data").text == "{'a': '1'}"


def test_settings_are_applied(kernel: Kernel) -> None:
    kernel.ok(in_a_cell("[settings]\ndisplay_rows = 6\n"))

    assert kernel.ok("%config MCPMagics.display_rows").text == "6"
    kernel.ok("%config MCPMagics.display_rows = 20")


WRONG = {
    "an unknown key": ("[servers.math]\ncomand = 'x'\n", "command"),
    "an unknown table": ("[server.math]\ncommand = 'x'\n", "servers"),
    "an unknown setting": ("[settings]\ndisplay_row = 3\n", "display_rows"),
    "a setting of the wrong type": ("[settings]\ndisplay_rows = 'many'\n", "display_rows"),
    "a setting out of range": ("[settings]\ndisplay_rows = 0\n", "display_rows"),
    "no TOML": ("[servers\n", "the cell:1:9: not TOML"),
}


@pytest.mark.parametrize(("declaration", "names"), WRONG.values(), ids=WRONG)
def test_a_declaration_that_is_wrong_is_an_error_that_says_where(kernel: Kernel, declaration: str, names: str) -> None:
    cell = kernel.run(in_a_cell(declaration))

    assert (cell.status, cell.ename) == ("error", "ConfigError")
    assert names in cell.evalue
    assert len(cell.shown_error.splitlines()) <= 3
    assert kernel.ok("len(host)").text == "0"


def test_without_a_declaration_it_says_what_was_looked_for(kernel: Kernel) -> None:
    cell = kernel.run("%mcp up")

    assert cell.ename == "ConfigError"
    assert "mcp_magic.toml" in cell.evalue


def test_up_takes_environment_and_names_missing_variable(kernel: Kernel, url: str) -> None:
    kernel.ok("import os\nos.environ['HOLDING_URL'] = " + repr(url))

    kernel.ok(in_a_cell('[servers.holding]\nurl = "${HOLDING_URL}"\n'))
    assert kernel.ok("%mcp call holding:ping").text == "pong"
    assert "NO_SUCH_VARIABLE" in str(kernel.run(in_a_cell('[servers.x]\nurl = "${NO_SUCH_VARIABLE}"\n')).__dict__)


def test_up_can_be_nested(kernel: Kernel, folder: Path) -> None:
    (folder / "mcp_magic.toml").write_text(MATH_LINES)

    kernel.ok("def f():\n    result = %mcp up\n    return result")

    assert done(kernel, "r = f()") == {"math": ("connect", "open")}


# What a declaration replaces

DENY = '[[consent]]\ndeny = "math:*"\n\n[agents.reader]\nmodel = "offline"\n'
ROWS = "[settings]\ndisplay_rows = 20\n"


@pytest.fixture
def free(kernel: Kernel) -> Iterator[None]:
    """No rules and agents, before and after."""
    clear = "%mcp approvals --clear\nget_ipython().magics_manager.registry['MCPMagics'].state.agents.clear()"
    kernel.ok(clear)
    yield
    kernel.ok(clear)


def run_in(kernel: Kernel, cell: str, declaration: str, options: str = "") -> str:
    """Run a cell as the frontend that names its cells does; return what it shows."""
    return " ".join(kernel.ok(in_a_cell(declaration, options), cellId=cell).text.split())


def rules(kernel: Kernel) -> list[str]:
    return json.loads(kernel.ok("import json\nprint(json.dumps([str(rule) for rule in host.consent.rules]))").stdout)


def agents(kernel: Kernel) -> list[str]:
    return json.loads(
        kernel.ok("print(json.dumps([*get_ipython().magics_manager.registry['MCPMagics'].state.agents]))").stdout
    )


@pytest.mark.parametrize("cells", [("a", "b"), ("", "")], ids=["cells that have names", "cells without names"])
def test_another_cell_drops_nothing_that_a_cell_declared(kernel: Kernel, free: None, cells: tuple[str, str]) -> None:
    run_in(kernel, cells[0], DENY)
    said = run_in(kernel, cells[1], MATH_LINES + ROWS)

    assert kernel.run("%mcp call math:echo a=1").ename == "DeniedError"
    assert (rules(kernel), agents(kernel)) == (["deny 'math:*'"], ["reader"])
    assert "no longer in force" not in said
    assert ("still in force, from other cells: `deny 'math:*'`" in said) == (not cells[1])


@pytest.mark.parametrize("cell", ["a", ""], ids=["a cell that has a name", "a cell without a name"])
def test_a_cell_that_is_run_again_declares_nothing_twice(kernel: Kernel, free: None, cell: str) -> None:
    run_in(kernel, cell, DENY)
    said = run_in(kernel, cell, f"{DENY}\n")

    assert (rules(kernel), agents(kernel)) == (["deny 'math:*'"], ["reader"])
    assert "in force" not in said


def test_changed_cell_replaces_its_rules_and_lists_dropped_ones(kernel: Kernel, free: None) -> None:
    run_in(kernel, "a", DENY)
    run_in(kernel, "b", '[[consent]]\nallow = "fs:*"\n')
    changed = '[[consent]]\nask = "math:divide"\n'

    assert "would be dropped: `deny 'math:*'`, agent reader" in run_in(kernel, "a", changed, "--dry-run")
    assert (rules(kernel), agents(kernel)) == (["deny 'math:*'", "allow 'fs:*'"], ["reader"])
    assert "no longer in force: `deny 'math:*'`, agent reader" in run_in(kernel, "a", changed)
    assert (rules(kernel), agents(kernel)) == (["ask math:divide", "allow 'fs:*'"], [])


def test_changed_unnamed_cell_adds_to_rules_in_force(kernel: Kernel, free: None) -> None:
    run_in(kernel, "", DENY)
    said = run_in(kernel, "", DENY.replace("deny", "allow"))

    assert rules(kernel) == ["deny 'math:*'", "allow 'math:*'"]
    assert "still in force, from other cells: `deny 'math:*'` (`%mcp approvals --remove N` drops one)" in said


def test_a_file_replaces_what_it_declared(kernel: Kernel, folder: Path, free: None) -> None:
    run_in(kernel, "a", DENY)
    (folder / "mcp_magic.toml").write_text('[[consent]]\ndeny = "fs:*"\n')
    kernel.ok("%mcp up")
    (folder / "mcp_magic.toml").write_text('[[consent]]\ndeny = "fs:read_*"\n')

    assert "no longer in force: `deny 'fs:*'`" in " ".join(kernel.ok("%mcp up").text.split())
    assert rules(kernel) == ["deny 'math:*'", "deny 'fs:read_*'"]
