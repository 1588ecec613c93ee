from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import mcp_magic

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_the_package_its_type_marker_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "mcp_magic/py.typed" in names
    assert "mcp_magic/magics/commands/call.py" in names
    assert {name.split("/")[0] for name in names} == {"mcp_magic", f"mcp_magic-{mcp_magic.__version__}.dist-info"}


def test_the_wheel_installs_and_loads(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True, capture_output=True)
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
