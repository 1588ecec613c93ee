"""The words and signs of a transcript, for pages and terminals alike."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from mcp_magic.agent.transcript.entries import OPEN, Called, Said
from mcp_magic.agent.transcript.reading import add_usage
from mcp_magic.core.consent.consent import PERSON
from mcp_magic.core.meter import amount_text
from mcp_magic.results.safe import one_line
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["about_call", "outcome_line", "progress_text", "status_text", "tokens_text", "totals"]

SIGNS = {
    "waiting": "…",
    "running": "»",
    "ok": "✓",
    "error": "✗",
    "denied": "⊘",
    "interrupted": "■",
    "cut off": "–",  # noqa: RUF001 - an en dash: nothing is known
}

OUTCOME = 90
"""Characters of a result in the line of its call."""

_CAPTION = re.compile(r"^(?:the first )?[\d,]+ (?:of [\d,]+ )?rows?(?: x|,) [\w, ]+(?=:|$)", re.MULTILINE)
"""The line below a table that says how large it is."""

_HOW = re.compile(r": \.\w+(?=\]|$)")
"""The attribute that has the whole: of a result, which a transcript is not."""


def status_text(called: Called) -> str:
    """Return the state as sign and word, so that colour is never the only difference."""
    return f"{SIGNS.get(called.status, '?')} {called.status}"


def _decision_text(called: Called) -> str:
    """Return who decided, and what for: the person is "you"."""
    if called.approved is None:
        return ""
    by = "you" if called.by == PERSON else one_line(called.by, 100) or "somebody"
    if not called.approved:
        return f"denied by {by}" + (f": {one_line(called.reason, 200)}" if called.reason else "")
    edited = "edited and " if called.changed_arguments is not None else ""
    return f"{edited}{'approved' if called.by == PERSON else 'allowed'} by {by}"


def about_call(called: Called) -> str:
    """Return what there is to know about a call beside its result: who let it through, how long it took."""
    took = "" if called.seconds is None else duration(called.seconds)
    return ", ".join(text for text in (_decision_text(called), took) if text)


def progress_text(called: Called) -> str:
    """Return how far a running call is, or "".

    >>> progress_text(Called(progress=(3, 10, "reading")))
    '3 of 10 (30 %) reading'
    """
    if called.progress is None:
        return ""
    done, total, message = called.progress
    return one_line(f"{amount_text(done, total)} {called.hide(message)}", 200)


def outcome_line(called: Called, text: str) -> str:
    r"""Return what came of a call in one short line: the size of a table, else the beginning of the text.

    >>> outcome_line(Called(status="ok"), "[image/png, 1.2 kB: .images]")
    '[image/png, 1.2 kB]'
    >>> outcome_line(Called(status="ok"), "cloudy\nwith rain")
    'cloudy …'
    """
    if called.status == "error":
        return one_line(called.error, OUTCOME)
    if called.status != "ok":
        return ""
    caption = _CAPTION.search(text) if called.result is None or not called.result.artifacts else None
    if caption:
        return caption[0].rpartition(" of ")[2] if caption[0].count(" of ") == 1 else caption[0]
    first, _, rest = _HOW.sub("", text).strip().partition("\n")
    if first[:1] in ("{", "["):  # JSON says nothing in its first line
        return one_line(f"{first} {rest}", OUTCOME)
    return one_line(f"{first} …" if rest else first, OUTCOME)


def tokens_text(usage: Mapping[str, int]) -> str:
    """Return token counts, or "" where there are none.

    >>> tokens_text({"input_tokens": 1204, "output_tokens": 56, "total_tokens": 1260})
    '1,204 tokens in, 56 out'
    """
    return f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out" if usage else ""


def totals(entries: Sequence[Entry], *, tokens: bool) -> str:
    """Return the last line: turns, calls and what became of them, time in tools, tokens."""
    statuses: Counter[str] = Counter()
    turns, spent, usages = 0, 0.0, []
    for entry in entries:  # once, since a live screen asks after every event
        if isinstance(entry, Called):
            statuses[entry.status] += 1
            spent += entry.seconds or 0.0
        elif isinstance(entry, Said):
            turns += entry.is_turn
            if tokens and entry.usage:
                usages.append(entry.usage)
    parts = [_counted(turns, "turn"), _calls_text(statuses)] if statuses else []
    if spent:
        parts.append(f"{duration(spent)} in tools")
    parts += [tokens_text(add_usage(usages))] if len(usages) > 1 else []  # of a single turn they stand below it
    return " · ".join(parts)


def _calls_text(statuses: Counter[str]) -> str:
    others = [(statuses[status], status) for status in SIGNS if status not in ("ok", *OPEN)]
    failed = [
        _counted(count, status) if status == "error" else f"{count} {status}" for count, status in others if count
    ]
    return _counted(statuses.total(), "call") + (f" ({', '.join(failed)})" if failed else "")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
