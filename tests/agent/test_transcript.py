"""What a person sees of a transcript, as HTML and as text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from mcp_magic.agent.events import NoteEvent, ProgressEvent, RequestEvent, StartEvent, TurnEvent
from mcp_magic.agent.transcript import STYLE
from mcp_magic.display.markdown import markdown
from mcp_magic.flight.progress import Report
from tests.support.markup import EVIL, Markup
from tests.support.telling import call, called, decided, definition, html, result, texts, told, turn, usage

if TYPE_CHECKING:
    from mcp_magic.agent.transcript import Transcript

STARTED = StartEvent("1")


async def whole_run(**options: Any) -> Transcript:
    tool = definition("add", read_only_hint=True, open_world_hint=False)
    return told(
        RequestEvent("Add 3 and 4"),
        TurnEvent(turn("I add **them**.", "1=add", id="a")),
        call("1", arguments={"a": 3, "b": 4}, definition=tool),
        decided("1"),
        STARTED,
        result("1", await called("add", a=3, b=4)),
        TurnEvent(turn("The sum is **7**.", id="b", tokens=usage(1204, 56))),
        **options,
    )


async def test_a_run_reads_like_a_protocol():
    transcript = await whole_run()
    assert str(transcript) == (
        "> Add 3 and 4\n\nI add **them**.\n\n✓ ok showcase:add(a=3, b=4) (approved by you, 120 ms)\n    7\n\n"
        "The sum is **7**.\n\n2 turns · 1 call · 120 ms in tools · 1,204 tokens in, 56 out"
    )
    page = html(transcript)
    for shown in ("Add 3 and 4", "✓ ok", "<b>showcase:add</b>", "a=3, b=4", "→ 7", "approved by you, 120 ms"):
        assert shown in page
    assert re.search('<div class="mcp-said"[^>]*><p>I add <strong>them</strong>.</p>', page)
    assert re.search('<div class="mcp-answer"[^>]*><p>The sum is <strong>7</strong>.</p>', page)
    bare = re.sub(r"<[^>]*>", "", page)
    assert "✓ ok showcase:add a=3, b=4 → 7 · approved by you, 120 ms" in bare, "it reads without style, too"
    assert set(transcript._repr_mimebundle_()) == {"text/plain", "text/html"}, "and no Markdown"
    assert set(transcript._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert "tokens" not in html(await whole_run(tokens=False))
    said = [TurnEvent(turn(str(n), id=str(n), tokens=usage(1000, 10))) for n in range(3)]
    assert str(told(*said)).endswith("\n\n3,000 tokens in, 30 out")


async def test_show_answer_or_none_shortens_the_transcript():
    transcript = await whole_run(show="answer")
    page = html(transcript)
    assert [part in page for part in ("The sum is", "Add 3 and 4")] == [True, True]
    assert [part for part in ("I add", "<details", "showcase:add") if part in page] == []
    nothing = await whole_run(show="none")
    assert nothing._repr_mimebundle_() == {"text/plain": "", "text/html": ""}
    assert nothing.segment_count == 0


async def test_tables_and_pictures_are_rendered():
    transcript = told(call("1", "cities"), result("1", await called("cities")))
    page = html(transcript)
    assert "→ 2 rows x 2 columns" in page
    assert ">Paris</td>" in page
    assert ' open="" ' not in page
    assert "    Paris     21.5\n" in str(transcript)
    page = html(told(call("1", "pixel"), result("1", await called("pixel"))))
    assert 'src="data:image/png;base64,' in page
    assert "<details" in page
    assert ' open="" ' in page, "pictures stand open"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n" + "1,2\n" * 120, "→ 120 rows x 2 columns"),
        ("cloudy\nwith rain", "→ cloudy …"),
        ('{"a": 1}', "→ { &quot;a&quot;: 1 }"),
        ("w" * 300, f"→ {'w' * 89}…"),
    ],
    ids=["table", "lines", "json", "long"],
)
def test_the_line_of_a_call_has_its_result_in_short(text, line):
    assert f"<span>{line}</span>" in html(told(call("1"), result("1", texts(text))))


def test_a_running_call_has_a_clock_that_stops_for_questions(monkeypatch):
    transcript = told(call("1"), STARTED)
    transcript.render_segment(0)
    assert transcript.dirty == set()
    begin, now = time.perf_counter(), 6.2
    monkeypatch.setattr(time, "perf_counter", lambda: begin + now)
    assert transcript.dirty == {0}
    assert "» running · 6 s" in html(transcript)
    clock = Report("", "", started=begin)
    transcript = told(call("1"), StartEvent("1", clock))
    with clock.paused():
        now = 60.0
        assert transcript.dirty == {0}
        assert "» running · 6 s · waiting for your answer" in html(transcript)
    now = 62.0
    assert transcript.dirty == {0}
    assert "» running · 8 s" in str(transcript)
    assert "waiting" not in str(transcript)


RULE = "rule `allow a:*`"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (None, "… waiting"),
        (STARTED, "» running"),
        (result("1", texts("7")), "✓ ok"),
        (result("1", texts("no", is_error=True)), "✗ error"),
        (decided("1", False, reason="too dear"), "⊘ denied"),
        (decided("1", False, reason="too dear"), "by you: too dear"),
        (decided("1"), "approved by you"),
        (decided("1", by=RULE), f"allowed by {RULE}"),
        (decided("1", arguments={"a": 2}), "edited and approved by you"),
        (decided("1", False, by="default", reason="you cannot be asked here"), "by default: you cannot be asked"),
    ],
)
def test_a_call_says_its_state_and_who_decided(event, words):
    transcript = told(call("1", arguments={"a": 1}), *([event] if event else []))
    assert words in html(transcript).replace("<code>allow a:*</code>", "`allow a:*`")
    assert words in str(transcript)


def test_a_denied_card_is_not_red():
    page = html(told(call("1"), decided("1", False), call("2"), result("2", texts(is_error=True))))
    cards = re.findall(r'class="mcp-call mcp-call-(\w+)" style="([^"]*)"', page)
    assert [(state, "#d32f2f" in style) for state, style in cards] == [("denied", False), ("error", True)]
    assert ".mcp-call-error{border-left-color:var(--jp-error" in STYLE
    assert "denied" not in STYLE


def test_notes_are_marked_and_backticks_are_code():
    assert "allowed by rule <code>allow a:*</code>" in html(told(call("1"), decided("1", by=RULE)))
    remark = told(NoteEvent("`%config A.b = 1` chooses <b>"))
    assert "<code>%config A.b = 1</code> chooses &lt;b&gt;" in html(remark)
    offline = NoteEvent("the model is offline")
    transcript = told(offline, NoteEvent("it broke", level="error"))
    assert re.search('<p class="mcp-note"[^>]*>the model is offline</p>', html(transcript))
    assert re.search('<span class="mcp-error"[^>]*>error</span> it broke', html(transcript))
    assert str(transcript) == "(the model is offline)\n\n(error: it broke)"
    tool = definition("add", read_only_hint=True, title="Add numbers")
    assert "[○ read-only]" in str(told(call("1", definition=tool)))


def test_arguments_that_changed_or_are_long_are_in_a_table():
    transcript = told(call("1", arguments={"a": 1}), decided("1", arguments={"a": 2}))
    assert "✎ changed; was 1" in html(transcript)
    assert "✎ a = 2 (changed; was 1)" in str(transcript)
    page = html(told(call("1", arguments={"text": "word " * 100, "n": 1})))
    assert ">text</th>" in page
    assert "… 200 characters left out …" in page


def test_secrets_in_arguments_never_appear():
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    arguments = {"api_key": "sk-abc", "login": {"password": "hunter2"}, "pin": "1234", "text": "x" * 200}
    edited = decided("1", arguments={**arguments, "api_key": "sk-new"})
    transcript = told(call("1", arguments=arguments, definition=definition("add", schema)), edited)
    for shown in (html(transcript), str(transcript), repr(transcript)):
        assert not [secret for secret in ("sk-abc", "sk-new", "hunter2", "1234") if secret in shown]
    assert "api_key=***" in str(transcript)


def test_thoughts_are_folded_and_pictures_counted():
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    blocks: Any = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I see"}, picture]
    transcript = told(TurnEvent(AIMessage(blocks, id="1")))
    assert "<details><summary>thinking, 2 characters</summary><pre>hm</pre>" in html(transcript)
    assert "[1 image]" in html(transcript)
    assert "aGk=" not in html(transcript)
    assert str(transcript) == "(thinking, 2 characters)\nI see\n[1 image]"


def test_text_wraps_and_long_results_are_cut():
    code = "```\n" + "x = " + "1 + " * 40 + "1\n```"
    transcript = told(TurnEvent(turn("word " * 60 + "\n\n" + code, id="1")))
    lines = str(transcript).split("\n")
    assert max(map(len, lines)) <= 100
    assert len([line for line in lines if line.startswith("word")]) == 3
    assert len([line for line in lines if "1 + 1" in line]) == 1, "code does not wrap"
    transcript = told(call("1"), result("1", texts("\n".join(f"line {n}" for n in range(100)))))
    lines = str(transcript).split("\n")
    assert {"    line 11", "    …"} < set(lines)
    assert "    line 12" not in lines


# What others wrote stays text

WORDS = {"p", "pre", "span", "b", "code", "br", "strong", "em", "a", "ul", "ol", "li", "h4", "h5", "h6", "small", "hr"}
TAGS = WORDS | {"style", "div", "details", "summary", "blockquote", "table", "tbody", "tr", "th", "td"}


def hostile() -> Transcript:
    evil = f"{EVIL} [a](javascript:alert(1)) ![b](http://x/{EVIL}) <img src=x onerror=alert(1)>"
    tool = definition(EVIL, title=EVIL, read_only_hint=True)
    return told(
        RequestEvent(evil),
        RequestEvent(evil, role="system"),
        NoteEvent(evil, level=EVIL),
        TurnEvent(AIMessage([{"type": "thinking", "thinking": evil}, evil], id=EVIL)),
        call("1", EVIL, server=EVIL, arguments={EVIL: EVIL, "a": [EVIL] * 50}, definition=tool),
        decided("1", by=EVIL, reason=EVIL, arguments={EVIL: 1}),
        ProgressEvent(id="1", progress=1, total=2, message=EVIL),
        result("1", texts(evil, EVIL, server=EVIL, tool=EVIL, is_error=True)),
        call("2", EVIL, server=EVIL),
        decided("2", False, by=EVIL, reason=EVIL),
        call("3", EVIL, server=EVIL),
        result("3", ToolMessage(evil, tool_call_id="3", name=EVIL)),
    )


def test_words_of_others_become_no_markup_and_steer_no_terminal():
    transcript = hostile()
    page = Markup(html(transcript))
    assert page.tags <= TAGS
    assert page.attributes <= {"class", "title", "href", "target", "rel", "style", "open", "start"}
    assert all(url.startswith("http") for url in page.urls)
    assert not [part for part in ("\x1b", "\u202e") if part in str(transcript)]
    assert "\x1b" not in html(transcript)


BLOCK = (  # the beginning of a block of code, up to its attributes
    '<pre class="mcp-line" style="background:rgba(127,127,127,.15);padding:5px 8px">'
    '<code style="background:transparent"'
)
NEW = 'target="_blank" rel="noopener noreferrer"'


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<b onclick=x>hi</b>", "<p>&lt;b onclick=x&gt;hi&lt;/b&gt;</p>\n"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>\n"),
        ("[a](java&#115;cript:alert(1))", "<p>[a](javascript:alert(1))</p>\n"),
        ("[a](/logout)", "<p>[a](/logout)</p>\n"),
        ("[a](data:text/html,x)", "<p>[a](data:text/html,x)</p>\n"),
        ("[a](https://x.org)", f'<p><a href="https://x.org" {NEW}>a</a></p>\n'),
        ("![map](https://x.org/m.png)", f'<p><a href="https://x.org/m.png" {NEW}>image: map</a></p>\n'),
        ("![map](data:image/png;base64,aGk=)", "<p>![map](data:image/png;base64,aGk=)</p>\n"),
        ("# Title", "<h4>Title</h4>\n"),
        ("~~old~~", "<p><s>old</s></p>\n"),
        ("```py\na < b\n```", f'{BLOCK} class="language-py">a &lt; b\n</code></pre>\n'),
        ('```"><img src=x>\na\n```', f"{BLOCK}>a\n</code></pre>\n"),
    ],
)
def test_markdown_becomes_harmless_html(source, shown):
    assert markdown(source) == shown


def test_markdown_keeps_linked_pictures_and_tables():
    assert markdown("[![map](https://x.org/m.png)](https://x.org)").count("<a ") == 1
    made = markdown("| a | b |\n|---|--:|\n| x | 1 |")
    assert re.match('<div class="mcp-scroll"[^>]*><table>', made)
    assert '<td style="text-align:right">1</td>' in made
    assert made.endswith("</table></div>\n")
