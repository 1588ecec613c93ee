"""Spans of an agent: one around a run, one around each turn of its model (conventions for generative AI).

The calls of a run are children of it (`core/telemetry/measuring.py`). Spans have no word of the request, of the
answers or of the thread, whose name is made of the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.agent.modelerrors import model_name
from mcp_magic.core.telemetry.spans import span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span

__all__ = ["agent_span", "note_usage", "turn_span"]


def agent_span(asker: str, model: str) -> AbstractContextManager[Span]:
    """Return a span around a run.

    Args:
        asker: `"agent"`, or `"agent NAME"` of a declared agent.
        model: The model's name.
    """
    name = asker.removeprefix("agent").strip()
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": model}
    return span(f"invoke_agent {name}".rstrip(), attributes | ({"gen_ai.agent.name": name} if name else {}))


def turn_span(model: Any) -> AbstractContextManager[Span]:
    """Return a span around a turn of a model."""
    name = model_name(model)
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}
    return span(f"chat {name}".rstrip(), attributes, client=True)


def note_usage(turn: Span, answer: Any) -> None:
    """Note the tokens of a turn, if the model tells them."""
    usage = getattr(answer, "usage_metadata", None)
    for kind in ("input_tokens", "output_tokens"):
        if isinstance(usage, dict) and isinstance(usage.get(kind), int):
            turn.set_attribute(f"gen_ai.usage.{kind}", usage[kind])
