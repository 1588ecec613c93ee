"""Doctests in docstrings as blocks of code; a griffe extension, named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Doctests"]

_DOCTEST = re.compile(r"(?:^|\n\n)((?: *)>>> .*?)(?=\n\n|\Z)", re.DOTALL)


class Doctests(griffe.Extension):
    """Puts a fence around each doctest, which would be quotations of quotations in Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(r"\n\n```pycon\n\1\n```", obj.docstring.value).lstrip("\n")
