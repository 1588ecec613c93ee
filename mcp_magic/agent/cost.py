"""What the turns of a model cost, in tokens and dollars, and the bounds of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.calls import calls_of
from mcp_magic.agent.entries import is_turn, model_of, tokens_of
from mcp_magic.agent.models import OFFLINE
from mcp_magic.display.text import one_line
from mcp_magic.errors import MissingDependencyError, ModelError
from mcp_magic.lint import CHARACTERS_A_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

# Prices are those of the package genai-prices; it brings them along, and asks no network.


def price_of(message: BaseMessage, model: str = "") -> float | None:
    """Return what a turn of a model cost in US dollars; None if its tokens or its prices are not known.

    `model` is the name of the model where the message does not have one, as `gpt-5` or `openai:gpt-5`.
    """
    counts = tokens_of(message)
    if not counts:
        return None
    usage: Any = getattr(message, "usage_metadata", None) or {}
    details = usage.get("input_token_details") or {}
    tokens = {
        "input_tokens": counts["input_tokens"],
        "output_tokens": counts["output_tokens"],
        "cache_read_tokens": details.get("cache_read"),
        "cache_write_tokens": details.get("cache_creation"),
    }
    provider = str(message.response_metadata.get("model_provider") or "")
    price = _price(model_of(message), provider, tokens)
    return price if price is not None else _price(model, "", tokens)


def _price(model: str, provider: str, tokens: dict[str, Any]) -> float | None:
    if model == OFFLINE:
        return 0.0
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    before, _, name = model.rpartition(":")
    # one provider after the other: the names of some are not those of LangChain
    for candidate in dict.fromkeys((provider, before, "")):
        try:
            return float(calc_price(Usage(**tokens), model_ref=name, provider_id=candidate or None).total_price)
        except LookupError:
            continue
    return None


def cost_of(messages: Iterable[BaseMessage], model: str = "") -> float | None:
    """Return what all turns cost in US dollars; None if the price of any is not known."""
    prices = [price_of(message, model) for message in messages if is_turn(message) and tokens_of(message)]
    numbers = [price for price in prices if price is not None]
    return sum(numbers) if numbers and len(numbers) == len(prices) else None


# The bounds of a run. A turn reads at least what the turn before it read and wrote, so a run ends before the turn that
# would go beyond a bound, and not after it.


@dataclass(frozen=True)
class Bounds:
    """The most that the turns for one request may take.

    Attributes:
        tokens: Tokens, read and written.
        dollars: US dollars.
        model: The name of the model.
    """

    tokens: int | None = None
    dollars: float | None = None
    model: str = ""

    def check(self) -> None:
        """Raise MissingDependencyError or ModelError if the model's prices are needed and not known."""
        if self.dollars is None or self.model in (OFFLINE, "scripted"):
            return
        try:
            import genai_prices  # noqa: F401
        except ImportError:
            needs = "a bound in dollars needs the prices of models: `pip install 'mcp-magic[models]'`"
            raise MissingDependencyError(needs) from None
        if _price(self.model, "", {"input_tokens": 1, "output_tokens": 1}) is None:
            raise ModelError(
                f"the prices of {self.model} are not known; bound the tokens instead: `--max-tokens 50000`"
            )

    def reached(self, messages: Sequence[BaseMessage], turns: int = 1) -> tuple[str, str]:
        """Return which bound further turns would exceed, and that in words; ("", "") if none."""
        if self.tokens is not None:
            total, last = _spent(messages, _tokens)
            if total + turns * last > self.tokens:
                return "max_tokens", f"{total:,.0f} of {self.tokens:,} tokens"
        if self.dollars is not None:
            total, last = _spent(messages, lambda before: price_of(before[-1], self.model) or 0.0)
            if total + turns * last > self.dollars:
                return "max_cost", f"${total:.4g} of ${self.dollars:g}"
        return "", ""


KNOWN_CHARACTERS = 500  # characters of each of the last results in the closing text of a stopped run


def closing(
    messages: Sequence[BaseMessage], limit: str, spent: str, person_name: Callable[[str], str]
) -> tuple[list[ToolMessage], AIMessage]:
    """Return the messages that end a run at a bound: refusals of the calls of the last turn, and what is known."""
    from langchain_core.messages import AIMessage, ToolMessage

    reason = f"not called: the run ends after {spent}"
    refused = [
        ToolMessage(reason, tool_call_id=call["id"], name=call["name"], status="error")
        for call in calls_of(messages[-1])
    ]
    since = max((i for i, message in enumerate(messages) if message.type == "human"), default=0)
    results = [
        message for message in messages[since:] if isinstance(message, ToolMessage) and message.status == "success"
    ]
    summary = "Nothing is known yet."
    if results:
        lines = [
            f"- {person_name(result.name or '')}: {one_line(result.text, KNOWN_CHARACTERS)}" for result in results[-5:]
        ]
        summary = "Known so far:\n\n" + "\n".join(lines)
    text = f"Stopped after {spent}, before the work was done. {summary}"
    return refused, AIMessage(text, response_metadata={"stopped": limit})


def _spent(messages: Sequence[BaseMessage], of: Callable[[Sequence[BaseMessage]], float]) -> tuple[float, float]:
    """Return what all turns for the last request took, and what the last of them took."""
    start = max((place for place, message in enumerate(messages) if message.type == "human"), default=0)
    amounts = [of(messages[: place + 1]) for place in range(start, len(messages)) if is_turn(messages[place])]
    return sum(amounts), amounts[-1] if amounts else 0.0


def _tokens(messages: Sequence[BaseMessage]) -> int:
    """Return the tokens of the last turn; if the model does not say, they are estimated from the conversation."""
    counts = tokens_of(messages[-1])
    return counts["total_tokens"] if counts else sum(len(message.text) for message in messages) // CHARACTERS_A_TOKEN
