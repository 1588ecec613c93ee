"""What a run of an agent is told: the line's options win over the declared agent, that over the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import CommandError, UnknownServerError, did_you_mean, listed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from mcp_magic.magics.parsing import Invocation

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """What a run is told: options of the line, of the declared agent, settings, in this order.

    Attributes:
        agent: The declared agent's name, or "".
        model: A name or a chat model.
        servers: Names of servers.
        tools: Patterns.
        thread: The thread to go on with, or "".
        approve: A policy, or None for the setting.
        show: What is shown.
        max_steps: Turns of the model.
        system: What the model is told first.
    """

    agent: str
    model: Any
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    thread: str
    approve: str | None
    show: str
    max_steps: int
    system: str


async def plan_of(invocation: Invocation, arguments: argparse.Namespace) -> Plan:
    """Put together what holds for a run.

    Raises:
        CommandError: There is no such agent.
        UnknownServerError: A server that the agent is declared with is not connected.
        NotFoundError: There is no such prompt.
    """
    settings = invocation.settings
    declared = _declared(invocation.state.agents, arguments.agent)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    both: dict[str, Any] = {**declared, **given}
    if "servers" not in given:
        _check_servers(invocation, arguments.agent, declared.get("servers", ()))
    system = invocation.value(arguments.system) if arguments.system else declared.get("system", "")
    return Plan(
        agent=arguments.agent or "",
        model=_model(invocation, given.get("model"), declared.get("model")),
        servers=_names(both.get("servers")),
        tools=_names(both.get("tools")),
        thread=str(both.get("thread", "")),
        approve=both.get("approve"),
        show=both.get("show", "full"),
        max_steps=both.get("max_steps", settings.max_steps),
        system=str(system) or await _prompt(invocation, arguments.agent, declared.get("prompt")),
    )


def _model(invocation: Invocation, given: str | None, declared: str | None) -> Any:
    """Return the model; in a declaration `$name` is a variable, but a file's `{expression}` is not evaluated."""
    if given is not None:
        return invocation.value(given)
    if declared is None:
        return invocation.settings.model
    if not declared.startswith("$"):
        return declared
    found = invocation.lookup(declared[1:])
    if found is None:
        raise CommandError(f"%%mcp_agent: the agent is declared with model = {declared!r}; there is no such variable.")
    return found


def _declared(agents: Mapping[str, dict[str, Any]], name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name in agents:
        return agents[name]
    near = did_you_mean(name, agents)
    known = f"Declared: {listed(agents)}" if agents else "[agents.NAME] in a declaration makes one; `%mcp up` reads it."
    raise CommandError(f"%%mcp_agent: no agent {name!r}.{near} {known}")


def _check_servers(invocation: Invocation, agent: str | None, servers: Iterable[str]) -> None:
    missing = [name for name in servers if name not in invocation.host]
    if missing:
        connected = f"Connected: {listed(invocation.host)}"
        raise UnknownServerError(
            f"the agent {agent!r} needs the server {missing[0]!r}, which is not connected; `%mcp up` connects what is "
            f"declared. {connected}"
        )


def _names(value: Any) -> tuple[str, ...]:
    """Return names of `"a,b"` or a list of them."""
    parts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(part.strip() for part in parts if part.strip())


async def _prompt(invocation: Invocation, agent: str | None, name: str | None) -> str:
    """Return the text of an MCP prompt, which serves as system prompt."""
    if name is None:
        return ""
    connection, definition = await invocation.host.resolve(name, "prompts")
    required = [argument.name for argument in definition.arguments or () if argument.required]
    if required:
        raise CommandError(
            f"%%mcp_agent: the prompt {name!r} of the agent {agent!r} needs the argument {required[0]!r}; "
            "only a prompt without required arguments can be an agent's."
        )
    result = await connection.prompt(definition.name)
    return "\n\n".join(message.text for message in result.messages)
