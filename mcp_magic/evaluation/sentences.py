"""The sentences of a description, in any language, and the description without one of them.

A description is text as people and docstrings write it: paragraphs, with or without wrapped lines, lists, headings,
arguments in lines such as `name: text`, code. A line of a list, and code between fences, is never divided from its
mark. Where it is not clear that a sentence ends, it does not: half a sentence less is another text, not a shorter one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]

MAX_BRACKETED = 2000  # characters in brackets that are kept together

WRAPPED = 50  # columns of the longest line of a text from which on its lines may be wrapped ones

_FENCE = re.compile(r"\s*(```|~~~)")
_MARK = re.compile(r"\s*(?:(?:[-*+•‣▪\u2013\u2014>]|\(?(?:\d{1,3}|[A-Za-z])[.)]|#{1,6})\s+|\|)")
_FIELD = re.compile(r"\s*[*_`]{0,3}[\w.$\[\]-]{1,60}[*_`]{0,3}(?:\s?\([^()\n]{0,80}\))?\s?:(?:\s|$)")
_QUOTED = re.compile(r"`[^`\n]{1,300}`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|「[^」\n]{1,300}」")
_END = re.compile(
    r"(?:(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s)|[。！？｡](?![。！？｡」』）”])|[।॥؟۔։።။។]+[\"'”’»)\]]*)\s*"  # noqa: RUF001
)
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # e.g, z.B, an initial

_ABBREVIATIONS = re.compile(
    "approx|av|bzw|ca|cf|co|corp|dept|dr|ed|eqs?|est|evtl|ex|figs?|ggf|incl|inkl|inc|jr|ltd|mrs?|ms|prof|resp|sec|señor|"
    "sra?|srta|st|tel|vgl|viz|vol|vs|напр|стр",
    re.IGNORECASE,
)
_BEFORE_NUMBERS = re.compile("nos?|nr|núm|max|min|pp?|pág|art|abs|chap|ch|ver|v", re.IGNORECASE)

_BEFORE_UNITS = ("in", "or", "to", "is", "degrees")  # "in C." ends a sentence, an initial as in "by J. Doe" does not

_BRACKETS = {")": "(", "]": "[", "}": "{"}


def sentence_spans(text: str) -> list[Span]:
    r"""Return where the sentences of a text begin and end.

    >>> text = "Costs 3.5 EUR, e.g. in Oslo (v1. Beta.). See https://a.b/c.d! Args:\n  city: One. Two.\n"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['Costs 3.5 EUR, e.g. in Oslo (v1. Beta.).', 'See https://a.b/c.d!', 'Args:', 'One.', 'Two.']
    """
    kept = _kept_together(text)
    edges: list[int] = []  # where each begins with its mark
    starts: list[int] = []
    for start, end, is_code in _blocks(text):
        mark = None if is_code else _MARK.match(text, start, end) or _FIELD.match(text, start, end)
        further = () if is_code else _sentence_starts(text, mark.end() if mark else start, end)
        others = [at for at in further if not kept[at]]
        if not kept[start]:
            edges.append(start)
            starts.append(mark.end() if mark and others else start)
        edges += others
        starts += others
    spans: list[Span] = []
    for start, end in zip(starts, [*edges[1:], len(text)], strict=False):
        piece = text[start:end]
        if any(map(str.isalnum, piece)):
            spans.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
    return spans


def without(text: str, span: Span) -> str:
    r"""Return a text without one of its sentences; paragraphs and lines stay apart.

    >>> without("One. Two.\n\nThree.", (5, 9))
    'One.\n\nThree.'
    """
    before, after = text[: span[0]], text[span[1] :]
    head, tail = before.rstrip(), after.lstrip()
    left, right = before[len(head) :], after[: len(after) - len(tail)]
    if not head or not tail:
        return (left.rpartition("\n")[2] + tail if tail else head) if head or tail else ""
    if "\n" not in right:
        return head + (left if "\n" in left else right or left) + tail
    return head + "\n" * max(left.count("\n"), right.count("\n")) + right.rpartition("\n")[2] + tail


def _kept_together(text: str) -> bytearray:
    """Return for each character whether no sentence begins there: within quotes, backticks and closed brackets."""
    kept = bytearray(len(text) + 1)

    def keep(start: int, end: int) -> None:
        kept[start + 1 : end] = b"\1" * (end - start - 1)

    for match in _QUOTED.finditer(text):
        keep(*match.span())
    opened: list[int] = []
    for match in re.finditer(r"[()\[\]{}]", text):
        if match[0] not in _BRACKETS:
            opened.append(match.start())
        elif opened and text[opened[-1]] == _BRACKETS[match[0]]:
            start = opened.pop()
            if match.end() - start <= MAX_BRACKETED:
                keep(start, match.end())
    return kept


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where paragraphs, lines of lists and fenced code begin and end, and whether it is code."""
    lines = text.splitlines(keepends=True)
    longest = max((len(line.rstrip()) for line in lines), default=0)
    start = offset = 0
    fence, before = "", ""
    for line in lines:
        bare, mark = line.strip(), _FENCE.match(line)
        if fence:
            if bare.startswith(fence):
                yield start, offset + len(line), True
                start, fence, bare = offset + len(line), "", ""
        elif mark or _begins(line, before, longest):
            if start < offset:
                yield start, offset, False
            start, fence = offset, mark[1] if mark else ""
        before, offset = bare, offset + len(line)
    if start < offset:
        yield start, offset, bool(fence)


def _begins(line: str, before: str, longest: int) -> bool:
    """Whether a line begins something, and does not go on with the line before."""
    bare = line.strip()
    if not bare or not before or before.endswith(":") or _MARK.match(line) or _FIELD.match(line):
        return True
    is_wrapped = longest >= WRAPPED and len(before) + 1 + len(bare.split()[0]) > longest
    return not is_wrapped and not bare[0].islower()


def _sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where further sentences begin in a paragraph, or in a line after its mark."""
    for match in _END.finditer(text, start, end):
        after = match.end()
        if after >= end or text[after].islower():
            continue
        [before, word] = ["", "", *text[max(start, match.start() - 40) : match.start()].split()][-2:]
        word = word.lstrip("([{\"'`“«*_")
        if word.isupper() and before in _BEFORE_UNITS:
            yield after
            continue
        short = [_LETTERS, _ABBREVIATIONS, *([_BEFORE_NUMBERS] if text[after].isdigit() else [])]
        if match[0].rstrip() != "." or not any(words.fullmatch(word) for words in short):
            yield after
