from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from mcp_magic.agent.calls import with_own_ids


def test_blocks_of_content_get_the_ids_of_their_calls():
    calls: Any = [{"name": name, "args": {}, "id": "call_1"} for name in "ab"]
    content: Any = [{"type": "tool_use", "id": "call_1", "name": name, "input": {}} for name in "ab"]
    turn = AIMessage(content, tool_calls=calls)
    named = with_own_ids(turn)
    assert [block["id"] for block in named.content if isinstance(block, dict)] == ["call_1", "call_1_2"]
    assert turn.tool_calls[1]["id"] == "call_1"  # a model may hold on to what it gave
