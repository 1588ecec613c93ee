"""What messages about arguments are made of. Values of secret-looking arguments never appear in them."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError, did_you_mean, listed
from mcp_magic.schema.describe import expected, shorten
from mcp_magic.schema.secretnames import MASK, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.schema.fields import Field

__all__ = ["is_secret", "shown", "together", "unfit", "unknown"]

MAX_PROBLEMS = 3
"""Problems told at a time; more of them are read by nobody."""


def is_secret(path: str, field: Field | None = None) -> bool:
    """Return whether the value of an argument must not be shown.

    >>> is_secret("api_key"), is_secret("login.password"), is_secret("max_tokens")
    (True, True, False)
    """
    said = field is not None and (field.format == "password" or field.schema.get("writeOnly") is True)
    return said or is_secret_name(path)


class _Short(reprlib.Repr):
    """Repr of the beginning only: a value may have megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict = 3, 4
        self.maxlist = self.maxtuple = self.maxset = 6
        self.maxstring = self.maxlong = self.maxother = 70

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write more than 4,300 digits in decimal.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"an integer of {x.bit_length()} bits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return super().repr_dict(_masked(x), level)

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: ARG002, N802, RUF100  # reprlib finds it by this name
        return "null"


def _masked(value: Mapping[Any, Any]) -> dict[Any, Any]:
    if not any(is_secret_name(str(key)) for key in value):
        return dict(value)
    return {key: MASK if is_secret_name(str(key)) else item for key, item in value.items()}


def shown(value: Any, *, secret: bool = False) -> str:
    """Return a value for a message, about 60 characters of it.

    >>> shown({"user": "me", "password": "pw"}), shown(None), shown("x", secret=True)
    ("{'password': '***', 'user': 'me'}", 'null', '***')
    """
    return MASK if secret else shorten(_Short().repr(value))


def unfit(path: str, field: Field, value: Any) -> str:
    """Return the message for a value that does not fit its field."""
    got = shown(value, secret=is_secret(path, field))
    hint = ""
    if isinstance(value, str) and field.kind in ("enum", "union") and got != MASK:
        hint = did_you_mean(value, [word for word, _ in field.choices if isinstance(word, str)]).replace(
            " Did", ". Did"
        )
    return f"{path}: expected {expected(field)}, got {got}{hint}"


def unknown(names: list[str], field: Field, path: str = "") -> str:
    """Return the message for names that a field does not take."""
    valid = [child.name for child in field.children]
    named = ", ".join(shown(f"{path}.{name}" if path else name) for name in names[:MAX_PROBLEMS])
    more = f" and {len(names) - MAX_PROBLEMS} more" if len(names) > MAX_PROBLEMS else ""
    hint = did_you_mean(names[0], valid) if len(names) == 1 else ""
    takes = f"It takes {listed(valid, 12)}" if valid else "It takes no arguments" if not path else "It takes no names"
    return f"unknown argument{'s' if len(names) > 1 else ''} {named}{more}.{hint} {takes}"


def together(problems: list[str]) -> ArgumentsError:
    """Return one error of several problems, at most three of them told."""
    rest = len(problems) - MAX_PROBLEMS
    more = [f"... and {rest} more"] if rest > 0 else []
    return ArgumentsError("\n".join(problems[:MAX_PROBLEMS] + more))
