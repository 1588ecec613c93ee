"""What every test needs: the same width of the terminal, whoever runs it; and no work that a run does not need."""

from __future__ import annotations

import gc
import os

from mcp_magic.schema.validation import import_jsonschema

os.environ.pop("COLUMNS", None)  # some shells export it; texts are laid out as where there is no terminal
import_jsonschema()  # before a test does it without our haste


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the run: two million objects of modules and tests."""
    gc.collect()
    gc.freeze()
