"""Tells from a name whether its value is a secret, for arguments, declarations, the trace and cassettes alike.

A name is split where its case changes and at each character that is not a letter, then joined with `_`: `accessKey`,
`ACCESS-KEY` and `access.key2` are the same name. `pass_x` is `pass`, as pandas names columns that it merges. Decisions
are cached, because masking meets the same names again.
"""

from __future__ import annotations

import re
from functools import lru_cache

MASK = "***"  # replaces a secret in everything that is shown
MAX_NAME = 400  # characters of a name that are examined, half at its start and half at its end

STEMS = ("token", "secret", "pass", "key", "credential", "auth", "cookie", "bearer", "pwd", "jwt")
"""Every name of a secret contains one of these, ignoring case, or ends with `pat`."""

EVERYDAY = frozenset(("pass", "pat", "pwd", "auth", "oauth", "jwt", "bearer"))
"""Names of secrets that mean something else in ordinary text: `PASS: test_sum`, `Pat: see you`."""

_STEM = re.compile(f"(?i){'|'.join((*STEMS, 'pat', 'sig'))}")
_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z]+")

_SECRET = re.compile(
    r"""
    passw(?!ordless) | pass_(?:word(?!_?less)|phrase|code|key) | pass(?:phrase|code|key) | secret(?!ar) | token(?![si])
    | credential | cookie(?!_?cutter) | bearer | authorization | jwt | (?<!old)pwd(?![a-z])
    | (?<![a-z])o?auth(?![a-z])
    | (?<![a-z])(?:admin|db|ftp|key|login|mail|my|pg|root|smtp|sql|mysql|ssh|store|user)?pass(?:_[xy])?$
    | (?<![a-z])pat$
    | (?:access|api|auth|bearer|csrf|id|refresh|secret|session)_?tokens
    | (?:access|account|admin|aes|api|app|auth|client|consumer|decryption|deploy|deployment|encryption|gpg|hmac
        |licen[cs]e|master|pgp|private|recovery|role|rsa|secret|service|session|shared|sign|signing|ssh|ssl
        |subscription|tls|webhook)_?keys?(?![a-z])
    """,
    re.VERBOSE,
)

_PLAIN = re.compile(
    r"""
    # the protocol's own
    ^progress_token$
    # properties of a secret: its number, length, kind
    | (?:token|password|passphrase|secret|cookie|credential|key|auth|authorization|jwt)s?_(?:budget|cost|count|counts
        |created|expiry|expires|kind|len|length|limit|limits|method|methods|mode|policy|price|provider|rate|ratio|required
        |scheme|size|speed|strategy|strength|total|ttl|type|types|usage|used|version)$
    | token_(?:column|end|index|line|offset|position|start)(?![a-z])
    # where and whether somebody logs in
    | auth(?:orization)?_(?:app|domain|enabled|endpoint|endpoints|error|flow|host|metadata|port|server|servers|service
        |state|status|ur[il]|ur[il]s)(?![a-z])
    | ^(?:accept|allow|clear|disable|enable|has|is|need|needs|no|require|requires|skip|supports|use|uses|with|without)_
        (?:\w+_)?(?:(?:o_?)?auth|authorization|cookies?)$
    # numbers of tokens
    | (?:^|_)(?:cached|completion|input|max|min|new|num|output|prompt|reasoning|thinking|total|used)_tokens$
    # passes that are no passwords
    | (?:^|_)(?:all|band|boarding|by|dry|each|final|first|high|last|low|multi|next|no|num|one|per|second|season|single
        |test|third|two)_pass(?:_[xy])?$
    # keys of data, and public keys
    | (?:^|_)(?:cache|foreign|group|order|partition|public|sort)_keys?$
    """,
    re.VERBOSE,
)

_DECLARED = re.compile(r"auth(?!or(?!i))|signature|token|(?<![a-z])(?:sig|key|pat)(?![a-z])")
"""More names of secrets in options, variables, headers and URLs, such as `key`, which as an argument is a data key."""


@lru_cache(maxsize=4096)
def _decided(name: str, declared: bool) -> bool:
    if _STEM.search(name) is None or name in ("PWD", "OLDPWD"):  # a shell's current and previous folder
        return False
    plain = _BORDER.sub("_", name).strip("_").lower()
    if _PLAIN.search(plain):
        return False
    return _SECRET.search(plain) is not None or (declared and _DECLARED.search(plain) is not None)


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2]}_{name[-MAX_NAME // 2 :]}"


def is_secret_name(name: str) -> bool:
    """Return whether the value of an argument or a member of a message is a secret, by its name."""
    return _decided(_short(name), False)


def is_declared_secret(name: str) -> bool:
    """Return whether the value of an option, a variable, a header or a part of a URL is a secret, by its name."""
    return _decided(_short(name), True)
