"""`%mcp form` in a real kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.kernel_servers import SHOWCASE, connect_in_process
from tests.support.kernels import Cell, Kernel, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.kernel

VIEW = "application/vnd.jupyter.widget-view+json"
COMMS = "len(__import__('comm').get_comm_manager().comms)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    running = Kernel(folder, environment(folder))
    try:
        running.ok("%load_ext mcp_magic")
        connect_in_process(running, SHOWCASE, "showcase")
        yield running
    finally:
        running.shutdown()


def run_cell(kernel: Kernel, code: str, cell: str, deleted: Sequence[str] = ()) -> Cell:
    """Run code as the frontend that names its cells does."""
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = kernel.client.session.msg(
        "execute_request", content, metadata={"cellId": cell, "deletedCells": list(deleted)}
    )
    kernel.client.shell_channel.send(message)
    done = kernel.finish(message["header"]["msg_id"])
    assert done.status == "ok", done.shown_error
    return done


def updates(kernel: Kernel, display_id: str) -> Iterator[dict[str, Any]]:
    """Yield what replaces an output, as it comes."""
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        content = message["content"]
        if message["msg_type"] == "update_display_data" and content["transient"]["display_id"] == display_id:
            yield content["data"]


def test_a_form_is_shown_once_as_widget_text_and_html(kernel: Kernel) -> None:
    cell = kernel.ok("%mcp form showcase:defaults count=4")
    assert cell.data[VIEW]["model_id"]
    assert "form of showcase:defaults" in cell.text
    assert "showcase:defaults" in cell.data["text/html"]
    assert cell.stdout == ""


def test_an_assigned_form_shows_nothing_and_runs(kernel: Kernel) -> None:
    assert kernel.ok("form = %mcp form showcase:defaults count=4 'items:=[7]'").outputs == []
    assert kernel.ok("form.arguments").text == "{'count': 4, 'items': [7]}"
    assert kernel.ok("(await form.run()).data['items']").text == "[7]"
    assert kernel.ok("form.result.data['count']").text == "4"


def test_click_runs_tool_and_updates_saved_output(kernel: Kernel) -> None:
    cell = run_cell(kernel, "clicked = %mcp form showcase:defaults count=4\nclicked", "click")
    [shown] = cell.outputs
    assert shown["msg_type"] == "display_data"
    display_id = shown["content"]["transient"]["display_id"]
    button = kernel.ok("print(clicked._run.comm.comm_id)").stdout.strip()
    data = {"method": "custom", "content": {"event": "click"}}
    kernel.send("comm_msg", {"comm_id": button, "data": data})
    replaced = next(updates(kernel, display_id))
    assert "— done in" in replaced["text/plain"]
    assert replaced[VIEW] == shown["content"]["data"][VIEW]
    assert kernel.ok("clicked.result.data['count']").text == "4"


def test_ten_runs_of_a_cell_leave_the_comms_of_one_form(kernel: Kernel) -> None:
    line = "%mcp form showcase:nested"
    before = int(kernel.ok(COMMS).text)
    run_cell(kernel, line, "again")
    count = int(kernel.ok(COMMS).text)
    for _ in range(10):
        run_cell(kernel, line, "again")
    assert int(kernel.ok(COMMS).text) == count > before
    run_cell(kernel, "pass", "again")
    assert int(kernel.ok(COMMS).text) == before


def test_form_of_deleted_cell_closes_when_another_runs(kernel: Kernel) -> None:
    before = int(kernel.ok(COMMS).text)
    run_cell(kernel, "%mcp form showcase:nested", "deleted")
    assert int(kernel.ok(COMMS).text) > before
    run_cell(kernel, "pass", "another", deleted=["deleted"])
    assert int(kernel.ok(COMMS).text) == before


def test_a_form_that_ran_and_was_run_again_leaves_nothing(kernel: Kernel) -> None:
    before = kernel.ok(COMMS).text
    for _ in range(3):
        run_cell(kernel, "ran = %mcp form showcase:defaults\nawait ran.run()\nran", "ran")
    run_cell(kernel, "ran = None", "ran")
    assert kernel.ok(COMMS).text == before


def test_prompts_and_templates_have_forms(kernel: Kernel) -> None:
    assert "form of showcase:greet" in kernel.ok("%mcp form showcase:greet --prompt name=Ada").text
    assert "form of showcase://fruit/{name}" in kernel.ok("%mcp form showcase://fruit/{name} name=apple").text
    found = kernel.ok(
        "form = %mcp form 'showcase://fruit/{name}' --server showcase name=apple\n(await form.run()).data"
    )
    assert found.text == "{'name': 'apple', 'letters': 5}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("showcase:defualts", "showcase has no tool 'defualts'. Did you mean 'defaults'?"),
        ("showcase://frut/{name}", "no connected server has the template 'showcase://frut/{name}'. Did you mean"),
        ("showcase:defaults cout=1", "unknown argument 'cout'. Did you mean 'count'?"),
    ],
)
def test_what_is_not_there_is_an_error_and_leaves_no_widget(kernel: Kernel, line: str, message: str) -> None:
    count = kernel.ok(COMMS).text
    assert message in kernel.run(f"%mcp form {line}").evalue
    assert kernel.ok(COMMS).text == count
