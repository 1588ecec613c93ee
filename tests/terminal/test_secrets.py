"""`%mcp secret set` in terminal IPython: `getpass` takes the value."""

from pathlib import Path

HERE = str(Path(__file__).parents[2])
SETUP = (
    f"import os, sys; sys.path.insert(0, {HERE!r}); os.environ['TEST_KEYRING_FOLDER'] = os.getcwd()",
    "os.environ['PYTHON_KEYRING_BACKEND'] = 'tests.support.keyrings.FolderKeyring'",
    "os.environ['JUPYTER_DATA_DIR'] = os.getcwd()",
)


def test_a_secret_is_typed_and_not_echoed(terminal):
    said = terminal.asked("%mcp secret set db", r"value \(.*\): ")
    assert "The value of mcp-magic/db, which the system's keyring keeps" in said
    terminal.send("s3same-4711")
    after = terminal.wait()
    assert "stored; a configuration refers to it as ${keyring:mcp-magic/db}" in after
    assert "s3same" not in after
    assert "mcp-magic/db" in terminal.run("%mcp secret")
    terminal.asked("%mcp secret set other", r"value \(.*\): ")
    assert "nothing was stored as mcp-magic/other" in terminal.run("")
