"""Markdown of servers, made harmless for renderers that do not sanitise.

JupyterLab sanitises what `text/markdown` becomes; nbconvert passes raw HTML through. So raw HTML is
escaped, links lead only where a link may lead, and images become links: loading one would tell its host
who reads the notebook.
"""

from __future__ import annotations

import re

from .safe import clean

__all__ = ["harmless"]

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
# Entities are decoded in link destinations: `java&#115;cript&colon;` would come back as a scheme.
_ENTITY = re.compile(r"&(?=#|(?:colon|tab|newline|lpar|sol|num|lt|excl|lsqb|lbrack|grave|bsol);)", re.IGNORECASE)
_IMAGE = re.compile(r"!+\[")
# A destination is let through if it is http(s), mailto, or relative: no colon, entity or escape before
# its first slash, question mark, hash or end. Spelling out what is allowed needs no list of what is not.
_DESTINATION = re.compile(r"\]([(:])(?!\s*+(?:https?://|mailto:|[^\s:&\\<>()/?#]*(?:[/?#\s)]|\Z)))", re.IGNORECASE)
_ANY_DESTINATION = re.compile(r"\]([(:])")


def harmless(text: str, *, links: bool = True) -> str:
    r"""Return Markdown whose rendering holds no HTML, no script and loads nothing.

    HTML inside of code is escaped too, and shows as `&lt;`: which lines are code differs from renderer
    to renderer, and a wrong guess would let a tag through.

    Args:
        text: The Markdown.
        links: Whether links that may lead somewhere are kept; else all are shown as they are written.

    >>> harmless("# Hi <script>alert(1)</script>, 1 < 2")
    '# Hi &lt;script>alert(1)&lt;/script>, 1 < 2'
    >>> harmless("[a](https://example.com) [b](javascript:alert(1)) ![c](http://x/y.png)")
    '[a](https://example.com) [b]\\(javascript:alert(1)) [c](http://x/y.png)'
    >>> harmless("[a](https://example.com)", links=False)
    '[a]\\(https://example.com)'
    """
    text = _ENTITY.sub("&amp;", clean(text))
    text = _TAG.sub("&lt;", text)
    barred = _DESTINATION if links else _ANY_DESTINATION
    return barred.sub(r"]\\\1", _IMAGE.sub("[", text))
