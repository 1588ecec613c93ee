"""The subcommands of `%mcp`: one file each, and the table of them."""

from __future__ import annotations

from mcp_magic.magics.commands import (
    agent,
    call,
    config,
    connect,
    consent,
    disconnect,
    form,
    listings,
    logs,
    prompt,
    raw,
    read,
    reconnect,
    replay,
    roots,
    servers,
    tool,
    trace,
    ui,
    up,
)

__all__ = ["COMMANDS", "SERVERS"]

SERVERS = servers.COMMAND
"""What `%mcp` alone does."""

COMMANDS = {
    command.name: command
    for command in (
        connect.COMMAND,
        up.COMMAND,
        disconnect.COMMAND,
        reconnect.COMMAND,
        config.COMMAND,
        *listings.COMMANDS,
        tool.COMMAND,
        ui.COMMAND,
        form.COMMAND,
        call.COMMAND,
        read.COMMAND,
        prompt.COMMAND,
        agent.COMMAND,
        *consent.COMMANDS,
        roots.COMMAND,
        logs.COMMAND,
        trace.COMMAND,
        raw.COMMAND,
        replay.COMMAND,
    )
}
"""Name -> subcommand, in the order in which help shows them. A new one is a file and a row here."""
