"""What a resource that is watched looks like: when it changed last, what changed, and what it is now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mcp_magic.results.diff import diff_html, diff_text
from mcp_magic.results.html import details, error_label, joined, note, tag
from mcp_magic.results.parts import Part
from mcp_magic.results.safe import one_line, shorten
from mcp_magic.wording import counted, duration

if TYPE_CHECKING:
    from mcp_magic.core.watching.watch import Watch

__all__ = ["status_text", "update_line", "watch_parts"]


def status_text(watch: Watch) -> str:
    """Return in one line how it stands: how many updates, when the last came, whether it goes on."""
    count = counted(watch.updates, "updates")
    last = f", the last at {_clock(watch.changed_at)}" if watch.changed_at is not None else ""
    if watch.ended:
        return f"{count}{last}; watched for {duration(watch.seconds or 0.0)}: {watch.ended}"
    return f"{count}{last}; {watch.how} since {_clock(watch.began)}"


def watch_parts(watch: Watch) -> list[Part]:
    """Return heading, problem, difference and contents."""
    parts = [_heading(watch)]
    if watch.problem:
        text = shorten(watch.problem, 500)
        parts.append(Part(f"the last reading failed: {text}", tag("p", joined([error_label("not read"), " ", text]))))
    if watch.difference:
        label = f"what changed at {_clock(watch.differed_at)}"
        plain = f"{label}\n{diff_text(watch.difference, '  ')}"
        parts.append(Part(plain, details(label, diff_html(watch.difference), opened=True)))
    if watch.result is not None:
        parts += watch.result.parts()
    return parts


def _heading(watch: Watch) -> Part:
    sign, uri = ("○" if watch.ended else "●"), one_line(watch.uri, 200)
    line, said = status_text(watch), [watch.note] if watch.note else []
    plain = "\n".join([f"{sign} {uri} of {watch.server}: {line}", *said])
    html = [tag("p", joined([f"{sign} ", tag("b", uri), f" of {watch.server}: ", line])), *map(note, said)]
    return Part(plain, joined(html))


def update_line(watch: Watch) -> str:
    """Return an update as lines for a terminal: its number, and what changed or why it could not be read."""
    head = f"{_clock(watch.changed_at or time.time())} {one_line(watch.uri, 200)}: update {watch.updates:,}"
    if watch.problem:
        return f"{head}, not read: {shorten(watch.problem, 500)}"
    news = watch.differed_at == watch.changed_at and watch.difference
    changed = diff_text(watch.difference, "  ") if news else "  (no difference)"
    return "\n".join([head, *([f"  {watch.note}"] if watch.note else []), changed])


def _clock(when: float | None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))
