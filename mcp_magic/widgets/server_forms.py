"""Forms for prompts and for resource templates."""

from __future__ import annotations

import keyword
import re
import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError, listed
from mcp_magic.results.content import read_line
from mcp_magic.schema import line_or_comment, prompt_line, prompt_schema
from mcp_magic.schema.items import escape_name
from mcp_magic.widgets.completing import Completer
from mcp_magic.widgets.inputs_completing import COMPLETES
from mcp_magic.widgets.look import heading
from mcp_magic.widgets.request_form import RequestForm
from mcp_magic.wording import sentence

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.uri_template import UriTemplate
    from mcp_types import Prompt, ResourceTemplate

    from mcp_magic.core.connection import Connection
    from mcp_magic.results import PromptResult, ResourceResult

__all__ = ["PromptForm", "TemplateForm"]


class _CompletedForm(RequestForm):
    """A form of texts that the server completes."""

    _completer: Completer | None = None

    def _build_completed(self, schema: dict[str, Any], reference: Any) -> None:
        for each in schema["properties"].values():
            each[COMPLETES] = True
        capabilities = self.connection.capabilities
        if self._runner.loop is not None and capabilities is not None and capabilities.completions is not None:
            self._completer = Completer(self.connection, reference, lambda: self.form.draft, self._runner.loop)
        self._build(schema, self._completer.ask if self._completer else None)

    def close(self) -> None:
        """Close all widgets, and ask no more."""
        if self._completer is not None:
            self._completer.close()
        super().close()


class PromptForm(_CompletedForm):
    """A prompt's arguments as a form, and its messages below.

    Args:
        connection: The session.
        prompt: The prompt's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        prompt: The prompt's definition.
    """

    verb = "Get"

    def __init__(
        self,
        connection: Connection,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        from mcp_types import PromptReference

        super().__init__(connection, f"{connection.name}:{prompt.name}", timeout=timeout, loop=loop)
        self.prompt = prompt
        schema = prompt_schema(prompt.arguments or ())
        self._build_completed(schema, PromptReference(type="ref/prompt", name=prompt.name))

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> PromptResult:
        return await self.connection.prompt(self.prompt.name, arguments, timeout=self.timeout)

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        return line_or_comment(prompt_line(self.name, arguments) + as_variables(secret))

    def _heading(self) -> str:
        return heading(self.name, self.prompt.title or "", self.prompt.description or "")


class TemplateForm(_CompletedForm):
    """The variables of a resource template as a form, and the resource below.

    Args:
        connection: The session.
        template: The template's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        template: The template's definition.
    """

    verb = "Read"

    def __init__(
        self,
        connection: Connection,
        template: ResourceTemplate,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        from mcp_types import ResourceTemplateReference

        super().__init__(connection, template.uri_template, timeout=timeout, loop=loop)
        self.template = template
        self._expander = _parsed(template.uri_template)
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        self._build_completed(_variables_schema(self._expander), reference)

    @property
    def uri(self) -> str:
        """The URI that the variables make (RFC 6570)."""
        return self._expander.expand(_texts(self.form.draft))

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> ResourceResult:
        return await self.connection.read(self._expander.expand(arguments), timeout=self.timeout)

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        if secret:
            return f"# the URI holds a secret ({listed(secret)}); `%mcp read` takes one that you write yourself"
        return read_line(self._expander.expand(_texts(arguments)), self.connection.name)

    def _heading(self) -> str:
        return heading(self.template.uri_template, self.template.title or "", self.template.description or "")


def as_variables(names: Iterable[str]) -> str:
    """Return arguments that Python variables of their names give, to go at the end of a line.

    >>> as_variables(["api_key", "x-token"])
    ' api_key=$api_key x-token=$x_token'
    """
    return "".join(f" {shlex.quote(escape_name(name))}=${_variable(name)}" for name in names)


def _variable(name: str) -> str:
    variable = re.sub(r"\W", "_", name)
    return variable if variable.isidentifier() and not keyword.iskeyword(variable) else f"_{variable}"


def _parsed(template: str) -> UriTemplate:
    """Read a template.

    Raises:
        ArgumentsError: It is none by RFC 6570, or by the part of it that the SDK knows.
    """
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate as error:
        reason = str(error)
    problem = sentence(f"{template} cannot be filled in", reason)
    raise ArgumentsError(f"{problem} `%mcp read URI` reads what you write yourself.")


def _texts(arguments: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Leave out what no variable can be: the face of JSON takes anything, and a draft is not checked."""
    lists = {name: value for name, value in arguments.items() if isinstance(value, list)}
    found: dict[str, str | list[str]] = {name: value for name, value in arguments.items() if isinstance(value, str)}
    return found | {name: [str(item) for item in value] for name, value in lists.items()}


def _variables_schema(template: UriTemplate) -> dict[str, Any]:
    """The schema of a template's variables: texts, or lists of them; those of a query may be left out."""
    optional = {each.name for each in template.variables if each.operator in ("?", "&")}
    properties: dict[str, Any] = {}
    for each in template.variables:
        text = {"type": "string"} if each.name in optional else {"type": "string", "minLength": 1}
        properties[each.name] = {"type": "array", "items": text} if each.explode else text
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
