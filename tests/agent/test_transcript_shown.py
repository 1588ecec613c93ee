"""What a person sees of a transcript, as HTML and as text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from mcp_magic.display.markdown import markdown
from mcp_magic.inflight import Report
from tests.support.markup import EVIL, Markup
from tests.support.telling import call, called, decided, definition, html, result, texts, told, turn, usage

if TYPE_CHECKING:
    from mcp_magic.agent.transcript import Transcript

EVENTS: tuple[dict[str, Any], ...] = (
    {"kind": "asked", "text": "Add 3 and 4"},
    {"kind": "said", "message": turn("I add **them**.", "1=add", id="a")},
)


async def whole_run(**options: Any) -> Transcript:
    return told(
        *EVENTS,
        call("1", arguments={"a": 3, "b": 4}, definition=definition("add", read_only_hint=True, open_world_hint=False)),
        decided("1"),
        {"kind": "started", "id": "1"},
        result("1", await called("add", a=3, b=4)),
        {"kind": "said", "message": turn("The sum is **7**.", id="b", tokens=usage(1204, 56))},
        **options,
    )


async def test_the_text_of_a_run_reads_like_a_protocol() -> None:
    assert str(await whole_run()) == (
        "> Add 3 and 4\n"
        "\n"
        "I add **them**.\n"
        "\n"
        "✓ ok showcase:add(a=3, b=4) (approved by you, 120 ms)\n"
        "    7\n"
        "\n"
        "The sum is **7**.\n"
        "\n"
        "2 turns · 1 call · 120 ms in tools · 1,204 tokens in, 56 out"
    )


async def test_the_page_has_the_same_and_the_answer_as_markdown() -> None:
    page = html(await whole_run())
    for shown in ("Add 3 and 4", "✓ ok", "<b>showcase:add</b>", "a=3, b=4", "→ 7", "approved by you, 120 ms"):
        assert shown in page
    assert re.search('<div class="mcp-said"[^>]*><p>I add <strong>them</strong>.</p>', page)
    assert re.search('<div class="mcp-answer"[^>]*><p>The sum is <strong>7</strong>.</p>', page)


async def test_page_without_style_and_attributes_keeps_its_text() -> None:
    bare = re.sub(r"<[^>]*>", "", html(await whole_run()))
    assert "✓ ok showcase:add a=3, b=4 → 7 · approved by you, 120 ms" in bare


async def test_there_is_html_and_text_and_no_markdown() -> None:
    assert set((await whole_run())._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert set((await whole_run())._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}


async def test_table_is_rendered_and_the_call_line_states_its_size() -> None:
    transcript = told(call("1", "cities"), result("1", await called("cities")))
    page = html(transcript)
    assert "→ 2 rows x 2 columns" in page
    assert ">Paris</td>" in page
    assert "    Paris     21.5\n" in str(transcript)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n" + "1,2\n" * 120, "→ 120 rows x 2 columns"),
        ("cloudy\nwith rain", "→ cloudy …"),
        ('{"a": 1}', "→ { &quot;a&quot;: 1 }"),
        ("w" * 300, f"→ {'w' * 89}…"),
    ],
)
def test_the_line_of_a_call_has_its_result_in_short(text: str, line: str) -> None:
    assert f"<span>{line}</span>" in html(told(call("1"), result("1", texts(text))))


async def test_pictures_stand_open_and_other_results_are_folded() -> None:
    page = html(told(call("1", "pixel"), result("1", await called("pixel"))))
    assert 'src="data:image/png;base64,' in page
    assert "<details" in page
    assert ' open="" ' in page
    assert ' open="" ' not in html(told(call("1", "cities"), result("1", await called("cities"))))


def test_a_running_call_has_a_clock_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = told(call("1"), {"kind": "started", "id": "1"})
    transcript.render_segment(0)
    assert transcript.dirty == set()
    now = time.perf_counter() + 6.2
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert transcript.dirty == {0}
    assert "» running · 6 s" in html(transcript)


def test_call_clock_stops_while_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, now = time.perf_counter(), 6.2
    monkeypatch.setattr(time, "perf_counter", lambda: begin + now)
    clock = Report("", "", started=begin)
    transcript = told(call("1"), {"kind": "started", "id": "1", "clock": clock})
    with clock.paused():
        now = 60.0
        assert transcript.dirty == {0}
        assert "» running · 6 s · waiting for your answer" in html(transcript)
    now = 62.0
    assert transcript.dirty == {0}
    assert "» running · 8 s" in str(transcript)
    assert "waiting" not in str(transcript)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((), "… waiting"),
        (({"kind": "started", "id": "1"},), "» running"),
        ((result("1", texts("7")),), "✓ ok"),
        ((result("1", texts("no", is_error=True)),), "✗ error"),
        ((decided("1", False, reason="too dear"),), "⊘ denied"),
    ],
)
def test_every_state_has_a_sign_and_a_word(events: tuple[dict[str, Any], ...], words: str) -> None:
    transcript = told(call("1"), *events)
    assert words in html(transcript)
    assert words in str(transcript)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (decided("1"), "approved by you"),
        (decided("1", by="rule `allow a:*`"), "allowed by rule `allow a:*`"),
        (decided("1", arguments={"a": 2}), "edited and approved by you"),
        (decided("1", False, reason="too dear"), "by you: too dear"),
        (
            decided("1", False, by="default", reason="you cannot be asked here"),
            "by default: you cannot be asked",
        ),
    ],
)
def test_a_call_says_who_decided(event: dict[str, Any], words: str) -> None:
    transcript = told(call("1", arguments={"a": 1}), event)
    assert words in html(transcript).replace("<code>allow a:*</code>", "`allow a:*`")
    assert words in str(transcript)


def test_backticks_of_notes_and_rules_are_code() -> None:
    rule = told(call("1"), decided("1", by="rule `allow a:*`"))
    remark = told({"kind": "note", "text": "`%config A.b = 1` chooses <b>"})

    assert "allowed by rule <code>allow a:*</code>" in html(rule)
    assert "<code>%config A.b = 1</code> chooses &lt;b&gt;" in html(remark)


def test_a_changed_argument_is_shown_with_what_it_was() -> None:
    transcript = told(call("1", arguments={"a": 1}), decided("1", arguments={"a": 2}))
    assert "✎ changed; was 1" in html(transcript)
    assert "✎ a = 2 (changed; was 1)" in str(transcript)


def test_secrets_in_arguments_never_appear() -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    given = {"api_key": "sk-abc", "login": {"password": "hunter2"}, "pin": "1234", "text": "x" * 200}
    transcript = told(
        call("1", arguments=given, definition=definition("add", schema)),
        decided("1", arguments={**given, "api_key": "sk-new"}),
    )
    for shown in (html(transcript), str(transcript), repr(transcript)):
        assert not [secret for secret in ("sk-abc", "sk-new", "hunter2", "1234") if secret in shown]
    assert "api_key=***" in str(transcript)


def test_long_arguments_are_cut_in_the_line_and_told_in_a_table() -> None:
    page = html(told(call("1", arguments={"text": "word " * 100, "n": 1})))
    assert ">text</th>" in page
    assert "… 200 characters left out …" in page


def test_offline_remark_is_a_note_and_an_error_is_marked() -> None:
    notes = [{"kind": "note", "text": "the model is offline"}, {"kind": "note", "text": "it broke", "level": "error"}]
    transcript = told(*notes)
    assert re.search('<p class="mcp-note"[^>]*>the model is offline</p>', html(transcript))
    assert re.search('<span class="mcp-error"[^>]*>error</span> it broke', html(transcript))
    assert str(transcript) == "(the model is offline)\n\n(error: it broke)"


def test_thoughts_are_folded_and_pictures_counted() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I see"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
    ]
    transcript = told({"kind": "said", "message": AIMessage(blocks, id="1")})
    assert "<details><summary>thinking, 2 characters</summary><pre>hm</pre>" in html(transcript)
    assert "[1 image]" in html(transcript)
    assert "aGk=" not in html(transcript)
    assert str(transcript) == "(thinking, 2 characters)\nI see\n[1 image]"


async def test_answer_shows_requests_answers_and_notes_but_no_calls() -> None:
    transcript = await whole_run(show="answer")
    page = html(transcript)
    assert "The sum is" in page
    assert "Add 3 and 4" in page
    assert "I add" not in page
    assert "<details" not in page
    assert "showcase:add" not in page


async def test_none_shows_nothing() -> None:
    transcript = await whole_run(show="none")
    assert transcript._repr_mimebundle_() == {"text/plain": "", "text/html": ""}
    assert transcript.segment_count == 0


async def test_without_tokens_none_are_told() -> None:
    assert "tokens" not in html(await whole_run(tokens=False))


def test_tokens_of_several_turns_are_summed_up() -> None:
    said = [{"kind": "said", "message": turn(str(n), id=str(n), tokens=usage(1000, 10))} for n in range(3)]
    assert str(told(*said)).endswith("\n\n3,000 tokens in, 30 out")


def test_text_wraps_at_100_but_tables_and_code_do_not() -> None:
    code = "```\n" + "x = " + "1 + " * 40 + "1\n```"
    transcript = told({"kind": "said", "message": turn("word " * 60 + "\n\n" + code, id="1")})
    lines = str(transcript).split("\n")
    assert max(map(len, lines)) <= 100
    assert len([line for line in lines if line.startswith("word")]) == 3
    assert len([line for line in lines if "1 + 1" in line]) == 1


def test_a_long_result_is_cut_in_the_text_and_says_so() -> None:
    transcript = told(call("1"), result("1", texts("\n".join(f"line {n}" for n in range(100)))))
    lines = str(transcript).split("\n")
    assert "    line 11" in lines
    assert "    line 12" not in lines
    assert "    …" in lines


# -- what others wrote stays text -----------------------------------------------------------------------

TAGS = {"style", "div", "p", "pre", "span", "b", "code", "br", "details", "summary", "blockquote", "table", "tbody"} | {
    "tr",
    "th",
    "td",
    "strong",
    "em",
    "a",
    "ul",
    "ol",
    "li",
    "h4",
    "h5",
    "h6",
    "small",
    "hr",
}
ATTRIBUTES = {"class", "title", "href", "target", "rel", "style", "open", "start"}


def hostile() -> Transcript:
    evil = f"{EVIL} [a](javascript:alert(1)) ![b](http://x/{EVIL}) <img src=x onerror=alert(1)>"
    tool = definition(EVIL, title=EVIL, read_only_hint=True)
    return told(
        {"kind": "asked", "text": evil},
        {"kind": "asked", "text": evil, "role": "system"},
        {"kind": "note", "text": evil, "level": EVIL},
        {"kind": "said", "message": AIMessage([{"type": "thinking", "thinking": evil}, evil], id=EVIL)},
        call("1", EVIL, server=EVIL, arguments={EVIL: EVIL, "a": [EVIL] * 50}, definition=tool),
        decided("1", by=EVIL, reason=EVIL, arguments={EVIL: 1}),
        {"kind": "progress", "id": "1", "progress": 1, "total": 2, "message": EVIL},
        result("1", texts(evil, EVIL, server=EVIL, tool=EVIL, is_error=True)),
        call("2", EVIL, server=EVIL),
        decided("2", False, by=EVIL, reason=EVIL),
        call("3", EVIL, server=EVIL),
        result("3", ToolMessage(evil, tool_call_id="3", name=EVIL)),
    )


def test_nothing_that_others_wrote_becomes_markup() -> None:
    page = Markup(html(hostile()))
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert all(url.startswith("http") for url in page.urls)


def test_nothing_that_others_wrote_steers_a_terminal() -> None:
    text = str(hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\x1b" not in html(hostile())


BLOCK = (
    '<pre class="mcp-line" style="background:rgba(127,127,127,.15);padding:5px 8px">'
    '<code style="background:transparent"'
)
"""The beginning of a block of code, up to its attributes."""


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<b onclick=x>hi</b>", "<p>&lt;b onclick=x&gt;hi&lt;/b&gt;</p>\n"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>\n"),
        ("[a](java&#115;cript:alert(1))", "<p>[a](javascript:alert(1))</p>\n"),
        ("[a](/logout)", "<p>[a](/logout)</p>\n"),
        ("[a](data:text/html,x)", "<p>[a](data:text/html,x)</p>\n"),
        (
            "[a](https://x.org)",
            '<p><a href="https://x.org" target="_blank" rel="noopener noreferrer">a</a></p>\n',
        ),
        (
            "![map](https://x.org/m.png)",
            '<p><a href="https://x.org/m.png" target="_blank" rel="noopener noreferrer">image: map</a></p>\n',
        ),
        ("![map](data:image/png;base64,aGk=)", "<p>![map](data:image/png;base64,aGk=)</p>\n"),
        ("# Title", "<h4>Title</h4>\n"),
        ("~~old~~", "<p><s>old</s></p>\n"),
        ("```py\na < b\n```", f'{BLOCK} class="language-py">a &lt; b\n</code></pre>\n'),
        ('```"><img src=x>\na\n```', f"{BLOCK}>a\n</code></pre>\n"),
    ],
)
def test_markdown_becomes_harmless_html(source: str, shown: str) -> None:
    assert markdown(source) == shown


def test_a_picture_inside_of_a_link_is_its_words() -> None:
    assert markdown("[![map](https://x.org/m.png)](https://x.org)").count("<a ") == 1


def test_tables_scroll_and_keep_their_alignment() -> None:
    made = markdown("| a | b |\n|---|--:|\n| x | 1 |")
    assert re.match('<div class="mcp-scroll"[^>]*><table>', made)
    assert '<td style="text-align:right">1</td>' in made
    assert made.endswith("</table></div>\n")
