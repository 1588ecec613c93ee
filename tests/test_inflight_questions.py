"""A server that asks again and again although it was refused ends its call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.ask.elicitation import Answer
from mcp_magic.errors import SessionError
from tests.environments import ROOT

if TYPE_CHECKING:
    from mcp_magic import Host

ASKS_AGAIN = """
import json, sys
from tests.support.speaking import LEGACY, answer_to

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") != "tools/call":
        if (answer := answer_to(message, LEGACY, ["go"])) is not None:
            say(**answer)
        continue
    asked, answer = 0, {}
    while answer.get("method") != "notifications/cancelled" and answer.get("result", {}).get("action") != "accept":
        asked += 1
        say(id=f"q{asked}", method=METHOD, params=PARAMS)
        answer = {}
        while answer.get("id") != f"q{asked}" and answer.get("method") != "notifications/cancelled":
            answer = json.loads(sys.stdin.readline())
"""
SAID = {"role": "user", "content": {"type": "text", "text": "hi"}}
FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("elicitation/create", FORM, id="elicitation"),
        pytest.param("sampling/createMessage", {"messages": [SAID], "maxTokens": 9}, id="sampling"),
        pytest.param("sampling/createMessage", {"messages": [], "maxTokens": 9}, id="senseless"),
    ],
)
async def test_asking_again_ends_the_call(host: Host, method: str, params: dict[str, Any]) -> None:
    async def declines(question: Any) -> Answer:
        return Answer.decline()

    async def fails(request: Any) -> Any:
        raise ValueError("no model here")

    host.elicitation.elicitor, host.sampling.sampler = declines, fails
    host.elicitation.max_questions = 2
    command = [sys.executable, "-c", ASKS_AGAIN.replace("METHOD", repr(method)).replace("PARAMS", repr(params))]
    connection = await host.connect(command, name="asks", protocol="handshake", sampling="auto", cwd=str(ROOT))
    with pytest.raises(SessionError) as error:
        await connection.call("go")
    assert str(error.value) == "asks:go: asked 4 times and was refused; given up. It was cancelled."
    await connection.ping()
