from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pexpect
import pytest

import mcp_magic
from tests.environments import everything_command, needs_node

ROOT = Path(__file__).parents[2]
EXTRAS = ("apps", "dask", "fuzz", "keyring", "models", "postgres", "otel", "plot", "sandbox", "ws")
"""Those that a person installs for more than developing."""


def built(target: str, folder: Path) -> Path:
    """Build a wheel or an sdist into a folder, as `make dist` does, but with the hatchling that is installed."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{target}", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_sdist_has_what_its_tests_look_for(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        has = {name.split("/")[1] for name in archive.getnames()}
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    wanted = set(re.findall(r'\bROOT / "([A-Za-z][\w.-]*)', tests))
    assert {"binder", "docs", "Makefile"} < wanted
    assert {name for name in wanted if (ROOT / name).exists()} | {"CONTRIBUTING.md", "mkdocs.yml"} <= has


def test_wheel_has_only_the_package_and_type_marker(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "mcp_magic/py.typed" in names
    assert "mcp_magic/ipython/commands/call.py" in names
    assert {name.split("/")[0] for name in names} == {"mcp_magic", f"mcp_magic-{mcp_magic.__version__}.dist-info"}


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment with the wheel; what the wheel depends on is taken from this one, not downloaded."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    found = folder / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--python", found, wheel]
    subprocess.run(install, check=True, capture_output=True)
    [site] = folder.glob("lib/python*/site-packages")
    # a path and no addsitedir: the .pth files of this environment would bring in the checkout
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def test_the_wheel_installs_and_loads(python, tmp_path):
    code = "import mcp_magic, mcp_magic.errors; print(mcp_magic.__version__, mcp_magic.__file__)"
    ran = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    version, file = ran.stdout.split()
    assert version == mcp_magic.__version__
    assert str(python.parents[1]) in file


def test_extras_and_bounds_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"lab", "ws", "dev"} <= set(project["optional-dependencies"])
    for requirement in project["dependencies"]:
        assert ">=" in requirement, f"{requirement} has no lower bound"


PARTS = {
    "comm": "ipywidgets",
    "ipykernel": "the kernel that it serves",
    "numpy": "pandas",
    "pydantic_core": "pydantic",
    "pydantic_monty": "pydantic-monty, of the extra code, which has no module of its own",
    "pyodide": "the browser",
    "pytest": "whoever uses the plugin",
    "typing_extensions": "pydantic",
}
"""What needs no line of its own, and who brings it."""


def test_what_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    declared = {re.split(r"[\[<>=;]", line)[0].strip() for line in lines}
    known = {"mcp_magic", *sys.stdlib_module_names, *PARTS}
    for name in declared:
        files = importlib.metadata.distribution(name).files or ()
        known |= {file.parts[0].partition(".")[0] for file in files if file.suffix in (".py", ".so")}
    used = {name for path in (ROOT / "mcp_magic").rglob("*.py") for name in imported(path)}
    assert used <= known, used - known


def imported(path: Path) -> set[str]:
    """Return the packages that a module imports, by their first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


# A new user's path: the README's lines in a home that is empty

# What npx would download is there already.
NPX = "npx -y @modelcontextprotocol/server-everything"


@pytest.fixture(scope="module")
def typed(python, tmp_path_factory):
    """What IPython prints after each of the README's lines, typed by somebody whose home is empty."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("folder")
    shutil.copytree(ROOT / "notebooks" / "servers", folder / "notebooks" / "servers")
    child = pexpect.spawn(
        str(python),
        ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor", "--simple-prompt"],
        cwd=str(folder),
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "COLUMNS": "150", "LANG": "C.UTF-8"},
        encoding="utf-8",
        timeout=100,
        dimensions=(50, 150),
    )
    said = {}
    child.expect(r"In \[\d+\]: $")
    for line in readme_lines():
        child.sendline(line.replace(f"-- {NPX}", f"--name everything -- {' '.join(everything_command())}"))
        child.expect(r"In \[\d+\]: $")
        said[line] = re.sub(r"\x1b\[[0-9;]*m", "", str(child.before))
    child.sendline("import mcp_magic; mcp_magic.__file__")
    child.expect(r"In \[\d+\]: $")
    said["where"] = str(child.before)
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()
    said["left"] = str(sorted(path.name for path in home.iterdir()))
    return said


def readme_lines() -> list[str]:
    """Return the lines of the README that stand behind `pip install`."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"In a notebook of your own:.*?```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@pytest.mark.slow
@needs_node
def test_the_lines_of_the_readme_work_one_after_the_other(typed):
    load, connect, call, connect_other, call_other = readme_lines()

    assert "Error" not in typed[load]
    assert "weather: open" in typed[connect]
    assert "London" in typed[call]
    assert "Error" not in typed[call]
    assert "everything: open" in typed[connect_other]
    assert "The sum of 3 and 4 is 7." in typed[call_other]


@pytest.mark.slow
@needs_node
def test_wheel_runs_and_leaves_home_untouched(typed):
    assert "site-packages" in typed["where"]
    assert str(ROOT) not in typed["where"]
    assert typed["left"] == "['.ipython']"
