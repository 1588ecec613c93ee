"""`sampling`: whether a server may ask for a model's words, wherever servers are described."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.project import parse_declaration, plan
from mcp_magic.config.servers import load_config
from mcp_magic.config.specs import HttpSpec, SseSpec, StdioSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", ["off", "ask", "auto"])
def test_a_declaration_says_it(mode: str) -> None:
    text = f'[servers.w]\nurl = "http://127.0.0.1:1/mcp"\nsampling = "{mode}"\n'
    entry = parse_declaration(text, source="here", environ=os.environ, base=None, settings={}).servers["w"]
    assert entry.spec is not None
    assert entry.spec.sampling == mode


def test_an_entry_of_mcp_json_says_it_and_asks_by_default(tmp_path: Path) -> None:
    said: dict[str, Any] = {"a": "auto", "b": None, "other host's": {"model": "gpt-5"}}
    servers = {name: {"command": "x", "sampling": value} for name, value in said.items()}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    modes = {entry.name: entry.spec.sampling for entry in load_config(file) if entry.spec}
    assert modes == {"a": "auto", "b": "ask", "other host's": "ask"}


@pytest.mark.parametrize(
    ("value", "words"),
    [("always", "expected off, ask or auto, got 'always'."), ("aut", "Did you mean 'auto'?"), (True, "got a boolean.")],
)
def test_another_word_is_an_error_that_names_the_key(value: Any, words: str) -> None:
    with pytest.raises(TargetError) as raised:
        resolve_target({"command": "x", "sampling": value})
    assert "sampling: " in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize("transport", [None, "sse"])
def test_the_line_wins_over_the_target_whatever_the_transport(transport: str | None) -> None:
    target = HttpSpec(url="http://127.0.0.1:1/mcp", sampling="off")
    assert resolve_target(target, sampling="auto", transport=transport)[0].sampling == "auto"
    kept, _ = resolve_target(target, transport=transport)
    assert (kept.sampling, isinstance(kept, SseSpec)) == ("off", transport == "sse")


def test_a_change_of_it_is_a_reason_to_open_the_session_anew() -> None:
    before, after = StdioSpec(command="x"), StdioSpec(command="x", sampling="off")
    [step] = plan({"w": after}, {"w": before}, prune=False)
    assert (step.action, step.reason) == ("reconnect", "changed: sampling")
    assert repr(after) == "StdioSpec(sampling='off', command='x')"
    assert "sampling" not in repr(before)
