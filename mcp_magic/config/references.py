"""References to secrets: `${keyring:SERVICE/NAME}`, `${op://VAULT/ITEM/FIELD}` and `${input:ID}` in configuration.

A reference is a place in the text of a configuration, and not a value: it is resolved when its server is connected
(`session/secrets.py`), for this server alone. Until then, and in every listing, the reference itself stands there. The
value of a variable or of another secret is never searched for references.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from mcp_magic.config.parsing import FieldError, MissingHereError, kind_of

SERVICE = "mcp-magic"  # the service of `%mcp secret set NAME` without `--service`

KEYRING, OP, INPUT = "keyring", "op", "input"  # the kinds of references

_REFERENCE = re.compile(r"\$\{(keyring:|op://|input:)([^{}]*)\}")
_NESTED = re.compile(r"\$\{[^{}]*\$\{(?:keyring:|op://|input:)|\$\{(?:keyring:|op://|input:)[^{}]*\$?\{")
_RESERVED = re.compile(r"[%{}\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_FORMS = {
    KEYRING: "${keyring:SERVICE/NAME}",
    OP: "${op://VAULT/ITEM/FIELD}",
    INPUT: "${input:ID}",
}


@dataclass(frozen=True)
class Reference:
    """A reference to a secret."""

    text: str  # as written, `${...}`
    kind: str  # KEYRING, OP or INPUT
    name: str  # of an entry of the keyring, or the id of an input; the whole `op://...` for 1Password
    service: str = ""  # of an entry of the keyring

    @property
    def source(self) -> str:
        """Where the secret comes from, for messages.

        >>> parse_reference("${keyring:acme/db}").source, parse_reference("${op://dev/db/password}").source
        ('keyring acme/db', 'op://dev/db/password')
        """
        if self.kind == OP:
            return self.name
        return f"keyring {self.service}/{self.name}" if self.kind == KEYRING else f"input {self.name}"


@dataclass(frozen=True)
class SecretUse:
    """A place of a server's configuration that has a reference."""

    place: str  # the name of a variable or a header; `args`, `url`, `auth.client_secret`
    reference: Reference

    @property
    def text(self) -> str:
        """The place and the source of the secret: `TOKEN from keyring acme/db`."""
        return f"{self.place} from {self.reference.source}"


def keyring_reference(name: str, service: str = SERVICE) -> str:
    """Return the reference to an entry of the keyring, as it is written into a file.

    >>> keyring_reference("db"), keyring_reference("a/b", "https://acme.example")
    ('${keyring:mcp-magic/db}', '${keyring:https:%2F%2Facme.example/a/b}')
    """
    return f"${{keyring:{_escaped(service).replace('/', '%2F')}/{_escaped(name).replace(':-', '%3A-')}}}"


def _escaped(text: str) -> str:
    return _RESERVED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def parse_reference(text: str) -> Reference:
    """Parse one `${...}`. Raises FieldError if it is no complete reference."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise FieldError(f"{text[:60]!r} is no reference to a secret; those are {', '.join(_FORMS.values())}.")
    kind, rest = match[1].rstrip(":/"), match[2]
    if ":-" in rest:
        raise FieldError(f"{text[:100]} has a default, and secrets have none: {_FORMS[kind]}.")
    service = ""
    if kind == KEYRING:
        service, _, rest = (unquote(part) for part in rest.partition("/"))
        is_complete = bool(service.strip() and rest.strip())
    elif kind == OP:
        is_complete = len(parts := rest.split("/")) > 2 and all(part.strip() for part in parts)
        rest = f"op://{rest}"
    else:
        is_complete = bool(rest.strip())
    if not is_complete or (kind != KEYRING and _CONTROL.search(rest)):
        raise FieldError(f"{text[:100]!r} is not complete; it is written {_FORMS[kind]}.")
    return Reference(text, kind, rest, service)


def find_references(text: str) -> list[Reference]:
    """Return the references in a text, in its order. Raises FieldError if one is nested or not complete.

    >>> [reference.source for reference in find_references("Bearer ${keyring:acme/db}, ${PORT}, ${input:key}")]
    ['keyring acme/db', 'input key']
    """
    if _NESTED.search(text):
        raise FieldError("a reference to a secret cannot be inside another `${...}`, or hold one.")
    return [parse_reference(match[0]) for match in _REFERENCE.finditer(text)]


def mark_references(text: str, sign: str) -> str:
    """Return a text with `sign` in place of each reference."""
    return _REFERENCE.sub(sign, text)


def fill_references(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of references, given by what is written. What is in a value stays as it is.

    >>> fill_references("Bearer ${keyring:a/b}", {"${keyring:a/b}": "${input:x}", "${input:x}": "sesame"})
    'Bearer ${input:x}'
    """
    return _REFERENCE.sub(lambda match: values.get(match[0], match[0]), text)


# Which fields of a server may have references.

_TABLES = ("env", "headers")  # names with values
AUTH_FIELDS = ("client_id", "client_secret", "private_key", "assertion")


def find_uses(table: Mapping[str, Any]) -> tuple[SecretUse, ...]:
    """Return where a server's table, before any expansion, has references.

    Raises FieldError if one is where it cannot be resolved, such as in `command`, or in the host of a URL.
    """
    uses: dict[SecretUse, None] = {}
    for key, value in table.items():
        for path, text in _texts(value, (key,)):
            try:
                references = find_references(text)
            except FieldError as error:
                problem = FieldError(error.message, *path)
            else:
                if not references:
                    continue
                if _allows(path, text):
                    place = _place(path)
                    uses |= {SecretUse(place, reference): None for reference in references}
                    continue
                where = "env, headers, args, after the host of url, and auth.client_secret"
                problem = FieldError(f"{references[0].text} is not resolved here; secrets can be in {where}.", *path)
            raise problem from None
    return tuple(uses)


def _place(path: tuple[str | int, ...]) -> str:
    """Return the name of a variable or header, else of the field: `args`, `url`, `auth.client_secret`."""
    if path[0] in _TABLES:
        return str(path[1])
    return f"auth.{auth_field(str(path[1]))}" if path[0] == "auth" else str(path[0])


def auth_field(key: str) -> str:
    """Return the field of `AuthOptions` that a key of another host means.

    >>> auth_field("clientSecret"), auth_field("CLIENT_SECRET")
    ('client_secret', 'client_secret')
    """
    return key.lower() if key.isupper() else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()


def _texts(value: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, list | tuple) and path[0] in _TABLES and all(isinstance(row, Mapping) for row in value):
        value = {str(row.get("name")): row.get("value") for row in value}  # Jupyter's list
    members = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    return [text for name, inner in members for text in _texts(inner, (*path, name))]


def _allows(path: tuple[str | int, ...], text: str) -> bool:
    if path[0] == "url":
        return len(path) == 1 and _after_host(text)
    if path[0] == "auth":
        return len(path) == 2 and auth_field(str(path[1])) in AUTH_FIELDS
    return path[0] in (*_TABLES, "args") and len(path) == 2


def _after_host(url: str) -> bool:
    """Whether the references of a URL are after its host, so that what is shown of it says where it leads."""
    host, slash, _ = url.partition("://")[2].partition("/")
    host, question, _ = host.partition("?")
    return bool(slash or question) and "${" not in host and "${" not in url.partition("://")[0]


def check_expanded(before: Any, after: Any) -> None:
    """Raise MissingHereError if the value of a variable has brought a reference into a table: it could be a stranger's.

    What is trusted is the file, and not what `.env` or the environment hold when the server starts.
    """
    fresh = _count(after) - _count(before)
    if fresh:
        text = next(iter(fresh))[:100]
        raise MissingHereError(f"the value of a variable holds {text}, and only the file itself may name a secret.")


def _count(value: Any) -> Counter[str]:
    texts = (text for key, inner in value.items() for _, text in _texts(inner, (key,)))
    return Counter(match[0] for text in texts for match in _REFERENCE.finditer(text))


# Inputs: VS Code's `inputs` beside the servers of a file, and `[[inputs]]` of a declaration.

MAX_OPTIONS = 100  # options of one input that are offered


@dataclass(frozen=True)
class Input:
    """What a file says of `${input:ID}`. It is asked once a kernel, for this file."""

    id: str
    source: str = ""  # the file; "" for a line
    description: str = ""
    default: str = field(default="", repr=False)
    is_secret: bool = True  # False if the file says that it is no password
    options: tuple[tuple[str, str], ...] = ()  # labels and values to choose from


def parse_inputs(inputs: Any, source: str) -> dict[str, Input]:
    """Return id -> input. What cannot be understood is left out, and asked for by its id alone."""
    by_id: dict[str, Input] = {}
    for entry in inputs if isinstance(inputs, list) else ():
        name = entry.get("id") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or entry.get("type") == "command":  # only an editor can run its commands
            continue
        options = _options(entry.get("options"))
        is_secret = not options and entry.get("password") is not False
        texts = {key: entry[key] if isinstance(entry.get(key), str) else "" for key in ("description", "default")}
        by_id.setdefault(name, Input(name, source, **texts, is_secret=is_secret, options=options))
    return by_id


def check_inputs(inputs: Any) -> None:
    """Raise FieldError unless the `[[inputs]]` of a declaration are valid."""
    if not isinstance(inputs, list):
        raise FieldError(f"expected [[inputs]] tables, got {kind_of(inputs)}.", "inputs")
    for number, entry in enumerate(inputs):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
            raise FieldError("an input needs an id, which `${input:ID}` names.", "inputs", number)
        if entry.get("type") == "command":
            raise FieldError("only an editor can run a command for an input.", "inputs", number, "type")


def _options(options: Any) -> tuple[tuple[str, str], ...]:
    pairs = []
    for option in options[:MAX_OPTIONS] if isinstance(options, list) else ():
        value = option.get("value") if isinstance(option, Mapping) else option
        label = option.get("label", value) if isinstance(option, Mapping) else option
        if isinstance(value, str) and isinstance(label, str):
            pairs.append((label, value))
    return tuple(pairs)
