"""`%mcp form`: a tool, a prompt or a resource template as a form."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import did_you_mean
from mcp_magic.errors import UnknownResourceError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, seconds_typed

if TYPE_CHECKING:
    import argparse

    from IPython.core.interactiveshell import InteractiveShell
    from mcp_types import ResourceTemplate

    from mcp_magic.session.connection import Connection
    from mcp_magic.ui.request_form import RequestForm
    from mcp_magic.ui.widgets import Publish

__all__ = ["FORM"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "name", metavar="SERVER:TOOL", completer="form", help="or SERVER:PROMPT with --prompt, or a URI template"
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        completer="form's argument",
        help="to begin with, as of %%mcp call",
    )
    parser.add_argument("--prompt", action="store_true", help="it is a prompt")
    parser.add_argument("--server", metavar="SERVER", help="whose URI template it is, where that is not clear")
    parser.add_argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> RequestForm:
    """Open a form; closes the form of the cell's earlier run."""
    from mcp_magic.ipython.cells import keep_here

    form = await _made(invocation, arguments)
    try:
        if arguments.arguments:
            form.set_arguments(
                schema.parse_arguments(
                    arguments.arguments,
                    form.form.schema,
                    evaluate=invocation.evaluate,
                    directory=invocation.directory,
                )
            )
    except Exception:
        form.close()
        raise
    shell = invocation.shell
    form.publish = _publisher(shell) if hasattr(shell, "kernel") else None
    return keep_here(form, shell)


async def _made(invocation: Invocation, arguments: argparse.Namespace) -> RequestForm:
    from mcp_magic.ui.request_form import RequestForm

    host, name = invocation.host, str(arguments.name)
    timeout = arguments.timeout if arguments.timeout is not None else invocation.settings.call_timeout
    if arguments.prompt:
        connection, prompt = await host.resolve(name, "prompts")
        return RequestForm(connection, prompt, timeout=timeout, loop=host.loop)
    if "{" in name or "://" in name:
        connection, template = await _template(invocation, name, arguments.server)
        return RequestForm(connection, template, timeout=timeout, loop=host.loop)
    connection, tool = await invocation.tool(name, arguments.arguments)
    return RequestForm(connection, tool, timeout=timeout, loop=host.loop)


async def _template(invocation: Invocation, name: str, server: str | None) -> tuple[Connection, ResourceTemplate]:
    """Find a resource template by its URI.

    Raises:
        UnknownResourceError: No server has it.
    """
    known: list[str] = []
    for connection in [invocation.host[server]] if server else invocation.host.find():
        for template in await connection.listing("templates"):
            if template.uri_template == name:
                return connection, template
            known.append(template.uri_template)
    near = did_you_mean(name, known)
    raise UnknownResourceError(f"no connected server has the template {name!r}.{near} `%mcp templates` lists them.")


def _publisher(shell: InteractiveShell) -> Publish:
    """Return a function that shows a form and later replaces the copy saved in the notebook."""
    shown_as = {"display_id": uuid.uuid4().hex}

    def publish(bundle: dict[str, Any], update: bool) -> None:
        shell.display_pub.publish(bundle, transient=shown_as, update=update)

    return publish


FORM = Implementation(
    run,
    options,
    examples=(
        "%mcp form weather:forecast",
        "%mcp form weather:forecast location=Oslo",
        "%mcp form weather:travel_advice --prompt",
        "form = %mcp form 'weather://city/{name}' --server weather",
    ),
    details="`form.arguments` and `form.result` hold what was entered and what the server answered last; "
    "`await form.run()` does what the button does. Running the cell again closes the form that it showed before.",
)
