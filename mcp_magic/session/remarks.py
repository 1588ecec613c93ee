"""Remarks: what was odd in a server's messages, and was understood all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.display.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REMARKS = 50  # maximum number of remarks kept per connection: a server must not fill the memory with new ones

MAX_REMARK = 400  # maximum number of characters of a remark


class Remarks:
    """The remarks about one server. Each is logged once, as a warning, and is a finding of the doctor.

    `log` takes a level and a text; `masked` hides secrets.

    >>> lines = []
    >>> remarks = Remarks(lambda level, text: lines.append(text))
    >>> remarks.add("the icons of serverInfo have a form of 2025-06-18")
    >>> remarks.add("the icons of serverInfo have a form of 2025-06-18")
    >>> lines == list(remarks.texts)
    True
    """

    def __init__(self, log: Callable[[str, str], None], masked: Callable[[str], str] = str) -> None:
        self._log = log
        self._masked = masked
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The remarks, oldest first."""
        return tuple(self._texts)

    def add(self, text: str, *, logged: bool = True) -> None:
        """Keep a remark, and log it unless it is of no harm; one that was made before, or one too many, is dropped."""
        text = one_line(self._masked(text), MAX_REMARK)
        if text in self._texts or len(self._texts) >= MAX_REMARKS:
            return
        self._texts[text] = None
        if logged:
            self._log("warning", text)
