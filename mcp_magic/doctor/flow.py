"""Toxic flows: tools that together let a stranger's text send private data to the outside.

Private data, content that strangers write, and a way to the outside are the "lethal trifecta" (Simon Willison, 2025);
published attacks on GitHub's, WhatsApp's and Supabase's servers used all three. Which tools do what is a guess: by the
verb of the name (or of the description), the nouns of the name and of the first sentence, an argument that takes a URL,
and the hint `openWorldHint`. Hints that say less (`readOnlyHint`) count only for a server whose hints are trusted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import join_names, plural
from mcp_magic.doctor.servers import Server, names_of, rule_line, words
from mcp_magic.lint import NOTE, WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_types import Tool


def _set_of(names: str) -> frozenset[str]:
    return frozenset(names.split())


_READ = _set_of(
    "read get list search find query fetch load show view download export retrieve dump select open look lookup browse"
    " history snapshot capture recall scrape crawl extract summarize inspect"
)
_SEND = _set_of(
    "send post publish share upload push reply forward tweet submit notify invite transfer broadcast email message dm"
    " comment respond"
)
_MAKE = _set_of("create add write update open make")
_RUN = _set_of("run execute exec shell bash start launch spawn")
_OPEN_URL = _set_of("fetch get navigate request browse open goto go visit scrape crawl download read load")
_VERBS = (
    _READ | _SEND | _MAKE | _RUN | _OPEN_URL | _set_of("delete remove set edit convert close move count merge assign")
)

_PRIVATE = _set_of(
    "file document note email mail inbox message chat conversation thread contact calendar event drive folder directory"
    " database db table row record sql customer client user account invoice payment order transaction balance"
    " repository repo secret password credential key vault clipboard log photo patient workspace env environment"
    " memory knowledge graph private history commit"
)
_STRANGERS = _set_of(
    "web url page website site internet browser rss feed email mail inbox message chat issue pr comment review ticket"
    " tweet forum discussion invitation submission news"
)
_PLACES = _set_of("issue pr comment gist release review discussion ticket post invitation tweet reply")
_PROGRAMS = _set_of("command shell bash terminal process script python cli program")
_URL_ARGUMENT = re.compile(r"(?i)^(?:.*_)?(?:url|urls|uri|link|href|endpoint|webhook)$|^[a-z]+(?:Url|URL|Uri)$")

_LEGS = {
    "private": "reads private data",
    "strangers": "reads what strangers write",
    "outside": "sends to the outside",
}


class Abilities(NamedTuple):
    """What a tool seems to do, each with the reason, or "": read private data or strangers' texts, send outside."""

    private: str = ""
    strangers: str = ""
    outside: str = ""


def abilities(tool: Tool, *, trusted: bool = False) -> Abilities:
    """Guess what a tool does; `trusted` is whether its server's hints may say less than its words."""
    verb, nouns = _verb_and_nouns(tool)
    hints = tool.annotations
    url = _url_argument(tool.input_schema) if verb in _OPEN_URL or verb == "convert" else ""
    program = next((word for word in nouns if word in _PROGRAMS), "") if verb in _RUN else ""
    private, strangers = _reading(verb, nouns)
    if private and hints is not None and hints.open_world_hint and not strangers:
        strangers = "openWorldHint"
    outside = verb if _sends(verb, nouns) else ""
    if trusted and hints is not None:
        strangers = "" if hints.open_world_hint is False else strangers
        outside = "" if hints.read_only_hint or hints.open_world_hint is False else outside
    if url:
        strangers, outside = strangers or f"argument {url}", f"argument {url}"
    if program:
        private = outside = f"{verb} {program}"
    return Abilities(private, strangers, outside)


def _verb_and_nouns(tool: Tool) -> tuple[str, list[str]]:
    """Return the first verb of a tool's name, or else of its description, and the words of both as nouns."""
    name = _nouns_joined(words(tool.name))
    sentence = _nouns_joined(words(re.split(r"[.\n]", (tool.description or "")[:400], maxsplit=1)[0]))
    candidates = [*name, *map(_stem, sentence[:3])]
    verb = next((word for word in candidates if word in _VERBS), "")
    nouns = [stem for word in (*name, *sentence) if (stem := _stem(word)) != verb]
    return verb, nouns


def _nouns_joined(names: Sequence[str]) -> list[str]:
    """Return words with `pull request` as one, which is neither a verb nor a request."""
    return re.sub(r"\bpull requests?\b", "pr", " ".join(names)).split()


def _reading(verb: str, nouns: Sequence[str]) -> tuple[str, str]:
    """Return which private data and which strangers' texts a tool reads, with its verb."""
    if verb not in _READ and not (verb in _RUN and {"sql", "query"} & {*nouns}):
        return "", ""
    private = next((word for word in nouns if word in _PRIVATE and not _is_web(word, nouns)), "")
    strangers = next((word for word in nouns if word in _STRANGERS), "")
    return private and f"{verb} {private}", strangers and f"{verb} {strangers}"


def _sends(verb: str, nouns: Sequence[str]) -> bool:
    guests = {"guest", "attendee", "invite", "invitee"}
    return verb in _SEND or (verb in _MAKE and bool((_PLACES | guests) & {*nouns}))


def _stem(word: str) -> str:
    """Return a noun's singular, and a verb's infinitive."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in ("ches", "shes", "sses", "xes"):
        if word.endswith(ending):
            return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _is_web(noun: str, nouns: Sequence[str]) -> bool:
    """Whether a noun of private data is about the web here: the history or the graph of a page."""
    return noun in ("graph", "history", "log", "document") and bool({"web", "website", "public"} & {*nouns})


def _url_argument(schema: Any) -> str:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ""
    formats = {
        str(name)
        for name, part in properties.items()
        if isinstance(part, dict) and part.get("format") in ("uri", "url")
    }
    return next((str(name) for name in properties if _URL_ARGUMENT.match(str(name)) or name in formats), "")


def flow_findings(servers: Sequence[Server]) -> Iterator[Finding]:
    """Yield the toxic flow of all servers together, if there is one; tools behind a consent rule are no part of it."""
    legs: dict[str, dict[tuple[str, str], str]] = {leg: {} for leg in _LEGS}
    for server in servers:
        for tool in server.tools:
            if tool.name not in server.guarded:
                for leg, reason in zip(_LEGS, abilities(tool, trusted=server.trusted), strict=True):
                    if reason:
                        legs[leg][(server.name, tool.name)] = reason
    if not legs["private"] or not legs["outside"]:
        return
    is_whole = bool(legs["strangers"])
    clauses = [f"{text}: {_reasons(legs[leg])}" for leg, text in _LEGS.items() if legs[leg]]
    means = "a text of a stranger can make a model pass on your data" if is_whole else "a model can pass on your data"
    problem = f"{means} (a guess by names, descriptions and hints). What {'; what '.join(clauses)}"
    yield Finding("toxic-flow", WARNING if is_whole else NOTE, "all servers", problem, _cut_off(legs, is_whole))


def _reasons(tools: Mapping[tuple[str, str], str]) -> str:
    """Return the tools of a leg, the first with the reason."""
    first, *rest = tools
    more = f", {names_of(rest)}" if rest else ""
    return f"{names_of([first])} ({tools[first]}){more}"


def _cut_off(legs: Mapping[str, Mapping[tuple[str, str], str]], is_whole: bool) -> str:
    """Return the lines of `%mcp` that guard all tools of a leg: the one with the fewest tools."""
    leg = min(("outside", "strangers") if is_whole else ("outside",), key=lambda name: len(legs[name]))
    tools = list(legs[leg])
    if len(tools) > 3:
        tools = [(server, "*") for server in dict.fromkeys(server for server, _ in tools)]
    lines = [rule_line("ask", *tool) for tool in tools]
    more = f" and the same for {plural(len(lines) - 3, 'servers')} more" if len(lines) > 3 else ""
    deny = rule_line("deny", *tools[0])
    return f"{join_names(lines[:3])}{more} asks you each time, {deny} and the like refuses: either ends the flow"
