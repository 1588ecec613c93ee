"""A live screen draws only what changed, and a long run stays light."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from mcp_magic.agent.transcript import Transcript
from mcp_magic.display.document import display
from tests.support.clocks import cpu_time
from tests.support.telling import call, called, decided, html, result, texts, told, turn

LONG = "\n".join(f"line {n} of a page & its <words>, as long as such lines are" for n in range(170))
ROWS = json.dumps([{"id": n, "name": f"row {n}", "value": n * 1.5, "note": "x" * 40} for n in range(120)])


def step(number: int, text: str) -> list[dict[str, Any]]:
    id_ = f"c{number}"
    return [
        {"kind": "said", "message": turn(f"Step {number}: the next page.", f"{id_}=page", id=f"m{number}")},
        call(id_, "page", arguments={"number": number}),
        decided(id_, by="approval = 'auto'"),
        {"kind": "started", "id": id_},
        result(id_, texts(text, tool="page")),
    ]


def rendered(transcript: Transcript) -> dict[int, str]:
    return {index: transcript.render_segment(index)["text/html"] for index in sorted(transcript.dirty)}


def shown_live(events: list[dict[str, Any]]) -> tuple[Transcript, float]:
    """A transcript whose changes were rendered after every event, and the seconds of computing that took."""
    transcript = Transcript()
    with cpu_time() as cost:
        for event in events:
            transcript.on_event(event)
            rendered(transcript)
    return transcript, cost.seconds


@pytest.mark.timed
@pytest.mark.parametrize("text", [LONG, ROWS], ids=["text", "table"])
def test_200_steps_render_fast_and_stay_small(text: str) -> None:
    assert len(text) > 10_000
    events = [event for number in range(200) for event in step(number, text)]
    transcript, seconds = shown_live(events)
    assert seconds < 1 or min(shown_live(events)[1] for _ in range(2)) < 1  # others may have been at work here
    bundle = transcript._repr_mimebundle_()
    assert len(bundle["text/html"].encode()) < 500_000
    assert len(bundle["text/plain"].encode()) < 200_000
    # every step is still there, the last with its result, the first in a line
    assert all(f"number={number}<" in bundle["text/html"] for number in range(200))
    assert bundle["text/html"].count("<details") < 200


def test_run_of_any_length_stays_small_and_reports_omissions() -> None:
    transcript = told(*(event for number in range(1500) for event in step(number, ROWS)))
    page = transcript._repr_mimebundle_()["text/html"]
    assert len(page.encode()) < 500_000
    assert "earlier entries are not shown" in page
    assert "number=1499<" in page


def test_many_large_calls_at_once_stay_below_500_kb() -> None:
    calls = [call(str(n), arguments={f"argument_{m}": "& " * 500 for m in range(50)}) for n in range(60)]
    answers = [result(str(n), texts("&<>\"'" * 5000)) for n in range(60)]
    assert len(told(*calls, *answers)._repr_mimebundle_()["text/html"].encode()) < 500_000


def test_a_new_event_changes_the_last_segment_only() -> None:
    transcript = told(*(event for number in range(30) for event in step(number, "short")))
    rendered(transcript)
    assert transcript.dirty == set()
    transcript.on_event({"kind": "text", "id": "end", "text": "Do"})
    last = transcript.segment_count - 1
    assert last in transcript.dirty
    rendered(transcript)
    transcript.on_event({"kind": "text", "id": "end", "text": "ne"})
    assert transcript.dirty == {last}
    assert "Done" in rendered(transcript)[last]


def test_the_segments_together_are_what_the_whole_shows() -> None:
    transcript = told(*(event for number in range(25) for event in step(number, f"result {number}")))
    segments = [transcript.render_segment(index)["text/plain"] for index in range(transcript.segment_count)]
    assert len(segments) > 2
    assert "\n\n".join(segments) == str(transcript)


def test_only_the_first_segment_contains_the_style() -> None:
    transcript = told(*(event for number in range(25) for event in step(number, "x")))
    pages = [transcript.render_segment(index)["text/html"] for index in range(transcript.segment_count)]
    assert [page.count("<style>") for page in pages] == [2] + [0] * (len(pages) - 1)
    assert all('<div class="mcp-magic' in page for page in pages)


def test_change_in_an_old_segment_renders_it_again() -> None:
    transcript = told(*(call(str(n)) for n in range(30)))
    rendered(transcript)
    transcript.on_event(result("0", texts("late")))
    assert 0 in transcript.dirty
    assert "late" in rendered(transcript)[0]


def test_only_the_last_segment_has_the_totals() -> None:
    transcript = told(*(event for number in range(20) for event in step(number, "x")))
    pages = [transcript.render_segment(index)["text/html"] for index in range(transcript.segment_count)]
    assert [page.count('class="mcp-totals"') for page in pages] == [0] * (len(pages) - 1) + [1]


def test_calls_that_are_not_shown_make_no_segments() -> None:
    events = [event for number in range(50) for event in step(number, "x")]
    assert told(*events, show="answer").segment_count == 1


def test_22_finished_calls_fold_above_the_answer() -> None:
    events = [event for number in range(22) for event in step(number, ROWS)]
    transcript = told({"kind": "asked", "text": "go"}, *events, {"kind": "said", "message": turn("Done.", id="z")})
    shown = html(transcript)
    folds = re.findall(r'<div class="mcp-before"[^>]*><details><summary>([^<]*)</summary>', shown)
    assert folds == ["19 calls · show all"]
    outside = re.sub(r'<div class="mcp-before"[^>]*>.*</details></div>(?=<)', "", shown, flags=re.DOTALL)
    assert (outside.count("<summary><span"), shown.count("<summary><span")) == (3, 22)
    assert " open" not in shown
    live = "".join(transcript.render_segment(index)["text/html"] for index in range(transcript.segment_count))
    assert live.count('<div class="mcp-before"') < transcript.segment_count
    assert live.count("number=") >= 22
    texts_ = transcript.complete_texts(1)
    assert len([text for text in texts_ if text.startswith("\n✓ ok")]) == 22  # each below words of the model
    assert all("\n" not in text.strip() for text in texts_)


def test_a_terminal_gets_each_entry_once_when_it_is_over() -> None:
    transcript = told({"kind": "asked", "text": "add"}, {"kind": "text", "id": "m", "text": "I a"})
    assert transcript.complete_texts(0) == ["> add"]
    transcript.on_event({"kind": "said", "message": turn("I add.", "1=add", "2=add", id="m")})
    transcript.on_event(call("1"))
    transcript.on_event(call("2"))
    transcript.on_event(result("2", texts("8")))
    assert transcript.complete_texts(1) == ["\nI add."]
    transcript.on_event(result("1", texts("7")))
    assert transcript.complete_texts(2) == ["\n✓ ok showcase:add() → 7 (120 ms)", "✓ ok showcase:add() → 8 (120 ms)"]
    assert transcript.summary == "1 turn · 2 calls · 240 ms in tools"


def test_a_terminal_gets_nothing_of_what_is_not_shown() -> None:
    transcript = told(call("1"), result("1", texts("7")), show="answer")
    assert transcript.complete_texts(0) == [""]


async def test_pictures_of_a_long_run_do_not_make_the_notebook_heavy() -> None:
    picture = await called("pixel")
    block = picture.raw.content[0]
    assert block.type == "image"
    large = picture.raw.model_copy(update={"content": [block.model_copy(update={"data": "AAAA" * 100_000})]})
    picture = type(picture)(large, server="showcase", tool="pixel")
    events = [event for n in range(40) for event in (call(str(n), "pixel"), result(str(n), picture))]
    page = told(*events)._repr_mimebundle_()["text/html"]
    assert page.count("data:image/png") >= 1
    assert len(page) < 2 * (display.media * 4 / 3) + 500_000  # the last segment, and those before it


def test_what_did_not_change_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_magic.agent.transcript import render

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
