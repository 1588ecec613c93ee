from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import mcp_magic.schema

MODULES = [f"mcp_magic.schema.{each.name}" for each in pkgutil.iter_modules(mcp_magic.schema.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
