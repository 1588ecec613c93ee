"""What MkDocs calls: pages that are made and not written, links between folders, and a look at what came out.

`docs/` stays readable on a code host: its links lead to the files of the repository. On the site the README is the
first page, notebooks are tutorials, and the reference is generated; `links.py` knows what is where.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from docs.generate import api, commands, errors, links, notebooks, settings  # noqa: E402  # the folder is known now

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

MAKERS = (commands.pages, settings.pages, errors.pages, api.pages, links.copies)
"""Each returns pages: name on the site -> Markdown."""

_LOADED = re.compile(
    r"""<(?:script|img|iframe|audio|video|source|embed)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"')\s]+)""",
    re.IGNORECASE,
)

_outputs: dict[str, list[str]] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are generated, and pages of docs/ that nobody has put there."""
    assert config.nav is not None
    made = {"tutorials/": notebooks.names(ROOT), "commands/": commands.names(), "api/": list(api.pages(ROOT))}
    written = {path.name for path in (ROOT / "docs").glob("*.md")}
    config.nav = _filled(config.nav, made)
    left = sorted(written - set(_leaves(config.nav)))
    guide = next(section["Guide"] for section in config.nav if "Guide" in section)
    guide.extend(left)
    return config


def _filled(nav: list[Any], made: dict[str, list[str]]) -> list[Any]:
    filled: list[Any] = []
    for entry in nav:
        if not isinstance(entry, dict):
            filled.append(entry)
            continue
        [(title, value)] = entry.items()
        filled.append({title: _filled(value, made) if isinstance(value, list) else made.get(value, value)})
    return filled


def _leaves(nav: list[Any]) -> list[str]:
    found: list[str] = []
    for entry in nav:
        values = list(entry.values()) if isinstance(entry, dict) else [entry]
        for value in values:
            found += _leaves(value) if isinstance(value, list) else [value]
    return found


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for maker in MAKERS:
        for name, text in maker(ROOT).items():
            files.append(File.generated(config, name, content=text))
    for name, (text, outputs) in notebooks.pages(ROOT).items():
        _outputs[name] = outputs
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    return links.rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the saved outputs into the tutorials."""
    return notebooks.with_outputs(html, _outputs.get(page.file.src_uri, []))


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads anything from elsewhere."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix not in (".html", ".css"):
            continue
        found = _LOADED.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.name} loads {next(filter(None, found.groups()))}; bundle it, or leave it out")
