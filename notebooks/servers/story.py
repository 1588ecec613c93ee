"""A small Git repository, the same on every machine: its commits have fixed authors and dates."""

import os
import shutil
import subprocess
from pathlib import Path

CHAPTERS = (
    ("chapter1.md", "The door had been locked for a hundred years.\n", "Begin the story"),
    (
        "chapter1.md",
        "The door had been locked for a hundred years.\nOne morning there was a knock.\n",
        "Let somebody knock",
    ),
    ("chapter2.md", "Nobody knew where the key was.\n", "Begin the second chapter"),
)
"""What is committed: file, text, message."""


def write_story(folder: str) -> str:
    """Make the repository anew in a folder and return its absolute path.

    Where a cassette answers for Git (`MCP_MAGIC_CASSETTE_MODE=replay`), the files are written and nothing is committed.
    """
    path = Path(folder).resolve()
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch", "main")
    for number, (name, text, message) in enumerate(CHAPTERS, start=1):
        (path / name).write_text(text, encoding="utf-8")
        git(path, "add", name, day=number)
        git(path, "commit", "--quiet", "--message", message, day=number)
    return str(path)


def git(path: Path, *words: str, day: int = 1) -> None:
    """Run Git as an author of its own, whatever this machine's configuration says."""
    if os.environ.get("MCP_MAGIC_CASSETTE_MODE") == "replay":
        return
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in identity(day).items()}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=path, env={**os.environ, **who, **alone}, check=True)


def identity(day: int) -> dict[str, str]:
    """Return who commits, and when."""
    return {"NAME": "A. Writer", "EMAIL": "writer@example.com", "DATE": f"2026-05-0{day}T09:00:00+00:00"}
