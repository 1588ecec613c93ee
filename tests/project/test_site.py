"""The generated pages of the site have everything that there is, and links lead somewhere; `make docs` builds it."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from docs.generate import api, commands, errors, links, notebooks, settings
from mcp_magic import errors as raised
from mcp_magic.ipython.commands import COMMANDS
from mcp_magic.ipython.settings import Settings
from tests.documentation import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markdown_it.token import Token


def test_subcommand_pages_have_arguments_and_examples():
    pages = commands.pages(ROOT)
    for name, command in COMMANDS.items():
        page = pages[f"commands/{name}.md"]
        for action in command.parser.arguments:
            assert all(f"`{option}" in page for option in action.option_strings)
        assert all(example in page for example in command.implementation.examples)
        assert f"({name}.md)" in pages["commands/index.md"]
    assert {"commands/mcp_agent.md", "commands/mcp_server.md", "commands/servers.md"} <= set(pages)
    assert sorted(commands.names()) == sorted(pages)


def test_help_is_no_markup_on_a_page():
    assert commands.plain("a*b <i> `*x*` [y] c_d") == r"a\*b \<i\> `*x*` \[y\] c\_d"


def test_settings_page_has_defaults_and_choices():
    page = settings.pages(ROOT)["settings.md"]
    for name in Settings.class_own_traits(config=True):
        assert f"| `{name}` |" in page
    assert "| `approval` | `'ask'` |" in page
    assert "`ask`, `plan`, `auto`, `readonly`, `deny`" in page


def test_each_error_is_on_its_page():
    page = errors.pages(ROOT)["errors.md"]
    for name in raised.__all__:
        if isinstance(getattr(raised, name), type):
            assert f"::: mcp_magic.errors.{name}\n" in page


def test_each_public_name_is_in_the_reference():
    assert api.public_names_left() == set()
    entries = [line for page in api.pages(ROOT).values() for line in page.splitlines() if line.startswith("::: ")]
    assert "::: mcp_magic._host.Host" in entries, "mkdocstrings reads the source, which has no lazy names"
    assert len(entries) == len(set(entries))


def test_links_between_files_become_links_between_pages():
    assert links.rewritten("[a](docs/agent.md#models)", "index.md") == "[a](agent.md#models)"
    assert links.rewritten("[a](../notebooks/agent.ipynb)", "agent.md") == "[a](tutorials/agent.md)"
    assert links.rewritten("[a](../docs/agent.md)", "tutorials/data.md") == "[a](../agent.md)"
    assert links.rewritten("[a](https://a.example/b.md) [b](#c)", "agent.md") == "[a](https://a.example/b.md) [b](#c)"
    assert links.rewritten("```\n[a](docs/b.md)\n```", "index.md") == "```\n[a](docs/b.md)\n```"
    assert links.rewritten("[a](../mcp_magic/errors.py)", "agent.md").startswith("[a](..")


def test_tutorial_page_has_its_saved_outputs():
    pages = notebooks.pages(ROOT)
    assert next(iter(pages)) == "tutorials/quickstart.md"
    text, outputs = pages["tutorials/quickstart.md"]
    assert text.startswith("# Quickstart")
    assert "```ipython\n%load_ext mcp_magic\n```" in text
    shown = notebooks.with_outputs(text, outputs)
    assert "data-output" not in shown
    assert 'src="data:image/png;base64,' in shown
    assert "ansi-red-fg" in shown, "errors are shown as the notebook shows them"


# Links, as `mkdocs build --strict` checks them. MkDocs is no package that the tests need.


@cache
def site() -> dict[str, str]:
    """Return name -> Markdown of all pages, with the links that they have on the site."""
    made = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
    for pages in (commands.pages, settings.pages, errors.pages, api.pages, links.copies):
        made |= pages(ROOT)
    made |= {name: text for name, (text, _) in notebooks.pages(ROOT).items()}
    return {name: links.rewritten(text, name) for name, text in made.items()}


@cache
def assets() -> set[str]:
    """Return what else of docs/ is on the site."""
    files = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*") if path.is_file())
    return {str(file) for file in files if file.suffix not in (".py", ".pyc", ".md")}


def tokens(markdown: str) -> Iterator[Token]:
    """Yield the tokens of a text, also those within a line."""
    for token in MarkdownIt().enable("table").parse(markdown):
        yield token
        yield from token.children or ()


@cache
def anchors(markdown: str) -> set[str]:
    """Return the anchors of a page: its headings, what mkdocstrings describes, and `id="..."`."""
    parsed = MarkdownIt().parse(markdown)
    named = {*re.findall(r'\bid="([^"]+)"', markdown), *re.findall(r"^::: (\S+)", markdown, re.MULTILINE)}
    for before, token in pairwise(parsed):
        if before.type == "heading_open":
            text = "".join(part.content for part in token.children or () if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            number = next(number for number in range(len(named) + 1) if _numbered(slug, number) not in named)
            named.add(_numbered(slug, number))
    return named


def _numbered(slug: str, number: int) -> str:
    return f"{slug}_{number}" if number else slug


def broken(name: str, pages: Mapping[str, str], others: set[str]) -> list[str]:
    """Return what MkDocs says about the links of a page."""
    problems: list[str] = []
    for token in tokens(pages[name]):
        if token.type == "text":
            references = REFERENCE.findall(token.content)
            problems += [f"could not find cross-reference target {reference}" for reference in references]
        link = str(token.attrs.get("href" if token.type == "link_open" else "src", ""))
        parts = urlsplit(link)
        if not link or parts.scheme or parts.netloc:
            continue
        path = posixpath.join(posixpath.dirname(name), unquote(parts.path)) if parts.path else name
        target = posixpath.normpath(path)
        if target not in pages and target not in others:
            problems.append(f"a link {link!r}, but the target {target!r} is not found among documentation files")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in anchors(pages[target]):
            problems.append(f"a link {link!r}, but the doc {target!r} does not contain an anchor '#{parts.fragment}'")
    return problems


REFERENCE = re.compile(r"\[[^\[\]]+\]\[[^\[\]]*\]")


def test_links_of_all_pages_lead_somewhere():
    problems = {name: broken(name, site(), assets()) for name in site()}
    assert len(problems) > 50
    assert {name: lines for name, lines in problems.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](guide.md#settings) [b](#a-b) [c](images/views.png) ![d](images/views.png)\n\n# `A` b!", ""),
        ("[a](https://a.example/b.md) [b](mailto:a@b.example)", ""),
        ("`[a](b.md)` and\n\n```\n[a](b.md)\n```", ""),
        ("[a](guide.md#nothing)", "'guide.md#nothing', but the doc 'guide.md' does not contain an anchor '#nothing'"),
        ("[a](#nothing)", "'#nothing', but the doc 'page.md' does not contain an anchor '#nothing'"),
        ("| x |\n|---|\n| [a](nothing.md) |", "'nothing.md' is not found among documentation files"),
        ("![a](images/nothing.png)", "'images/nothing.png' is not found among documentation files"),
        ("[a](../mcp_magic/errors.py)", "'../mcp_magic/errors.py' is not found among documentation files"),
        ("[a](guide)", "'guide' is not found among documentation files"),
        ("[a](/guide.md)", "'../guide.md' is not found among documentation files"),
        ("[Host][mcp_magic.Hots]", "could not find cross-reference target [Host][mcp_magic.Hots]"),
    ],
)
def test_link_that_leads_nowhere_is_reported(text, problem):
    problems = broken("page.md", site() | {"page.md": links.rewritten(text, "page.md")}, assets())
    assert problem in "".join(problems)
    assert len(problems) == bool(problem)
