"""How an answer of the offline model is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from tests.agent.offline.definitions import definitions

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from tests.agent.offline.case import Case

Call = tuple[str, dict[str, Any]]


def first_call(model_with_tools: Runnable[Any, Any], request: str) -> Call | None:
    """Return the first call that the model makes for a request, as ("server:tool", arguments), or None."""
    answer = model_with_tools.invoke([HumanMessage(request)])
    assert isinstance(answer, AIMessage)
    if not answer.tool_calls:
        return None
    call = answer.tool_calls[0]
    return call["name"].replace("__", ":", 1), call["args"]


def is_right(case: Case, call: Call | None) -> bool:
    """Whether a call is what a case wants; a default may be sent or left out alike."""
    if call is None or call[0] != case.tool:
        return False
    server, tool = call[0].split(":", 1)
    schema = next(found for found in definitions()[server] if found["name"] == tool)["inputSchema"]
    given = _without_defaults(schema, call[1])
    return any(given == _without_defaults(schema, wanted) for wanted in (case.arguments, *case.also))


def _without_defaults(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {
        name: value
        for name, value in arguments.items()
        if "default" not in properties.get(name, {}) or properties[name]["default"] != value
    }
