"""What a page of HTML really has, against what a server could have put there."""

from __future__ import annotations

from html.parser import HTMLParser

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e"
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
