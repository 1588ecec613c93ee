"""Writes binder/requirements.txt: what the tutorials need, with the versions that a fresh environment gets today.

`make lock` runs it, with the Python that binder/runtime.txt names.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

BINDER = Path(__file__).resolve().parent
EXTRAS = "documents,lab,plot,ws"
ALSO = ("hatchling", "mcp-server-git", "mcp-server-time", "notebook", "pytest")
HEAD = "# Written by `make lock`; postBuild installs mcp_magic itself.\n"


def main() -> None:
    """Install everything into an environment of its own, and write down what that is."""
    wanted = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    if not sys.version.startswith(f"{wanted}."):
        sys.exit(f"binder/runtime.txt wants Python {wanted}, this is {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", f"{BINDER.parent}[{EXTRAS}]", *ALSO], check=True)
        frozen = subprocess.run([*pip, "freeze", "--exclude", "mcp-magic"], check=True, capture_output=True, text=True)
    lines = [line for line in frozen.stdout.splitlines() if "==" in line]
    (BINDER / "requirements.txt").write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{len(lines)} packages")


if __name__ == "__main__":
    main()
