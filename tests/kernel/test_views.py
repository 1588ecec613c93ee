"""A result with a view, in a kernel before which somebody sits; and in one where nobody does."""

import json
import sys

import pytest

from tests.support import dash_server
from tests.support.frontends import VIEW
from tests.support.kernel_servers import LOAD
from tests.support.kernels import run_by_itself

CONNECT = f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}"
SETUP = [LOAD, CONNECT, "from mcp_magic import host"]
CALL = "%mcp call dash:sales region=US"


def opened(frontend, code=CALL):
    """Run a cell that shows a view; return it, the view's widget, and what that is sent."""
    cell = frontend.run(code)
    [name] = cell.live
    frontend.tell(name, kind="hello", view="a")
    return cell, name, frontend.hears(name, "view")


def test_view_is_below_text_and_not_saved_in_notebook(frontend):
    cell, name, sent = opened(frontend)
    [text, view] = cell.displays.values()
    assert text["text/plain"].startswith("US: 42\n\ndash:sales has a view")
    assert "<details><summary>result of dash:sales</summary>" in text["text/html"]
    assert list(view) == ["text/plain", "text/html", VIEW]
    assert sent["html"] == dash_server.HTML
    assert "waiting</h2>" not in json.dumps([*cell.displays.values(), frontend.models[name]])
    assert "US: 42" not in json.dumps(frontend.models[name])
    assert frontend.run(f"r = {CALL}").displays == {}
    assert len(opened(frontend, "r.app")[0].displays) == 1


@pytest.mark.lowest
def test_what_the_view_calls_is_asked_in_its_own_bar(frontend):
    _, name, _ = opened(frontend)
    params = {"name": "refresh", "arguments": {"step": 2}}
    frontend.tell(name, kind="request", view="a", id=1, method="tools/call", params=params)
    question = frontend.hears(name, "ask")
    assert question["text"].startswith("app dash wants to call dash:refresh")
    assert [choice["label"] for choice in question["choices"]] == ["Approve", "Deny"]
    frontend.tell(name, kind="answer", view="a", id=question["id"], choice="approve", extra={"scope": "tool"})
    assert frontend.hears(name, "reply")["result"]["content"][0]["text"] == "step 2 done"
    frontend.tell(name, kind="request", view="a", id=2, method="tools/call", params=params)
    assert frontend.hears(name, "reply")["id"] == 2, "always for this tool: it is not asked again"
    audit = frontend.run("[f'{r.asker} {r.tool} {r.by}' for r in host.consent.audit.records]").lines
    assert audit == ["['app dash refresh person', 'app dash refresh rule `allow dash:refresh`']"]


def test_what_the_bar_cannot_show_at_once_must_be_opened_first(frontend):
    _, name, _ = opened(frontend)
    params = {"name": "sales", "arguments": {"region": "x" * 5000 + "the end"}}
    frontend.tell(name, kind="request", view="a", id=1, method="tools/call", params=params)
    question = frontend.hears(name, "ask")
    [[argument, text]] = question["long"]
    assert (argument, text[-7:], question["must_open"]) == ("region", "the end", True)
    frontend.tell(name, kind="answer", view="a", id=question["id"], choice="deny", extra={"reason": "too long"})
    assert "too long" in frontend.hears(name, "reply")["error"]["message"]


def test_view_of_agent_call_stands_between_card_and_next_turn(frontend):
    frontend.run("from mcp_magic import ScriptedModel\nhost.consent.policy = 'auto'")
    frontend.run("model = ScriptedModel([[('dash:sales', {'region': 'EU'})], 'These are the figures.'])")
    cell = frontend.run("%%mcp_agent --model $model\nShow the sales")
    assert cell.traceback == []
    shown = ["view" if VIEW in bundle else str(bundle["text/plain"]) for bundle in cell.displays.values() if bundle]
    assert shown.count("view") == 1
    at = shown.index("view")
    assert "dash:sales" in shown[at - 1]
    assert "These are the figures." in shown[at + 1]


def test_an_unattended_run_names_the_view_in_text(tmp_path):
    [result] = run_by_itself(tmp_path, LOAD, CONNECT, CALL)[-1]
    assert list(result["data"]) == ["text/plain", "text/html"]
    assert "dash:sales has a view" in result["data"]["text/plain"]
