from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args

import mcp_types

from mcp_magic.display.document import Budget, Part, preformatted
from mcp_magic.results import CONTENT, Content, message_block, register
from mcp_magic.results.content import part_of, read_line

if TYPE_CHECKING:
    import pytest


def test_every_content_block_of_the_sdk_has_its_row() -> None:
    known = {block.model_fields["type"].default for block in get_args(mcp_types.ContentBlock)}
    assert known == set(CONTENT)


def test_a_new_block_type_needs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTENT, "poem", CONTENT["text"])

    def part(block: Any, budget: Budget, server: str) -> Part:
        return Part(f"~ {block.verse} ~", preformatted(block.verse))

    register("poem", Content(part, lambda block: {"type": "text", "text": block.verse}))
    poem = SimpleNamespace(type="poem", verse="roses <red>")
    assert part_of(poem, Budget.full()).plain == "~ roses <red> ~"
    assert message_block(poem) == {"type": "text", "text": "roses <red>"}


def test_a_block_of_an_unknown_type_is_shown_as_json() -> None:
    block = mcp_types.ToolUseContent(name="add", id="1", input={"a": {"b": 1}})
    assert '"tool_use"' in part_of(block, Budget.full()).plain
    assert message_block(block)["type"] == "text"


def test_the_line_that_reads_a_resource_is_quoted() -> None:
    assert read_line("a:b'; rm -rf /", "my server") == """%mcp read 'a:b'"'"'; rm -rf /' --server 'my server'"""
    assert "\n" not in read_line("a:\n!rm -rf /")


def test_importing_the_results_imports_only_the_standard_library() -> None:
    program = (
        "import sys; import mcp_magic.results;"
        "names = ('mcp', 'mcp_types', 'pandas', 'IPython', 'langchain_core', 'pydantic');"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
