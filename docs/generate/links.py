"""Where the files of the repository are on the site."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COPIES", "copies", "rewritten"]

COPIES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}
"""Pages that are files outside of docs/: name on the site -> file."""

_FENCED = re.compile(r"(^```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\(|\bsrc(?:set)?=\")([^)\s#\"]+)(#[^)\s]*)?(?=[)\s\"])")


def copies(root: Path) -> dict[str, str]:
    """Return the texts of the files that are pages as they are."""
    return {name: (root / file).read_text(encoding="utf-8") for name, file in COPIES.items()}


def rewritten(markdown: str, page: str) -> str:
    """Return a page's Markdown with its links to files of the repository as links to pages.

    Args:
        markdown: The text.
        page: The page's name on the site.
    """
    origin = _origin(page)
    if origin is None:
        return markdown

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        return f"{found[1]}{posixpath.relpath(_on_site(file), posixpath.dirname(page) or '.')}{found[3] or ''}"

    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _origin(page: str) -> str | None:
    """Return the file that a page was made from; None for what is generated."""
    if page in COPIES:
        return COPIES[page]
    if page.startswith("tutorials/"):
        return f"notebooks/{posixpath.basename(page).removesuffix('.md')}.ipynb"
    return None if "/" in page or page in ("settings.md", "errors.md") else f"docs/{page}"


def _on_site(file: str) -> str:
    """Return where a file of the repository is on the site; what is not there stays, and MkDocs complains."""
    known = {origin: name for name, origin in COPIES.items()}
    if file in known:
        return known[file]
    if file.startswith("notebooks/") and file.endswith(".ipynb"):
        return f"tutorials/{file.removeprefix('notebooks/').removesuffix('.ipynb')}.md"
    return file.removeprefix("docs/") if file.startswith("docs/") else f"../{file}"
