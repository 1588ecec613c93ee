"""The import of jsonschema, without the grammar that nobody here asks for.

Beside JupyterLab jsonschema finds its optional `rfc3987_syntax`, which builds 38 parsers when it is imported: 1.3 s
of work in every kernel, for the formats "iri" and "iri-reference" alone. Here it is imported when one is checked.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

__all__ = ["import_jsonschema"]

_GRAMMAR = "rfc3987_syntax"


def import_jsonschema() -> ModuleType:
    """Import jsonschema, and its grammar of IRIs at the first need of it; return the module.

    Whoever imports jsonschema afterwards has what is here, with all formats that it would have otherwise.
    """
    if "jsonschema" in sys.modules or _GRAMMAR in sys.modules or importlib.util.find_spec(_GRAMMAR) is None:
        return importlib.import_module("jsonschema")
    instead: Any = ModuleType(_GRAMMAR)
    instead.is_valid_syntax = _is_valid_syntax
    sys.modules[_GRAMMAR] = instead
    try:
        return importlib.import_module("jsonschema")
    finally:
        sys.modules.pop(_GRAMMAR, None)


def _is_valid_syntax(term: str, value: str) -> bool:
    grammar: Any = importlib.import_module(_GRAMMAR)
    return bool(grammar.is_valid_syntax(term, value))
