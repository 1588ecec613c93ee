"""Writes the link of the Binder badge into README.md: `python binder/badge.py`.

The project's address stands in one place, `[project.urls] Repository` of pyproject.toml. Without it the badge leads to
Binder's own page, where an address can be given.
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

BADGE = re.compile(r"(?<=\[!\[Open in Binder\]\(docs/images/binder\.svg\)\]\()[^)\s]*(?=\))")


def address(pyproject: str) -> str | None:
    """Return the project's address, or None while it has none."""
    urls: dict[str, str] = tomllib.loads(pyproject)["project"].get("urls", {})
    return urls.get("Repository")


def launch(repository: str | None) -> str:
    """Return the URL that opens the first tutorial of a repository on Binder.

    >>> launch("https://github.com/ada/engine.git")
    'https://mybinder.org/v2/gh/ada/engine/HEAD?urlpath=lab/tree/notebooks/quickstart.ipynb'
    >>> launch("https://git.example.org/engine")
    'https://mybinder.org/v2/git/https%3A%2F%2Fgit.example.org%2Fengine/HEAD?urlpath=lab/tree/notebooks/quickstart.ipynb'
    >>> launch(None)
    'https://mybinder.org'
    """
    if repository is None:
        return BINDER
    parts = urlsplit(repository)
    path = parts.path.strip("/").removesuffix(".git")
    where = f"gh/{path}" if parts.hostname == "github.com" else f"git/{quote(repository, safe='')}"
    return f"{BINDER}/v2/{where}/HEAD?urlpath={FIRST_PAGE}"


def main() -> None:
    """Write it."""
    readme = ROOT / "README.md"
    link = launch(address((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    text, found = BADGE.subn(lambda _: link, readme.read_text(encoding="utf-8"))
    if found != 1:
        raise SystemExit(f"README.md has {found} badges for Binder; one is wanted")
    readme.write_text(text, encoding="utf-8")
    print(link)


if __name__ == "__main__":
    main()
