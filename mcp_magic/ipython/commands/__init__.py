"""The table of the subcommands of `%mcp`. Each module here is imported when its subcommand is first used."""

from __future__ import annotations

from functools import partial

from mcp_magic.ipython.commandline import Command

__all__ = ["AGENT", "COMMANDS", "SERVER", "SERVERS"]

_daily = partial(Command, everyday=True)

SERVERS = Command("servers", "servers", "Connect", "lists the connected servers")
"""`%mcp` without a subcommand."""

AGENT = Command(
    "mcp_agent",
    ".agent_cell",
    "Call",
    "lets a model work on the request below with the tools of the open sessions",
    title="%%mcp_agent",
)
SERVER = Command(
    "mcp_server",
    ".server_cell",
    "Share",
    "makes the functions of the cell below the tools of a server",
    title="%%mcp_server",
)

COMMANDS = {
    command.name: command
    for command in (
        _daily("connect", "connect", "Connect", "opens a session to a server"),
        _daily("up", "up", "Connect", "makes the host what a declaration says"),
        _daily("disconnect", "disconnect", "Connect", "closes sessions and ends the servers that were started"),
        _daily("reconnect", "reconnect", "Connect", "opens a session again, for example after its server died"),
        Command("ping", "ping", "Connect", "asks servers whether they are there"),
        Command("logout", "logout", "Connect", "ends a log-in: revokes and forgets its tokens"),
        _daily("config", "config", "Connect", "lists the servers that config files name, and starts none"),
        _daily("tools", "listings", "Explore", "lists tools, their arguments and what they say of themselves"),
        _daily("resources", "listings", "Explore", "lists resources"),
        Command("templates", "listings", "Explore", "lists resource templates: URIs with a part to fill in"),
        _daily("prompts", "listings", "Explore", "lists prompts"),
        _daily("tool", "tool", "Explore", "shows one tool: what it does, its arguments, its hints, an example call"),
        Command("skills", "skills", "Explore", "lists the skills that servers publish, and shows one"),
        _daily("ui", "ui", "Explore", "opens an explorer: search what servers offer, fill in forms, connect"),
        _daily("form", "form", "Explore", "opens a form to fill in and run: a tool, a prompt, a URI template"),
        _daily("call", "call", "Call", "calls a tool and returns its result"),
        Command("last", "last", "Debug", "shows all that the last tool that failed said"),
        _daily("read", "read", "Call", "reads a resource: text, JSON, table, image, audio, PDF"),
        _daily("watch", "watch", "Explore", "shows a resource and its updates, as they come"),
        _daily("prompt", "prompt", "Call", "gets a prompt, with `.messages` for LangChain"),
        _daily(
            "agent", "agent", "Call", "lists the conversations that %%mcp_agent has kept; shows, forks, deletes one"
        ),
        _daily("allow", "consent", "Consent", "lets calls go out without asking"),
        _daily("deny", "consent", "Consent", "refuses calls"),
        _daily("ask", "consent", "Consent", "asks before calls, your own too"),
        _daily("approvals", "consent", "Consent", "lists the consent rules, saves and loads them"),
        Command("audit", "consent", "Consent", "lists what was decided about calls, by whom"),
        Command("roots", "roots", "Consent", "shows or sets the directories that a server is told of"),
        _daily("logs", "logs", "Debug", "shows the end of a server's stderr and its log messages"),
        _daily("doctor", "doctor", "Debug", "finds out, step by step, why a server does not work"),
        _daily("trace", "trace", "Debug", "lists every message to and from the servers"),
        Command("raw", "raw", "Debug", "sends any request and returns the answer as it came"),
        Command("replay", "replay", "Debug", "sends a request of the trace again, changed where you say so"),
        _daily("assert", "check", "Debug", "calls a tool and fails the cell if the answer is not what it must be"),
        Command("metrics", "metrics", "Debug", "counts calls, failures and times by server and tool"),
        _daily("serve", "serve", "Share", "offers a server of this kernel to other programs on this machine"),
        _daily("export", "export", "Share", "writes a server of this notebook as a program"),
        _daily("record", "record", "Share", "records servers and models on a file, and replays them from it"),
        Command("docs", "docs", "Share", "writes a page about a server: its tools, prompts and resources"),
        Command("stubs", "docs", "Share", "writes a typed Python module with a function for each tool"),
        Command("snapshot", "snapshot", "Share", "writes what a server offers into a file"),
        Command("diff", "snapshot", "Share", "says what changed in a server since a snapshot"),
    )
}
"""Name -> subcommand, in the order of the help. A new subcommand is a row here and a module."""
