"""`%mcp secret set` and inputs in kernels: a password field or `getpass`, and nothing of the value in the notebook."""

import json
import sys
from pathlib import Path

from tests.support.kernel_servers import LOAD

HERE = str(Path(__file__).parents[2])
KEYRING = f"""
import os, sys
sys.path.insert(0, {HERE!r})
os.environ["TEST_KEYRING_FOLDER"] = os.environ["JUPYTER_DATA_DIR"] = os.getcwd()
os.environ["PYTHON_KEYRING_BACKEND"] = "tests.support.keyrings.FolderKeyring"
import keyring
"""
SERVER = f"""
import os, sys
sys.path.insert(0, {HERE!r})
from tests.support.plain import Plain

server = Plain("gives")

@server.tool
def length(name: str) -> int:
    return len(os.environ.get(name, ""))

server.run()
"""
SETUP = [KEYRING, LOAD, f"open('gives.py', 'w').write({SERVER!r})"]
SECRET = "s3same-4711"
CONNECT = f"%mcp connect --name it --env 'TOKEN=${{input:key}}' -- {sys.executable} gives.py"


def enter(frontend, cell, field="PasswordModel"):
    frontend.has("OK", cell)
    frontend.type(field, SECRET)
    frontend.click("OK", cell=cell)
    return frontend.finish(cell)


def test_a_secret_is_entered_in_a_password_field(frontend, kernel):
    cell = enter(frontend, frontend.start("%mcp secret set db --service acme"))
    assert cell.lines[0].startswith("✓ entered: the secret acme/db")
    assert "${keyring:acme/db}" in "\n".join(cell.lines)
    assert kernel.ok("keyring.get_password('acme', 'db') == 's3same-' '4711'").text == "True"
    assert SECRET not in json.dumps(frontend.models)
    assert SECRET not in "".join(cell.lines) + cell.stdout
    assert SECRET not in kernel.ok("str(In) + str([v for v in Out.values()])").text


def test_an_input_is_asked_for_below_the_cell_once_a_kernel(frontend, kernel):
    cell = enter(frontend, frontend.start(CONNECT))
    assert cell.lines[0].startswith("✓ entered: the input key for it")
    assert "TOKEN from input key" in "\n".join(cell.lines)
    assert kernel.ok("r = %mcp call it:length name=TOKEN\nr.data").text == str(len(SECRET))
    kernel.ok("%mcp reconnect it")
    assert kernel.ok("r = %mcp call it:length name=TOKEN\nr.data").text == str(len(SECRET))
    assert SECRET not in json.dumps(frontend.models) + "".join(cell.lines)
    kernel.ok("%mcp disconnect it")
    kernel.ok("%mcp secret forget key")


def test_interrupt_ends_the_question_and_nothing_starts(frontend, kernel):
    cell = frontend.start(CONNECT)
    frontend.has("OK", cell)
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    assert kernel.ok("from mcp_magic import host\nlen(host)").text == "0"


def test_a_kernel_without_clicks_asks_by_input_without_echo(older):
    cell = older.start("%mcp secret set db")
    message = older.kernel.client.get_stdin_msg(timeout=30)["content"]
    assert message["password"] is True
    older.kernel.client.input(SECRET)
    cell = older.finish(cell)
    assert "${keyring:mcp-magic/db}" in "\n".join(cell.lines)
    assert SECRET not in "".join(cell.lines) + cell.stdout


def test_a_cell_without_input_is_refused_at_once(frontend):
    assert frontend.run("%mcp secret set db", stdin=False).ename == "DeniedError"
    cell = frontend.run(CONNECT, stdin=False)
    assert cell.ename == "SecretError"
