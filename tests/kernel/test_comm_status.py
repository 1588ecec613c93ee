"""What a page hears of the changes that a person makes in a widget while a cell awaits."""

from contextlib import contextmanager

import pytest

MAKE = """import asyncio, ipywidgets
field = ipywidgets.Text()
ended = asyncio.Event()
field.observe(lambda change: ended.set() if change["new"] == "end" else None, "value")
print(field.model_id)"""


def change(kernel, comm, value):
    state = {"method": "update", "state": {"value": value}, "buffer_paths": []}
    return kernel.send("comm_msg", {"comm_id": comm, "data": state})


def statuses(kernel, count):
    """The next statuses: the message that each is about, and the state."""
    heard = []
    while len(heard) < count:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "status":
            heard.append((message["parent_header"]["msg_id"], message["content"]["execution_state"]))
    return heard


@contextmanager
def awaiting(kernel, comm):
    """A cell that awaits until the field says "end"."""
    cell = kernel.start("print('started')\nawait ended.wait()")
    kernel.until_stream(cell, "started")
    yield cell
    change(kernel, comm, "end")
    assert kernel.finish(cell).status == "ok"


def test_field_changes_report_idle_only_while_a_cell_awaits(kernel):
    comm = kernel.ok(MAKE).stdout.strip()
    changed = change(kernel, comm, "0")
    after = kernel.start("1")  # between cells the kernel reports it alone
    assert statuses(kernel, 4) == [(changed, "busy"), (changed, "idle"), (after, "busy"), (after, "idle")]
    with awaiting(kernel, comm) as cell:
        for value in ("a", "ab", "abc"):
            changed = change(kernel, comm, value)
            assert statuses(kernel, 2) == [(changed, "idle"), (cell, "busy")]  # the kernel still is
    assert kernel.ok("print(field.value)").stdout == "end\n"


@pytest.mark.parametrize(
    "code", ["%reload_ext mcp_magic", "%unload_ext mcp_magic\n%load_ext mcp_magic"], ids=["reload", "load"]
)
def test_loading_again_reports_once(kernel, code):
    kernel.ok(code)
    comm = kernel.ok(MAKE).stdout.strip()
    with awaiting(kernel, comm) as cell:
        first, second = change(kernel, comm, "a"), change(kernel, comm, "ab")
        assert statuses(kernel, 4) == [(first, "idle"), (cell, "busy"), (second, "idle"), (cell, "busy")]
