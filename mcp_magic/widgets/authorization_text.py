"""What is said of a log-in, and of what came of it.

Pure functions to text and markup. The address leads to the authorization server that the MCP server names: its host is
shown, and nothing is opened by itself. What is left in the notebook afterwards has no address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.errors import listed
from mcp_magic.results.html import joined, page, tag
from mcp_magic.results.safe import clean, one_line
from mcp_magic.widgets.elicitation_text import link_to
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn

__all__ = ["login_html", "login_text", "outcome_bundle", "outcome_text"]

SIGNS = {"done": "✓ came back", "refused": "✗ refused", "cancelled": "… cancelled", "": "… not answered"}

ELSEWHERE = (
    "Where your browser is not on the machine of the kernel, the page that it is sent to after the log-in does not "
    "open: copy its address, which begins with {uri}, and paste it here."
)


def login_html(login: LogIn) -> str:
    """Return who wants which log-in where, with the link, as a page of its own."""
    server, where = tag("b", one_line(login.server, 100)), tag("code", one_line(login.where, 200))
    host = tag("b", login.host, style="font-size:1.15em")
    parts: list[object] = [tag("p", joined(["Server ", server, " (", where, ") wants you to log in at ", host]))]
    parts.append(tag("p", f"It asks for: {_scopes(login)}"))
    parts.append(tag("p", link_to(login.url)))
    parts.append(tag("p", ELSEWHERE.format(uri=login.redirect_uri), style="max-width:60em;opacity:.8"))
    return page([joined(parts)])


def login_text(login: LogIn) -> str:
    """Return the same for a terminal, with the whole address."""
    first = f"Server {one_line(login.server, 100)} ({one_line(login.where, 200)}) wants you to log in at {login.host}."
    return "\n".join([first, f"It asks for: {_scopes(login)}", f"Open  {clean(login.url)}"])


def outcome_text(login: LogIn, seconds: float) -> str:
    """Return one line: whose log-in it was, and what came of it."""
    server = one_line(login.server, 100)
    return f"{SIGNS[login.outcome]}: log-in to {server} at {login.host} ({_scopes(login)}), {duration(seconds)}"


def outcome_bundle(login: LogIn, seconds: float) -> dict[str, str]:
    """Return the same as a mimebundle, which needs no kernel."""
    server = tag("b", one_line(login.server, 100))
    rest = f" at {login.host} ({_scopes(login)}), {duration(seconds)}"
    line = joined([tag("b", SIGNS[login.outcome]), ": log-in to ", server, rest])
    return {"text/plain": outcome_text(login, seconds), "text/html": page([tag("p", line)])}


def _scopes(login: LogIn) -> str:
    return listed(one_line(scope, 60) for scope in login.scopes) if login.scopes else "no scope in particular"
