"""The secrets that servers refer to: the inputs of a configuration, asked for once a kernel, and what is stored."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration
from mcp_magic.ask.question import Choice, Form, Outcome, Question
from mcp_magic.config.references import SERVICE, keyring_reference
from mcp_magic.display.document import Markup, Part, page, tag
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import visible
from mcp_magic.errors import SecretError
from mcp_magic.schema import check_arguments
from mcp_magic.session.keyring import KeyringFailedError, forget_secret, store_secret, stored_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.ask.question import Reply
    from mcp_magic.config.references import Input

INPUT_SECONDS = 600.0
"""Seconds that the user has to enter a value."""

MAX_DESCRIPTION = 400  # characters that are shown of what a file says of an input

UNATTENDED = "you cannot be asked here"

VALUE = "value"  # the name of the field


class Secrets:
    """The secrets that servers refer to: entries of the keyring, and the inputs that the user has entered.

    Inputs are asked for once a kernel, and only memory has them. `asker` asks a question within `timeout` seconds;
    without one, no input can be had.
    """

    def __init__(self) -> None:
        self.asker: Callable[[Question, float], Awaitable[Reply]] | None = None
        self.timeout = INPUT_SECONDS
        self._values: dict[Input, str] = {}
        self._asking: dict[Input, asyncio.Lock] = defaultdict(asyncio.Lock)  # two servers may want the same input

    async def set(self, name: str, value: str, *, service: str = SERVICE) -> str:
        """Store a secret in the system's keyring; return the reference that a configuration has in its place.

        Raises:
            SecretError: There is no keyring, or it has refused.
        """
        try:
            await store_secret(service, name, value)
        except KeyringFailedError as error:
            problem = f"{service}/{name} was not stored: {error}"
        else:
            return keyring_reference(name, service)
        raise SecretError(problem)

    async def forget(self, name: str, *, service: str = SERVICE) -> bool:
        """Delete a secret from the keyring, and inputs with this id; return whether there was one.

        Raises:
            SecretError: There is no keyring, or it has refused.
        """
        inputs = [entry for entry in self._values if entry.id == name]
        for entry in inputs:
            del self._values[entry]
        if inputs and (service, name) not in self.names:
            return True
        try:
            return await forget_secret(service, name) or bool(inputs)
        except KeyringFailedError as error:
            problem = f"{service}/{name} was not deleted: {error}"
        raise SecretError(problem)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The service and the name of each secret that was stored from here."""
        return stored_names()

    @property
    def inputs(self) -> list[Input]:
        """The inputs that the user has entered."""
        return list(self._values)

    async def ask_input(self, server: str, entry: Input) -> str:
        """Return the value of an input of a file, asked for by a server. Raises SecretError if there is none."""
        async with self._asking[entry]:
            if entry not in self._values:
                self._values[entry] = await self._ask(server, entry)
            return self._values[entry]

    async def _ask(self, server: str, entry: Input) -> str:
        label = f"{server}: the input {one_line(entry.id, 100)}"
        reply = None
        if self.asker is not None:
            try:
                reply = await self.asker(input_question(server, entry), self.timeout)
            except TimeoutError:
                raise SecretError(f"{label} was not entered within {self.timeout:g} s.") from None
        if reply is None or reply.by == "default":
            variable = "${env:VARIABLE} in its place takes it from the environment"
            raise SecretError(f"{label} is needed, and {UNATTENDED}; {variable}.")
        value = value_in(reply) or entry.default
        if reply.choice != "accept" or not value:
            raise SecretError(f"{label} was not entered, so nothing was started.")
        return value


def value_in(reply: Reply) -> str:
    """Return the value in a reply, or ""."""
    return str(reply.values.get(VALUE) or "") if isinstance(reply.values, dict) else ""


def input_question(server: str, entry: Input) -> Question:
    """Return the question for an input of a configuration."""
    name, where = visible(one_line(entry.id, 100)), entry.source or "the line that connects it"
    about = f"Server {one_line(server, 100)} needs the input {name} of {visible(one_line(where, 200))}"
    description = visible(one_line(entry.description, MAX_DESCRIPTION))
    field: dict[str, Any] = {"type": "string"}
    if entry.options:
        field |= {"oneOf": [{"const": value, "title": label} for label, value in entry.options]}
    elif entry.is_secret:
        field |= {"format": "password"}
    if entry.default and not entry.is_secret:
        field |= {"default": entry.default}
    outcome = f"the input {name} for {one_line(server, 100)}"
    return value_question(about, description, field, outcome, optional=bool(entry.default))


def value_question(
    about: str, description: str, field: dict[str, Any], outcome: str, *, optional: bool = False
) -> Question:
    """Return a question for one value; a secret one is entered without echo, and never shown.

    Args:
        about: Who wants it, and for what.
        description: What the file says of it.
        field: The JSON Schema of the value.
        outcome: What is entered, for the line that stays.
        optional: Whether it can be left out.
    """
    lines = [about, *([f"  {description}"] if description else [])]
    part = Part("\n".join(lines), Markup(page([tag("p", line) for line in lines])))
    schema = {"type": "object", "properties": {VALUE: field}, "required": [] if optional else [VALUE]}
    first = {VALUE: field["default"]} if "default" in field else {}

    def check(values: Any) -> None:
        check_arguments(values, schema)

    def line(reply: Reply, seconds: float) -> Outcome:
        sign = "✓ entered" if reply.choice == "accept" else "✗ not entered"
        return Outcome(sign, (f": {outcome} {duration(seconds)}",))

    return Question(
        about=lambda values: part,
        choices=(
            Choice("accept", "OK", "check", "use this value", sends=True),
            Choice("cancel", "Cancel", "times", "enter nothing"),
        ),
        form=Form(first, schema, must_open=True, at_once=True, check=check),
        outcome=line,
        refused=UNATTENDED,
        late="Cancelled",
    )
