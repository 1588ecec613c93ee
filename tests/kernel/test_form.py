"""`%mcp form` in a real kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import SHOWCASE, connect_in_process

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module", autouse=True)
def showcase(kernel):
    connect_in_process(kernel, SHOWCASE, "showcase")


def comms(kernel: Kernel) -> int:
    return int(kernel.ok("len(__import__('comm').get_comm_manager().comms)").text)


def test_a_form_is_shown_as_widget_text_and_html_or_assigned(kernel):
    cell = kernel.ok("%mcp form showcase:defaults count=4")
    assert cell.data[VIEW]["model_id"]
    assert "form of showcase:defaults" in cell.text
    assert "showcase:defaults" in cell.data["text/html"]
    assert cell.stdout == ""
    assert kernel.ok("form = %mcp form showcase:defaults count=4 'items:=[7]'").outputs == []
    assert kernel.ok("form.arguments").text == "{'count': 4, 'items': [7]}"
    assert kernel.ok("(await form.run()).data['items']").text == "[7]"
    assert kernel.ok("form.result.data['count']").text == "4"


def test_click_runs_tool_and_updates_saved_output(kernel):
    [shown] = kernel.ok("clicked = %mcp form showcase:defaults count=4\nclicked", cellId="click").outputs
    assert shown["msg_type"] == "display_data"
    display_id = shown["content"]["transient"]["display_id"]
    button = kernel.ok("print(clicked.buttons.run.comm.comm_id)").stdout.strip()
    kernel.send("comm_msg", {"comm_id": button, "data": {"method": "custom", "content": {"event": "click"}}})
    message = {"msg_type": ""}
    while message["msg_type"] != "update_display_data" or message["content"]["transient"]["display_id"] != display_id:
        message = kernel.client.get_iopub_msg(timeout=60)
    replaced = message["content"]["data"]
    assert "— done in" in replaced["text/plain"]
    assert replaced[VIEW] == shown["content"]["data"][VIEW]
    assert kernel.ok("clicked.result.data['count']").text == "4"


def test_runs_of_a_cell_leave_the_comms_of_one_form(kernel):
    before = comms(kernel)
    counts = []
    for line in ["%mcp form showcase:nested"] * 3 + ["pass"]:
        kernel.ok(line, cellId="again", deletedCells=[])
        counts.append(comms(kernel))
    assert counts[0] > before
    assert counts == [counts[0]] * 3 + [before]
    kernel.ok("%mcp form showcase:nested", cellId="deleted", deletedCells=[])
    assert comms(kernel) > before
    kernel.ok("pass", cellId="another", deletedCells=["deleted"])
    assert comms(kernel) == before
    for _ in range(2):
        kernel.ok("ran = %mcp form showcase:defaults\nawait ran.run()\nran", cellId="ran", deletedCells=[])
    kernel.ok("ran = None", cellId="ran", deletedCells=[])
    assert comms(kernel) == before, "nor is anything left of one that ran"


def test_prompts_and_templates_have_forms(kernel):
    assert "form of showcase:greet" in kernel.ok("%mcp form showcase:greet --prompt name=Ada").text
    assert "form of showcase://fruit/{name}" in kernel.ok("%mcp form showcase://fruit/{name} name=apple").text
    template = "form = %mcp form 'showcase://fruit/{name}' --server showcase name=apple\n(await form.run()).data"
    assert kernel.ok(template).text == "{'name': 'apple', 'letters': 5}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("showcase:defualts", "showcase has no tool 'defualts'. Did you mean 'defaults'?"),
        ("showcase://frut/{name}", "no connected server has the template 'showcase://frut/{name}'. Did you mean"),
        ("showcase:defaults cout=1", "unknown argument 'cout'. Did you mean 'count'?"),
    ],
    ids=["tool", "template", "argument"],
)
def test_what_is_not_there_is_an_error_and_leaves_no_widget(kernel, line, message):
    before = comms(kernel)
    assert message in kernel.run(f"%mcp form {line}").evalue
    assert comms(kernel) == before
