"""What a page hears of the changes that a person makes in a widget while a cell awaits."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kernels import Kernel

MAKE = """import asyncio, ipywidgets
field = ipywidgets.Text()
ended = asyncio.Event()
field.observe(lambda change: ended.set() if change["new"] == "end" else None, "value")
print(field.model_id)"""
AWAIT = "print('started')\nawait ended.wait()"


def change(kernel: Kernel, comm: str, value: str) -> str:
    state = {"method": "update", "state": {"value": value}, "buffer_paths": []}
    return kernel.send("comm_msg", {"comm_id": comm, "data": state})


def statuses(kernel: Kernel, count: int) -> list[tuple[str, str]]:
    """The next statuses: the message that each is about, and the state."""
    found: list[tuple[str, str]] = []
    while len(found) < count:
        message: dict[str, Any] = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "status":
            found.append((message["parent_header"]["msg_id"], message["content"]["execution_state"]))
    return found


@contextlib.contextmanager
def awaiting(kernel: Kernel, comm: str) -> Iterator[str]:
    """A cell that awaits until the field says "end"."""
    cell = kernel.start(AWAIT)
    kernel.until_stream(cell, "started")
    yield cell
    change(kernel, comm, "end")
    assert kernel.finish(cell).status == "ok"


def test_field_changes_report_idle_while_a_cell_awaits(kernel: Kernel) -> None:
    comm = kernel.ok(MAKE).stdout.strip()
    with awaiting(kernel, comm) as cell:
        for value in ("a", "ab", "abc"):
            changed = change(kernel, comm, value)
            assert statuses(kernel, 2) == [(changed, "idle"), (cell, "busy")]  # the kernel still is
    assert kernel.ok("print(field.value)").stdout == "end\n"


def test_between_cells_the_kernel_reports_it_alone(kernel: Kernel) -> None:
    comm = kernel.ok(MAKE).stdout.strip()
    changed = change(kernel, comm, "a")
    after = kernel.start("1")
    assert statuses(kernel, 4) == [(changed, "busy"), (changed, "idle"), (after, "busy"), (after, "idle")]


@pytest.mark.parametrize("code", ["%reload_ext mcp_magic", "%unload_ext mcp_magic\n%load_ext mcp_magic"])
def test_loading_again_reports_once(kernel: Kernel, code: str) -> None:
    kernel.ok(code)
    comm = kernel.ok(MAKE).stdout.strip()
    with awaiting(kernel, comm) as cell:
        first, second = change(kernel, comm, "a"), change(kernel, comm, "ab")
        assert statuses(kernel, 4) == [(first, "idle"), (cell, "busy"), (second, "idle"), (cell, "busy")]
