"""A new user's path: the wheel in a fresh environment, the README's lines in a home that is empty."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pexpect
import pytest

from tests.environments import everything_command, needs_node

pytestmark = [pytest.mark.slow, needs_node]

ROOT = Path(__file__).parent.parent
# What npx would download is there already.
NPX = "npx -y @modelcontextprotocol/server-everything"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel; what the wheel depends on is taken from this one, not downloaded."""
    folder = tmp_path_factory.mktemp("fresh")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # a path and no addsitedir: the .pth files of this environment would bring in the checkout
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin" / "python"


@pytest.fixture(scope="module")
def typed(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What IPython prints after each of the README's lines, typed by somebody whose home is empty."""
    home = tmp_path_factory.mktemp("home")
    child = pexpect.spawn(
        str(python),
        ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor", "--simple-prompt"],
        cwd=str(home),
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "COLUMNS": "150", "LANG": "C.UTF-8"},
        encoding="utf-8",
        timeout=60,
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


def test_the_lines_of_the_readme_work_one_after_the_other(typed: dict[str, str]) -> None:
    load, connect, tools, call = readme_lines()

    assert "Error" not in typed[load]
    assert "everything: open" in typed[connect]
    assert "everything:get-sum" in typed[tools]
    assert "The sum of 3 and 4 is 7." in typed[call]


def test_it_is_the_wheel_that_runs_and_the_home_gets_nothing_of_ours(typed: dict[str, str]) -> None:
    assert "site-packages" in typed["where"]
    assert str(ROOT) not in typed["where"]
    assert typed["left"] == "['.ipython']"
