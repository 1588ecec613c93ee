"""SARIF 2.1.0, the format in which code scanning reads findings: GitHub, GitLab, Azure DevOps, editors.

    write_sarif(path, [Result("toxic-flow", "warning", "...", "mcp://mail/tool/send_email")])

A rule is a code of the lint, or a step of the doctor. A result is at the file that declares its server, if that is
known, because code scanning shows results at files; else at `mcp://SERVER`. The logical location names the server and
the definition. Fingerprints leave out numbers, which vary from run to run. Source: OASIS,
"Static Analysis Results Interchange Format (SARIF) Version 2.1.0", errata 01.
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
    rules = sorted({result.rule for result in results})
    driver = {
        "name": "mcp_magic",
        "semanticVersion": _version(),
        "rules": [_rule(rule, help_of.get(rule, rule)) for rule in rules],
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


def _rule(rule: str, text: str) -> dict[str, Any]:
    name = "".join(part.capitalize() for part in rule.replace("/", "-").split("-"))
    sentence = f"{text[:1].upper()}{text[1:]}."
    return {"id": rule, "name": name, "shortDescription": {"text": sentence}, "help": {"text": sentence}}


def _result(result: Result, index: int) -> dict[str, Any]:
    text = mask_text(shorten(result.text, MAX_MESSAGE))
    place = mask_text(shorten(result.place, 300))
    uri = quote(result.file) if result.file else _uri(result.server, place)
    logical = {"name": place or result.server, "fullyQualifiedName": "/".join(filter(None, (result.server, place)))}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}
    if logical["name"]:
        location["logicalLocations"] = [logical]
    identity = "\0".join((result.rule, result.server, place, re.sub(r"\d+", "#", text)))
    return {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"mcpMagic/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
    }


def _uri(server: str, place: str) -> str:
    """Return a URI of a definition: `mcp://mail/tool/send_email`.

    >>> _uri("mail", "tool send_email, argument to"), _uri("", "all servers")
    ('mcp://mail/tool/send_email', 'mcp://host/')
    """
    kind, space, name = place.partition(",")[0].partition(" ")
    has_name = space and kind in ("tool", "prompt", "resource", "template")
    path = f"{kind}/{quote(name, safe='')}" if has_name and server else ""
    return f"mcp://{quote(server or 'host', safe='')}/{path}"
