"""Servers that ask in the middle of a call by a request of their own, which 2026-07-28 does not have.

`ctx.elicit`, `ctx.session.create_message` and `ctx.session.list_roots` of the Python SDK work on the handshake versions
only. It answers the call with an error of its own then, which would blame the request.
"""

from __future__ import annotations

import re

__all__ = ["asked_in_vain", "instead"]

_SDK_SAYS = re.compile(r"Cannot send '([\w/]{1,60})': this transport context has no back-channel")

_INSTEAD = {
    "elicitation/create": (
        "asks the person by `ctx.elicit`",
        'answer: Annotated[ElicitationResult[Model], Resolve(ask)]`, where `ask()` returns `Elicit("Where to?", Model)',
    ),
    "sampling/createMessage": (
        "asks a model by `create_message`",
        "reply: Annotated[CreateMessageResult, Resolve(ask)]`, where `ask()` returns `Sample(messages, max_tokens=100)",
    ),
    "roots/list": (
        "asks for roots by `list_roots`",
        "roots: Annotated[ListRootsResult, Resolve(ask)]`, where `ask()` returns `ListRoots()",
    ),
}
"""Method -> what the server does, and what works on all versions."""


def asked_in_vain(message: object) -> str:
    """Return the method by which a server asked in vain, if that is what its error says; else "".

    >>> asked_in_vain("Cannot send 'roots/list': this transport context has no back-channel for ...")
    'roots/list'
    """
    found = _SDK_SAYS.match(message) if isinstance(message, str) else None
    return found[1] if found else ""


def instead(method: str) -> str:
    """Say what a server does wrong that asks by a request, and what to write instead, on two lines."""
    does, parameter = _INSTEAD.get(method, (f"sends `{method}`", ""))
    wrong = f"the server {does} in the middle of the call, which 2026-07-28 does not have (fault: the server)"
    advice = f"\n  A parameter of the tool can ask: `{parameter}`; that works on all versions." if parameter else "."
    return wrong + advice
