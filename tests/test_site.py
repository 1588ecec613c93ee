"""The generated pages of the site have everything that there is; `make docs` looks after links and assets."""

from __future__ import annotations

from docs.generate import api, commands, errors, links, notebooks, settings
from mcp_magic import errors as raised
from mcp_magic.ipython.commands import COMMANDS
from mcp_magic.ipython.settings import Settings
from tests.documentation import ROOT


def test_each_subcommand_has_a_page_with_its_arguments_and_examples() -> None:
    pages = commands.pages(ROOT)
    for name, command in COMMANDS.items():
        page = pages[f"commands/{name}.md"]
        for action in command.parser.arguments:
            assert all(f"`{option}" in page for option in action.option_strings)
        assert all(example in page for example in command.implementation.examples)
        assert f"({name}.md)" in pages["commands/index.md"]
    assert {"commands/mcp_agent.md", "commands/mcp_server.md", "commands/servers.md"} <= set(pages)
    assert sorted(commands.names()) == sorted(pages)


def test_help_is_no_markup_on_a_page() -> None:
    assert commands.plain("a*b <i> `*x*` [y] c_d") == r"a\*b \<i\> `*x*` \[y\] c\_d"


def test_each_setting_is_on_its_page_with_its_default_and_its_choices() -> None:
    page = settings.pages(ROOT)["settings.md"]
    for name in Settings.class_own_traits(config=True):
        assert f"| `{name}` |" in page
    assert "| `approval` | `'ask'` |" in page
    assert "`ask`, `plan`, `auto`, `readonly`, `deny`" in page


def test_each_error_is_on_its_page() -> None:
    page = errors.pages(ROOT)["errors.md"]
    for name in raised.__all__:
        if isinstance(getattr(raised, name), type):
            assert f"::: mcp_magic.errors.{name}\n" in page


def test_each_public_name_is_in_the_reference() -> None:
    assert api.public_names_left() == set()
    entries = [line for page in api.pages(ROOT).values() for line in page.splitlines() if line.startswith("::: ")]
    assert "::: mcp_magic._host.Host" in entries, "mkdocstrings reads the source, which has no lazy names"
    assert len(entries) == len(set(entries))


def test_links_between_files_become_links_between_pages() -> None:
    assert links.rewritten("[a](docs/agent.md#models)", "index.md") == "[a](agent.md#models)"
    assert links.rewritten("[a](../notebooks/agent.ipynb)", "agent.md") == "[a](tutorials/agent.md)"
    assert links.rewritten("[a](../docs/agent.md)", "tutorials/data.md") == "[a](../agent.md)"
    assert links.rewritten("[a](https://a.example/b.md) [b](#c)", "agent.md") == "[a](https://a.example/b.md) [b](#c)"
    assert links.rewritten("```\n[a](docs/b.md)\n```", "index.md") == "```\n[a](docs/b.md)\n```"
    assert links.rewritten("[a](../mcp_magic/errors.py)", "agent.md").startswith("[a](..")


def test_a_tutorial_is_a_page_with_the_outputs_that_are_saved_in_it() -> None:
    pages = notebooks.pages(ROOT)
    assert next(iter(pages)) == "tutorials/quickstart.md"
    text, outputs = pages["tutorials/quickstart.md"]
    assert text.startswith("# Quickstart")
    assert "```ipython\n%load_ext mcp_magic\n```" in text
    shown = notebooks.with_outputs(text, outputs)
    assert "data-output" not in shown
    assert 'src="data:image/png;base64,' in shown
    assert "ansi-red-fg" in shown, "errors are shown as the notebook shows them"
