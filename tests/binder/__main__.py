"""Builds the environment of `binder/` in a folder of its own and runs the tutorials in its JupyterLab.

As repo2docker does it (its Python buildpack): a fresh environment of the Python that runtime.txt names, `pip install -r
binder/requirements.txt` in the checkout, then `binder/postBuild`; Node is there already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.environments import ROOT
from tests.support.lab import JupyterLab, chromium, missing

FIRST = "notebooks/quickstart.ipynb"
MAX_MEGABYTES = 900
"""Of the environment and the servers; an image has the system and conda besides."""


def main() -> None:
    """Build, measure, run."""
    if problem := missing():
        sys.exit(problem)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="binder-") as folder:
        checkout = copy(Path(folder) / "checkout")
        python = build(checkout, Path(folder) / "environment")
        size = megabytes(Path(folder))
        print(f"built in {time.monotonic() - started:.0f} s, {size:.0f} MB", flush=True)
        if size > MAX_MEGABYTES:
            sys.exit(f"more than {MAX_MEGABYTES} MB")
        problems = run(checkout, python, Path(folder) / "home")
    print("\n".join(problems) or f"{FIRST} ran in its JupyterLab in {time.monotonic() - started:.0f} s in all")
    sys.exit(bool(problems))


def copy(folder: Path) -> Path:
    """Copy what git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def build(checkout: Path, environment: Path) -> str:
    """Install what `binder/` says, and return the environment's Python."""
    wanted = (checkout / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    base = sys.executable if sys.version.startswith(f"{wanted}.") else shutil.which(f"python{wanted}")
    if base is None:
        sys.exit(f"binder/runtime.txt wants Python {wanted}, which is not installed")
    subprocess.run([base, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", "binder/requirements.txt"], cwd=checkout, check=True)
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    variables["PATH"] = f"{environment / 'bin'}:{variables['PATH']}"
    subprocess.run(["binder/postBuild"], cwd=checkout, env=variables, check=True)
    return python


def megabytes(folder: Path) -> float:
    """Return what a folder takes."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) / 1e6


def run(checkout: Path, python: str, home: Path) -> list[str]:
    """Run the first tutorial in JupyterLab, and return what went wrong that should not."""
    cells = json.loads((checkout / FIRST).read_text())["cells"]
    expected = [i for i, cell in enumerate(cells) if "raises-exception" in cell["metadata"].get("tags", ())]
    with JupyterLab(checkout, home, python) as server, chromium() as browser, server.open(browser, FIRST) as lab:
        lab.run_all()
        outputs = lab.outputs()
        problems = list(lab.failures)
    for number, shown in enumerate(outputs):
        said = [f"{output['ename']}: {output['evalue']}" for output in shown if output["output_type"] == "error"]
        if bool(said) != (number in expected):
            problems.append(f"cell {number}: {said or 'no error where there should be one'}")
    return problems


if __name__ == "__main__":
    main()
