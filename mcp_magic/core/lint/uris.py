"""What is wrong with URIs, URI templates and MIME types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["icon_findings", "mime_findings", "template_findings", "uri_findings"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_URI = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})")
_NOT_IN_LITERAL = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})")
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
_EXPRESSION = re.compile(rf"[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*")
_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[^\s;\"]+|\"[^\"]*\"))*")


def uri_findings(uri: str, owner: str) -> Iterator[Finding]:
    """Yield what is wrong with a URI (RFC 3986; characters beyond ASCII are those of an IRI, RFC 3987)."""
    if not _SCHEME.match(uri):
        said = "it has no scheme, so it is no URI"
        yield Finding("uri-invalid", ERROR, owner, said, "for example file:///path or notes://today")
        return
    odd = sorted({found[0] for found in _NOT_IN_URI.finditer(uri) if found[0].isascii()})
    if odd:
        said = f"the URI has {', '.join(map(repr, odd[:5]))}, which must be percent-encoded"
        yield Finding("uri-invalid", WARNING, owner, said, "encode them: a space is %20")


def template_findings(template: str, owner: str) -> Iterator[Finding]:
    """Yield what is wrong with a URI template (RFC 6570)."""
    problem = template_problem(template)
    if problem:
        yield Finding("template-invalid", ERROR, owner, f"no URI template: {problem}", "write it as RFC 6570 has it")
    elif "{" not in template:
        said = "it has no part to fill in"
        yield Finding("template-fixed", NOTE, owner, said, "list it as a resource")


def template_problem(template: str) -> str:
    """Return what is wrong with a URI template, "" if nothing.

    >>> template_problem("math://table/{n}"), template_problem("a{?q*,page:3}"), template_problem("a{b")
    ('', '', 'a { without its }')
    >>> template_problem("a/{b c}")
    '{b c} is no expression of it'
    """
    rest = template
    while rest:
        literal, opened, rest = rest.partition("{")
        if odd := _NOT_IN_LITERAL.search(literal):
            return "a } without its {" if odd[0] == "}" else f"{odd[0]!r} must be percent-encoded"
        if not opened:
            return ""
        expression, closed, rest = rest.partition("}")
        if not closed:
            return "a { without its }"
        if not _EXPRESSION.fullmatch(expression):
            return f"{{{expression[:60]}}} is no expression of it"
    return ""


def mime_findings(mime_type: str | None, owner: str) -> Iterator[Finding]:
    """Yield that a MIME type is none (RFC 6838)."""
    if mime_type is not None and not _MIME.fullmatch(mime_type):
        said = f"{mime_type[:80]!r} is no MIME type"
        yield Finding("mime-invalid", WARNING, owner, said, "for example text/plain or application/json")


def icon_findings(sources: list[str], owner: str) -> Iterator[Finding]:
    """Yield icons that no host should load: the specification allows https: and data:."""
    for source in sources:
        scheme = source.partition(":")[0].lower()
        if scheme not in ("https", "data", "http"):
            said = f"an icon comes from {scheme[:20]}:, which no host should load"
            yield Finding("icon-unsafe", ERROR, owner, said, "https: or data:")
