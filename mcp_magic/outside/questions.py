"""Questions of a server during a call of an outside agent: the client answers those that it can.

It gets only those that can be of no call but its own (`flight/questions.py`). The person at the notebook is asked the
others, as usual: also what the client does not announce, forms that seem to ask for a secret, whose answer a model must
not read, and forms and addresses in which a secret of a session stands: masked, they would not work. In all other texts
such a secret is masked. Roots are those of the session: it is the kernel's, and a server that was told the directories
of one client would keep them for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp_types import CreateMessageResultWithTools, ElicitResult
from pydantic import ValidationError

from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Review, Sampled
from mcp_magic.display.text import one_line
from mcp_magic.flight.request import Answerers
from mcp_magic.outside.masking import masked_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.ask.elicitation import Elicitation
    from mcp_magic.ask.sampling import SamplingRequest
    from mcp_magic.outside.clients import Client
    from mcp_magic.outside.exchange import Exchange

MAX_REASON = 300  # characters of a client's reason


def client_answers(exchange: Exchange, client: Client, hide: Callable[[str], str]) -> Answerers:
    """Return who answers the questions of a server during a call: the client if it can; `hide` masks secrets."""
    asker = client.asker

    async def elicit(elicitation: Elicitation) -> Answer | None:
        fixed = elicitation.url or dict(elicitation.schema)
        if not _can_elicit(exchange, elicitation) or masked_texts(fixed, hide) != fixed:
            return None
        try:
            members = await exchange.ask("elicitation/create", masked_texts(_form(elicitation), hide))
            answer = ElicitResult.model_validate(members)
        except (MCPError, ValidationError) as error:
            return Answer.decline(f"{asker} does not answer: {one_line(str(error), MAX_REASON)}")
        return Answer(answer.action, answer.content, "" if answer.action == "accept" else f"by {asker}")

    async def sample(request: SamplingRequest) -> Review | None:
        if not exchange.can_answer("sampling") or (request.tools and not exchange.can_answer("sampling", "tools")):
            return None
        try:
            members = await exchange.ask("sampling/createMessage", masked_texts(_params(request), hide))
            answer = CreateMessageResultWithTools.model_validate(members)
        except (MCPError, ValidationError) as error:
            return Review.deny(one_line(str(error), MAX_REASON), by=asker)
        reply = Sampled(tuple(answer.content_as_list), answer.model, answer.stop_reason or "endTurn")
        return Review(True, reply=reply, by=asker)

    capabilities = exchange.context.session.client_capabilities
    return Answerers(
        elicit if capabilities is not None and capabilities.elicitation is not None else None,
        sample if capabilities is not None and capabilities.sampling is not None else None,
        party=client.key,
    )


def _can_elicit(exchange: Exchange, elicitation: Elicitation) -> bool:
    if elicitation.mode == "url":
        return exchange.can_answer("elicitation", "url")
    has_form = exchange.can_answer("elicitation", "form") or not exchange.can_answer("elicitation", "url")
    return has_form and not elicitation.secrets


def _form(elicitation: Elicitation) -> dict[str, Any]:
    """Return the parameters of the question for the client."""
    about = {"mode": elicitation.mode, "message": elicitation.message}
    if elicitation.mode == "url":
        return {**about, "url": elicitation.url, "elicitationId": "question"}
    return {**about, "requestedSchema": dict(elicitation.schema)}


def _params(request: SamplingRequest) -> dict[str, Any]:
    """Return the parameters of a sampling request for the client."""

    def plain(model: Any) -> Any:
        return model.model_dump(by_alias=True, mode="json", exclude_none=True)

    params: dict[str, Any] = {
        "messages": [plain(message) for message in request.messages],
        "maxTokens": request.max_tokens,
        "systemPrompt": request.system_prompt or None,
        "temperature": request.temperature,
        "stopSequences": list(request.stop_sequences) or None,
        "modelPreferences": None if request.preferences is None else plain(request.preferences),
        "metadata": dict(request.metadata) or None,
    }
    if request.tools:
        params |= {"tools": [plain(tool) for tool in request.tools], "toolChoice": {"mode": request.tool_choice}}
    return {name: value for name, value in params.items() if value is not None}
