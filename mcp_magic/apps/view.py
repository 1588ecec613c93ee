"""The view of a tool: an HTML document that its server offers as a `ui://` resource, and what it may load and use.

Source: MCP Apps (2026-01-26), the extension `io.modelcontextprotocol/ui`.

A view is two frames inside each other, both without an origin (`sandbox="allow-scripts"` and nothing else): it can read
nothing of the page, navigate nothing and open nothing. The outer document is ours (`host.js`). It has the policy that
is made here, which the inner one inherits and cannot remove. The policy refuses what the resource does not name, and
addresses of this machine and its network also if it names them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names
from mcp_magic.auth.addresses import is_internal_host, leads_inside
from mcp_magic.display.text import one_line
from mcp_magic.errors import InvalidResponseError
from mcp_magic.protocol import VIEW_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_types import Tool

MAX_HTML = 16 * 1024 * 1024  # most characters of a view's HTML

MAX_DOMAINS = 50  # most domains of one kind that a view may name

PERMISSIONS = {"geolocation": "geolocation", "clipboardWrite": "clipboard-write"}
"""What a view may ask for -> the feature of the browser's Permissions Policy.

MCP Apps also names `camera` and `microphone`. A browser gives neither to a frame without an origin, so they are not
offered.
"""


def can_show() -> bool:
    """Whether what shows views as widgets is installed."""
    return find_spec("anywidget") is not None


def view_uri(tool: Tool | None) -> str:
    """Return the `ui://` URI of a tool's view; "" if it has none."""
    meta = tool.meta if tool is not None else None
    if not meta:
        return ""
    ui = meta.get("ui")
    uri = ui.get("resourceUri") if isinstance(ui, dict) else None
    uri = uri or meta.get("ui/resourceUri")  # as servers wrote it before 2026-01-26
    return uri if isinstance(uri, str) and uri.startswith("ui://") else ""


def is_for_apps(tool: Tool) -> bool:
    """Whether a server offers a tool to its own app, as it does unless it says otherwise."""
    ui = (tool.meta or {}).get("ui")
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return not isinstance(visibility, list) or "app" in visibility


@dataclass(frozen=True)
class View:
    """The HTML of a view, what it may load from where, and what it asks for."""

    uri: str
    html: str
    domains: Mapping[str, tuple[str, ...]]  # by kind: `connectDomains`, `resourceDomains`, ...
    refused: tuple[str, ...] = ()  # domains that are not allowed
    permissions: tuple[str, ...] = ()  # of `PERMISSIONS`, as it asks for them
    border: bool | None = None  # whether it wants a border; None if it does not say

    @property
    def policy(self) -> str:
        """The Content-Security-Policy: all is refused but what the resource names, and what the document has in it.

        Scripts inside the document may run, so `eval` adds nothing to what they can do.
        """
        of = self.domains
        inside = ("data:", "blob:")
        none = ("'none'",)
        rules = {
            "default-src": (),
            "script-src": ("'unsafe-inline'", "'unsafe-eval'", "'wasm-unsafe-eval'", *inside, *of["resourceDomains"]),
            "style-src": ("'unsafe-inline'", *of["resourceDomains"]),
            "img-src": (*inside, *of["resourceDomains"]),
            "media-src": (*inside, *of["resourceDomains"]),
            "font-src": ("data:", *of["resourceDomains"]),
            "worker-src": ("blob:",),
            "connect-src": (*inside, *of["connectDomains"]),
            "frame-src": of["frameDomains"],
            "object-src": (),
            "form-action": (),
            "base-uri": of["baseUriDomains"],
            "require-trusted-types-for": ("'script'",),  # for the guard in `host.js`
            "trusted-types": ("default",),
        }
        return "; ".join(" ".join((name, *(sources or none))) for name, sources in rules.items())


KINDS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")

_SOURCE = re.compile(
    r"(?:https?|wss?)://(?P<host>(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?:\d{1,5}|\*))?(?:/[\w./~%@+-]*)?",
    re.IGNORECASE,
)


def allowed_source(text: object) -> bool:
    """Whether a view may name a source in its policy: an address elsewhere, and no more than one site's.

    >>> allowed_source("https://*.example.com"), allowed_source("wss://example.com:8443/live")
    (True, True)
    >>> [allowed_source(each) for each in ("https:", "*", "https://*.com", "https://a.b; script-src *", "http://[::1]")]
    [False, False, False, False, False]
    """
    match = _SOURCE.fullmatch(text) if isinstance(text, str) and len(text) <= 500 else None
    if match is None:
        return False
    host = match["host"].lower()
    site = host.removeprefix("*.")
    return not is_internal_host(site) and (host.startswith("[") or "." in site)


async def within_reach(view: View) -> View:
    """Return a view without the sources whose names lead to this machine or its network."""
    sources = [source for sources in view.domains.values() for source in sources]
    hosts = {source: _SOURCE.fullmatch(source)["host"] for source in sources}  # type: ignore[index]
    inside = await asyncio.gather(*map(leads_inside, hosts.values()))
    refused = [source for source, is_inside in zip(hosts, inside, strict=True) if is_inside]
    domains = {kind: tuple(text for text in texts if text not in refused) for kind, texts in view.domains.items()}
    return replace(view, domains=domains, refused=(*view.refused, *(one_line(text, 100) for text in refused)))


def view_of(uri: str, contents: Iterable[Any], listed_meta: Mapping[str, Any] | None = None) -> View:
    """Return the view in the contents of its resource; `listed_meta` is the `_meta` of the listing.

    Raises:
        InvalidResponseError: The contents have no view.
    """
    contents = list(contents)
    document = next((item for item in contents if (item.mime_type or "").replace(" ", "").lower() == VIEW_TYPE), None)
    if document is None:
        types = join_names(one_line(str(content.mime_type), 60) for content in contents) or "nothing"
        raise InvalidResponseError(f"{one_line(uri, 200)} has no view: expected {VIEW_TYPE}, got {types}")
    meta = (document.meta or {}).get("ui", (listed_meta or {}).get("ui"))
    meta = meta if isinstance(meta, dict) else {}
    csp, permissions = _mapping(meta.get("csp")), _mapping(meta.get("permissions"))
    sources_by_kind = {kind: _texts(csp.get(kind)) for kind in KINDS}
    border = meta.get("prefersBorder")
    return View(
        uri,
        _html(uri, document),
        {kind: tuple(source for source in texts if allowed_source(source)) for kind, texts in sources_by_kind.items()},
        tuple(
            one_line(source, 100)
            for texts in sources_by_kind.values()
            for source in texts
            if not allowed_source(source)
        ),
        tuple(name for name in PERMISSIONS if name in permissions),
        border if isinstance(border, bool) else None,
    )


def _html(uri: str, content: Any) -> str:
    blob = getattr(content, "blob", None)
    try:
        html = content.text if blob is None else base64.b64decode(blob, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidResponseError(f"{one_line(uri, 200)}: its HTML cannot be read: {error}") from None
    if len(html) > MAX_HTML:
        problem = f"its HTML has {len(html):,} characters; at most {MAX_HTML:,} are shown"
        raise InvalidResponseError(f"{one_line(uri, 200)}: {problem}")
    return str(html)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)][:MAX_DOMAINS] if isinstance(value, list) else []
