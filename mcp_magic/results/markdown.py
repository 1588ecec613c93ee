"""Markdown of servers, made harmless for renderers that do not sanitise.

JupyterLab sanitises what `text/markdown` becomes; nbconvert passes raw HTML through. So raw HTML is
escaped, links lead only where a link may lead, and images become links: loading one would tell its host
who reads the notebook. For the same reason a block of code names no language but one that is only coloured
(JupyterLab draws `mermaid`, which loads images and fonts), and formulas have no commands that style, link or define.

All Markdown that a server wrote passes `harmless` before it is shown.
"""

from __future__ import annotations

import re

from .safe import clean

__all__ = ["code_language", "harmless"]

LANGUAGES = frozenset(
    """
    bash c c# c++ console cpp cs csharp css csv diff go html ini java javascript js json json5 jsonc
    jsonl kotlin lua make markdown md perl php plain plaintext powershell py pycon python python3 r rb
    rs ruby rust scala sh shell sql swift text toml tsx ts txt typescript xml yaml yml zsh
    """.split()  # noqa: SIM905
)
"""Languages of code that frontends colour, and do nothing else with."""

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
# Entities are decoded in link destinations: `java&#115;cript&colon;` would come back as a scheme.
_ENTITY = re.compile(r"&(?=#|(?:colon|tab|newline|lpar|sol|num|lt|excl|lsqb|lbrack|grave|bsol);)", re.IGNORECASE)
_IMAGE = re.compile(r"(?<!!)!++\[")
# A destination is let through if it is http(s), mailto, or relative: no colon, entity or escape before
# its first slash, question mark, hash or end. Spelling out what is allowed needs no list of what is not.
_DESTINATION = re.compile(r"\]([(:])(?!\s*+(?:https?://|mailto:|[^\s:&\\<>()/?#]*(?:[/?#\s)]|\Z)))", re.IGNORECASE)
_ANY_DESTINATION = re.compile(r"\]([(:])")
# A fence, and what it names: behind the marks of lists, quotes and definitions too, and with the colons of MyST. Behind
# backticks no other may follow: that is code within a line.
_FENCE = re.compile(r"^((?:[^A-Za-z`~:\n\r]|:(?!::))*+(?:`{3,}+(?![^\n\r]*`)|~{3,}+|:{3,}+))([^\n\r]*)", re.MULTILINE)
# Commands of TeX that style, link, load or define for the whole page (MathJax, KaTeX).
_COMMAND = re.compile(
    r"\\(?=(?:style|class|cssId|data|bbox|href|url|require|includegraphics|unicode|mmlToken|html[A-Za-z]*"
    r"|[egx]?def|(?:future|global)?let|global|long|(?:re)?new(?:command|environment)|provide(?:command|environment)"
    r"|Declare[A-Za-z]*|define[A-Za-z]*|csname)(?![A-Za-z]))"
)


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
    >>> harmless("```mermaid\nflowchart\n```\n```python\n1\n```")
    '```\nflowchart\n```\n```python\n1\n```'
    >>> harmless(r"$\frac{1}{2} \href{x}{y}$")
    '$\\frac{1}{2} \\ href{x}{y}$'
    """
    text = _ENTITY.sub("&amp;", clean(text))
    text = _TAG.sub("&lt;", text)
    text = _COMMAND.sub(r"\\ ", text)
    barred = _DESTINATION if links else _ANY_DESTINATION
    text = barred.sub(r"]\\\1", _IMAGE.sub("[", text))
    return _FENCE.sub(lambda found: found[1] + code_language(found[2]), text)


def code_language(info: str) -> str:
    """Return the language that a block of code names, if frontends only colour it; else "".

    >>> code_language(" Python title=x"), code_language("mermaid"), code_language("{figure} http://x/y.png")
    ('python', '', '')
    """
    language = next(iter(info.split(maxsplit=1)), "").lower()
    return language if language in LANGUAGES else ""
