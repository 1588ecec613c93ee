"""The form of the suites: a request, and the first call that is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A request and its first call.

    Attributes:
        request: What the person writes.
        tool: The tool of the first call, as "server:tool".
        arguments: What is sent; arguments with a default may be sent or left out alike.
        also: Other arguments that are right, too.
    """

    request: str
    tool: str
    arguments: dict[str, Any]
    also: tuple[dict[str, Any], ...] = ()
