"""Masks the secrets of servers in what an agent outside reads."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from mcp import MCPError

from mcp_magic.config.masking import Masker, estimated_size, mask_users

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from mcp_magic._host import Host
    from mcp_magic.errors import ProtocolError

MAX_ERROR = 20_000  # characters of an error, and of its data, which is left out above that


class SessionSecrets:
    """The secrets of a host's sessions: what masks them is made when these change, and not for each cell of a table."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._parts: list[object] = []  # specs, each with the set of what its references stood for
        self._masker = Masker(())

    def hide(self, text: str) -> str:
        """Return a text without the secrets of the sessions, and without users and passwords in URLs."""
        specs = [connection.spec for connection in self._host.connections.values()]
        parts: list[object] = [part for spec in specs for part in (spec, spec.secret_values.values)]
        if len(parts) != len(self._parts) or any(map(operator.is_not, parts, self._parts)):
            # in this order, for others read it from other threads
            self._masker = Masker(frozenset[str]().union(*(spec.secrets for spec in specs)))
            self._parts = parts
        return mask_users(self._masker.hide(text))

    def text(self, text: str) -> str:
        """Return the text of an error for an agent: names of columns and words of servers may be secrets, or long."""
        text = self.hide(text)
        rest = f"\n[cut here; the error has {len(text):,} characters]" if len(text) > MAX_ERROR else ""
        return text[:MAX_ERROR] + rest

    def error(self, error: ProtocolError) -> MCPError:
        """Return the error of a server for an agent."""
        return MCPError(error.code, self.text(str(error)), self._data(error.data))

    def _data(self, data: Any) -> Any:
        """Return JSON of an error without the secrets; None if it is more than an error can have."""
        if data is None or estimated_size(data) > MAX_ERROR:
            return None
        self.hide("")  # with the secrets of now
        return self._masker.mask_value(data)


def masked_texts(value: Any, hide: Callable[[str], str], within: Container[str] | None = None) -> Any:
    """Return JSON with secrets masked in its texts; names of members stay, for who gets it must find them.

    Args:
        value: The JSON.
        hide: Masks the secrets in a text.
        within: The names of the members in which texts are masked; None for all texts.

    >>> masked_texts({"title": ["a b"], "name": "a"}, lambda text: text.replace("a", "***"), ["title"])
    {'title': ['*** b'], 'name': 'a'}
    """
    if isinstance(value, str):
        return hide(value) if within is None else value
    if isinstance(value, dict):
        return {
            name: masked_texts(inner, hide, None if within is None or name in within else within)
            for name, inner in value.items()
        }
    return [masked_texts(inner, hide, within) for inner in value] if isinstance(value, list) else value
