"""A result with a view, in a kernel before which somebody sits; and in one where nobody does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import dash_server
from tests.support.frontends import VIEW
from tests.support.kernels import run_by_itself

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.frontends import Frontend, Shown

CONNECT = f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}"
SETUP = ["%load_ext mcp_magic", CONNECT, "from mcp_magic import host"]
CALL = "%mcp call dash:sales region=US"


def shown(frontend: Frontend, code: str = CALL) -> tuple[Shown, str]:
    """Run a cell that shows a view; return it and the view's widget."""
    cell = frontend.run(code)
    [name] = cell.live
    return cell, name


def test_view_is_below_text_and_not_saved_in_notebook(frontend: Frontend) -> None:
    cell, name = shown(frontend)
    [text, view] = cell.displays.values()
    assert text["text/plain"].startswith("US: 42\n\ndash:sales has a view")
    assert "<details><summary>result of dash:sales</summary>" in text["text/html"]
    assert list(view) == ["text/plain", "text/html", VIEW]
    frontend.tell(name, kind="hello", view="a")
    sent = frontend.hears(name, "view")
    assert sent["html"] == dash_server.HTML
    saved = json.dumps([*cell.displays.values(), frontend.models[name]])
    assert "waiting</h2>" not in saved
    assert "US: 42" not in json.dumps(frontend.models[name])


@pytest.mark.lowest
def test_what_the_view_calls_is_asked_in_its_own_bar(frontend: Frontend) -> None:
    _, name = shown(frontend)
    frontend.tell(name, kind="hello", view="a")
    frontend.hears(name, "view")
    params = {"name": "refresh", "arguments": {"step": 2}}
    frontend.tell(name, kind="request", view="a", id=1, method="tools/call", params=params)
    question = frontend.hears(name, "ask")
    assert question["text"].startswith("app dash wants to call dash:refresh")
    assert [each["label"] for each in question["choices"]] == ["Approve", "Deny"]
    frontend.tell(name, kind="answer", view="a", id=question["id"], choice="approve", extra={"scope": "tool"})
    assert frontend.hears(name, "reply")["result"]["content"][0]["text"] == "step 2 done"

    frontend.tell(name, kind="request", view="a", id=2, method="tools/call", params=params)
    assert frontend.hears(name, "reply")["id"] == 2, "always for this tool: it is not asked again"
    audit = frontend.run("[f'{r.asker} {r.tool} {r.by}' for r in host.consent.audit.records]").lines
    assert audit == ["['app dash refresh person', 'app dash refresh rule `allow dash:refresh`']"]


def test_what_the_bar_cannot_show_at_once_must_be_opened_first(frontend: Frontend) -> None:
    _, name = shown(frontend)
    frontend.tell(name, kind="hello", view="a")
    frontend.hears(name, "view")
    params = {"name": "sales", "arguments": {"region": "x" * 5000 + "the end"}}
    frontend.tell(name, kind="request", view="a", id=1, method="tools/call", params=params)
    question = frontend.hears(name, "ask")
    [[argument, text]] = question["long"]
    assert (argument, text[-7:], question["must_open"]) == ("region", "the end", True)
    frontend.tell(name, kind="answer", view="a", id=question["id"], choice="deny", extra={"reason": "too long"})
    assert "too long" in frontend.hears(name, "reply")["error"]["message"]


def test_the_app_shows_it_again_and_a_variable_shows_nothing(frontend: Frontend) -> None:
    assert frontend.run(f"r = {CALL}").displays == {}
    cell, _ = shown(frontend, "r.app")
    assert len(cell.displays) == 1


def test_view_of_agent_call_stands_between_card_and_next_turn(frontend: Frontend) -> None:
    frontend.run("from mcp_magic import ScriptedModel\nhost.consent.policy = 'auto'")
    frontend.run("model = ScriptedModel([[('dash:sales', {'region': 'EU'})], 'These are the figures.'])")
    cell = frontend.run("%%mcp_agent --model $model\nShow the sales")
    assert cell.traceback == []
    shown = [("view" if VIEW in each else str(each["text/plain"])) for each in cell.displays.values() if each]
    assert shown.count("view") == 1
    at = shown.index("view")
    assert "dash:sales" in shown[at - 1]
    assert "These are the figures." in shown[at + 1]


def test_where_nobody_sits_the_text_says_that_there_is_a_view(tmp_path: Path) -> None:
    *_, outputs = run_by_itself(tmp_path, "%load_ext mcp_magic", CONNECT, CALL)
    [result] = outputs
    assert list(result["data"]) == ["text/plain", "text/html"]
    assert "dash:sales has a view" in result["data"]["text/plain"]
