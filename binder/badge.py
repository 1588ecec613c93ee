"""Writes the Binder badge into README.md, below the title: `python binder/badge.py`.

The project's address stands in one place, `[project.urls] Repository` of pyproject.toml. Without it there is no badge.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
BINDER = "https://mybinder.org"
FIRST_PAGE = "lab/tree/notebooks/quickstart.ipynb"
"""What opens, in JupyterLab."""

BADGE = re.compile(r"\[!\[Open in Binder\]\(docs/images/binder\.svg\)\]\(([^)\s]*)\)\n\n")


def address(pyproject: str) -> str | None:
    """Return the project's address, or None while it has none."""
    urls: dict[str, str] = tomllib.loads(pyproject)["project"].get("urls", {})
    return urls.get("Repository")


def launch(repository: str) -> str:
    """Return the URL that opens the first tutorial of a repository on Binder.

    >>> launch("https://github.com/ada/engine.git")
    'https://mybinder.org/v2/gh/ada/engine/HEAD?urlpath=lab/tree/notebooks/quickstart.ipynb'
    >>> launch("https://git.example.org/engine")
    'https://mybinder.org/v2/git/https%3A%2F%2Fgit.example.org%2Fengine/HEAD?urlpath=lab/tree/notebooks/quickstart.ipynb'
    """
    parts = urlsplit(repository)
    path = parts.path.strip("/").removesuffix(".git")
    where = f"gh/{path}" if parts.hostname == "github.com" else f"git/{quote(repository, safe='')}"
    return f"{BINDER}/v2/{where}/HEAD?urlpath={FIRST_PAGE}"


def with_badge(readme: str, repository: str | None) -> str:
    """Return the text of README.md with the badge for a repository, or without one."""
    title, blank, rest = BADGE.sub("", readme).partition("\n\n")
    if repository is None:
        return title + blank + rest
    return f"{title}{blank}[![Open in Binder](docs/images/binder.svg)]({launch(repository)}){blank}{rest}"


def main() -> None:
    """Write it."""
    readme = ROOT / "README.md"
    repository = address((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    readme.write_text(with_badge(readme.read_text(encoding="utf-8"), repository), encoding="utf-8")
    print(launch(repository) if repository else "no badge: pyproject.toml has no [project.urls] Repository")


if __name__ == "__main__":
    main()
