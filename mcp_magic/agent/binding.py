"""A chat model with tools: not every model of LangChain can be given some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

__all__ = ["bind_tools"]


def bind_tools(
    model: BaseChatModel, tools: Sequence[dict[str, Any]], *, instead: str = "", **choice: Any
) -> Runnable[Any, Any]:
    """Return a model with tools bound to it.

    Args:
        model: The model.
        tools: What its own `bind_tools` takes.
        instead: What else can be done with a model that takes none, for the error.
        choice: Which of the tools it shall call, as its provider writes that.

    Raises:
        ModelError: It can be given none: its class does not define `bind_tools`.
    """
    try:
        return model.bind_tools(tools, **choice)
    except NotImplementedError:
        pass
    name = type(model).__name__
    raise ModelError(f"{name} cannot be given tools (it has no bind_tools); choose a model that can{instead}")
