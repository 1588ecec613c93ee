"""`%mcp secret`: stores secrets in the system's keyring, lists their names, and forgets them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.ask.secrets import INPUT_SECONDS, UNATTENDED, value_in, value_question
from mcp_magic.config.parsing import slug, working_directory
from mcp_magic.config.project import find_declaration, load_declaration
from mcp_magic.config.references import INPUT, KEYRING, OP, SERVICE, Reference, keyring_reference
from mcp_magic.config.servers import discover_servers
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError, DeniedError, MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import Asking
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab
from mcp_magic.notebook import host
from mcp_magic.schema.commandline import as_command, as_word
from mcp_magic.session.keyring import stored_names

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.config.specs import Spec

ACTIONS = ("set", "list", "forget")


async def _secret(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    action = arguments.action
    if action == "list":
        if arguments.name:
            raise CommandError("%mcp secret list: lists all, and takes no name.")
        return _listing(invocation, "")
    if not arguments.name:
        raise CommandError(f"%mcp secret {action}: name the secret: `%mcp secret {action} NAME [--service S]`.")
    name = invocation.text(arguments.name)
    service = invocation.text(arguments.service) if arguments.service else SERVICE
    if not name.strip() or not service.strip():
        raise CommandError(f"%mcp secret {action}: neither the name nor the service can be empty.")
    return await (_set if action == "set" else _forget)(invocation, name, service)


async def _set(invocation: Invocation, name: str, service: str) -> Listing:
    label = one_line(f"{service}/{name}", 200)
    about = f"The value of {label}, which the system's keyring keeps; an empty one stores nothing"
    question = value_question(about, "", {"type": "string", "format": "password"}, f"the secret {label}")
    asking = Asking(invocation.cells, invocation.settings, invocation.host)
    try:
        reply = await asking.ask(question, INPUT_SECONDS)
    except TimeoutError:
        raise DeniedError(f"%mcp secret set: {label} was not entered within {INPUT_SECONDS:g} s.") from None
    if reply.by == "default":
        words = as_command([name, *([] if service == SERVICE else ["--service", service])])
        raise DeniedError(f"%mcp secret set: {UNATTENDED}; in a terminal: `python -m mcp_magic secret set {words}`.")
    value = value_in(reply)
    if reply.choice != "accept" or not value:
        raise DeniedError(f"%mcp secret set: nothing was entered, and nothing was stored as {label}.")
    reference = await invocation.host.secrets.set(name, value, service=service)
    return _listing(invocation, f"stored; a configuration refers to it as {reference}")


async def _forget(invocation: Invocation, name: str, service: str) -> Listing:
    secrets = invocation.host.secrets
    label = one_line(f"{service}/{name}", 200)
    if await secrets.forget(name, service=service):
        return _listing(invocation, f"forgotten: {label}")
    names = [entry for entry_service, entry in secrets.names if entry_service == service]
    others = [entry_service for entry_service, entry in secrets.names if entry == name]
    hint = f" It is stored under --service {join_names(others)}." if others else did_you_mean(name, names)
    raise CommandError(f"%mcp secret forget: there is no secret {label}.{hint} `%mcp secret list` has the names.")


def _listing(invocation: Invocation, note: str) -> Listing:
    secrets = invocation.host.secrets
    rows: dict[str, dict[str, Any]] = {}  # by their sources
    for service, name in secrets.names:
        reference = Reference(keyring_reference(name, service), KEYRING, name, service)
        rows[reference.source] = {"secret": reference.text, "kept in": "keyring", "servers": []}
    inputs = {entry.id for entry in secrets.inputs}
    for server, reference in _uses(invocation.directory, invocation.host):
        row: dict[str, Any] = {"secret": reference.text, "kept in": _where(reference, inputs), "servers": []}
        rows.setdefault(reference.source, row)["servers"].append(server)
    for row in rows.values():
        row["servers"] = join_names(dict.fromkeys(row["servers"]), limit=5) if row["servers"] else None
    return Listing(
        list(rows.values()),
        title="Secrets",
        note=note,
        empty="no secrets are stored from here, and no configuration refers to one: `%mcp secret set NAME` stores one",
        kind="secrets",
    )


def _where(reference: Reference, inputs: set[str]) -> str:
    if reference.kind == INPUT:
        return "this kernel's memory" if reference.name in inputs else "asked once a kernel"
    return "1Password" if reference.kind == OP else "keyring, not stored from here"


def _uses(directory: Path, host: Host) -> list[tuple[str, Reference]]:
    """Return the references of the configured and the connected servers, with the names of the servers."""
    specs: list[tuple[str, Spec | None]] = []
    with suppress(MCPMagicError):
        specs += [(slug(entry.name), entry.spec) for entry in discover_servers(directory)]
    with suppress(MCPMagicError):
        specs += [(slug(e.name), e.spec) for e in load_declaration(find_declaration(directory)).servers.values()]
    specs += [(name, connection.spec) for name, connection in host.connections.items()]
    return [(name, use.reference) for name, spec in specs if spec is not None for use in spec.references]


def _complete_name(tab: Tab) -> list[str]:
    names = [name for _, name in stored_names()]
    if tab.positional and tab.positional[0] == "set":
        with suppress(MCPMagicError):
            uses = _uses(working_directory(), host)
            names = [reference.name for _, reference in uses if reference.kind == KEYRING]
    else:
        names += [entry.id for entry in host.secrets.inputs]
    return completion.starting(tab, filter(None, map(as_word, dict.fromkeys(names))))


def _complete_service(tab: Tab) -> list[str]:
    services = dict.fromkeys([SERVICE, *(service for service, _ in stored_names())])
    return completion.starting(tab, filter(None, map(as_word, services)))


SECRET = Implementation(
    _secret,
    (
        Argument("action", nargs="?", choices=ACTIONS, default="list", help="store one, list (default), delete one"),
        Argument("name", nargs="?", metavar="NAME", complete=_complete_name, help="its name"),
        Argument("--service", metavar="S", complete=_complete_service, help=f"its service (default: {SERVICE})"),
    ),
    examples=(
        "%mcp secret set github                     # asks for the value, which is not shown",
        "%mcp secret set db --service acme          # ${keyring:acme/db}",
        "%mcp secret list",
        "%mcp secret forget github",
    ),
    details="The value is kept in the system's keyring (`pip install 'mcp-magic[keyring]'`), and in no cell, history "
    "or trace. A configuration refers to it as ${keyring:mcp-magic/NAME}, which is read when its server is connected, "
    "for that server alone. The list has names and never values: what was stored from here, and what configurations "
    "refer to, with the servers that do. `forget` also forgets what was entered for ${input:NAME}.",
)
