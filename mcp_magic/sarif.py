"""SARIF 2.1.0, the format in which code scanning reads findings: GitHub, GitLab, Azure DevOps, editors.

    write_sarif(path, [Result("other-server", "warning", "...", "mail", "tool send_email")], help_of)

A rule is a code of the lint, or a step of the doctor. A result is at the file that declares its server, if that is
known, because code scanning shows results at files; else at the path `mcp/SERVER/tool/NAME`, without a scheme, because
GitHub refuses a whole log in which a URI has another scheme than `file`. The logical location is `mcp://SERVER/...`.
Fingerprints leave out numbers, which vary from run to run. Source: OASIS, "Static Analysis Results Interchange Format
(SARIF) Version 2.1.0", errata 01.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_magic._text import json_text
from mcp_magic.config.masking import mask_text
from mcp_magic.config.parsing import write_text
from mcp_magic.display.text import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_RESULTS = 5_000  # most results of a run: GitHub shows no more
MAX_MESSAGE = 2_000  # most characters of a message


@dataclass(frozen=True)
class Result:
    """One finding.

    Attributes:
        rule: The identifier of its rule.
        level: "error", "warning" or "note".
        text: What was found (not masked, not escaped), and what to do about it.
        server: The server that it is about; "" if it is about several.
        place: The place in the server: a definition, or a step of the doctor.
        file: The file that declares the server, relative to the folder of the project; "" if it is not known.
    """

    rule: str
    level: str
    text: str
    server: str = ""
    place: str = ""
    file: str = ""


def sarif_log(results: Sequence[Result], help_of: Mapping[str, str]) -> dict[str, Any]:
    """Return results as a SARIF log with one run; `help_of` has a sentence about each rule."""
    results = sorted(results, key=lambda result: ("error", "warning", "note").index(result.level))[:MAX_RESULTS]
    levels = {result.rule: result.level for result in reversed(results)}  # the worst of each rule
    rules = sorted(levels)
    driver = {
        "name": "mcp_magic",
        "semanticVersion": _version(),
        "rules": [_rule(rule, help_of.get(rule, rule), levels[rule]) for rule in rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints"}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{**run, "results": [_result(result, rules.index(result.rule)) for result in results]}],
    }


def write_sarif(path: Path, results: Sequence[Result], help_of: Mapping[str, str]) -> None:
    """Write results into a file. Raises ConfigError if it cannot be written."""
    write_text(path, json_text(sarif_log(results, help_of), indent=2) + "\n")


def _version() -> str:
    from mcp_magic import __version__

    return str(__version__)


def _rule(rule: str, text: str, level: str) -> dict[str, Any]:
    name = "".join(part.capitalize() for part in rule.replace("/", "-").split("-"))
    sentence = f"{text[:1].upper()}{text[1:]}."
    texts = {"shortDescription": {"text": sentence}, "help": {"text": sentence}}
    return {"id": rule, "name": name, **texts, "defaultConfiguration": {"level": level}}


def _result(result: Result, index: int) -> dict[str, Any]:
    text = shorten(mask_text(result.text), MAX_MESSAGE)
    place = shorten(mask_text(result.place), 300)
    path = _path(result.server, place)
    uri = quote(result.file, errors="replace") if result.file else f"mcp/{path}"
    location = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
        "logicalLocations": [{"name": place or result.server, "fullyQualifiedName": f"mcp://{path}"}],
    }
    identity = "\0".join((result.rule, result.server, place, re.sub(r"\d+", "#", text)))
    return {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"mcpMagic/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
    }


def _path(server: str, place: str) -> str:
    """Return the path of a definition.

    >>> _path("mail", "tool send_email, argument to"), _path("mail", "server"), _path("", "all servers")
    ('mail/tool/send_email', 'mail', 'all')
    """
    kind, _, name = place.partition(",")[0].partition(" ")
    has_name = name and server and kind in ("tool", "prompt", "resource", "template")
    segments = (server or "all", *((kind, name) if has_name else ()))
    return "/".join(quote(segment, safe="", errors="replace") for segment in segments)
