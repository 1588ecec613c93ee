"""What every test needs: the same width of the terminal, whoever runs it; and no work that a run does not need."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import settings
from IPython.core.history import HistoryManager

from tests.skipped import note
from tests.support.clocks import slept  # noqa: F401
from tests.support.hosts import handshake, host, patient, quick, soon, spotless  # noqa: F401
from tests.support.protected_server import protected  # noqa: F401
from tests.support.scripted_tasks import connect, own_data  # noqa: F401
from tests.support.watching import target, watching  # noqa: F401

if TYPE_CHECKING:
    import pytest

os.environ.setdefault("TEST_RUN_PID", str(os.getpid()))  # the same in all workers of a run
os.environ.pop("COLUMNS", None)  # some shells export it; texts are laid out as where there is no terminal
HistoryManager.hist_file.default_value = ":memory:"  # else each shell has a thread, and writes into your history

# `make test` tries the same few examples each time, `make fuzz` many new ones. One that fails is printed as a call, to
# be pinned with @example, and kept in no database: what a run finds does not depend on the runs before it.
settings.register_profile("fixed", max_examples=30, derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", max_examples=300, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")

RUN = asyncio.run

MAX_ID = 24
"""Characters of a value in the id of a case."""


def pytest_configure(config: pytest.Config) -> None:
    """Take no examples from the constants of imported modules: which modules are imported differs from run to run."""
    with suppress(ImportError):  # older versions of Hypothesis take no constants
        from hypothesis.internal.conjecture import providers

        if config.getoption("hypothesis_profile", None) is None:
            providers.is_local_module_file = lambda path: False


def pytest_runtest_setup() -> None:
    """Put asyncio.run back: once a test has nested a loop, that of nest_asyncio2 leaves its loops open."""
    asyncio.run = RUN


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case without an id by the first words of its value, where pytest would take all of it or a number."""
    if val is None or (isinstance(val, str | int | float) and len(ascii(val)) <= MAX_ID):
        return None
    text = val if isinstance(val, str) else getattr(val, "__name__", None) or re.sub(r" at 0x\w+", "", repr(val))
    words = " ".join(re.findall(r"[^\W_]+", text, re.ASCII))[:MAX_ID].strip()
    return words or ("signs" if text.strip("[](){}") else "empty")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the run: two million objects of modules and tests."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Note why tests were skipped, for the last line of `make test`."""
    reports = terminalreporter.stats.get("skipped", [])
    note([str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple)])
