"""A conversation with the offline model, with tools that are plain functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from mcp_magic.agent.offline import OfflineModel
from tests.agent.offline.definitions import bindable

Function = Callable[..., Any]

FUNCTIONS: dict[str, Function] = {
    "math__add": lambda a, b: a + b,
    "math__subtract": lambda a, b: a - b,
    "math__multiply": lambda a, b: a * b,
    "math__divide": lambda a, b: a / b,
    "math__factorial": lambda n: [1, 1, 2, 6, 24, 120, 720][n],
    "math__primes": lambda n: [p for p in range(2, n + 1) if all(p % d for d in range(2, p))],
    "math__statistics": lambda numbers: {"count": len(numbers), "mean": sum(numbers) / len(numbers)},
    "weather__get_weather": lambda location, units="metric": {"city": location, "units": units, "high": len(location)},
    "weather__forecast": lambda location, days=7: [{"city": location, "day": day} for day in range(days)],
    "time__get_current_time": lambda timezone: {"timezone": timezone},
    "everything__echo": lambda message: f"Echo: {message}",
    "everything__get-sum": lambda a, b: f"The sum of {a} and {b} is {a + b}.",
    "git__git_create_branch": lambda repo_path, branch_name: f"Created branch '{branch_name}' from 'main'",
    "git__git_checkout": lambda repo_path, branch_name: f"Switched to branch '{branch_name}'",
    "git__git_add": lambda repo_path, files: "Files staged successfully",
    "git__git_commit": lambda repo_path, message: f"Committed {message}",
}


class Conversation:
    """Messages, the model that reads them, and the calls of the last request by turn."""

    def __init__(self, *servers: str, **functions: Function) -> None:
        self.model = OfflineModel().bind_tools(bindable(*servers))
        self.functions = FUNCTIONS | functions
        self.messages: list[BaseMessage] = []
        self.turns: list[list[tuple[str, dict[str, Any]]]] = []

    def say(self, request: str) -> str:
        """Say something, run the calls that come of it, and return the answer."""
        self.messages.append(HumanMessage(request))
        self.turns = []
        while True:
            said = self.model.invoke(self.messages)
            assert isinstance(said, AIMessage)
            self.messages.append(said)
            if not said.tool_calls:
                return said.text
            self.turns.append([(call["name"].replace("__", ":", 1), call["args"]) for call in said.tool_calls])
            self.messages += [self._run(call["name"], call["args"], str(call["id"])) for call in said.tool_calls]

    def _run(self, name: str, arguments: dict[str, Any], call_id: str) -> ToolMessage:
        try:
            result = self.functions[name](**arguments)
        except ArithmeticError as error:
            return ToolMessage(str(error), name=name, tool_call_id=call_id, status="error")
        text = result if isinstance(result, str) else json.dumps(result)
        structured = result if isinstance(result, dict) else None if isinstance(result, str) else {"result": result}
        server, tool = name.split("__")
        artifact = {"server": server, "tool": tool, "structured_content": structured}
        return ToolMessage(text, name=name, tool_call_id=call_id, artifact=artifact)
