"""The YAML at the head of a Markdown file, and whether it says the same as a JSON object."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FrontMatterError", "same_front_matter", "split_front_matter"]

MAX_CHARACTERS = 20_000
"""Of front matter; its parser takes seconds for a megabyte."""

MAX_BRACKETS = 400
"""Brackets of front matter; its parser takes the square of those that are open."""

_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])[*&][^\s\]},]", re.MULTILINE)


class FrontMatterError(ValueError):
    """A file has no front matter, or none that can be read."""


def split_front_matter(text: str) -> tuple[str, str]:
    r"""Return the front matter of a Markdown text, as YAML, and the rest.

    Raises:
        FrontMatterError: There is none.

    >>> split_front_matter("---\nname: a\n---\nBody")
    ('name: a\n', 'Body')
    """
    found = _HEAD.match(text)
    if found is None:
        raise FrontMatterError("it does not begin with front matter (--- YAML ---)")
    return found[1], text[found.end() :]


def same_front_matter(yaml_text: str, said: Mapping[str, Any]) -> bool:
    r"""Whether YAML says, field by field, what a JSON object says.

    JSON has no dates, so they are compared as they are written; and where YAML 1.1 and 1.2 differ (`yes`, `on`,
    `1:30`), the server may have read it either way.

    Raises:
        FrontMatterError: It cannot be read, or is no mapping.

    >>> same_front_matter("released: 2026-07-28\nbeta: yes\n", {"released": "2026-07-28", "beta": True})
    True
    >>> same_front_matter("name: a\n", {"name": "b"}), same_front_matter("a: 1\n", {"a": True})
    (False, False)
    """
    import yaml

    if len(yaml_text) > MAX_CHARACTERS:
        raise FrontMatterError(f"its front matter is longer than {MAX_CHARACTERS} characters")
    if yaml_text.count("[") + yaml_text.count("{") > MAX_BRACKETS:
        raise FrontMatterError(f"its front matter has more than {MAX_BRACKETS} brackets")
    if _ALIAS.search(yaml_text):
        aliases = any(isinstance(event, yaml.AliasEvent) for event in _events(yaml_text))
        if aliases:  # a few of them stand for gigabytes
            raise FrontMatterError("its front matter has YAML aliases")
    try:
        older = yaml.load(yaml_text, Loader=_loader(yaml, core=False))
        newer = yaml.load(yaml_text, Loader=_loader(yaml, core=True))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(f"its front matter is no YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(older, dict):
        raise FrontMatterError("its front matter is no YAML mapping")
    return any(_same(read, dict(said)) for read in (older, newer))


def _events(text: str) -> Any:
    import yaml

    try:
        yield from yaml.parse(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise FrontMatterError(f"its front matter is no YAML: {str(error).splitlines()[0]}") from None


def _loader(yaml: Any, *, core: bool) -> Any:
    """Return a loader that keeps dates as text; with `core` what only YAML 1.1 takes for something else is text too."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc,name-defined,unused-ignore]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in pairs if tag.rpartition(":")[2] not in ("timestamp", "merge")]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    if core:
        plain = {"bool": r"true|True|TRUE|false|False|FALSE", "int": r"[-+]?[0-9]+|0x[0-9a-fA-F]+"}
        for pairs in Loader.yaml_implicit_resolvers.values():
            for place, (tag, _) in enumerate(pairs):
                if (name := tag.rpartition(":")[2]) in plain:
                    pairs[place] = (tag, re.compile(f"^(?:{plain[name]})$"))
    return Loader


def _same(read: Any, said: Any) -> bool:
    """Compare as JSON does: `1` is not `true`, and 1 is 1.0."""
    if isinstance(read, dict):
        keys = {str(key): value for key, value in read.items()}
        return isinstance(said, dict) and keys.keys() == said.keys() and all(_same(keys[k], said[k]) for k in keys)
    if isinstance(read, list):
        return isinstance(said, list) and len(read) == len(said) and all(map(_same, read, said))
    if isinstance(read, datetime.date):  # tagged as one
        return bool(read.isoformat() == said)
    if isinstance(read, bool) or isinstance(said, bool):
        return read is said
    return bool(read == said)
