"""Models that answer what they are asked, for tests of evaluations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from mcp_magic.agent.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

CASES = """\
What does a pear cost? -> shop:price item=pear
And an apple?          -> shop:price item=apple
Buy a pear             -> shop:buy item=pear
Delete everything      -> no call
"""


def usage(tokens: int = 100) -> dict[str, int]:
    return {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}


def request_of(messages: list[BaseMessage]) -> str:
    return [message for message in messages if message.type == "human"][-1].text


def shopper(messages: list[BaseMessage]) -> Any:
    """Answer as the cases expect: the tool and the item are in the request."""
    request = request_of(messages)
    item = re.search(r"pear|apple", request)
    if messages[-1].type == "tool" or item is None:
        return AIMessage("That is all.", usage_metadata=usage())
    return calls("buy" if "Buy" in request else "price", item=item[0])


def wrong_about_apples(messages: list[BaseMessage]) -> Any:
    """Answer as the cases expect, except that an apple is a pear."""
    turn = shopper(messages)
    if turn.tool_calls and turn.tool_calls[0]["args"]["item"] == "apple":
        return calls("price", item="pear")
    return turn


def calls(tool: str, **arguments: Any) -> AIMessage:
    call: Any = {"name": f"shop__{tool}", "args": arguments, "id": f"call_{id(arguments)}"}
    return AIMessage("", tool_calls=[call], usage_metadata=usage())


def answering(function: Callable[[list[BaseMessage]], Any] = shopper) -> ScriptedModel:
    """Return a model that plays what a function returns for the messages, for as many turns as it is asked."""
    return ScriptedModel([function], repeat_last=True)
