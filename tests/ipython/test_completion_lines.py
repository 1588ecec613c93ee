"""Tab in lines of the subcommands."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter
from mcp_types import Tool

from mcp_magic.ipython.commands import AGENT, COMMANDS
from mcp_magic.ipython.completion import candidates
from mcp_magic.ipython.extension import completer
from mcp_magic.notebook import host
from tests.support.lowlevel import serving_tools
from tests.support.skills_server import SkillServer


@pytest.mark.parametrize("command", [*COMMANDS.values(), AGENT], ids=lambda command: command.name)
def test_tab_answers_at_every_argument(command):
    for words in ("", "x ", "x y ", *(f"{option} " for option in command.parser.options)):
        assert not [text for text in candidates(f"{command.name} {words}", {}).texts if not text]


async def test_tab_offers_what_fits_the_argument(magic):
    (magic.folder / "data").mkdir()
    (magic.folder / "rows.csv").write_text("a\n1\n")
    (magic.folder / "rows.py").write_text("")
    schema = {"type": "object", "properties": {"max-width": {"enum": ["a b", "c"]}}}
    await host.connect(serving_tools(Tool(name="get-sum", input_schema=schema)), name="s")
    await host.connect(SkillServer("refunds").server(), name="acme")
    names = {"frame": pd.DataFrame({"x": [1]}), "dicts": [{"a": 1}], "number": 3, "text": "abc"}
    for line, texts in {
        "call s:get": ["s:get-sum"],
        "call get-sum max": ["max-width="],
        "call get-sum max-width=": ["max-width='a b'", "max-width=c"],
        "map math:add --rows ": ["$frame", "$dicts", "data/", "rows.csv"],
        "map math:add --rows $f": ["$frame"],
        "map math:add --rows $frame ": ["a=", "b="],
        "map --resume ": [],
        "roots ma": ["math"],
        "roots math ": ["data/"],
        "ping ma": ["math"],
        "ping other ": [],
        "disconnect other ma": ["math"],
        "skills ac": ["acme"],
        "connect math --sampling ": ["off", "ask", "auto"],
        "connect server --protocol ": ["auto", "handshake", "2026-07-28"],
    }.items():
        assert candidates(line, names).texts == texts, line
    assert "math" in candidates("doctor ", {}).texts
    assert "--call" in candidates("doctor math --c", {}).texts
    assert "math" in candidates("lint ", {}).texts


@pytest.mark.parametrize(
    ("line", "offered"),
    [("%mcp call s:echo v=", ["v="]), ("%mcp call s:echo v=pri", ["v=pri"]), ("r = %mcp call s:echo n=", ["n="])],
)
async def test_tab_after_a_value_offers_nothing_of_python(magic, shell, monkeypatch, line, offered):
    properties: dict[str, Any] = {"v": {}, "n": {"type": "integer", "default": "many"}}
    echo = Tool(name="echo", input_schema={"type": "object", "properties": properties})
    await host.connect(serving_tools(echo), name="s")
    matchers = [*shell.Completer.custom_matchers, completer(shell, magic.settings)]
    monkeypatch.setattr(shell.Completer, "custom_matchers", matchers)
    with provisionalcompleter():
        assert [match.text for match in shell.Completer.completions(line, len(line))] == offered
