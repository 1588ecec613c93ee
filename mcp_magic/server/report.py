"""A page about a session to send to a colleague: who, when, each request with its answer; it loads nothing.

All texts of servers are escaped, and the page's own policy allows neither scripts nor anything from elsewhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration, plural
from mcp_magic.config.masking import Masker
from mcp_magic.display.document import Markup, details, escape, joined, size_text, tag
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import escaped_json, outline
from mcp_magic.results.results import repeats
from mcp_magic.schema.resolve import json_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from mcp_magic.server.exchange import Exchange, Recording

WHOLE = 1200  # characters of a text that is in view; a longer one opens on a click

LARGEST = 200_000  # most characters of one text on the page

MOST = 1000  # most requests on the page, the newest; equal ones with equal answers are one

MOST_PICTURES = 2_000_000  # most characters of base64 of one picture

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_STYLE = """
:root{color-scheme:light dark;--line:#8885;--soft:#8882;--grey:#666;--good:#256029;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--grey:#aaa;--good:#8fd19e;--bad:#ffb4ab}}
body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin:0 0 .2em}h2{font-size:1.05em;margin:0;overflow-wrap:anywhere}
p{margin:.2em 0}.grey{color:var(--grey)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.2em;margin:1em 0}
dt{color:var(--grey)}dd{margin:0;overflow-wrap:anywhere}
section{border:1px solid var(--line);border-radius:6px;padding:.7em 1em;margin:1em 0}
header{display:flex;flex-wrap:wrap;gap:0 1em;align-items:baseline;justify-content:space-between}
h3{font-size:.85em;font-weight:600;color:var(--grey);margin:.7em 0 .2em}
pre{font:13px/1.45 ui-monospace,monospace;background:var(--soft);border-radius:4px;padding:.6em .8em;margin:0;
white-space:pre-wrap;overflow-wrap:anywhere}pre+pre,pre+details,details+pre{margin-top:.4em}
summary{cursor:pointer;color:var(--grey)}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}
img{max-width:100%}ul{margin:0;padding-left:1.2em}
@media print{section{break-inside:avoid}}
"""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<title>{title}</title><style>{style}</style></head>
<body><main>
{body}
</main></body></html>
"""


def page(recording: Recording, written: float) -> str:
    """Return the page; `written` is the time of `time.time()`."""
    from mcp_magic import __version__

    masker = Masker(recording.spec.secrets if recording.spec is not None else ())
    server = recording.opening.get("serverInfo") or {}
    groups = _groups(recording.exchanges)[-MOST:]
    exchanges = [exchange for group in groups for exchange in group]
    failures = sum(exchange.is_failure or not exchange.answer for exchange in exchanges)
    times = [exchange.time for exchange in exchanges if exchange.time is not None]
    took = sum(exchange.seconds or 0.0 for exchange in exchanges)
    title = f"{recording.server}: {plural(len(exchanges), 'requests')}"
    version = recording.opening.get("protocolVersion")
    names = [one_line(str(server[name]), 200) for name in ("title", "name", "version") if server.get(name)]
    source = f"the cassette {recording.cassette.name}" if recording.cassette is not None else "the trace of a session"
    facts = {
        "Server": " ".join(dict.fromkeys(names)) or recording.server,
        "Reached by": f"{recording.transport}: {one_line(masker.text(recording.where), 400)}",
        "Protocol": one_line(str(version), 40) if version else "",
        "Client": f"mcp_magic {__version__}",
        "When": f"{_moment(min(times))} to {_moment(max(times))}" if times else "a cassette does not say",
        "What": f"{title.partition(': ')[2]}, {failures:,} without an answer or with an error, {duration(took)} in all",
        "Left out": f"{before:,} earlier requests" if (before := len(recording.exchanges) - len(exchanges)) else "",
        "Written": f"{_moment(written)}, from {source}; secrets are masked as ***",
    }
    rows = joined(joined([tag("dt", name), tag("dd", text)]) for name, text in facts.items() if text)
    head = joined([tag("h1", title), tag("dl", rows)])
    body = joined([head, *(_section(number, group) for number, group in enumerate(groups, 1))], "\n")
    return _PAGE.format(title=escape(title), style=_STYLE, body=body)


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _groups(exchanges: Sequence[Exchange]) -> list[list[Exchange]]:
    """Return requests that are equal and have equal answers together, such as those of a fuzz or of a measurement."""
    groups: dict[Hashable, list[Exchange]] = {}
    for exchange in exchanges:
        content = json_key([exchange.answer, exchange.messages, exchange.problem])
        groups.setdefault((exchange.key, content), []).append(exchange)
    return [*groups.values()]


def _section(number: int, group: Sequence[Exchange]) -> Markup:
    exchange = group[0]
    heading = tag("h2", f"{number}. {exchange.method} {outline(exchange.name, 200)}")
    seconds = [equal.seconds for equal in group if equal.seconds is not None]
    facts = [f"{len(group):,} times"] if len(group) > 1 else []
    facts += [f"{duration(sum(seconds))}{' in all' if len(group) > 1 else ''}"] if seconds else []
    facts += [] if exchange.time is None else [_moment(exchange.time)]
    error = exchange.answer.get("error")
    if not exchange.answer:
        state = tag("span", exchange.problem or "no answer", class_="bad")
    elif isinstance(error, dict):
        state = tag("span", f"refused: error {error.get('code')}", class_="bad")
    elif exchange.is_failure:
        state = tag("span", "the tool reports an error", class_="bad")
    else:
        state = tag("span", "answered", class_="good")
    side = tag("span", joined([state, tag("span", f" {' · '.join(facts)}", class_="grey")]))
    parts = [tag("header", joined([heading, side]))]
    if exchange.arguments:
        parts += [tag("h3", "Arguments"), _json(exchange.arguments)]
    if exchange.messages:
        parts.append(tag("h3", f"Meanwhile: {plural(len(exchange.messages), 'messages')}"))
        parts.append(_text("\n".join(map(_summary, exchange.messages))))
    if isinstance(error, dict):
        parts += [tag("h3", "Error"), _text(str(error.get("message", "")))]
        parts += [_json(error["data"])] if error.get("data") is not None else []
    elif exchange.answer:
        parts += [tag("h3", "Answer"), *_result(exchange.answer.get("result", {}))]
    if exchange.problem and exchange.answer:
        parts.append(tag("p", f"This is not all: {exchange.problem}.", class_="grey"))
    return tag("section", joined(parts))


def _summary(message: dict[str, Any]) -> str:
    method, params = str(message.get("method")), message.get("params")
    params = params if isinstance(params, dict) else {}
    if method == "notifications/progress":
        amount = "/".join(str(params[name]) for name in ("progress", "total") if params.get(name) is not None)
        return one_line(f"progress {amount} {params.get('message') or ''}", 300)
    if method == "notifications/message":
        return one_line(f"{params.get('level')}: {params.get('data')}", 300)
    return one_line(f"{method} {params.get('message') or ''}", 300)


def _result(result: dict[str, Any]) -> Iterable[Markup]:
    structured = result.get("structuredContent")
    if structured is not None:
        yield _json(structured)
    blocks = [block for block in _blocks(result) if isinstance(block, dict)]
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    says_more = structured is None or not repeats(texts, structured)
    for block in blocks:
        text, data, kind = block.get("text"), block.get("data") or block.get("blob"), block.get("mimeType")
        if isinstance(text, str):
            if says_more:
                yield _text(text)
        elif isinstance(data, str) and kind in _PICTURES and len(data) <= MOST_PICTURES:
            yield tag("img", src=f"data:{kind};base64,{data}", alt="picture")
        elif isinstance(data, str):
            yield _text(f"{kind or 'data'}: {size_text(len(data) * 3 // 4)}")
        else:
            yield _json(block)
    if structured is None and not blocks:
        yield tag("p", "nothing", class_="grey")


def _blocks(result: dict[str, Any]) -> Iterable[Any]:
    for name in ("content", "contents"):
        if isinstance(result.get(name), list):
            yield from result[name]
    for message in result["messages"] if isinstance(result.get("messages"), list) else ():
        if isinstance(message, dict):
            yield {"text": str(message.get("role"))}
            yield message.get("content")


def _json(value: Any) -> Markup:
    return _text(escaped_json(value, indent=2))


def _text(text: str) -> Markup:
    """Return a text; a long one opens on a click."""
    block = tag("pre", outline(text, LARGEST))
    if len(text) <= WHOLE:
        return block
    return details(f"{one_line(text[:200], 80)} ({len(text):,} characters)", block)
