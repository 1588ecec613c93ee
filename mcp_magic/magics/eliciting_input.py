"""Answering a server with `input()`, field by field: in terminals, and where a kernel cannot deliver clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.elicitation import Answer
from mcp_magic.errors import ArgumentsError
from mcp_magic.magics.asking_input import InputAsker
from mcp_magic.magics.interrupts import interrupt
from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET
from mcp_magic.schema.coerce import UnfitText, from_text
from mcp_magic.schema.messages import unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.elicitation import Elicitation
    from mcp_magic.schema import Field

__all__ = ["ElicitationInput"]

FORM_CHOICES = "[f]ill in, [d]ecline, [c]ancel: "
PAGE_CHOICES = "[o]pened it, go on; [d]ecline, [c]ancel: "
SEND_CHOICES = "[s]end, [f]ill in again, [d]ecline, [c]ancel: "


class ElicitationInput(InputAsker):
    """An elicitor that asks line by line.

    Args:
        read: Asks with a prompt and returns the line; `input` if None.
        write: Shows text; `print` if None.
        seconds: How long it waits for all lines together; None for ever.
        read_secret: Asks for something that is not shown; `getpass` if None.
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
        seconds: float | None = None,
        read_secret: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(read, write, seconds)
        self._read_secret = read_secret if read_secret is not None else _getpass

    async def elicit(self, asked: Elicitation) -> Answer:
        """Ask for an answer; the end of input cancels, and so does Ctrl-C where no magic runs that it ends.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        from mcp_magic.widgets.elicitation_text import question_text

        await self._begin()
        self._write(question_text(asked))
        try:
            return self._page() if asked.mode == "url" else self._form(asked)
        except EOFError:
            return Answer.cancel("the input ended")
        except KeyboardInterrupt:
            pass
        await interrupt()
        return Answer.cancel("interrupted")

    def _page(self) -> Answer:
        choice = self._choice(PAGE_CHOICES, "odc")
        return Answer.accept() if choice == "o" else _refusal(choice)

    def _form(self, asked: Elicitation) -> Answer:
        entered = asked.defaults
        choice = self._choice(FORM_CHOICES, "fdc")
        while choice == "f":
            entered = self._filled(asked, entered)
            choice = self._choice(SEND_CHOICES, "sfdc")
            if choice == "s":
                try:
                    schema.check_arguments(entered, asked.schema)
                    return Answer.accept(entered)
                except ArgumentsError as error:
                    self._write(str(error))
                    choice = "f"
        return _refusal(choice)

    def _filled(self, asked: Elicitation, before: dict[str, Any]) -> dict[str, Any]:
        """Ask for each value; an empty line keeps what is in brackets, or leaves the field out."""
        required = asked.schema.get("required")
        names = required if isinstance(required, list) else []
        entered: dict[str, Any] = {}
        for field in schema.root_field(asked.schema).children:
            value = self._value(field, before.get(field.name, UNSET), required=field.name in names)
            if value is not UNSET:
                entered[field.name] = value
        return entered

    def _value(self, field: Field, before: Any, *, required: bool) -> Any:
        secret = schema.is_secret(field.name, field)
        said = one_line(f"{field.title} — {field.description}".strip(" —"), 200)
        if said:
            self._write(f"  {said}")
        while True:
            text = self._line(_prompt(field, before, required=required, secret=secret), secret=secret)
            if not text:
                return before
            try:
                value = _read(text, field)
                one = {"type": "object", "properties": {field.name: field.schema}}
                schema.check_arguments({field.name: value}, one)
            except ArgumentsError as error:
                self._write("***: this does not fit" if secret else str(error))
            else:
                return value

    def _line(self, prompt: str, *, secret: bool = False) -> str:
        if not secret:
            return super()._line(prompt)
        read, self._read = self._read, self._read_secret
        try:
            return super()._line(prompt)
        finally:
            self._read = read


def _refusal(choice: str) -> Answer:
    return Answer.decline() if choice == "d" else Answer.cancel()


def _prompt(field: Field, before: Any, *, required: bool, secret: bool) -> str:
    facts = [field.type_text, field.constraints_text, "required" if required else ""]
    kept = "" if before is UNSET else f" [{'***' if secret else one_line(schema.shown(before), 60)}]"
    return f"{one_line(field.name, 80)} ({one_line(', '.join(fact for fact in facts if fact), 200)}){kept}: "


def _read(text: str, field: Field) -> Any:
    """Turn a line into a value; several of a list stand between commas, or as JSON.

    Raises:
        ArgumentsError: It stands for no value of the field.
    """
    problem = ""
    try:
        if field.item is not None and not text.lstrip().startswith("["):
            return [from_text(part.strip(), field.item) for part in text.split(",")]
        return from_text(text, field)
    except UnfitText:
        problem = unfit(field.name, field, text)
    raise ArgumentsError(problem)


def _getpass(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)
