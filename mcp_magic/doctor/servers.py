"""A server as one of several that are connected together: what it offers, and how its tools are named in lines."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names
from mcp_magic.consent.rules import exactly
from mcp_magic.display.text import one_line
from mcp_magic.lint import offered_texts, unhidden

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mcp_types import Tool

MAX_TYPED = 80  # most characters of a name in a line to type
MAX_NAMES = 4  # most names that a message has of a longer list

_SEPARATORS = dict.fromkeys(map(ord, " \t\n_.:/-"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")


class Server:
    """What a server offers, by kind, and what it says about itself: texts with their places.

    `trusted`: whether the user trusts its hints. `guarded`: its tools that a consent rule denies or asks about.
    """

    def __init__(
        self,
        name: str,
        offers: Mapping[str, Sequence[Any]],
        texts: Iterable[tuple[str, str]] = (),
        *,
        trusted: bool = False,
        guarded: Collection[str] = (),
    ) -> None:
        self.name = name
        self.offers = offers
        self.trusted = trusted
        self.guarded = frozenset(guarded)
        self.own_texts = list(texts)

    @property
    def tools(self) -> Sequence[Tool]:
        """Its tools."""
        return self.offers.get("tools", ())

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        """Each different text with its place, as a model may read it: hidden letters are visible."""
        every = [*self.own_texts, *offered_texts(self.offers)]
        return [(where, text if text.isascii() else unhidden(text)) for where, text in dict.fromkeys(every)]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of its texts, and of at least two names of tools."""
        names = {tool.name for tool in self.tools}
        texts = [text for _, text in self.texts if text not in names]
        common = Counter(word for name in names for word in {*words(name)})
        plain = (word for text in texts for word in (*words(text), *re.findall(r"\w+", text.lower())))
        return frozenset((*plain, *(word for word, count in common.items() if count > 1)))


def members(schema: object) -> list[str]:
    """Return the names of a schema's properties, whatever the schema is."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return [str(name) for name in properties] if isinstance(properties, dict) else []


def words(text: str) -> list[str]:
    """Return the words of a name or a text, in lower case.

    >>> words("getFile_contents v2")
    ['get', 'file', 'contents', 'v', '2']
    """
    return [word.lower() for word in _WORD.findall(text[:10_000])]


def squashed(name: str) -> str:
    """Return a name without case and separators: `send-email` and `SendEmail` are the same."""
    return name.translate(_SEPARATORS).lower()


def label(server: str, tool: str) -> str:
    """Return `SERVER:TOOL` for a message."""
    return f"{server}:{one_line(tool, 80)}"


def names_of(tools: Iterable[tuple[str, str]]) -> str:
    """Return the names of some tools for a message."""
    return join_names((label(*tool) for tool in tools), MAX_NAMES)


def rule_line(action: str, server: str, tool: str) -> str:
    r"""Return the line of `%mcp deny` or `%mcp ask` for a tool; what cannot be typed in its name is `?`.

    >>> rule_line("deny", "fs", "read_file"), rule_line("ask", "fs", "re\u0430d*")
    ('`%mcp deny fs:read_file`', "`%mcp ask 'fs:re?d[*]'`")
    """
    name = exactly(tool[:MAX_TYPED]) + ("*" if len(tool) > MAX_TYPED else "")
    pattern = "*" if tool == "*" else re.sub(r"[^!-~]|['\"\\`$]", "?", name)
    return f"`%mcp {action} {shlex.quote(f'{server}:{pattern}')}`"
