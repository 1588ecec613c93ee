"""Tool shadowing: texts of one server that give orders about the tools of another.

A model reads the definitions of all servers together, so a text of one can change what it does with the tools of
another. A text is found if it names another server's tool, or the server, and has words of an order beside it. A name
that is a word of everyday language counts only as code, before "tool", or after "instead of" and the like; a name or
a value of the server's own is its own. Without an order it is a note: servers of one maker may name each other. Source:
Invariant Labs, "MCP Security Notification: Tool Poisoning Attacks" (2025).
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic.display.text import one_line
from mcp_magic.doctor.servers import Server, members, names_of, rule_line, squashed
from mcp_magic.lint import MAX_INSTRUCTIONS, NOTE, WARNING, Finding, parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SHORTEST = 5  # characters of the shortest name that counts without a mark
AROUND = 160  # characters on each side of a name in which an order is looked for, in the same sentence
MAX_MENTIONS = 50  # most names in one text that are judged
MAX_FINDINGS = 100  # most findings in the texts of a server
MAX_OWNERS = 20  # most tools of one name that are kept

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[-.:/][A-Za-z0-9_]+)*")
_ORDER = re.compile(
    r"""(?ix)
    \b(?:before|prior\ to|after(?:wards?)?|instead|rather\ than|must|always|never|do\ not|don'?t|when(?:ever)?|needs?
    |requires?|required|should|ensure|make\ sure|prefer\w*|replac\w+|deprecated|insecure|unsafe|broken|outdated|avoid
    |as\ soon\ as|(?:any|every|each)\ (?:call|time|use)|first|also|change|redirect|forward|append|add|adds|include|pass
    |passed|prefix|copy|bcc
    |bevor|vor\ dem|immer|niemals?|statt|anstatt|muss\w*|soll\w*|wenn|zuerst
    |avant|toujours|jamais|doi\w+|au\ lieu|quand|d'abord
    |antes|siempre|nunca|en\ lugar|debe\w*|cuando|primero|prima|sempre|mai|invece|deve|quando)\b
    |必须|必ず|总是|常に|每次|不要|之前|调用|前に|する時|もし|反드시|항상|전에|перед|всегда|никогда|вместо|должен|сначала|когда
    """
)
_FIRM = re.compile(r"(?i)\b(?:before|instead of|must|always|never|do not|don'?t|when(?:ever)?|after|each time)\b")
_USE = r"(?:us(?:e|es|ing)|call(?:s|ed|ing)?|invok(?:e|es|ed|ing)|run(?:s|ning)?|through|via|with)"
_USED = re.compile(
    r"(?i)\b(?:instead of|rather than|(?:before|after|when|whenever) (?:you )?(?:use|using|call|calling|invoking)"
    r"|(?:do not|don'?t|never) (?:use|call)|replaces?) $"
)
_GOES_ON = re.compile(r"(?i)\s*(?:[,.;:)!]|$|(?:use|call|always|must|you|this|because|is|as it)\b)")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\s*\n|[\u3002\uff01\uff1f]")
_PLACED = re.compile(r"\b(?:mcp_+)?([A-Za-z][A-Za-z0-9_-]*?)(?:__|[:./])([A-Za-z][A-Za-z0-9_.-]*)$")


class _Mention(NamedTuple):
    """A name of another server's tool, or of the server, at a place of a text; `firm` ones need a strict order."""

    tools: Sequence[tuple[str, str]]
    start: int
    end: int
    firm: bool = False


class _Names:
    """The tools of all servers by name, and the servers by theirs."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self.tools: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.servers: dict[str, str] = {}
        self._tools: dict[str, frozenset[str]] = {}
        self._arguments: dict[str, frozenset[str]] = {}
        self._others_of: dict[tuple[str, str, bool], Sequence[tuple[str, str]]] = {}
        for server in servers:
            self.servers[squashed(server.name)] = server.name
            for tool in server.tools:
                owners = self.tools[squashed(tool.name)]
                if len(owners) < MAX_OWNERS:
                    owners.append((server.name, tool.name))
            self._tools[server.name] = frozenset(squashed(tool.name) for tool in server.tools)
            self._arguments[server.name] = frozenset(
                squashed(name)
                for tool in server.tools
                for schema in (tool.input_schema, tool.output_schema)
                for name in (*members(schema), *_choices(schema))
            )

    def mentions(self, server: Server, text: str) -> Iterator[_Mention]:
        """Yield where a text of a server names others' tools."""
        for match in _NAME.finditer(text):
            word = match[0].rstrip(".:/-")
            key = (server.name, word, len(word) == len(text))
            if (tools := self._others_of.get(key)) is None:
                tools = self._others_of[key] = self._others(*key) or self._placed(server.name, word)
            if tools and (_is_distinct(word) or _is_marked(text, match.start(), match.start() + len(word))):
                yield _Mention(tools, match.start(), match.start() + len(word))
            elif not tools:
                name = self.servers.get(squashed(word), server.name)
                after = text[match.end() : match.end() + 20]
                if name != server.name and re.match(r"(?:'s)? (?:mcp )?(?:servers?|tools?|mcp|functions?)\b", after):
                    yield _Mention([(name, "*")], match.start(), match.end(), firm=True)

    def _others(self, server: str, word: str, is_argument: bool) -> Sequence[tuple[str, str]]:
        """Return the tools that a word names, also at its start or end: `list_emails_result`."""
        is_own = squashed(word) in self._arguments[server]
        if is_own and not is_argument:
            return ()
        parts = word.split("_")
        inside = ["_".join(parts[:end]) for end in range(len(parts) - 1, 1, -1)]
        inside += ["_".join(parts[start:]) for start in range(1, len(parts) - 1)]
        for name in [*([] if is_own else [word]), *inside[:12]]:
            key = squashed(name)
            if key in self._tools[server]:
                return ()
            if tools := self.tools.get(key):
                return [tool for tool in tools if tool[0] != server]
        return ()

    def _placed(self, server: str, word: str) -> Sequence[tuple[str, str]]:
        """Return the tool that `mail:send`, `mail.send` or `mcp__mail__send` names."""
        match = _PLACED.search(word)
        name = self.servers.get(squashed(match[1])) if match else None
        if match is None or name is None or name == server:
            return ()
        return [tool for tool in self.tools.get(squashed(match[2]), ()) if tool[0] == name]


def _choices(schema: object) -> Iterator[str]:
    """Yield the texts that are values of arguments: `add` may be a value here, and a tool elsewhere."""
    for _, node, _ in parts(schema):
        choices = node.get("enum")
        yield from (str(choice) for choice in (choices if isinstance(choices, list) else ()))


def _is_distinct(word: str) -> bool:
    """Whether a word is no word of everyday language: it has a separator, a digit, or a capital inside."""
    return len(word) >= SHORTEST and re.search(r"[_:/.\d-]|[a-z][A-Z]", word) is not None


def _is_marked(text: str, start: int, end: int) -> bool:
    """Whether a word is marked as code, said to be a tool, or used as one: `instead of search, call ...`."""
    if _USED.search(text, max(0, start - 40), start) and _GOES_ON.match(text, end):
        return True
    code = text[start - 1 : start] == text[end : end + 1] == "`"
    return code or re.match(r"\(\)|['\"`”]? (?:tool|function)\b", text[end : end + 15]) is not None


def _sentence(text: str, start: int, end: int) -> str:
    """Return the sentence around a part of a text, or what of it is near."""
    first = max(0, start - AROUND)
    ends = [match.end() for match in _SENTENCE_END.finditer(text, first, start)]
    last = _SENTENCE_END.search(text, end, end + AROUND)
    return text[ends[-1] if ends else first : last.end() if last else end + AROUND].strip()


def shadowing_findings(servers: Sequence[Server]) -> Iterator[Finding]:
    """Yield a finding for each text that is about the tools of another server, at most `MAX_FINDINGS` for a server."""
    names = _Names(servers)
    for server in servers:
        findings = (
            finding
            for where, text in server.texts
            if (finding := _about_others(names, server, where, text[:MAX_INSTRUCTIONS])) is not None
        )
        yield from islice(findings, MAX_FINDINGS)


def _about_others(names: _Names, server: Server, where: str, text: str) -> Finding | None:
    """Return a finding for the tools that a text gives orders about, or else for those that it only names."""
    orders: dict[tuple[str, str], str] = {}
    plain: dict[tuple[str, str], str] = {}
    for mention in islice(names.mentions(server, text), MAX_MENTIONS):
        words = _sentence(text, mention.start, mention.end)
        is_name = text.isidentifier()  # of an argument, which asks for what the tool returns
        pattern = _FIRM if mention.firm else _ORDER
        is_order = is_name or pattern.search(words) is not None
        if not mention.firm or re.search(rf"(?i)\b{_USE}\b", words):
            for tool in mention.tools:
                (orders if is_order else plain).setdefault(tool, words)
    tools = orders or plain
    words = next(iter(tools.values()), "")
    return _finding(server, where, [*tools], words, WARNING if orders else NOTE) if tools else None


def _finding(server: Server, where: str, tools: Sequence[tuple[str, str]], words: str, severity: str) -> Finding:
    servers = [name for name, tool in tools if tool == "*"]
    about = f"the server {servers[0]}" if servers else f"{names_of(tools)}, of another server"
    problem = f"it {'gives orders about' if severity == WARNING else 'names'} {about}: {one_line(words, 240)!r}"
    if severity == NOTE:
        return Finding("other-server", NOTE, where, problem, "read it: should a model know that?", server.name)
    todo = "read it; if it does not belong there, " + _keep_out(server, where)
    return Finding("other-server", WARNING, where, problem, todo, server.name)


def _keep_out(server: Server, where: str) -> str:
    match = re.match(r"tool ([^,]+)", where)
    name = match[1] if match else "*"
    if not any(tool.name == name for tool in server.tools):
        return f"`%mcp disconnect {server.name}`: a model reads it whether or not it calls the tool"
    deny = rule_line("deny", server.name, name)
    return f"`%mcp disconnect {server.name}`: a model reads it, also if {deny} refuses its calls"
