"""The subcommands of `%mcp`: one file each, and the table of them."""

from __future__ import annotations

from mcp_magic.magics.commands import (
    agent,
    call,
    check,
    config,
    connect,
    consent,
    disconnect,
    docs,
    doctor,
    export,
    form,
    last,
    listings,
    logout,
    logs,
    metrics,
    ping,
    prompt,
    raw,
    read,
    reconnect,
    record,
    replay,
    roots,
    serve,
    servers,
    skills,
    snapshot,
    tool,
    trace,
    ui,
    up,
    watch,
)

__all__ = ["COMMANDS", "EVERYDAY", "SERVERS"]

SERVERS = servers.COMMAND
"""What `%mcp` alone does."""

COMMANDS = {
    command.name: command
    for command in (
        connect.COMMAND,
        up.COMMAND,
        disconnect.COMMAND,
        reconnect.COMMAND,
        ping.COMMAND,
        logout.COMMAND,
        config.COMMAND,
        *listings.COMMANDS,
        tool.COMMAND,
        skills.COMMAND,
        ui.COMMAND,
        form.COMMAND,
        call.COMMAND,
        last.COMMAND,
        read.COMMAND,
        watch.COMMAND,
        prompt.COMMAND,
        agent.COMMAND,
        *consent.COMMANDS,
        roots.COMMAND,
        logs.COMMAND,
        doctor.COMMAND,
        trace.COMMAND,
        raw.COMMAND,
        replay.COMMAND,
        check.COMMAND,
        metrics.COMMAND,
        serve.COMMAND,
        export.COMMAND,
        record.COMMAND,
        *docs.COMMANDS,
        *snapshot.COMMANDS,
    )
}
"""Name -> subcommand, in the order in which help shows them. A new one is a file and a row here."""

EVERYDAY = frozenset(
    (
        *("connect", "up", "disconnect", "reconnect", "config"),
        *("tools", "resources", "prompts", "tool", "ui", "form"),
        *("call", "read", "watch", "prompt", "agent"),
        *("allow", "deny", "ask", "approvals"),
        *("logs", "doctor", "trace", "assert"),
        *("serve", "export", "record"),
    )
)
"""What the first screen of help explains; the others it names."""
