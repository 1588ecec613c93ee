"""What is said of something that a server asks for, and of what came of it.

Pure functions to text and markup. Message, schema and address come from the server: they are written out and
escaped, and values of secret-looking fields never appear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.core.calltext import call_line
from mcp_magic.core.linkhost import MAX_URL, host_of
from mcp_magic.results.html import Markup, joined, page, tag
from mcp_magic.results.safe import one_line
from mcp_magic.results.visible import outline
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_types import Tool

    from mcp_magic.core.elicitation import Answer, Elicitation

__all__ = ["link_to", "outcome_bundle", "outcome_text", "question_html", "question_text"]

MAX_MESSAGE = 20_000
"""Characters shown of a message, in full; of a longer one the beginning and the end."""

_MESSAGE = "white-space:pre-wrap;overflow-wrap:anywhere;max-width:60em;max-height:28em;overflow:auto"

MAX_NAMES = 10

SIGNS = {"accept": "✓ sent", "decline": "✗ declined", "cancel": "… cancelled", "": "… not answered"}

SECRET = (
    "This seems to ask for a secret: {}. MCP forbids servers to ask for passwords, keys and card numbers in a form. "
    "What you enter is sent to the server. Decline, unless you know why it asks."
)


def question_html(asked: Elicitation) -> str:
    """Return who asks what, as a page of its own."""
    server = tag("b", one_line(asked.server, 100))
    wants = " asks you for:" if asked.mode == "form" else " asks you to open a page at "
    host = [] if asked.mode == "form" else [tag("b", host_of(asked.url), style="font-size:1.15em")]
    parts: list[object] = [tag("p", joined(["Server ", server, wants, *host]))]
    parts.append(tag("div", outline(asked.message.strip(), MAX_MESSAGE), style=_MESSAGE))
    if asked.secrets:
        parts.append(tag("p", tag("b", _secret_warning(asked)), style="max-width:60em"))
    if asked.mode == "url":
        parts.append(tag("p", tag("code", outline(asked.url, MAX_URL), style="word-break:break-all")))
        parts.append(tag("p", link_to(asked.url)))
    return page([joined(parts)])


def link_to(url: str) -> Markup:
    """Return a link that opens when it is clicked, and looks like one among widgets; nothing for what is no page."""
    if len(url) > MAX_URL or not host_of(url):
        return Markup()
    look = "text-decoration:underline;color:var(--jp-content-link-color,#1976d2)"
    return tag(
        "a", f"open {host_of(url)} in a new tab", href=url, target="_blank", rel="noopener noreferrer", style=look
    )


def question_text(asked: Elicitation) -> str:
    """Return the same for a terminal."""
    server = one_line(asked.server, 100)
    message = ["  " + line for line in outline(asked.message.strip(), MAX_MESSAGE).split("\n")]
    if asked.mode == "form":
        warning = [_secret_warning(asked)] if asked.secrets else []
        return "\n".join([f"Server {server} asks you for:", *message, *warning])
    first = f"Server {server} asks you to open a page at {host_of(asked.url)}"
    return "\n".join([first, *message, f"  {outline(asked.url, MAX_URL)}"])


def _secret_warning(asked: Elicitation) -> str:
    return SECRET.format(", ".join(one_line(name, 60) for name in asked.secrets[:MAX_NAMES]))


def outcome_text(asked: Elicitation, answer: Answer | None, seconds: float) -> str:
    """Return one line: what was asked and how it was answered, secrets masked."""
    rest = _values(asked, answer)
    said = f" {rest} to" if rest else ":"
    return f"{_sign(asked, answer)}{said} {one_line(asked.server, 100)} ({_subject(asked)}), {duration(seconds)}"


def outcome_bundle(asked: Elicitation, answer: Answer | None, seconds: float) -> dict[str, Any]:
    """Return the same as a mimebundle, which needs no kernel."""
    values = _values(asked, answer)
    server = tag("b", one_line(asked.server, 100))
    code = [" ", tag("code", values), " to "] if values else [": "]
    line = [tag("b", _sign(asked, answer)), *code, server, f" ({_subject(asked)}), {duration(seconds)}"]
    return {"text/plain": outcome_text(asked, answer, seconds), "text/html": page([tag("p", joined(line))])}


def _sign(asked: Elicitation, answer: Answer | None) -> str:
    done = asked.mode == "url" and answer is not None and answer.action == "accept"
    return "✓ done" if done else SIGNS[answer.action if answer is not None else ""]


def _subject(asked: Elicitation) -> str:
    about = one_line(asked.message, 100)
    return f"page at {host_of(asked.url)}: {about}" if asked.mode == "url" else about


def _values(asked: Elicitation, answer: Answer | None) -> str:
    if answer is None or answer.action != "accept" or asked.mode == "url":
        return ""
    return call_line(answer.content or {}, definition(asked)) or "nothing"


def definition(asked: Elicitation) -> Tool:
    """Return the schema as that of a tool, by which secrets are found."""
    from mcp_types import Tool

    return Tool(name="elicitation", input_schema=dict(asked.schema))
