"""The options of `%mcp connect` that say how to log in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import CommandError

if TYPE_CHECKING:
    import argparse

    from mcp_magic.magics.parsing import Invocation, Parser

__all__ = ["auth_options", "auth_table"]

_REFERENCE = re.compile(r"\$[^\W\d]\w*|\{.+\}", re.DOTALL)


def auth_options(parser: Parser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("--auth", choices=("none", "oauth", "client-credentials"), help="how to log in (default: as the server asks)")
    add("--client-id", metavar="ID", help="the client that is registered with the authorization server")
    add("--client-secret", metavar="$VARIABLE", help="its secret; a variable, so that no notebook keeps it")
    add("--private-key", metavar="FILE", help="in place of a secret: the client's key (PEM)")
    add("--issuer", metavar="URL", help="the authorization server that the client belongs to")
    add("--scope", action="append", default=[], metavar="SCOPE", help="what to ask for, may be repeated")
    add("--redirect-port", type=int, metavar="PORT", help="the port of the registered redirect URI")


def auth_table(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return what the line says about the log-in, or None.

    Raises:
        CommandError: A secret is written out; the message does not repeat it.
    """
    secret = arguments.client_secret
    if secret is not None and not _REFERENCE.fullmatch(secret):
        raise CommandError(
            "%mcp connect: --client-secret takes a variable, because the notebook keeps the line: "
            "--client-secret $secret, or --client-secret {os.environ['SECRET']}"
        )
    said: dict[str, Any] = {
        "client_id": arguments.client_id and invocation.text(arguments.client_id),
        "client_secret": secret and str(invocation.value(secret)),
        "private_key": arguments.private_key and invocation.text(arguments.private_key),
        "issuer": arguments.issuer and invocation.text(arguments.issuer),
        "scopes": [invocation.text(scope) for scope in arguments.scope] or None,
        "redirect_port": arguments.redirect_port,
    }
    if arguments.auth == "client-credentials":
        said["grant"] = "client_credentials"
    elif arguments.auth is not None:
        said["mode"] = arguments.auth
    return {name: value for name, value in said.items() if value is not None} or None
