"""What goes wrong is an error of a few lines, awaited or nested, without a secret; Run All and nbclient end with it."""

import json
import sys

import pytest

from tests.support.kernel_servers import CONNECT_PLAIN, LOAD, MATH, SHOWCASE, SMALL, connect_in_process
from tests.support.kernels import run_by_itself, until
from tests.support.processes import free_port

SECRET = "s3cr3t-t0ken-of-a-person"


def python(program):
    return f"-- {sys.executable} -c '{program}'"


LAST_WORDS = python('import sys; sys.exit("no database")')
SILENT = python("import sys; sys.stdin.read()")
CHATTY = python('print("welcome to my program", flush=True)')

ERRORS = {
    "nonsense": "CommandError",
    "call": "CommandError",
    "call --wrong showcase:nothing": "CommandError",
    "call showcase:enums 'priority=low": "CommandError",
    "call nobody:nothing": "UnknownServerError",
    "call showcase:nothingg": "UnknownToolError",
    "call showcase:enums": "ArgumentsError",
    "call showcase:enums priority=huge": "ArgumentsError",
    "call showcase:enums priority=low colur=red": "ArgumentsError",
    "call showcase:enums priority=$no_such_name": "ArgumentsError",
    "call showcase:fail_error message=Sorry": "ToolError",
    "call showcase:fail_silently": "ToolError",
    "call showcase:fail_protocol": "ProtocolError",
    "call showcase:slow seconds=30 --timeout 0.1": "RequestTimeoutError",
    "call showcase:slow seconds=0 --df": "NoTableError",
    "read showcase://nothing --server showcase": "ProtocolError",
    "read nothing://at.all": "AmbiguousNameError",
    "prompt showcase:nothing": "UnknownPromptError",
    "prompt showcase:failing": "ProtocolError",
    "prompt showcase:greet": "ArgumentsError",
    "tool showcase:nothingg": "UnknownToolError",
    "logs nobody": "UnknownServerError",
    "disconnect nobody": "UnknownServerError",
    "reconnect nobody": "UnknownServerError",
    "connect": "CommandError",
    "connect no_such_name": "TargetError",
    "connect -- no-such-command-at-all": "CommandNotFoundError",
    "connect http://127.0.0.1:{port}/mcp": "UnreachableError",
    "connect http://127.0.0.1:{port}/sse --transport sse": "UnreachableError",
    "connect ws://127.0.0.1:{port}": "UnreachableError",
    f"connect {LAST_WORDS}": "ServerExitedError",
    f"connect {CHATTY}": "ServerExitedError",
    f"connect --timeout 0.3 {SILENT}": "ConnectTimeoutError",
    "connect --config no_such_file.json": "ConfigError",
    "up no_such_file.toml": "ConfigError",
}
NESTED = "def f():\n    %mcp {}\nf()"
NESTED_TOO = ("call", "call showcase:enums", "call showcase:fail_error message=Sorry", "connect ws://127.0.0.1:{port}")
WRONG_USE = {
    "await host.call(1)": "ArgumentsError",
    "await host.call('showcase:enums', 5)": "ArgumentsError",
    "await host.prompt(None)": "ArgumentsError",
    "await host.read(1, server='showcase')": "ProtocolError",
    "await host.connect('calculator', nme='x')": "ArgumentsError",
    "host[1]": "UnknownServerError",
    "await host['showcase'].call(1)": "UnknownToolError",
    "await host['showcase'].prompt('greet', [1])": "ArgumentsError",
    "await host['showcase'].request(1)": "ArgumentsError",
    "await host['showcase'].notify('notifications/x', 5)": "ArgumentsError",
    "await host['showcase'].listing('tool')": "ArgumentsError",
    "await host['showcase'].set_log_level(5)": "ArgumentsError",
    "host['showcase'].tools.enum": "AttributeError",
}
SECRETS = {
    "header": f"connect http://127.0.0.1:{{port}}/mcp --header 'Authorization: Bearer {SECRET}'",
    "url": f"connect http://ann:{SECRET}@127.0.0.1:{{port}}/mcp?api_key={SECRET}",
    "environment": f"connect --env API_TOKEN={SECRET} "
    + python('import os, sys; sys.exit("bad token " + os.environ["API_TOKEN"])'),
    "option": f"connect -- {sys.executable} -c 'import sys; sys.exit(str(sys.argv))' --api-key {SECRET}",
}


@pytest.fixture(scope="module", autouse=True)
def servers(kernel):
    connect_in_process(kernel, SHOWCASE, "showcase")
    connect_in_process(kernel, MATH, "calculator")  # "read" is ambiguous with two
    kernel.ok("from mcp_magic import host")


def is_a_short_error(cell, ename):
    assert (cell.status, cell.ename) == ("error", ename), cell
    assert (cell.streams, cell.outputs) == ({}, []), cell
    lines = cell.shown_error.splitlines()
    assert lines[0] == f"{ename}: {cell.evalue.splitlines()[0]}"
    assert len(lines) <= 3, cell.shown_error
    assert max(len(line) for line in lines) < 500
    assert not any(word in cell.shown_error for word in ("Traceback", "File ", "site-packages", "ExceptionGroup"))


def test_an_error_is_an_error_output_of_a_few_lines(kernel):
    forms = [("%mcp {}", line) for line in ERRORS] + [(NESTED, line) for line in NESTED_TOO]
    for form, line in forms:
        cell = kernel.run(form.format(line.replace("{port}", str(free_port()))))
        is_a_short_error(cell, ERRORS[line])
    assert kernel.ok("1 + 1").text == "2"


def test_a_wrong_use_from_python_is_an_error_of_a_few_lines(kernel):
    for code, ename in WRONG_USE.items():
        is_a_short_error(kernel.run(code), ename)


@pytest.mark.parametrize("form", ["%mcp {}", NESTED], ids=["awaited", "nested"])
def test_server_death_in_call_is_short_error_and_reconnects(kernel, form):
    kernel.ok(CONNECT_PLAIN)
    cell = kernel.run(form.format("call plain:die message=farewell"))
    is_a_short_error(cell, "SessionClosedError")
    assert "farewell" in cell.evalue
    assert "%mcp reconnect plain" in cell.evalue
    is_a_short_error(kernel.run(form.format("call plain:noise"), timeout=5), "SessionClosedError")
    kernel.ok(form.format("reconnect plain"))
    assert kernel.ok("%mcp call plain:echo text=hi").text == "hi"
    kernel.ok("%mcp disconnect plain")


def test_server_death_between_cells_is_noticed(kernel):
    kernel.ok(f"%mcp connect --name mortal -- {' '.join(SMALL)}")
    kernel.process.children()[0].kill()

    def state():
        kernel.ok("r = %mcp")
        return kernel.ok("[row['state'] for row in r.rows if row['server'] == 'mortal'][0]").text

    until(lambda: state() == "'lost'", what="the session is lost")
    kernel.ok("%mcp disconnect mortal")


def test_the_error_can_be_caught_and_looked_at(kernel):
    cell = kernel.ok(
        "from mcp_magic.errors import ToolError\ntry:\n    %mcp call showcase:fail_structured\n"
        "except ToolError as error:\n    caught = error\ncaught.result.data['code']"
    )
    assert cell.text == "'quota'"


def test_no_group_is_in_the_context_of_an_error(kernel):
    # ipykernel 7.4 shows an error with a group in its context as a stream, and nbclient then waits in vain
    kernel.ok(
        "def groups(error):\n    if error is None:\n        return []\n"
        "    own = [error] if isinstance(error, BaseExceptionGroup) else []\n"
        "    return own + groups(error.__cause__) + groups(error.__context__)\n"
    )
    for line in (f"connect {LAST_WORDS}", f"connect http://127.0.0.1:{free_port()}/mcp", "connect -- no-such-command"):
        for form in ("    %mcp {}\n", "    (lambda: get_ipython().run_line_magic('mcp', {!r}))()\n"):
            kernel.ok(f"seen = None\ntry:\n{form.format(line)}except Exception as error:\n    seen = groups(error)")
            assert kernel.ok("seen").text == "[]"


def test_run_all_stops_at_an_error(kernel, tmp_path):
    both_sent = tmp_path / "both_sent"
    kernel.ok(f"went_on = False\nimport time\nfrom pathlib import Path\nboth_sent = Path({str(both_sent)!r})")
    # the kernel drops what waits when a cell fails: the second cell has to have arrived by then
    waits = "while not both_sent.exists(): time.sleep(0.2)\ntime.sleep(0.2)\n"
    cells = [kernel.start(code) for code in (f"{waits}%mcp call showcase:fail_error", "went_on = True")]
    both_sent.touch()
    assert [kernel.finish(cell).status for cell in cells] == ["error", "aborted"]
    assert kernel.ok("went_on").text == "False"


def test_a_secret_is_in_no_output_of_a_session(kernel):
    for line in SECRETS.values():
        cell = kernel.run(f"%mcp {line.format(port=free_port())}")
        assert cell.status == "error"
        assert SECRET not in json.dumps(cell.__dict__, default=str), line
    shown = [
        kernel.ok(CONNECT_PLAIN.replace("--name", f"--env PLAIN_TOKEN={SECRET} --name")),
        kernel.ok(f"secret = {SECRET!r}\nr = %mcp call plain:stderr text=$secret"),
        kernel.ok("%mcp logs plain"),
        kernel.ok("%mcp"),
        kernel.ok("host, host['plain'], host['plain'].spec, repr(host['plain'])"),
        kernel.run("%mcp call plain:die message=$secret"),
        kernel.run("%mcp call plain:noise"),
        kernel.ok("%mcp logs plain"),
        kernel.ok("%mcp disconnect plain"),
    ]
    assert "***" in shown[2].text
    assert not [cell for cell in shown if SECRET in json.dumps(cell.__dict__, default=str)]


def test_nbclient_runs_notebook_with_errors_and_never_hangs(tmp_path):
    lines = (f"connect {LAST_WORDS}", f"connect http://127.0.0.1:{free_port()}/mcp", "call plain:die")
    cells = [form.format(line) for line in (*lines, "connect -- no-such-command") for form in ("%mcp {}", NESTED)]
    *outputs, last = run_by_itself(tmp_path, LOAD, CONNECT_PLAIN, *cells, "6 * 7", allow_errors=True)[2:]
    assert [[output.output_type for output in of_one] for of_one in outputs] == [["error"]] * len(cells)
    assert last[0].data["text/plain"] == "42"
