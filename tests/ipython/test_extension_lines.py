"""Lines that the extension rewrites before they run: questions for help, and cells without a body."""

from __future__ import annotations

import pytest

from mcp_magic.ipython.extension import EmptyCells, help_asked

ASKED = {
    "%mcp call?\n": "%mcp call --help\n",
    "%mcp call ?": "%mcp call --help",
    "  x = %mcp trace??": "  x = %mcp trace --help",
    "%%mcp call?": "%mcp call --help",
    "%mcp?": "%mcp?",
    "%mcp_agent?": "%mcp_agent?",
    "%mcp nothing?": "%mcp nothing?",
    "%mcp read x://y?": "%mcp read x://y?",
    "'%mcp call?'": "'%mcp call?'",
    "%mcp call t x=5?": "%mcp call t x=5?",
}


@pytest.mark.parametrize(("typed", "runs"), ASKED.items(), ids=ASKED)
def test_question_mark_asks_for_the_help_of_a_subcommand(typed, runs):
    assert help_asked([typed]) == [runs]
    longer = ["text = '''\n", typed, "'''\n"]
    assert help_asked(longer) == longer, "in a longer cell it is its own"


def test_empty_server_cell_becomes_a_line_with_advice():
    assert EmptyCells()(["%%mcp_server shop\n", "\n"]) == ["%mcp_server shop\n"]
    assert EmptyCells()(["%%mcp_server shop\n", "x = 1\n"]) == ["%%mcp_server shop\n", "x = 1\n"]
