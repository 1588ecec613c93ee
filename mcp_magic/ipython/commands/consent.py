"""`%mcp allow`, `deny`, `ask`, `approvals` and `audit`: consent rules and past decisions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import did_you_mean, listed
from mcp_magic.ask.sampling import SAMPLING
from mcp_magic.config.parsing import read_bytes, write_text
from mcp_magic.consent.consent import outgrown
from mcp_magic.consent.rules import Rule, parse_rules, unreached, write_rules
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError, ConfigError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_magic._host import Host

__all__ = ["ALLOW", "APPROVALS", "ASK", "AUDIT", "DENY", "fitting_nothing", "never_reached"]


# Remarks on consent rules without effect: rules that are never reached, and rules that fit no tool.


def never_reached(host: Host) -> dict[int, str]:
    """Return the numbers of the rules that never decide, each with the reason."""
    found = unreached(host.consent.rules, host.consent.definitions)
    return {at + 1: f"never reached: rule {before + 1} comes before it" for at, before in found.items()}


def fitting_nothing(host: Host) -> dict[int, str]:
    """Return the numbers of the rules that fit nothing on the connected servers, each with a remark.

    Empty if no server is connected, or the tools of a server are not known yet.
    """
    sessions = host.find()
    if not sessions or not all(session.catalog.known("tools") for session in sessions):
        return {}
    known = [f"{session.name}:{tool.name}" for session in sessions for tool in session.catalog.cached("tools")]
    known += [f"{session.name}:{SAMPLING}" for session in sessions]
    return {
        number: f"fits no tool that is known now.{_near(rule, known, host)}".removesuffix(".")
        for number, rule in enumerate(host.consent.rules, 1)
        if not any(map(rule.names, known))
    }


def _near(rule: Rule, known: list[str], host: Host) -> str:
    server, _, rest = rule.tool.partition(":")
    return did_you_mean(rule.tool, known if rule.single else [f"{name}:{rest}" for name in host if name != server])


# The subcommands.

MAX_SHOWN = 100
"""Most characters of one argument in a list."""

_ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}


def rule_options(parser: Parser) -> None:
    """Add the arguments of a rule."""
    parser.add_argument("tool", metavar="PATTERN", completer="rule", help="SERVER:TOOL, also with * and ?")
    parser.add_argument("arguments", nargs="*", default=[], metavar="NAME=PATTERN", help="what arguments must be")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; whoever asks is told")
    parser.add_argument("--first", action="store_true", help="put it before the other rules")


async def add_rule(action: str, invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Add a rule and list all."""
    if ":" not in arguments.tool and arguments.tool != "*":
        raise CommandError(f"%mcp {action}: {arguments.tool!r} names no tool; write SERVER:TOOL, or 'SERVER:*' for all")
    patterns = schema.parse_arguments(
        arguments.arguments, _ANYTHING, evaluate=invocation.evaluate, directory=invocation.directory
    )
    consent = invocation.host.consent
    consent.add(Rule(action, arguments.tool, patterns, arguments.reason), first=arguments.first)
    return rule_listing(invocation.host)


def rule_listing(host: Host, done: str = "") -> Listing:
    """Return the rules in their order, with a note on the default policy and on what was done."""
    consent, never, strays = host.consent, never_reached(host), fitting_nothing(host)
    rows = [
        {
            "rule": number,
            "decides": rule.action,
            "tool": rule.tool,
            "arguments": _shown(rule.shown_arguments) or None,
            "for": f"run {rule.run}" if rule.run else "always",
            "reason": rule.reason or None,
            "from": rule.source or None,
            "not for (changed)": listed(names, 3) if (names := outgrown(rule, consent.definitions)) else None,
            "note": never.get(number) or strays.get(number),
        }
        for number, rule in enumerate(consent.rules, 1)
    ]
    otherwise = f"no rule matches: approval = {consent.policy!r} decides what agents and servers want to call"
    first = "--first puts a rule before the others" if never else ""
    note = "; ".join(filter(None, (done, first, otherwise)))
    return Listing(rows, title="Consent rules, the first that matches decides", empty="no rules", note=note)


def _shown(arguments: Mapping[str, Any]) -> str:
    from mcp_magic.display.arguments import MAX_NAME, written
    from mcp_magic.display.visible import in_line

    texts = {name: repr(value) if isinstance(value, str) else written(value) for name, value in arguments.items()}
    return ", ".join(f"{in_line(name, MAX_NAME)}={in_line(text, MAX_SHOWN)}" for name, text in texts.items())


def approvals_options(parser: Parser) -> None:
    """Add the arguments of `approvals`."""
    parser.add_argument("--save", metavar="FILE", help="write the rules to a TOML file")
    parser.add_argument("--load", metavar="FILE", help="add the rules of a TOML file")
    parser.add_argument("--remove", type=int, metavar="N", action="append", default=[], help="drop rule N")
    parser.add_argument("--clear", action="store_true", help="drop all rules")


async def approvals(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Change the rules as asked, and list them."""
    consent = invocation.host.consent
    if arguments.clear:
        consent.rules.clear()
    for number in sorted(set(arguments.remove), reverse=True):
        if not 1 <= number <= len(consent.rules):
            rules = f"the rules are 1 to {len(consent.rules)}" if consent.rules else "there are none"
            raise CommandError(f"%mcp approvals: there is no rule {number}; {rules}")
        del consent.rules[number - 1]
    if arguments.load:
        path = invocation.directory / Path(arguments.load).expanduser()
        for rule in parse_rules(_read(path), source=arguments.load):
            consent.add(rule)
    if arguments.save:
        write_text(
            invocation.directory / Path(arguments.save).expanduser(), write_rules(consent.rules, consent.definitions)
        )
        return rule_listing(invocation.host, _saved(arguments.save, consent.rules))
    return rule_listing(invocation.host)


def _saved(name: str, rules: list[Rule]) -> str:
    """Say where the rules were saved, and which were not."""
    left = [number for number, rule in enumerate(rules, 1) if rule.run is not None or rule.holds_secret]
    if not left:
        return f"saved to {name}"
    numbers = ", ".join(map(str, left))
    return f"saved to {name} but for rule {numbers}: rules of one run and rules with a secret are not written"


def _read(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
    raise ConfigError(problem)


def audit_options(parser: Parser) -> None:
    """Add the arguments of `audit`."""
    parser.add_argument("--last", type=int, default=100, metavar="N", help="records (default: 100)")


async def audit(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List the decisions."""
    records = list(invocation.host.consent.audit.records)[-max(arguments.last, 0) :]
    rows = [
        {
            "time": record.time,
            "asker": record.asker,
            "tool": f"{record.server}:{record.tool}",
            "arguments": _shown(record.arguments),
            "decision": record.decision,
            "by": record.by,
            "reason": record.reason or None,
            "changed": ", ".join(record.changed) or None,
            "seconds": record.seconds,
        }
        for record in records
    ]
    return Listing(rows, title="Consent decisions", empty="nothing was decided yet", kind="decisions")


def _rule(action: str, *examples: str) -> Implementation:
    details = (
        "The first rule that matches decides. Patterns know * and ?; NAME=PATTERN compares the text of an argument, "
        "`a.b=PATTERN` of one in an object. If a call can be read in several ways, a rule that denies is about any of "
        "them, one that allows about all. "
        "`%mcp approvals` lists the rules."
    )
    return Implementation(partial(add_rule, action), rule_options, examples, details)


ALLOW = _rule(
    "allow",
    "%mcp allow 'fs:read_*'",
    "%mcp allow weather:get_weather location=London",
)
DENY = _rule("deny", "%mcp deny 'db:*' --reason 'the database is live'")
ASK = _rule("ask", "%mcp ask 'fs:write_*'")
APPROVALS = Implementation(
    approvals,
    approvals_options,
    ("%mcp approvals", "%mcp approvals --save rules.toml", "%mcp approvals --remove 2"),
)
AUDIT = Implementation(
    audit,
    audit_options,
    ("%mcp audit", "%mcp audit --last 10"),
)
