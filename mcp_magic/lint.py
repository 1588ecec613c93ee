"""The lint of a server's definitions, from unclear names to hidden text."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import did_you_mean, join_names
from mcp_magic._unicode import CONTROLS, DIRECTIONS, JOINERS, PRIVATE, SELECTORS, SHAPELESS, TAGS, ZERO_WIDTH, script
from mcp_magic.display import document
from mcp_magic.display.document import Part, terminal_width
from mcp_magic.display.json import brief
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import shorten
from mcp_magic.schema.engine import DRAFT_3, DRAFTS, CompiledSchema, schema_problem
from mcp_magic.schema.patterns import MAX_NODES, is_checked
from mcp_magic.schema.repair import SCHEMA_LISTS, SCHEMA_TABLES, SINGLE_SCHEMAS, repair
from mcp_magic.schema.resolve import REFERENCES, Resolver
from mcp_magic.schema.validate import is_bounded

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool


# The results: single findings, and a listing of all.

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Severities: breaks or hides something; will cause trouble; could be better."""

_ORDER = (ERROR, WARNING, NOTE)
_MARKS = {ERROR: "✗ error", WARNING: "! warning", NOTE: "· note"}


class Finding(NamedTuple):
    """One problem of a definition: its code, severity and place, the problem (not escaped), and what to do about it.

    `server` is its server, where findings of several are together.
    """

    code: str
    severity: str
    where: str
    problem: str
    todo: str
    server: str = ""

    @property
    def place(self) -> str:
        """The place, with the server in front if there are several."""
        return f"{self.server}: {self.where}" if self.server else self.where

    def masked(self, mask: Callable[[str], str]) -> Finding:
        """Return it with secrets masked in its texts."""
        return self._replace(where=mask(self.where), problem=mask(self.problem), todo=mask(self.todo))


class Findings(Listing):
    """A listing of findings, the worst first."""

    def __init__(self, findings: Iterable[Finding], *, title: str = "Lint", looked_at: str = "") -> None:
        self.findings = sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
        columns = ("severity", "code", "where", "what", "to do")
        super().__init__(
            [
                dict(
                    zip(
                        columns,
                        (_MARKS[finding.severity], finding.code, finding.place, finding.problem, finding.todo),
                        strict=True,
                    )
                )
                for finding in self.findings
            ],
            title=title,
            columns=columns,
            empty=f"no problems found: {looked_at}" if looked_at else "no problems found",
            note=f"checked {looked_at}: {severity_counts(self.findings)}" if looked_at and self.findings else "",
            kind="findings",
        )

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        rows = [
            {
                "": row["severity"],
                "code": row["code"],
                "where": row["where"],
                "what, and what to do": f"{row['what']} → {row['to do']}",
            }
            for row in self.rows
        ]
        [part] = Listing(rows, title=self.title, empty=self.empty, note=self.note, kind=self.kind).parts()
        return [Part(self._plain(), part.html) if rows else part]

    def _plain(self) -> str:
        width = max(min(terminal_width(), 120), 40)
        lines = [self.title]
        for row in self.rows[: document.display.listing_rows]:
            lines.append(f"{row['severity']}: {shorten(row['where'], width)} [{row['code']}]")
            lines += wrapped(shorten(row["what"], 600), width, "    ")
            lines += wrapped(f"→ {row['to do']}", width, "    ")
        rest = len(self) - document.display.listing_rows
        more = f"… {rest:,} more findings: .df has all {len(self):,}" if rest > 0 else ""
        return "\n".join(line for line in (*lines, more, self.note) if line)

    def of(self, severity: str) -> list[Finding]:
        """Return the findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def masked(self, mask: Callable[[str], str]) -> Findings:
        """Return them with secrets masked in all texts."""
        masked = Findings([finding.masked(mask) for finding in self.findings], title=self.title)
        masked.note, masked.empty = self.note, self.empty
        return masked

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.of("error")

    @property
    def codes(self) -> set[str]:
        """The codes of the findings."""
        return {finding.code for finding in self.findings}

    def __repr__(self) -> str:
        return f"<Findings: {severity_counts(self.findings)}>"


def wrapped(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """Return text as indented lines of at most `width` characters; long words stay whole."""
    flat = " ".join(text.split())
    start = indent if first is None else first
    lines = textwrap.wrap(
        flat, width, initial_indent=start, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or [start]


def severity_counts(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each severity."""
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[name]} {name}{'s' if counts[name] > 1 else ''}" for name in _ORDER if counts[name]]
    return ", ".join(parts) or "nothing found"


# Characters that a model reads but a person does not see. Legitimate uses are allowed: joiners in emoji and in scripts
# that need them, flags, variation selectors after a character that has variants.

MAX_POINTS = 4  # most code points that a message names, with their positions

_HIDDEN_KINDS = {
    "tag characters": re.compile(f"[{TAGS}]"),
    "bidirectional controls": re.compile(f"[{DIRECTIONS}]"),
    "zero-width characters": re.compile(f"[{ZERO_WIDTH}{SHAPELESS}{JOINERS}]"),
    "invisible selectors": re.compile(rf"[{SELECTORS}]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"),
    "private use characters": re.compile(f"[{PRIVATE}]"),
    "control characters": re.compile(rf"(?!\r)[{CONTROLS}]"),
}
MAX_CHARACTERS = 200_000  # most characters of a text that are checked; each hidden one needs a look at those around it

_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
_ANY = re.compile("|".join(pattern.pattern for pattern in _HIDDEN_KINDS.values()))

_NO_JOINERS = ("LATIN", "GREEK", "CYRILLIC", "DIGIT", "CJK", "HANGUL", "HIRAGANA", "KATAKANA")
_ALIKE = frozenset(("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC"))


class Hidden(NamedTuple):
    """The hidden characters of one kind in a text: their code points and positions, and what tag characters spell."""

    kind: str
    points: str
    says: str = ""


def hidden(text: str) -> list[Hidden]:
    """Return the hidden characters in the first `MAX_CHARACTERS` characters of a text, one row per kind."""
    text = text[:MAX_CHARACTERS]
    if text.isascii() and text.isprintable():
        return []
    text = _FLAG.sub(lambda match: " " * len(match[0]), text)
    rows = []
    for kind, pattern in _HIDDEN_KINDS.items():
        places = [match.start() for match in pattern.finditer(text) if not _is_legitimate(text, match.start())]
        if places:
            letters = [chr(ord(text[at]) - 0xE0000) for at in places if "\U000e0020" <= text[at] <= "\U000e007e"]
            rows.append(Hidden(kind, _points(text, places), "".join(letters)[:80]))
    return rows


def unhidden(text: str) -> str:
    """Return a text as a model may read it: tag characters as the letters they stand for, others removed, NFKC."""
    tags = "".join(chr(ord(c) - 0xE0000) if "\U000e0020" <= c <= "\U000e007e" else c for c in text)
    return unicodedata.normalize("NFKC", _ANY.sub(lambda match: " " if match[0] == "\x0b" else "", tags))


def _lookalikes(name: str) -> str:
    """Return which scripts with similar letters a name mixes, or "" if it does not."""
    if name.isascii():
        return ""
    scripts: dict[str, int] = {}
    for place, letter in enumerate(name):
        first = script(letter)
        if first in ("FULLWIDTH", "MATHEMATICAL"):
            return f"letters that only look like Latin ({_points(name, [place])})"
        if first in _ALIKE and letter.isalpha():
            scripts.setdefault(first, place)
    if len(scripts) < 2:
        return ""
    odd = next(place for script, place in scripts.items() if script != "LATIN")
    return f"{' and '.join(scripts)} ({_points(name, [odd])})"


def _is_legitimate(text: str, place: int) -> bool:
    """Whether a joiner or mark is at a place where scripts and emoji need it."""
    if text[place] not in "\u061c\u180b\u180c\u180d\u180f\u200c\u200d\u200e\u200f":
        return False
    before, after = text[max(0, place - 20) : place].rstrip("\ufe0f")[-1:], text[place + 1 : place + 2]
    if text[place] in "\u200c\u200d":
        return _joins(before) and _joins(after)
    if text[place] in "\u200e\u200f\u061c":  # direction marks: legitimate next to Arabic and Hebrew words
        return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text[max(0, place - 20) : place + 20])
    return unicodedata.name(before or " ", "").startswith("MONGOLIAN")


def _joins(letter: str) -> bool:
    if not letter:
        return False
    name = unicodedata.name(letter, "")
    kind = unicodedata.category(letter)
    return kind in ("So", "Sk") or (kind[0] in "LM" and not name.startswith(_NO_JOINERS))


def _points(text: str, places: list[int]) -> str:
    points = [f"U+{ord(text[p]):04X} {unicodedata.name(text[p], '')}".strip() + f" at {p}" for p in places[:MAX_POINTS]]
    more = f" and {len(places) - MAX_POINTS:,} more" if len(places) > MAX_POINTS else ""
    return ", ".join(points) + more


# Text of a definition that gives the model instructions about something other than the tool. The heuristics avoid false
# alarms on honest servers: a person must read each match, and no match proves nothing. Sources: the published attacks
# "tool poisoning", "tool shadowing" and "full-schema poisoning".

MAX_INSTRUCTIONS = 100_000  # most characters of a text that are checked
_ORDERS = "instructions?|prompts?|rules|guidelines|directives|directions|constraints|training"
_KEEP = "tell|mention|inform|reveal|disclose|notify|show|alert|warn"
_SECRETS = (
    r"(?:~|\$HOME|%USERPROFILE%)?[/\\]?\.(?:ssh|aws|gnupg|kube|docker)[/\\][\w./\\*-]*"
    r"|(?<![a-z])id[_ ](?:rsa|dsa|ecdsa|ed25519)\b"
    r"|\.netrc\b|\.git-credentials\b|\.pypirc\b|\.npmrc\b|/etc/(?:passwd|shadow)\b|\bauthorized_keys\b"
    r"|\.(?:cursor|claude|vscode)[/\\][\w.-]+|\bclaude_desktop_config\.json\b|(?<![\w.])\.?mcp\.json\b"
)
_TAKE = (
    "read(?:ing)?(?! by)|open|cat|load|include|pass|send|provide|attach|upload|access(?! tokens?| keys?)|fetch|get|copy"
    "|paste|put|append|with path|hold|contain|contents? of|written in|what is in"
)
_PRIVATE = (
    r"(?:system|hidden) prompts?|(?:conversation|chat|message) history"
    r"|(?:whole|entire|full|complete|previous) conversation"
    r"|(?:user|chat) messages|tool results|credential files?"
    r"|api[ _-]?keys?|private keys?|ssh keys?|environment variables|access tokens?"
)

# The same in other languages: German, French, Spanish and Portuguese, Italian, Russian, Chinese, Japanese, Korean.
_FOREIGN_IGNORE = (
    r"\b(?:ignorier|missacht|vergiss|vergesse)\w*[^.\n]{0,40}\b(?:anweisung|instruktion|vorgabe|regel)\w*"
    r"|\b(?:ignor(?:e[zr]?|a|ad|en|i)|oublie[zr]?|olvida|esque[çc]a|dimentica)\b[^.\n]{0,40}"
    r"\b(?:instructions|consignes|instrucciones|instru[çc][õo]es|istruzioni|r[èe]gles|reglas)\b"
    r"|(?:игнорируй|забудь|не обращай внимания)\w*[^.\n]{0,40}(?:инструкци|указани|правил)"
    r"|(?:忽略|无视|忘记|不要遵守)[^。\n]{0,20}(?:指令|指示|提示|规则)"
    r"|(?:指示|命令|ルール)[^。\n]{0,12}(?:無視|忘れ)|(?:지시|명령|지침)[^.\n]{0,12}(?:무시|잊)"
)
_FOREIGN_SECRECY = (
    r"\b(?:sag|teil|erwähn|informier|verrat|zeig)\w*[^.\n]{0,40}(?:benutzer|nutzer|anwender)\w*[^.\n]{0,30}"
    r"\b(?:nicht|nichts|kein\w*)\b"
    r"|\bne (?:le |lui )?(?:di[st]|dites|parle|r[ée]v[èe]le|informe|mentionne)\w*[^.\n]{0,30}\butilisateur"
    r"|\b(?:no|não|non)\s(?:l[eo] |al? )?(?:dig|inform|mencion|revel|dir|menzion)\w*[^.\n]{0,30}"
    r"\b(?:usuario|usuário|utente)"
    r"|не (?:сообща|говори|рассказыва|показыва)\w*[^.\n]{0,30}пользовател"
    r"|(?:不要|别|勿)(?:告诉|通知|告知|让)[^。\n]{0,6}用户"
    r"|ユーザー[^。\n]{0,8}(?:知らせない|知らせず|伝えない|言わない|教えない)|사용자[^.\n]{0,10}(?:알리지|말하지)"
)

_PATTERNS = (
    (
        "tells the model to ignore its instructions",
        rf"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{{0,40}}"
        rf"\b(?:previous|prior|above|earlier|preceding|all|any|other|your|system|user'?s?)\b[^.\n]{{0,30}}\b(?:{_ORDERS})\b",
    ),
    (
        "tells the model to keep something from you",
        rf"\b(?:do not|don'?t|never|must not|mustn'?t|should not|without|avoid)\b(?! forget)[^.\n]{{0,25}}\b(?:{_KEEP})"
        rf"(?:ing)?\b[^.;\n]{{0,30}}\b(?:the |to )*(?:user|human|person|anyone|anybody)\b(?!['\u2019]s)"
        r"(?! (?:more than|twice|again))",
    ),
    (
        "has mark-up that models take for orders",
        r"<\s*/?\s*(?:important|system|secret|hidden|admin|override|critical|instructions?)\s*>"
        r"|<\|(?:im_start|im_end|system|endoftext)\|>|\[/?(?:INST|SYSTEM)\]|<</?SYS>>",
    ),
    ("asks for files that hold secrets", rf"\b(?:{_TAKE})\b[^\n]{{0,80}}?(?:{_SECRETS})"),
    (
        "asks for what the conversation holds, or for keys",
        rf"\b(?:send|post|upload|forward|exfiltrate|leak|transmit|include|copy|paste|pass)\b[^.\n]{{0,30}}"
        rf"\b(?:the|your|all|any|its|every|user'?s?|full|entire)\s[^.\n]{{0,20}}\b(?:{_PRIVATE})\b",
    ),
    (
        "speaks about other tools",
        r"\b(?:before|prior to|instead of|whenever|when|after)\s+(?:using|calling|invoking|running)\s+"
        r"(?:any|all|every|the other|another)\b[^.\n]{0,30}\b(?:tools?|functions?)\b"
        r"|\bwhen(?:ever)?\b[^.\n]{0,60}\b(?:tool|function|mcp)\b[^.\n]{0,40}\b(?:is|are|gets?|has been)\s"
        r"(?:called|used|invoked|run)\b[^.\n]{0,80}\b(?:must|always|instead)\b"
        r"|\b(?:do not|don'?t|never) (?:use|call|invoke) (?:any )?other (?:\w+ )?(?:tools?|functions?|servers?)\b"
        r"|\b(?:any|every|all|each) (?:other )?tools?(?: calls?)? (?:from|of|on) (?:any|every|all|each|other) "
        r"(?:other )?servers?\b"
        r"|\b(?:before|prior to|ahead of) (?:any|every|all|each) (?:other )?(?:tools?|functions?)\b"
        r"|\bfor (?:any|every|all|each) (?:requests?|questions?|messages?|prompts?)\b[^.\n]{0,30}"
        r"\b(?:always|must|first)\b"
        r"|\bprefer(?:red)?\b[^.\n]{0,30}\b(?:all|any|every) other\b[^.\n]{0,30}\b(?:tools?|functions?|servers?)\b"
        r"|\bbefore\b[^.\n]{0,30}\b(?:any|every|each)\b[^.\n]{0,60}\balways (?:prefix|prepend|append|add|include)\b",
    ),
    (
        "gives the model a new role",
        r"\b(?:system|admin|developer) override\b|\bnote to (?:the )?(?:ai|model|assistant|llm)\b"
        r"|\b(?:user|operator|admin\w*) has (?:already (?:approved|consented|confirmed|granted)|granted consent)\b"
        r"|\bno (?:further )?(?:confirmation|approval|consent) (?:is )?(?:needed|required|necessary)\b"
        r"|\b(?:skip|without) (?:any|the user'?s?) (?:confirmation|approval|consent)\b"
        r"|\byou are (?:now|no longer)\b|\bnew (?:system )?(?:instructions|prompt)\s*:"
        r"|\bact as (?:if )?(?:the )?(?:root|admin)",
    ),
    (
        "gives orders for the whole conversation",
        r"\bfrom now on\b"
        r"|\bfor the (?:rest|remainder|whole|entire)(?: of (?:the|this))? (?:conversation|session|chat)\b",
    ),
    (
        "names a recipient",
        r"\b(?:send|forward|mail|transmit|recipient|bcc)\b[^\n]{0,80}?"
        r"\b(?:to|becomes|is|at|as)\s+(?:\+\d{8,}|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",
    ),
    ("tells the model to ignore its instructions", _FOREIGN_IGNORE),
    ("tells the model to keep something from you", _FOREIGN_SECRECY),
    ("hides text far out of sight", r"\S[ \t\u00a0]{120,}\S|\S(?:[ \t]*\n){30,}[ \t]*\S"),
    # not where it is quoted, or alone
    (
        "has an HTML comment, which no page shows",
        r"(?!(?<=([`'\"]))<!--(?:[^`\n]{0,60}?-->|\[if \w+\]>)?\1)<!--(?!\s*-->)\s*\S",
    ),
)
_COMPILED = tuple((seems, re.compile(pattern, re.IGNORECASE)) for seems, pattern in _PATTERNS)
_TRIGGER = re.compile(
    r"(?i)ignore|id |disregard|forget|override|bypass|not|never|without|avoid|[<\[]|\.\w|/etc|id_|keys|json|send|post"
    r"|upload|forward|leak|include|copy|pass|using|calling|invoking|running|when|you are|new |act as|\s{30}|before"
    r"|prefer|has |no |any |every |all |each |for the|from now|recipient|bcc|mail|ignor|olvida|oubli|vergiss|missacht"
    r"|nutzer|utilisateur|[^\x00-\x7f]"
)
_PLAIN_BASE64 = str.maketrans("-_", "+/")
_EXAMPLE = re.compile(r"(?i)e\.g\.|for example|such as|\blike\b")
_ABOUT_INJECTIONS = re.compile(r"(?i)\b(?:detect|scan|look|find|flag|check|test)(?:s|ing)?\b[^.\n]{0,60}$")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{40,}={0,2}(?![\w+/=-])")
_SENTENCE = re.compile(r"(?:[A-Za-z',.]+ ){5,}[A-Za-z]+")
MAX_DECODED = 20  # most words of a text that are decoded


def suspicions(text: str) -> list[tuple[str, str]]:
    """Return the parts of a text that look like instructions to a model: what each seems to do, and its words."""
    text = text[:MAX_INSTRUCTIONS]
    if not text.isascii():
        text = unhidden(text)
    if text.isidentifier():  # the name of an argument can ask, too
        text = text.replace("_", " ")
    encoded = [("holds a text in base64", words) for words in _encoded(text)]
    if not _TRIGGER.search(text):
        return encoded
    results: dict[str, str] = dict(encoded)
    for seems, pattern in _COMPILED:
        match = pattern.search(text) if seems not in results else None
        if match and not _is_example(text, match):
            results[seems] = " ".join(match[0].split())[:100]
    return list(results.items())


def _is_example(text: str, match: re.Match[str]) -> bool:
    """Whether words are an address as an example, or in quotation marks what a tool looks for."""
    start, end = match.span()
    if "@" in match[0] and _EXAMPLE.search(match[0]):
        return True
    is_quoted = text[start - 1 : start] in tuple("'\"`“") and text[end : end + 1] in tuple("'\"`”,.")
    return is_quoted and _ABOUT_INJECTIONS.search(text[max(0, start - 120) : start - 1]) is not None


def _encoded(text: str) -> Iterator[str]:
    """Yield the sentences that a text has in base64."""
    for match in itertools.islice(_BASE64.finditer(text), MAX_DECODED):
        word = match[0].rstrip("=")[:800].translate(_PLAIN_BASE64)
        with suppress(ValueError):
            decoded = base64.b64decode(word[: len(word) // 4 * 4]).decode("utf-8", "replace")
            if sentence := _SENTENCE.search(decoded):
                yield sentence[0][:100]


# Descriptions and texts: missing, too long, hidden, or meant for the model alone.

CHARACTERS_A_TOKEN = 4  # rule of thumb of the providers; JSON may need a few more tokens
LONG_DESCRIPTION = 4000  # characters from which a description counts as long


def _described(text: str | None, owner: str, severity: str = WARNING) -> Iterator[Finding]:
    if text is None or not text.strip():
        problem = f"the description is {'missing' if text is None else 'empty'}; a model has only the name to go by"
        yield Finding("description-missing", severity, owner, problem, "say in a sentence what it does and returns")
    elif len(text) > LONG_DESCRIPTION:
        tokens = len(text) // CHARACTERS_A_TOKEN
        problem = f"the description has {len(text):,} characters, about {tokens:,} tokens at each turn of a model"
        yield Finding("description-long", WARNING, owner, problem, "keep what a model needs to choose and call it")


def _text_findings(placed: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Yield hidden characters in texts, each with its place, and parts that look like instructions."""
    visited: set[tuple[str, str]] = set()
    for where, text in placed:
        if (where, text) in visited:
            continue
        visited.add((where, text))
        for characters in hidden(text):
            says = f"; as letters they say {characters.says!r}" if characters.says else ""
            severity = WARNING if characters.kind == "private use characters" else ERROR  # icon fonts use these
            problem = f"invisible {characters.kind}: {characters.points}{says}"
            yield Finding("hidden-unicode", severity, where, problem, "remove them; until then, do not trust the text")
        for seems, words in suspicions(text):
            problem = f"it {seems}: {words!r}"
            yield Finding("instruction-like", WARNING, where, problem, "read it: is that what the tool needs?")


# Names.

MAX_NAME = 64  # most characters that OpenAI and Anthropic accept in a tool's name (`^[a-zA-Z0-9_-]{1,64}$`)

_PROVIDERS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPECIFIED = re.compile(r"[A-Za-z0-9._-]{1,128}")
_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def _name_findings(name: str, server: str, owner: str) -> Iterator[Finding]:
    """Yield the problems of a tool's name, before which hosts put the server's (specification, "Tool Names")."""
    if not name:
        yield Finding("name-empty", ERROR, owner, "the name is empty", "give it a name")
        return
    if scripts := _lookalikes(name):
        problem = f"the name mixes letters that look alike: {scripts}"
        yield Finding("name-lookalike", ERROR, owner, problem, "write it in one script")
    if not _PROVIDERS.fullmatch(name):
        legal = "" if _SPECIFIED.fullmatch(name) else ", and the specification advises against it"
        problem = f"model providers reject the name{_why_not(name)}{legal}; hosts have to change it"
        yield Finding("name-provider", WARNING, owner, problem, f"up to {MAX_NAME} letters, digits, _ and -")
    elif (length := len(server) + 2 + len(name)) > MAX_NAME:
        problem = (
            f"as {server}__{name} it has {length} characters; model providers allow {MAX_NAME}, so it is shortened"
        )
        yield Finding("name-long", NOTE, owner, problem, "a shorter name, of the tool or of the server")


def _why_not(name: str) -> str:
    odd = sorted({letter for letter in name if not _PROVIDERS.fullmatch(letter)})
    if odd:
        return " (it has " + ", ".join(f"{c!r}" if c.isascii() else f"U+{ord(c):04X}" for c in odd[:5]) + ")"
    return f" (it has {len(name)} characters)"


def _duplicate_findings(names: Sequence[str], kind: str) -> Iterator[Finding]:
    """Yield names or URIs that occur more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            problem = f"it is listed {count} times; only one of them can be reached"
            yield Finding("name-duplicate", ERROR, f"{kind} {name}", problem, "give each a name of its own")


# URIs and URI templates.

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_URI = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})")
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
_TEMPLATE = re.compile(
    rf"(?:[^\x00-\x20\"<>\\^`{{|}}%\x7f]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)


def _uri_findings(uri: str, owner: str) -> Iterator[Finding]:
    """Yield the problems of a URI (RFC 3986; non-ASCII characters are allowed as in an IRI, RFC 3987)."""
    if not _SCHEME.match(uri):
        problem = "it has no scheme, so it is not a URI"
        yield Finding("uri-invalid", ERROR, owner, problem, "for example file:///path or notes://today")
        return
    odd = sorted({match[0] for match in _NOT_IN_URI.finditer(uri) if match[0].isascii()})
    if odd:
        problem = f"the URI has {', '.join(map(repr, odd[:5]))}, which must be percent-encoded"
        yield Finding("uri-invalid", WARNING, owner, problem, "encode them: a space is %20")


def template_problem(template: str) -> str:
    """Return what is wrong with a URI template, or "" if it is valid."""
    rest = _TEMPLATE.sub("", template, count=1)
    return f"{rest[:60]!r} cannot be read" if rest else ""


# All texts of a definition, and the parts of a schema, each with its place.

MAX_TEXTS = 20_000  # most texts of one definition that are checked


class SchemaPart(NamedTuple):
    """A schema inside a schema, and the properties that lead to it, with `[]` for items.

    `branch`: an alternative, a condition or a part of `allOf`, so other schemas constrain its value too.
    """

    where: str
    node: Mapping[str, Any]
    branch: bool = False


def parts(schema: Any) -> Iterator[SchemaPart]:
    """Yield a schema and all schemas in it."""
    pending: list[tuple[str, Any, bool]] = [("", schema, False)]
    for _ in range(MAX_NODES):
        if not pending:
            return
        where, node, branch = pending.pop()
        if isinstance(node, Mapping):
            yield SchemaPart(where, node, branch)
            pending.extend(reversed(list(itertools.islice(_inside(where, node), MAX_NODES))))


def _inside(where: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    for keyword in SCHEMA_TABLES:
        members = node.get(keyword)
        if isinstance(members, Mapping):
            prefix = "" if keyword == "properties" else f"{keyword}/"
            yield from ((_joined(where, f"{prefix}{name}"), inner, False) for name, inner in members.items())
    for keyword in SCHEMA_LISTS:
        options = node.get(keyword)
        if isinstance(options, list):
            yield from ((where, inner, keyword != "prefixItems") for inner in options)
    for keyword in SINGLE_SCHEMAS:
        if isinstance(node.get(keyword), Mapping):
            place = f"{where}[]" if keyword in ("items", "contains") else where
            yield place, node[keyword], keyword in ("not", "if", "then", "else")


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def place(owner: str, where: str, kind: str = "argument") -> str:
    """Return a place in words: `tool add, argument a.b`."""
    return f"{owner}, {kind} {where}" if where else owner


def _texts_of_schema(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield each text of a schema, property names included, with the place of the schema that holds it."""
    for where, node, _ in parts(schema):
        for keyword, value in node.items():
            if keyword in SCHEMA_TABLES and isinstance(value, Mapping):
                yield from ((_joined(where, str(name)), str(name)) for name in value)
            elif keyword not in (*SCHEMA_LISTS, *SINGLE_SCHEMAS):
                yield from ((where, text) for text in texts(value))


def texts(value: Any) -> Iterator[str]:
    """Yield each text in JSON data, keys included."""
    pending = [value]
    for _ in range(MAX_TEXTS):
        if not pending:
            return
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, Mapping):
            pending.extend([*node.values(), *node])
        elif isinstance(node, list | tuple):
            pending.extend(node)


# Schemas.

MAX_EXPANDED = 300
"""Most schemas, references followed, against which a default is checked; hostile references double them each time."""

_PYTHON = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,)}


def schema_findings(schema: Any, owner: str, kind: str = "argument") -> Iterator[Finding]:
    """Yield the problems of an input (`kind` is "argument") or output schema ("output")."""
    root_type = schema.get("type") if isinstance(schema, Mapping) else None
    if root_type != "object" and kind == "argument":
        problem = f"the root is of type {root_type!r}" if root_type else "the root names no type"
        yield Finding(
            "schema-root", ERROR, owner, f"{problem}; it must be an object", 'write "type": "object" at its root'
        )
    invalid = list(_metaschema(schema, owner, kind))
    yield from invalid
    choice = next((name for name in ("anyOf", "oneOf", "allOf") if isinstance(schema, Mapping) and name in schema), "")
    if choice and kind == "argument":
        problem = f"{choice} at the root, which OpenAI and Anthropic refuse"
        yield Finding("schema-root-choice", NOTE, owner, problem, "put the choice into an argument")
    resolver = Resolver(schema)
    count = 0
    for count, (where, node, branch) in enumerate(parts(schema), 1):  # noqa: B007
        here = place(owner, where, kind)
        yield from _references(node, resolver, here)
        if not branch:  # a branch may require what another part defines
            yield from _required(node, here)
        yield from _patterns(node, here)
        if not invalid:
            yield from _values(node, resolver, here)
    if count >= MAX_NODES:
        problem = f"it has more than {MAX_NODES:,} schemas; the rest is neither shown nor checked"
        yield Finding("schema-large", WARNING, owner, problem, "make several tools of it, or leave parts untyped")
    if isinstance(schema, Mapping) and not is_bounded(schema):
        problem = f"checking {'an answer' if kind == 'output' else 'a call'} takes too many steps, so it is not checked"
        yield Finding("schema-steps", WARNING, owner, problem, "refer to each definition once in a branch")


def _metaschema(schema: Any, owner: str, kind: str) -> Iterator[Finding]:
    dialect = schema.get("$schema") if isinstance(schema, Mapping) else None
    if dialect is not None and not (isinstance(dialect, str) and dialect.rstrip("#") in (*DRAFTS, DRAFT_3)):
        problem = f"its dialect {brief(dialect, 80)} is unknown; it was read as 2020-12"
        yield Finding(
            "schema-dialect", WARNING, owner, problem, "name JSON Schema 2020-12 or draft-07, or leave $schema out"
        )
    try:
        # no engine knows draft-03, so its schemas are judged as they are read
        mistake = schema_problem(repair(schema).schema if str(dialect).rstrip("#") == DRAFT_3 else schema)
    except RecursionError:
        mistake = None
        yield Finding("schema-invalid", ERROR, owner, "the schema is nested too deeply to be read", "make it flat")
    if mistake is not None:
        path, words = mistake
        problem = f"not valid JSON Schema at {'/'.join(map(str, path)) or 'its root'}: {words[:160]}"
        label = f"{owner}, output" if kind == "output" else owner
        yield Finding("schema-invalid", ERROR, label, problem, "fix the schema: hosts refuse the tool or its calls")


def _references(node: Mapping[str, Any], resolver: Resolver, here: str) -> Iterator[Finding]:
    for keyword in REFERENCES:
        ref = node.get(keyword)
        if not isinstance(ref, str) or ref in ("", "#"):
            continue
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", ref) and resolver.find(ref) is True:
            problem = f"{keyword} {ref[:120]!r} leads to another document; hosts do not fetch it"
            yield Finding("schema-ref", WARNING, here, problem, "copy what it refers to into $defs")
        elif resolver.find(ref) is True and not _leads_to_true(resolver.root, ref):
            problem = f"{keyword} {ref[:120]!r} leads nowhere in this schema"
            yield Finding("schema-ref", ERROR, here, problem, "add what it refers to, under $defs")


def _leads_to_true(root: Any, ref: str) -> bool:
    """Whether a pointer leads to the schema `true`."""
    for part in ref.removeprefix("#/").split("/"):
        root = root.get(part) if isinstance(root, Mapping) else None
    return root is True


def _required(node: Mapping[str, Any], here: str) -> Iterator[Finding]:
    required, properties = node.get("required"), node.get("properties")
    if not isinstance(required, list) or any(key in node for key in ("allOf", "anyOf", "oneOf", "$ref")):
        return
    names = properties if isinstance(properties, Mapping) else {}
    patterns = node.get("patternProperties")
    unknown = [name for name in required if isinstance(name, str) and name not in names]
    if not unknown or patterns or (not names and isinstance(node.get("additionalProperties"), Mapping)):
        return
    kind = "which is not a property" if len(unknown) == 1 else "which are not properties"
    problem = f"`required` lists {join_names(repr(name[:60]) for name in unknown)}, {kind}."
    yield Finding(
        "schema-required", WARNING, here, problem + did_you_mean(unknown[0], names), "define it, or do not require it"
    )


def _patterns(node: Mapping[str, Any], here: str) -> Iterator[Finding]:
    keys = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(keys if isinstance(keys, Mapping) else ())):
        if isinstance(pattern, str) and not IN_BROWSER and not is_checked(pattern):
            problem = (
                f"the pattern {pattern[:80]!r} does not compile, or is too large; calls are not checked against it"
            )
            yield Finding("schema-pattern", WARNING, here, problem, "write a small regular expression of ECMA 262")


def _values(node: Mapping[str, Any], resolver: Resolver, here: str) -> Iterator[Finding]:
    """Yield defaults and examples that do not fit their own schema."""
    values = [("default", node["default"])] if "default" in node else []
    examples = node.get("examples")
    values += [("example", value) for value in examples[:20]] if isinstance(examples, list) else []
    only_typed = node.keys() <= {"type", "title", "description", "default", "examples"}
    kinds = _PYTHON.get(str(node.get("type")), ()) if only_typed else ()
    if all(type(value) in kinds for _, value in values) or not _is_small(node, resolver):
        return
    root = resolver.root if isinstance(resolver.root, Mapping) else {}
    shared = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    rest = {key: part for key, part in node.items() if key not in ("default", "examples")}
    compiled = CompiledSchema({**shared, **rest}, formats=False)
    for name, value in values:
        if not compiled.fits(value) and not (name == "default" and value is None):
            problem = f"the {name} {brief(value, 60)} does not fit its schema"
            yield Finding("schema-default", WARNING, here, problem, f"fix the {name}, or the schema")


def _is_small(node: Mapping[str, Any], resolver: Resolver) -> bool:
    """Whether a schema, references followed, is finite and small enough to check values against."""
    pending: list[Any] = [node]
    count = 0
    while pending:
        for part in parts(pending.pop()):
            count += 1
            if count > MAX_EXPANDED:
                return False
            pending += [resolver.find(part.node[key]) for key in REFERENCES if isinstance(part.node.get(key), str)]
    return True


# The lint of a whole server: tools, prompts, resources, templates, and what the server says about itself.

_CHANGES = re.compile(
    r"(?i)(?:^|[_.-])(?:delete|remove|drop|write|update|insert|rename|overwrite|erase|destroy)(?:[_.-]|$)"
)


async def lint_offers(
    server: str,
    offers: Mapping[str, Sequence[Any]],
    texts: Iterable[tuple[str, str]] = (),
    unread: Iterable[tuple[str, str]] = (),
) -> Findings:
    """Lint definitions by kind (`"tools"`, ...), and other texts with their places. Lets other tasks run in between.

    `unread` are items that are no valid definitions: which one, and why.
    """
    findings = list(_text_findings(texts))
    todo = "fix it: other hosts reject the whole list because of it"
    findings += [
        Finding("definition-invalid", ERROR, where, f"not a valid definition: {why}", todo) for where, why in unread
    ]
    for kind, (singular, name_of, lint) in _KINDS.items():
        items = offers.get(kind, ())
        findings += _duplicate_findings([name_of(item) for item in items], singular)
        for item in items:
            findings += lint(item, server)
            await asyncio.sleep(0)
    counts = [(len(offers.get(kind, ())), kind) for kind in _KINDS]
    looked_at = ", ".join(f"{count:,} {kind if count != 1 else kind[:-1]}" for count, kind in counts if count)
    return Findings(findings, title=f"Lint of {server}", looked_at=looked_at or "a server that offers nothing")


def lint_tool(tool: Tool, server: str) -> Iterator[Finding]:
    """Yield the problems of a tool."""
    owner = f"tool {tool.name[:80]}" if tool.name else "a tool without a name"
    yield from _name_findings(tool.name, server, owner)
    yield from _described(tool.description, owner)
    yield from schema_findings(tool.input_schema, owner)
    if tool.output_schema is not None:
        yield from schema_findings(tool.output_schema, owner, "output")
    yield from _arguments(tool, owner)
    yield from _hints(tool, owner)
    yield from _common(tool, owner)
    yield from _text_findings(_tool_texts(tool, owner))


def _arguments(tool: Tool, owner: str) -> Iterator[Finding]:
    names = tool.input_schema.get("properties") if isinstance(tool.input_schema, Mapping) else None
    if not isinstance(names, Mapping):
        return
    for name in map(str, names):
        if scripts := _lookalikes(name):
            problem = f"the argument {name[:60]!r} mixes letters that look alike: {scripts}"
            yield Finding("name-lookalike", ERROR, owner, problem, "write it in one script")
        elif not _ARGUMENT.fullmatch(name):
            problem = f"model providers reject the argument name {name[:60]!r}"
            yield Finding("name-argument", WARNING, owner, problem, "up to 64 letters, digits, _, . and -")
    undescribed = [
        name
        for name, schema in names.items()
        if not any(str(part.node.get("description") or "").strip() for part in parts(schema) if not part.where)
    ]
    yield from _undescribed(undescribed, owner)


def _undescribed(names: Sequence[str], owner: str) -> Iterator[Finding]:
    if names:
        problem = f"arguments without a description: {join_names(str(name)[:60] for name in names)}"
        yield Finding("argument-description", NOTE, owner, problem, "say what each means, with its unit")


def _hints(tool: Tool, owner: str) -> Iterator[Finding]:
    hints = tool.annotations
    if hints is None or not hints.read_only_hint:
        return
    if hints.destructive_hint:
        problem = "readOnlyHint and destructiveHint contradict each other"
        yield Finding("hints-contradict", WARNING, owner, problem, "leave out the one that is wrong")
    if match := _CHANGES.search(tool.name):
        problem = f"it has readOnlyHint, but its name has {match[0].strip('_.-')!r} in it"
        yield Finding("hints-doubtful", WARNING, owner, problem, "hosts do not ask before a read-only tool: is it one?")


def _lint_prompt(prompt: Prompt, server: str) -> Iterator[Finding]:
    owner = f"prompt {prompt.name[:80]}"
    arguments = prompt.arguments or []
    yield from _described(prompt.description, owner, severity=NOTE)
    yield from _duplicate_findings([a.name for a in arguments], f"{owner}, argument")
    yield from _undescribed([a.name for a in arguments if not (a.description or "").strip()], owner)
    yield from _common(prompt, owner)
    yield from _text_findings(_prompt_texts(prompt, owner))


def _lint_resource(resource: Resource, server: str) -> Iterator[Finding]:
    uri = str(resource.uri)
    owner = f"resource {uri[:120]}"
    yield from _uri_findings(uri, owner)
    yield from _common(resource, owner)
    yield from _text_findings(_resource_texts(resource, owner))


def _lint_template(template: ResourceTemplate, server: str) -> Iterator[Finding]:
    owner = f"template {template.uri_template[:120]}"
    if problem := template_problem(template.uri_template):
        yield Finding(
            "template-invalid", ERROR, owner, f"not a URI template: {problem}", "write it as RFC 6570 defines it"
        )
    yield from _common(template, owner)
    yield from _text_findings(_common_texts(template, owner))


def _common(item: Any, owner: str) -> Iterator[Finding]:
    """Yield the problems of the icons that all kinds have."""
    for icon in item.icons or ():
        scheme = str(icon.src).partition(":")[0].lower()
        if scheme not in ("https", "data", "http"):
            problem = f"an icon comes from {scheme[:20]}:, which no host should load"
            yield Finding("icon-unsafe", ERROR, owner, problem, "https: or data:")


def _common_texts(item: Any, owner: str) -> Iterator[tuple[str, str]]:
    hints_title = getattr(getattr(item, "annotations", None), "title", None)
    yield from ((owner, text) for text in (item.name, item.title, hints_title, item.description) if text)


def _tool_texts(tool: Tool, owner: str) -> Iterator[tuple[str, str]]:
    yield from _common_texts(tool, owner)
    for kind, schema in (("argument", tool.input_schema), ("output", tool.output_schema)):
        for where, text in itertools.islice(_texts_of_schema(schema), MAX_TEXTS):
            yield place(owner, where, kind), text


def _prompt_texts(prompt: Prompt, owner: str) -> Iterator[tuple[str, str]]:
    yield from _common_texts(prompt, owner)
    for argument in prompt.arguments or ():
        texts = (argument.name, argument.title, argument.description)
        yield from ((place(owner, argument.name), text) for text in texts if text)


def _resource_texts(resource: Resource, owner: str) -> Iterator[tuple[str, str]]:
    yield owner, str(resource.uri)
    yield from _common_texts(resource, owner)


_TEXTS: dict[str, Callable[[Any, str], Iterator[tuple[str, str]]]] = {
    "tools": _tool_texts,
    "prompts": _prompt_texts,
    "resources": _resource_texts,
    "templates": _common_texts,
}


def offered_texts(offers: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """Yield each text of definitions by kind (`"tools"`, ...), with its place."""
    for kind, (singular, name_of, _) in _KINDS.items():
        for item in offers.get(kind, ()):
            yield from _TEXTS[kind](item, f"{singular} {name_of(item)[:120]}")


_KINDS: dict[str, tuple[str, Callable[[Any], str], Callable[[Any, str], Iterator[Finding]]]] = {
    "tools": ("tool", lambda tool: str(tool.name), lint_tool),
    "resources": ("resource", lambda resource: str(resource.uri), _lint_resource),
    "templates": ("template", lambda template: str(template.uri_template), _lint_template),
    "prompts": ("prompt", lambda prompt: str(prompt.name), _lint_prompt),
}
"""Kind -> its singular, the identifier of an item, and the lint of an item."""
