"""Words of a line between what is typed and what is meant: what servers say stays text when it is completed."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.magics.splitting import split_line
from mcp_magic.schema.items import escape_name, escape_text, read_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["argument", "assigned", "beginning", "meant", "names_in", "valued"]


def meant(word: str) -> str:
    """Return what a word says without its quotes, of which the last may still be open.

    >>> meant("note='two wor"), meant("'note://x?a='b")
    ('note=two wor', 'note://x?a=b')
    """
    for closing in ("", "'", '"'):
        with suppress(CommandError):
            return " ".join(split_line(word + closing))
    return word


def beginning(fragment: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin with a fragment, however the two are quoted; what cannot be typed is left out.

    >>> beginning("no", ["note://x", "'note://a b'", "x"]), beginning("'note://a", ["'note://a b'", "note://ab"])
    (['note://x', "'note://a b'"], ["'note://a b'", 'note://ab'])
    """
    said = meant(fragment)
    plain = ((word, meant(word) if "'" in word else word) for word in words)
    return [word for word, text in plain if (text.startswith(said) or word.startswith(fragment)) and word.isprintable()]


def argument(name: str) -> str:
    """Write an argument's name so that it is read back as one.

    >>> argument("city"), argument("first name")
    ('city', "'first name'")
    """
    return shlex.quote(escape_name(name))


def names_in(word: str) -> tuple[str, ...]:
    """Return the parts of an argument's name as it is typed; none if it cannot be read.

    >>> names_in("at.'first name'"), names_in("at:")
    (('at', 'first name'), ('at',))
    """
    with suppress(ArgumentsError):
        return read_item(f"{meant(word.removesuffix(':'))}=").parts
    return ()


def assigned(word: str) -> tuple[str, str]:
    r"""Return the name of an argument and the text of its value, as far as they are typed.

    >>> assigned(r"price='\$5")
    ('price', '$5')
    """
    name, _, value = meant(word).partition("=")
    plain = value[1:] if value.startswith("\\") and escape_text(value[1:]) == value else value
    return name, plain


def valued(name: str, values: Sequence[Any]) -> list[str]:
    r"""Return `name=value` for each value, so that it is read back as it is; `name` is as it was typed.

    >>> valued("a", ["b c", "$x", 1]), valued("a:", ["$x"]), valued("'a b", ["c"])
    (["a='b c'", "a='\\$x'", 'a=1'], ['a:=\'"$x"\''], ["'a b=c'"])
    """
    json_only = name.endswith(":")
    texts = [escape_text(v) if isinstance(v, str) and not json_only else json.dumps(v) for v in values]
    if name[:1] in ("'", '"'):
        return [shlex.quote(f"{meant(name)}={text}") for text in texts]
    return [f"{name}={shlex.quote(text)}" for text in texts]
