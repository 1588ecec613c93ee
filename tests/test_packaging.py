from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import mcp_magic

ROOT = Path(__file__).parent.parent
EXTRAS = ("keyring", "models", "postgres", "otel", "plot", "ws")
"""Those that a person installs for more than developing."""


def built(target: str, folder: Path) -> Path:
    """Build a wheel or an sdist into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_sdist_has_what_its_tests_look_for(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        has = {name.split("/")[1] for name in archive.getnames()}
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    wanted = set(re.findall(r'\bROOT / "([A-Za-z][\w.-]*)', tests))
    assert {"binder", "docs", "Makefile"} < wanted
    assert {name for name in wanted if (ROOT / name).exists()} | {"CONTRIBUTING.md", "mkdocs.yml"} <= has


def test_the_wheel_has_the_package_its_type_marker_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "mcp_magic/py.typed" in names
    assert "mcp_magic/ipython/commands/call.py" in names
    assert {name.split("/")[0] for name in names} == {"mcp_magic", f"mcp_magic-{mcp_magic.__version__}.dist-info"}


def test_the_wheel_installs_and_loads(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--python", python, wheel]
    subprocess.run(install, check=True, capture_output=True)
    code = "import mcp_magic, mcp_magic.errors; print(mcp_magic.__version__, mcp_magic.__file__)"
    ran = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    version, file = ran.stdout.split()
    assert version == mcp_magic.__version__
    assert str(tmp_path) in file


def test_extras_and_bounds_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"lab", "ws", "dev"} <= set(project["optional-dependencies"])
    for requirement in project["dependencies"]:
        assert ">=" in requirement, f"{requirement} has no lower bound"


PARTS = {
    "pydantic_core": "pydantic",
    "pyodide": "the browser",
    "pytest": "whoever uses the plugin",
    "typing_extensions": "pydantic",
}
"""What needs no line of its own, and who brings it."""


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    declared = {re.split(r"[\[<>=;]", line)[0].strip() for line in lines}
    owners = importlib.metadata.packages_distributions()
    undeclared = {
        name
        for path in (ROOT / "mcp_magic").rglob("*.py")
        for name in imported(path)
        if not {each.lower().replace("_", "-") for each in owners.get(name, ())} & declared
    }
    assert undeclared - sys.stdlib_module_names - {"mcp_magic"} <= set(PARTS)


def imported(path: Path) -> set[str]:
    """Return the packages that a module imports, by their first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found
