"""Notebooks that programs execute: a denial ends them and says what would help; a cassette replays them."""

import subprocess
import sys

import nbformat

from tests.support.bundled import FOLDER
from tests.support.kernel_servers import ASKS_FORECAST, FORECASTS, LOAD
from tests.support.kernels import environment, run_by_itself

SETUP = (LOAD, FORECASTS, "%mcp connect weather", "from mcp_magic import errors, host")
DENIAL = (
    "weather:forecast was not called; denied by default: you cannot be asked here, where no input is allowed; "
    "MCP_MAGIC_APPROVAL=auto allows what no rule asks about. `%mcp allow weather:forecast` would allow it."
)
CELLS = (
    LOAD,
    "%mcp connect math_server.py --name math",
    "result = %mcp call math:add a=19 b=23\nresult.data",
    "%mcp read math://constants",
    "%%mcp_agent --approve auto --thread sums -o run\nadd 3 and 4, then multiply the result by 5",
    "run.answer",
    "%mcp disconnect --all",
    *SETUP[1:],
    f"try:\n    {ASKS_FORECAST.splitlines()[0]}\nexcept errors.DeniedError as error:\n    print(error)",
)


def write(path, cells, outputs=None):
    """Write a notebook of these cells, with outputs where there are any."""
    made = [
        nbformat.v4.new_code_cell(code, outputs=kept, execution_count=1)
        for code, kept in zip(cells, outputs or [[]] * len(cells), strict=True)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


def execute(folder, *command, **variables):
    """Run a module of Python to its end, in a folder of its own."""
    own = environment(folder, **variables)
    options = {"capture_output": True, "text": True, "timeout": 100, "check": False}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=own, **options)


def test_papermill_ends_with_the_denial(tmp_path):
    outside = ASKS_FORECAST.splitlines()[0].replace("'agent'", "'outside codex'")
    caught = f"try:\n    {outside}\nexcept errors.DeniedError as error:\n    print(error)"
    write(tmp_path / "asks.ipynb", (*SETUP, caught, ASKS_FORECAST))
    done = execute(tmp_path, "papermill", "asks.ipynb", "done.ipynb", "-k", "python3")
    assert done.returncode != 0
    assert DENIAL in done.stderr.replace("\n", " ")
    outputs = [output for cell in nbformat.read(tmp_path / "done.ipynb", 4).cells for output in cell.get("outputs", ())]
    assert [output.evalue for output in outputs if output.output_type == "error"] == [DENIAL]
    [text] = [output.text for output in outputs if output.output_type == "stream" and "forecast" in output.text]
    assert text == (
        "weather:forecast was not called; denied by default: the notebook runs unattended, without input. "
        "`%mcp allow weather:forecast --for 'outside codex'` would allow it.\n"
    )


def test_recorded_notebook_replays_in_nbval_and_papermill(tmp_path):
    for name in ("math_server.py", "serving.py"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    cassette = {"MCP_MAGIC_CASSETTE": "run.jsonl", "MCP_MAGIC_CASSETTE_MODE": "record"}
    made = run_by_itself(tmp_path, *CELLS, **cassette)
    assert made[2][0].data["text/plain"] == "42"
    assert "**35**" in made[5][0].data["text/plain"]
    assert [output["text"] for output in made[-1]] == [f"{DENIAL}\n"]
    write(tmp_path / "sums.ipynb", CELLS, made)  # nbval finds the denial that the notebook has kept

    (tmp_path / "math_server.py").write_text("raise SystemExit('gone')")
    replay = {**cassette, "MCP_MAGIC_CASSETTE_MODE": "replay", "PATH": str(tmp_path)}
    sanitize = ("--nbval-sanitize-with", str(FOLDER.parent / "sanitize.cfg"))
    ran = execute(
        tmp_path,
        "pytest",
        "--nbval",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:langsmith_plugin",
        *sanitize,
        "sums.ipynb",
        **replay,
    )
    assert f"{len(CELLS)} passed" in ran.stdout, ran.stdout
    program = ("papermill", "sums.ipynb", "again.ipynb", "-k", "python3")
    again = execute(tmp_path, *program, MCP_MAGIC_APPROVAL="auto", **replay)
    assert again.returncode == 0, again.stderr
    played = nbformat.read(tmp_path / "again.ipynb", as_version=4).cells
    for cell in (2, 5):
        assert played[cell].outputs[0].data["text/plain"] == made[cell][0].data["text/plain"]
    assert played[-1].outputs == [], "a variable allows the call"
