"""One line at the end of `make test`: what was skipped, and which command would run it.

tests/conftest.py writes a line for each skipped test into the file that MCP_MAGIC_SKIPPED names; `python -m
tests.skipped` prints the sum and deletes the file.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

VARIABLE = "MCP_MAGIC_SKIPPED"

REMEDIES = (
    ("chromium", "make system"),
    ("firefox", "make system"),
    ("node", "make system"),
    ("which srt needs", "make system"),
    ("make lite", "make lite"),
    ("postgresql is not installed", "apt-get install postgresql"),
    ("is not installed", "pip install --editable '.[dev]'"),
    ("could not import", "pip install --editable '.[dev]'"),
    ("root", "run as another user"),
)
"""By a part of the reason, in small letters: what would run the test. The first that fits."""


def note(reasons: list[str]) -> None:
    """Add the reasons of a run to the file, if there is one to be written."""
    path = os.environ.get(VARIABLE)
    if path and reasons:
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{' '.join(reason.split())}\n" for reason in reasons)


def summary(reasons: list[str]) -> str:
    """Return the line.

    >>> summary(["node and npm are not installed", "chromium is not installed", "chromium is not installed"])
    'skipped: 2 (chromium is not installed), 1 (node and npm are not installed); to run them: make system'
    >>> summary([])
    'nothing was skipped'
    """
    if not reasons:
        return "nothing was skipped"
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    found = (next((do for part, do in REMEDIES if part in reason.lower()), "") for reason in counts)
    commands = "; ".join(command for command in dict.fromkeys(found) if command)
    what = ", ".join(f"{count} ({reason})" for reason, count in counts.most_common())
    return f"skipped: {what}" + (f"; to run them: {commands}" if commands else "")


def main() -> None:
    """Print the line."""
    path = Path(os.environ[VARIABLE])
    reasons = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    if shutil.which("npx") is None:
        reasons.append("notebooks/real_servers.ipynb wants Node")
    print(summary(reasons))


if __name__ == "__main__":
    main()
