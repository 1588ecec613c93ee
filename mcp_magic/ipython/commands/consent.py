"""`%mcp allow`, `deny`, `ask`, `approvals`, `audit` and `roots`: what servers and agents may do."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.ask.sampling import SAMPLING
from mcp_magic.config.parsing import read_text, write_text
from mcp_magic.consent.consent import PERSON, outgrown
from mcp_magic.consent.rules import OUTSIDE, Rule, exactly, is_outside, parse_rules, unreached, write_rules
from mcp_magic.display.document import Whole
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import ONE_SERVER, Argument, Implementation, Invocation, Tab
from mcp_magic.notebook import host

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from mcp_magic._host import Host


# Remarks on consent rules without effect: rules that are never reached, and rules that fit no tool.


def never_reached(host: Host) -> dict[int, str]:
    """Return the numbers of the rules that never decide, each with the reason."""
    pairs = unreached(host.consent.rules)
    return {at + 1: f"never reached: rule {before + 1} comes before it" for at, before in pairs.items()}


def fitting_nothing(host: Host) -> dict[int, str]:
    """Return the numbers of the rules that fit nothing on the connected servers, each with a remark.

    Empty if no server is connected, or the tools of a server are not known yet.
    """
    sessions = host.find()
    if not sessions or not all(session.catalog.has("tools") for session in sessions):
        return {}
    names = [f"{session.name}:{tool.name}" for session in sessions for tool in session.catalog.cached("tools")]
    names += [f"{session.name}:{name}" for session in sessions for name in (SAMPLING, "resources/read")]
    names += [f":{name}" for name in OWN_TOOLS]
    remarks = {}
    for number, rule in enumerate(host.consent.rules, 1):
        if not any(map(rule.names, names)):
            server, _, rest = rule.tool.partition(":")
            near = names if rule.single else [f"{name}:{rest}" for name in host if name != server]
            remarks[number] = f"matches no known tool.{did_you_mean(rule.tool, near)}".removesuffix(".")
    return remarks


# The subcommands.

OWN_TOOLS = (RUN_PROGRAM, "put_value", "run_code")
"""Tools without a server that a rule can be about: those of agents, and those of agents outside."""

VALUE_TOOLS = ("list_values", "describe_value", "read_value")
"""Tools of agents outside that read what `%mcp share` names, and about which nobody is asked."""

MAX_SHOWN = 100  # most characters of one argument in a list


def _complete_rule(tab: Tab) -> list[str]:
    tools = (exactly(f"{c.name}:{tool.name}") for c in host.find() for tool in c.catalog.cached("tools"))
    words = [shlex.quote(name) for name in (*(f"{name}:*" for name in host), *tools)]
    # an open quote has to be closed
    opened = tab.fragment[:1] == "'"
    return completion.starting(tab, [f"'{word}'" if opened and not word.startswith("'") else word for word in words])


def _complete_asker(tab: Tab) -> list[str]:
    askers = [record.asker for record in host.consent.audit.records if is_outside(record.asker)]
    return completion.starting(tab, [OUTSIDE, *map(shlex.quote, askers)])


async def _add_rule(action: str, invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    if arguments.tool is None:
        if arguments.asker or arguments.reason or arguments.first:
            raise CommandError(f"%mcp {action}: of which calls? SERVER:TOOL, or 'SERVER:*' for all of a server.")
        return _rule_listing(invocation.host)
    tool = f":{arguments.tool}" if arguments.tool in OWN_TOOLS else arguments.tool
    asker = " ".join(arguments.asker.split())
    _check(action, tool, asker, arguments.arguments)
    if ":" not in tool and tool != "*":
        problem = f"%mcp {action}: {arguments.tool!r} is not a tool; write SERVER:TOOL, or 'SERVER:*' for all"
        raise CommandError(f"{problem}{_meant(invocation, tool)}")
    patterns = invocation.arguments(arguments.arguments, {"type": "object", "additionalProperties": {"type": "string"}})
    consent = invocation.host.consent
    consent.add(Rule(action, tool, patterns, arguments.reason, asker=asker), first=arguments.first)
    is_inside = action == "allow" and not asker and invocation.host.serving is not None
    return _rule_listing(invocation.host, "this rule allows agents outside nothing: --for outside does" * is_inside)


def _check(action: str, tool: str, asker: str, words: Sequence[str]) -> None:
    """Raise CommandError for an asker that is none, and for a rule that would never hold."""
    if asker == OUTSIDE and words and not re.search("[=:]|^[$]", words[0]):
        raise CommandError(
            f"%mcp {action}: a name of two words is quoted: --for {shlex.quote(f'{OUTSIDE} {words[0]}')}"
        )
    if asker and not is_outside(asker):
        problem = f"%mcp {action}: --for takes outside, or 'outside NAME' for one agent, not {asker!r}"
        raise CommandError(f"{problem}; without it the rule is for your agents, too")
    if action == "allow" and tool == ":run_code":
        raise CommandError("%mcp allow: no rule allows run_code; each program of an agent outside is asked about.")
    if action == "allow" and tool == ":put_value" and not asker:
        raise CommandError(
            "%mcp allow: only agents outside have put_value; a rule that allows them needs --for outside."
        )


def _meant(invocation: Invocation, word: str) -> str:
    """Return what a word that is no pattern probably means, to go on with in an error."""
    if word in VALUE_TOOLS or word in invocation.shell.user_ns:
        name = "NAME" if word in VALUE_TOOLS else word
        return f". Reads are not asked about: `%mcp share {name}` lets agents outside read"
    if word in invocation.host:
        return f": '{word}:*'"
    sessions = invocation.host.find()
    names = [f"{session.name}:{tool.name}" for session in sessions for tool in session.catalog.cached("tools")]
    fitting = [name for name in names if word in (name.partition(":")[2], name.replace(":", "__", 1))]
    return f": {fitting[0]}" if fitting else ""


def _rule_listing(host: Host, action_note: str = "") -> Listing:
    from mcp_magic.display.visible import in_line

    consent, never, strays = host.consent, never_reached(host), fitting_nothing(host)
    rows = [
        {
            "rule": number,
            "decides": rule.action,
            "tool": rule.tool,
            "arguments": _arguments_text(rule.shown_arguments) or None,
            "for": f"run {rule.run}" if rule.run else in_line(rule.asker, MAX_SHOWN) or "always",
            "reason": rule.reason or None,
            "from": rule.source or None,
            "not for (changed)": join_names(names, 3) if (names := outgrown(rule, consent.definitions)) else None,
            "note": never.get(number) or strays.get(number),
        }
        for number, rule in enumerate(consent.rules, 1)
    ]
    otherwise = f"if no rule matches, approval = {consent.policy!r} decides about calls of agents and servers"
    first = "--first puts a rule before the others" if never else ""
    note = "; ".join(filter(None, (action_note, first, otherwise)))
    return Listing(
        rows,
        title="Consent rules, the first that matches decides",
        empty="no rules: `%mcp allow SERVER:TOOL` makes one, `deny` and `ask` as well",
        note=note,
    )


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    from mcp_magic.display.arguments import MAX_NAME, value_text
    from mcp_magic.display.visible import in_line

    texts = {name: repr(value) if isinstance(value, str) else value_text(value) for name, value in arguments.items()}
    return ", ".join(f"{in_line(name, MAX_NAME)}={in_line(text, MAX_SHOWN)}" for name, text in texts.items())


async def _approvals(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    consent = invocation.host.consent
    if arguments.clear:
        consent.rules.clear()
    for number in sorted(set(arguments.remove), reverse=True):
        if not 1 <= number <= len(consent.rules):
            rules = f"the rules are 1 to {len(consent.rules)}" if consent.rules else "there are none"
            raise CommandError(f"%mcp approvals: there is no rule {number}; {rules}")
        del consent.rules[number - 1]
    if arguments.load:
        for rule in parse_rules(read_text(invocation.path(arguments.load)), source=arguments.load):
            consent.add(rule)
    if arguments.save:
        write_text(invocation.path(arguments.save), write_rules(consent.rules, consent.definitions))
        note = f"saved to {arguments.save}"
        unsaved = [
            str(number) for number, rule in enumerate(consent.rules, 1) if rule.run is not None or rule.holds_secret
        ]
        if unsaved:
            note += f" except rule {', '.join(unsaved)}: rules of one run and rules with a secret are not written"
        return _rule_listing(invocation.host, note)
    return _rule_listing(invocation.host)


async def _audit(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    all_records = list(invocation.host.consent.audit.records)
    rest = max(len(all_records) - max(arguments.last, 0), 0)
    rows = [
        {
            "time": datetime.fromisoformat(record.time).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            "asker": Whole("you" if record.asker == PERSON else record.asker),
            "tool": f"{record.server}:{record.tool}".removeprefix(":"),
            "arguments": _arguments_text(record.arguments),
            "decision": record.decision,
            "by": "you" if record.by == PERSON else record.by,
            "changed": ", ".join(record.changed) or None,
            "seconds": record.seconds,
            "reason": Whole(record.reason) if record.reason else None,
        }
        for record in all_records[rest:]
    ]
    return Listing(
        rows,
        title="Consent decisions",
        empty="nothing was decided yet",
        note=f"{rest:,} before these: `%mcp audit --last {len(all_records)}` shows all" if rest else "",
        kind="decisions",
    )


def _rule(action: str, *examples: str) -> Implementation:
    details = (
        "The first rule that matches decides. Patterns can have * and ?. NAME=PATTERN compares the text of an "
        "argument, `a.b=PATTERN` a value inside an object. Some calls can be read in several ways: `a.b` as a name "
        "or as the `b` of `a`, a value as text or as a list. Deny and ask apply if one reading matches, allow only "
        "if all do. A rule holds for you, agents, servers and views; one that denies or asks for agents outside too "
        "(`%mcp serve --kernel`). --for makes one for them only. Without PATTERN it lists the rules."
    )
    return Implementation(
        partial(_add_rule, action),
        (
            Argument(
                "tool", nargs="?", metavar="PATTERN", complete=_complete_rule, help="SERVER:TOOL, also with * and ?"
            ),
            Argument("arguments", nargs="*", metavar="NAME=PATTERN", help="only calls with such arguments"),
            Argument(
                "--for",
                dest="asker",
                default="",
                metavar="ASKER",
                complete=_complete_asker,
                help="only for agents outside (outside), or for one of them ('outside NAME')",
            ),
            Argument("--reason", default="", metavar="TEXT", help="the reason, which the caller gets"),
            Argument("--first", action="store_true", help="put it before the other rules"),
        ),
        examples,
        details,
    )


ALLOW = _rule(
    "allow",
    "%mcp allow 'fs:read_*'",
    "%mcp allow weather:get_weather location=London",
    "%mcp allow 'weather:*' --for outside",
)
DENY = _rule("deny", "%mcp deny 'db:*' --reason 'the database is live'")
ASK = _rule("ask", "%mcp ask 'fs:write_*'")
APPROVALS = Implementation(
    _approvals,
    (
        Argument("--save", metavar="FILE", help="write the rules to a TOML file"),
        Argument("--load", metavar="FILE", help="add the rules of a TOML file"),
        Argument("--remove", type=int, metavar="N", action="append", default=[], help="drop rule N"),
        Argument("--clear", action="store_true", help="drop all rules"),
    ),
    ("%mcp approvals", "%mcp approvals --save rules.toml", "%mcp approvals --remove 2"),
)
AUDIT = Implementation(
    _audit,
    (Argument("--last", type=int, default=100, metavar="N", help="records (default: 100)"),),
    ("%mcp audit", "%mcp audit --last 10"),
    "An agent outside is `outside NAME`, as it calls itself, a second one of that name `outside NAME (2)`. Reads of "
    "shared values are listed, too. `audit.df` of `audit = %mcp audit` is a DataFrame.",
)


async def _roots(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    connection = invocation.connection(arguments.server)
    if arguments.clear and arguments.directories:
        raise CommandError("%mcp roots takes directories, or --clear")
    if arguments.clear or arguments.directories:
        words = [invocation.text(word) for word in arguments.directories]
        await connection.roots.set(*words, base=invocation.directory)
    rows = [{"directory": str(path), "uri": path.as_uri()} for path in connection.roots.directories]
    empty = f"{connection.name} gets no directories; `%mcp roots {connection.name} DIR` names one"
    return Listing(rows, title=f"Roots of {connection.name}", columns=("directory", "uri"), empty=empty, kind="roots")


ROOTS = Implementation(
    _roots,
    (
        ONE_SERVER,
        Argument("directories", nargs="*", metavar="DIR", help="directories, instead of those before"),
        Argument("--clear", action="store_true", help="none from now on"),
    ),
    examples=("%mcp roots files", "%mcp roots files . ~/data", "%mcp roots files --clear"),
    details="By default there are none. Roots inform the server and do not protect you: a server on this machine can "
    "reach what you can reach. Roots are kept when the session is opened again.",
)
