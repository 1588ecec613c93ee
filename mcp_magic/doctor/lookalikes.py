"""Names of tools and servers that are equal or look alike over several servers.

A model and a person choose by the name. Equal names are common among honest servers, so they are a note, and a warning
only if the arguments (at least two) are equal too. Names that differ in letters that look alike, or in characters that
nobody sees, are an error. Names at one typing error from each other are a warning if the word that differs occurs
nowhere else on its server: honest pairs such as `read_note` and `read_node` are about notes and nodes.

Names meet in buckets (by how they are read, and by what is left without one letter), so thousands take no longer than
their number of letters.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic._text import join_names
from mcp_magic._unicode import as_read
from mcp_magic.doctor.servers import Server, label, members, names_of, rule_line, squashed, words
from mcp_magic.lint import ERROR, NOTE, WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SHORTEST = 6  # letters of the shortest name in which a typing error is looked for
MAX_BUCKET = 30  # most names of a bucket that are compared: names such as `tool_1` to `tool_9999` share one

_LIKE_DIGITS = str.maketrans("01i", "oll")
_FORMS = ("", "s", "es", "d", "ed", "ing")  # of a word in other texts


class _Named(NamedTuple):
    """A tool, or a server itself (`tool` is "")."""

    server: Server
    name: str
    tool: str
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return label(self.server.name, self.tool) if self.tool else f"the server {self.name}"


def lookalike_findings(servers: Sequence[Server]) -> Iterator[Finding]:
    """Yield a finding for names that are equal or look alike on different servers."""
    twins = _twins(servers)
    yield from _twin_findings(twins)
    tools = [
        _Named(server, tool.name, tool.name, tuple(sorted(members(tool.input_schema))))
        for server in servers
        for tool in server.tools
    ]
    for group in (tools, [_Named(server, server.name, "") for server in servers]):
        pairs: set[frozenset[str]] = set()
        for finding, names in (*_same(group, twins), *_similar(group)):
            if names not in pairs:
                pairs.add(names)
                yield finding


def _twins(servers: Iterable[Server]) -> Mapping[str, Sequence[str]]:
    """Return name -> names of all servers that offer exactly the same tools, at least two."""
    by_offer: dict[frozenset[str], list[str]] = defaultdict(list)
    for server in servers:
        by_offer[frozenset(tool.name for tool in server.tools)].append(server.name)
    groups = [names for tools, names in by_offer.items() if len(tools) > 1 and len(names) > 1]
    return {name: names for names in groups for name in names}


def _twin_findings(twins: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for names in {tuple(names): names for names in twins.values()}.values():
        problem = f"{join_names(names)} offer tools of the same names: sessions of one server, or a copy of it"
        todo = "give a model one of them: `--servers` of %%mcp_agent, or `%mcp disconnect`"
        yield Finding("names-alike", NOTE, "server", problem, todo, names[-1])


def _read(name: str) -> str:
    """Return a name as it is read: look-alike letters, and pairs of them, are the same."""
    return squashed(as_read(name)).translate(_LIKE_DIGITS).replace("rn", "m").replace("vv", "w")


def _same(group: Sequence[_Named], twins: Mapping[str, Sequence[str]]) -> Iterator[tuple[Finding, frozenset[str]]]:
    """Yield findings for names that are equal, or are read as equal."""
    buckets: dict[str, list[_Named]] = defaultdict(list)
    for item in group:
        buckets[_read(item.name)].append(item)
    for bucket in buckets.values():
        by_spelling: dict[str, list[_Named]] = defaultdict(list)
        for item in bucket[:MAX_BUCKET]:
            by_spelling[squashed(item.name)].append(item)
        for items in by_spelling.values():
            owners = {item.server.name for item in items}
            if len(owners) > 1 and items[0].tool and not owners <= {*twins.get(items[0].server.name, ())}:
                yield _equal(items), frozenset(item.label for item in items)
        for first, second in combinations([items[0] for items in by_spelling.values()], 2):
            if first.server is not second.server:
                odd, usual = (first, second) if _oddness(first.name) > _oddness(second.name) else (second, first)
                problem = f"its name {odd.name[:80]!a} reads like {usual.label}"
                yield _alike(ERROR, odd, problem), frozenset((odd.label, usual.label))


def _oddness(name: str) -> tuple[bool, int]:
    return not name.isascii(), sum(letter.isdigit() for letter in name)


def _equal(items: Sequence[_Named]) -> Finding:
    last = items[-1]
    same = [item for item in items[:-1] if item.arguments == last.arguments and len(last.arguments) > 1]
    others = names_of((item.server.name, item.tool) for item in items[:-1])
    problem = f"it has the name of {others}"
    if not same:
        todo = "hosts that show no server's name mix them up: lines and models here name the server"
        return Finding("names-alike", NOTE, f"tool {last.tool[:80]}", problem, todo, last.server.name)
    problem += ", and the same arguments: a model can take either"
    todo = f"{rule_line('deny', last.server.name, last.tool)} keeps agents from this one"
    return Finding("names-alike", WARNING, f"tool {last.tool[:80]}", problem, todo, last.server.name)


def _alike(severity: str, item: _Named, problem: str) -> Finding:
    if not item.tool:
        todo = f"did you mean to connect it? `%mcp disconnect {item.server.name}`"
        return Finding("names-alike", severity, "server", problem, todo, item.server.name)
    todo = f"is it meant to be taken for it? {rule_line('deny', item.server.name, item.tool)} keeps agents from it"
    return Finding("names-alike", severity, f"tool {item.tool[:80]}", problem, todo, item.server.name)


def _similar(group: Sequence[_Named]) -> Iterator[tuple[Finding, frozenset[str]]]:
    """Yield findings for names at one typing error from each other."""
    buckets: dict[str, list[tuple[_Named, str]]] = defaultdict(list)
    for item in group:
        name = squashed(item.name)
        if SHORTEST <= len(name) <= 100:
            for key in {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}:
                if len(buckets[key]) < MAX_BUCKET:
                    buckets[key].append((item, name))
    for bucket in buckets.values():
        for (first, a), (second, b) in combinations(bucket, 2):
            is_near = first.server is not second.server and a != b and _one_error(a, b)
            odd = _misspelt(first, second) if is_near else None
            if odd is not None:
                problem = f"its name is a letter away from {(second if odd is first else first).label}"
                yield _alike(WARNING, odd, problem), frozenset((first.label, second.label))


def _one_error(a: str, b: str) -> bool:
    """Whether one letter is added, left out or another, or two neighbours have changed places."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    a, b = a[start:], b[start:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return (len(a) <= 1 and len(b) <= 1) or (len(a) == 2 and a == b[::-1])


def _misspelt(first: _Named, second: _Named) -> _Named | None:
    """Return which of two names has a word that occurs nowhere else on its server; None if it is neither, or both."""
    a, b = words(first.name), words(second.name)
    differing = [(x, y) for x, y in zip(a, b, strict=False) if x != y]
    if len(a) != len(b) or len(differing) != 1:
        return None
    [(x, y)] = differing
    if x.isdigit() or y.isdigit() or x.rstrip("s") == y.rstrip("s"):
        return None
    strange = [_is_strange(x, first), _is_strange(y, second)]
    return (first if strange[0] else second) if strange[0] != strange[1] else None


def _is_strange(word: str, item: _Named) -> bool:
    """Whether a word of a name occurs nowhere else on its server; a tool may also have a word of the server's name."""
    is_prefix = bool(item.tool) and word in words(item.server.name)
    return not is_prefix and not any(word + ending in item.server.vocabulary for ending in _FORMS)
