"""A live screen draws only what changed, and a long run stays light."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from mcp_magic.agent import transcript as render
from mcp_magic.agent.events import RequestEvent, StartEvent, TextEvent, TurnEvent
from mcp_magic.agent.transcript import Transcript
from mcp_magic.display.document import display
from tests.support.clocks import assert_linear
from tests.support.telling import call, called, decided, html, result, texts, told, turn

LONG = "\n".join(f"line {n} of a page & its <words>, as long as such lines are" for n in range(170))
ROWS = json.dumps([{"id": n, "name": f"row {n}", "value": n * 1.5, "note": "x" * 40} for n in range(120)])


def steps(count: int, text: str) -> list[dict[str, Any]]:
    """Return the events of a run of so many calls."""
    events: list[dict[str, Any]] = []
    for number in range(count):
        id_ = f"c{number}"
        message = turn(f"Step {number}: the next page.", f"{id_}=page", id=f"m{number}")
        events += [
            TurnEvent(message),
            call(id_, "page", arguments={"number": number}),
            decided(id_, by="approval = 'auto'"),
            StartEvent(id_),
            result(id_, texts(text, tool="page")),
        ]
    return events


def rendered(transcript: Transcript) -> dict[int, str]:
    return {index: transcript.render_segment(index)["text/html"] for index in sorted(transcript.dirty)}


def segments(transcript: Transcript, kind: str = "text/html") -> list[str]:
    return [transcript.render_segment(index)[kind] for index in range(transcript.segment_count)]


@pytest.mark.timed
@pytest.mark.parametrize("text", [LONG, ROWS], ids=["text", "table"])
def test_200_steps_render_fast_and_stay_small(text):
    assert len(text) > 10_000
    transcript = Transcript()

    def render(count):
        nonlocal transcript
        transcript = Transcript()
        for event in steps(count, text):
            transcript.on_event(event)
            rendered(transcript)

    assert_linear(render, 200 // 16, 200)
    bundle = transcript._repr_mimebundle_()
    assert len(bundle["text/html"].encode()) < 500_000
    assert len(bundle["text/plain"].encode()) < 200_000
    # every step is still there, the last with its result, the first in a line
    assert all(f"number={number}<" in bundle["text/html"] for number in range(200))
    assert bundle["text/html"].count("<details") < 200


def test_a_run_of_any_length_stays_small_and_says_so():
    page = told(*steps(1500, ROWS))._repr_mimebundle_()["text/html"]
    assert len(page.encode()) < 500_000
    assert "earlier entries are not shown" in page
    assert "number=1499<" in page
    calls = [call(str(n), arguments={f"argument_{m}": "& " * 500 for m in range(50)}) for n in range(60)]
    results = [result(str(n), texts("&<>\"'" * 5000)) for n in range(60)]
    assert len(told(*calls, *results)._repr_mimebundle_()["text/html"].encode()) < 500_000


async def test_pictures_of_a_long_run_do_not_make_the_notebook_heavy():
    picture = await called("pixel")
    block = picture.raw.content[0]
    assert block.type == "image"
    large = picture.raw.model_copy(update={"content": [block.model_copy(update={"data": "AAAA" * 100_000})]})
    picture = type(picture)(large, server="showcase", tool="pixel")
    events = [event for n in range(40) for event in (call(str(n), "pixel"), result(str(n), picture))]
    page = told(*events)._repr_mimebundle_()["text/html"]
    assert page.count("data:image/png") >= 1
    assert len(page) < 2 * (display.media * 4 / 3) + 500_000  # the last segment, and those before it


def test_a_new_event_changes_the_last_segment_only():
    transcript = told(*steps(30, "short"))
    rendered(transcript)
    assert transcript.dirty == set()
    transcript.on_event(TextEvent("end", "Do"))
    last = transcript.segment_count - 1
    assert last in transcript.dirty
    rendered(transcript)
    transcript.on_event(TextEvent("end", "ne"))
    assert transcript.dirty == {last}
    assert "Done" in rendered(transcript)[last]
    transcript = told(*(call(str(n)) for n in range(30)))
    rendered(transcript)
    transcript.on_event(result("0", texts("late")))
    assert 0 in transcript.dirty, "and an old one, if its call does"
    assert "late" in rendered(transcript)[0]


def test_an_entry_that_did_not_change_is_not_drawn_again(monkeypatch):
    drawn: list[Any] = []
    draw = render.draw

    def counted(entry: Any, *args: Any, **more: Any) -> Any:
        drawn.append(entry)
        return draw(entry, *args, **more)

    monkeypatch.setattr(render, "draw", counted)
    transcript = told(call("1"), call("2"), result("1", texts("7")))
    rendered(transcript)
    drawn.clear()
    transcript.on_event(result("2", ToolMessage("8", tool_call_id="2")))
    rendered(transcript)
    assert drawn == [transcript.calls[1]]


def test_the_segments_together_are_what_the_whole_shows():
    transcript = told(*steps(25, "a result"))
    plain, pages = segments(transcript, "text/plain"), segments(transcript)
    assert len(pages) > 2
    assert "\n\n".join(plain) == str(transcript)
    others = [0] * (len(pages) - 1)
    assert [page.count("<style>") for page in pages] == [2, *others]
    assert [page.count('class="mcp-totals"') for page in pages] == [*others, 1]
    assert all('<div class="mcp-magic' in page for page in pages)
    assert told(*steps(50, "x"), show="answer").segment_count == 1, "calls that are not shown make none"


def test_22_finished_calls_fold_above_the_answer():
    events = [RequestEvent("go"), *steps(22, ROWS)]
    transcript = told(*events, TurnEvent(turn("Done.", id="z")))
    shown = html(transcript)
    folds = re.findall(r'<div class="mcp-before"[^>]*><details><summary>([^<]*)</summary>', shown)
    assert folds == ["19 calls · show all"]
    outside = re.sub(r'<div class="mcp-before"[^>]*>.*</details></div>(?=<)', "", shown, flags=re.DOTALL)
    assert (outside.count("<summary><span"), shown.count("<summary><span")) == (3, 22)
    assert " open" not in shown
    live = "".join(segments(transcript))
    assert live.count('<div class="mcp-before"') < transcript.segment_count
    assert live.count("number=") >= 22
    lines = transcript.complete_texts(1)
    assert len([line for line in lines if line.startswith("\n✓ ok")]) == 22  # each below words of the model
    assert all("\n" not in line.strip() for line in lines)


def test_a_terminal_gets_an_entry_once_when_it_is_over():
    transcript = told(RequestEvent("add"), TextEvent("m", "I a"))
    assert transcript.complete_texts(0) == ["> add"]
    said = TurnEvent(turn("I add.", "1=add", "2=add", id="m"))
    for event in (said, call("1"), call("2"), result("2", texts("8"))):
        transcript.on_event(event)
    assert transcript.complete_texts(1) == ["\nI add."]
    transcript.on_event(result("1", texts("7")))
    lines = ["\n✓ ok showcase:add() → 7 (120 ms)", "✓ ok showcase:add() → 8 (120 ms)"]
    assert transcript.complete_texts(2) == lines
    assert transcript.summary == "1 turn · 2 calls · 240 ms in tools"
    assert told(call("1"), result("1", texts("7")), show="answer").complete_texts(0) == [""]
