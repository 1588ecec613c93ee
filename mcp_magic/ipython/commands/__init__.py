"""The table of the subcommands of `%mcp`. A module here is imported when a subcommand of it is first used."""

from __future__ import annotations

from functools import partial

from mcp_magic.ipython.commandline import Command

_daily = partial(Command, everyday=True)

SERVERS = Command("servers", "connect", "Connect", "lists the connected servers")  # `%mcp` without a subcommand

AGENT = Command(
    "mcp_agent",
    "agent",
    "Call",
    "lets a model work on the request below with the tools of the open sessions",
    title="%%mcp_agent",
)
EVALUATION = Command(
    "mcp_eval",
    "evaluate",
    "Debug",
    "measures whether models use the tools rightly, by the cases of the cell below",
    title="%%mcp_eval",
)
SERVER = Command(
    "mcp_server", "share", "Share", "makes the functions of the cell below the tools of a server", title="%%mcp_server"
)

COMMANDS = {
    command.name: command
    for command in (
        _daily("connect", "connect", "Connect", "opens a session to a server"),
        _daily("up", "up", "Connect", "connects and configures everything that mcp_magic.toml declares"),
        Command("find", "registry", "Connect", "searches a registry of MCP servers, and starts none"),
        Command("add", "registry", "Connect", "shows a server, tries it, and writes it into a configuration file"),
        Command("remove", "registry", "Connect", "takes a server out of a configuration file, and ends its session"),
        _daily("disconnect", "connect", "Connect", "closes sessions and ends the servers that were started"),
        _daily("reconnect", "connect", "Connect", "opens a session again, for example after its server died"),
        Command("ping", "connect", "Connect", "checks that servers answer"),
        Command("logout", "connect", "Connect", "ends a log-in: revokes and forgets its tokens"),
        Command("config", "connect", "Connect", "lists the servers of config files, and starts none"),
        Command("secret", "secret", "Connect", "stores secrets in the keyring, lists their names, forgets them"),
        _daily("tools", "explore", "Explore", "lists tools, their arguments and their hints"),
        _daily("resources", "explore", "Explore", "lists resources"),
        Command("templates", "explore", "Explore", "lists resource templates: URIs with a part to fill in"),
        _daily("prompts", "explore", "Explore", "lists prompts"),
        _daily("tool", "explore", "Explore", "shows one tool: what it does, its arguments, its hints, an example call"),
        Command("skills", "explore", "Explore", "lists the skills that servers publish, and shows one"),
        _daily("ui", "explore", "Explore", "opens an explorer: search what servers offer, fill in forms, connect"),
        _daily("form", "explore", "Explore", "opens a form to fill in and run: a tool, a prompt, a URI template"),
        _daily("call", "call", "Call", "calls a tool and returns its result"),
        Command("view", "explore", "Explore", "opens the view of a tool in a tab of the browser"),
        _daily("map", "map", "Call", "calls a tool for each row of a table"),
        Command("last", "call", "Debug", "shows the whole answer of the last call that failed"),
        _daily("read", "call", "Call", "reads a resource: text, JSON, table, image, audio, PDF"),
        _daily("watch", "explore", "Explore", "shows a resource and its updates, as they come"),
        Command("jobs", "call", "Explore", "lists calls in the background; takes up tasks after a restart"),
        _daily("prompt", "call", "Call", "gets a prompt, with `.messages` for LangChain"),
        _daily("agent", "agent", "Call", "lists the threads of %%mcp_agent; shows, forks or deletes one"),
        _daily("allow", "consent", "Consent", "allows calls without asking"),
        _daily("deny", "consent", "Consent", "refuses calls"),
        _daily("ask", "consent", "Consent", "asks before calls, also before your own"),
        _daily("approvals", "consent", "Consent", "lists the consent rules, saves and loads them"),
        Command("audit", "consent", "Consent", "lists the decisions about calls, and who made them"),
        Command("roots", "consent", "Consent", "shows or sets the directories that a server gets as roots"),
        _daily("logs", "trace", "Debug", "shows the end of a server's stderr and its log messages"),
        _daily("doctor", "connect", "Debug", "finds out, step by step, why a server does not work"),
        Command("lint", "connect", "Debug", "checks the definitions of a server, as the doctor does"),
        Command("behaviour", "behaviour", "Debug", "shows the files, hosts and programs that each call used"),
        _daily("trace", "trace", "Debug", "lists every message to and from the servers"),
        Command("raw", "call", "Debug", "sends any request and returns the answer unchanged"),
        Command("replay", "trace", "Debug", "sends a request of the trace again, also with changes"),
        Command("assert", "call", "Debug", "calls a tool and fails the cell if the answer is not as expected"),
        Command("bench", "map", "Debug", "measures calls a second and latency of a tool"),
        Command("eval", "evaluate", "Debug", "measures whether models use the tools rightly, by cases in a file"),
        Command("fuzz", "fuzz", "Debug", "calls tools with made-up arguments, and tells what that breaks"),
        Command("metrics", "trace", "Debug", "counts calls, failures and times by server and tool"),
        _daily("serve", "serve", "Share", "offers a server of this kernel to other programs on this machine"),
        Command("share", "outside", "Share", "lets agents outside read variables, and lists who has read them"),
        _daily("export", "share", "Share", "writes a server of a cell as a program, or a session as tests"),
        _daily("record", "share", "Share", "records servers and models to a file, and replays them from it"),
        Command("docs", "share", "Share", "writes a page about a server: its tools, prompts and resources"),
        Command("stubs", "share", "Share", "writes a typed Python module with a function for each tool"),
        Command("snapshot", "share", "Share", "writes a server's interface to a file"),
        Command("verify", "verify", "Share", "sends what a cassette has to the live servers, and compares the answers"),
        Command("diff", "share", "Share", "shows what has changed since a snapshot, or between servers"),
    )
}
"""Name -> subcommand, in the order of the help. A new subcommand is a row here and an `Implementation`."""
