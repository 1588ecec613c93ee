"""What `%mcp trace --export` writes stays data, whatever text is in it."""

from __future__ import annotations

import json

from mcp_magic.config.specs import StdioSpec
from mcp_magic.trace.trace import IN, OUT, Recorder
from tests.support.hostile_texts import hidden_in, hostile_texts


@hostile_texts
def test_exported_trace_entry_is_one_visible_line(text):
    recorder = Recorder("s", StdioSpec(command="s"))
    recorder.message(OUT, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": text, "a": [text]}})
    recorder.message(IN, {"jsonrpc": "2.0", "id": 1, "result": {text[:300]: text}})
    recorder.garbage(text)
    assert len(recorder.entries) == 3
    for entry in recorder.entries:
        line = entry.as_json()
        assert len(line.splitlines()) == 1
        assert hidden_in(line) == []
        assert json.loads(line)["message"] == entry.message
