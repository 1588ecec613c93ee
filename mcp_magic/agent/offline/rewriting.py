"""Arithmetic as people write it, in words that name operations: `3 * 4`, `5!`, "7 squared", "double it"."""

from __future__ import annotations

import re

from mcp_magic.agent.offline.mentions import quotations

__all__ = ["spelt_out"]

_N = r"(?<!\d)(?<!\d[.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?"
_X = rf"(?:{_N}|it|that|the (?:result|answer)|\b[a-z]+)"

_ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

_RULES: tuple[tuple[str, str], ...] = (
    (rf"({_N})\s*(?:\*\*|\^)\s*({_N})", r"\1 to the power of \2"),
    (rf"({_N})\s*[*\u00d7\u00b7]\s*({_N})", r"\1 times \2"),
    (rf"(?<![\w/.:])({_N})\s*[/\u00f7]\s*({_N})(?![\w/])", r"\1 divided by \2"),
    (rf"({_N})\s*\+\s*({_N})", r"\1 plus \2"),
    (rf"(?<![-\w])({_N})\s+[-\u2212\u2013]\s+({_N})", r"\1 minus \2"),
    (rf"^(\W*(?:what(?:'s| is)|calculate|compute|how much is)?\s*)({_N})\s+x\s+({_N})(?=\s*\W*$)", r"\1\2 times \3"),
    (rf"({_N})\s+over\s+({_N})", r"\1 divided by \2"),
    (r"(?<![\w.])(\d+)!(?!\w)", r"factorial of \1"),
    (rf"\b({_X})\s+squared\b", r"\1 to the power of 2"),
    (rf"\b({_X})\s+cubed\b", r"\1 to the power of 3"),
    (rf"\b(?:the )?square (?:of )?({_N}|it|that|the result)\b", r"\1 to the power of 2"),
    (rf"\b(?:the )?cube (?:of )?({_N}|it|that|the result)\b", r"\1 to the power of 3"),
    (rf"\b({_N}) to the (\d+)(?:st|nd|rd|th)\b(?: power)?", r"\1 to the power of \2"),
    *(
        (rf"\bto the {word}(?: power)?\b", f"to the power of {number}")
        for number, word in enumerate(_ORDINALS, start=2)
    ),
    (
        r"\b((?:the )?(?:next|coming)|for|wait|over|lasting|within|takes) (?:an? )?(second|minute|hour|week)\b",
        r"\1 1 \2",
    ),
    (r"\bhalf an? (hour|minute|second)\b", r"0.5 \1"),
    (rf"\btake\s+({_X})\s+(?:away\s+)?from\s+({_X})", r"subtract \1 from \2"),
    (rf"\bdouble\s+({_X})\b", r"multiply \1 by 2"),
    (rf"\btriple\s+({_X})\b", r"multiply \1 by 3"),
    (rf"\b(?:halve|half of)\s+({_X})\b", r"divide \1 by 2"),
)


def spelt_out(text: str) -> str:
    """Return a request with arithmetic in words; what is in quotes stays as it is.

    >>> spelt_out("What is 3 * 4.5?"), spelt_out("5!"), spelt_out("double it"), spelt_out("echo '2 + 2'")
    ('What is 3 times 4.5?', 'factorial of 5', 'multiply it by 2', "echo '2 + 2'")
    >>> spelt_out("from 2026/01/02 on"), spelt_out("2 to the 10th power")
    ('from 2026/01/02 on', '2 to the power of 10')
    """
    parts = []
    end = 0
    for quoted in quotations(text):
        parts += [_rewritten(text[end : quoted.start]), text[quoted.start : quoted.end]]
        end = quoted.end
    return "".join([*parts, _rewritten(text[end:])])


def _rewritten(text: str) -> str:
    for pattern, words in _RULES:
        for _ in range(2):  # "1 + 2 + 3": each match takes two of the numbers
            text = re.sub(pattern, words, text, flags=re.IGNORECASE)
    return text
