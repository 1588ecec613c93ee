"""Where a person is asked, and questions that are answered line by line."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from mcp_magic import Host
from mcp_magic.ask.approval import approval_question, decision_of
from mcp_magic.ask.elicitation import Answer, Elicitation, answer_of, elicitation_question, secrets_marked
from mcp_magic.ask.sampling import (
    Expected,
    Review,
    Sampled,
    SamplingRequest,
    reply_question,
    reply_review,
    request_question,
    request_review,
)
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.ipython.ask import Asking, InputAsker, how_to_ask
from mcp_magic.ipython.cells import Circumstances, loops_on_this_stack
from mcp_magic.ipython.extension import MCPMagics
from tests.support.sampling_servers import said

LAB: dict[str, Any] = {"allow_stdin": True, "widgets": True}
CONSOLE: dict[str, Any] = {"allow_stdin": True}
NBCLIENT: dict[str, Any] = {"allow_stdin": False, "widgets": False}
NEW: dict[str, Any] = {"kernel": (7, 4, 0)}
SUBSHELLS: dict[str, Any] = {"kernel": (7, 2, 0), "subshells": True}
OLD: dict[str, Any] = {"kernel": (6, 30, 1)}
TERMINAL: dict[str, Any] = {"kernel": None, "allow_stdin": True}


@pytest.mark.parametrize(
    ("where", "ask_with", "way"),
    [
        (NEW | LAB, "auto", "panel"),
        ({"kernel": (8, 0, 0)} | LAB, "auto", "panel"),
        (SUBSHELLS | LAB, "auto", "panel"),
        ({"kernel": (7, 0, 0), "subshells": True} | LAB, "auto", "panel"),
        ({"kernel": (7, 3, 0)} | LAB, "auto", "input"),
        (OLD | LAB, "auto", "input"),
        (OLD | LAB | {"subshells": True}, "auto", "input"),
        (NEW | LAB | {"nested": True}, "auto", "input"),
        (SUBSHELLS | LAB | {"nested": True}, "auto", "input"),
        (NEW | CONSOLE, "auto", "input"),
        ({"kernel": (0,)} | LAB, "auto", "input"),
        (OLD | LAB | {"running": False}, "auto", "panel"),
        (NEW | LAB | {"running": False, "nested": True}, "auto", "panel"),
        (NEW | CONSOLE | {"running": False}, "auto", "nobody"),
        (NEW | NBCLIENT, "auto", "nobody"),
        (NEW | {"allow_stdin": False, "widgets": True}, "auto", "nobody"),
        (TERMINAL, "auto", "input"),
        (TERMINAL | {"allow_stdin": False}, "auto", "nobody"),
        (NEW | CONSOLE, "panel", "panel"),
        (OLD | LAB, "panel", "panel"),
        (TERMINAL, "panel", "input"),
        (NEW | LAB, "input", "input"),
        (NEW | LAB | {"running": False}, "input", "nobody"),
        (NEW | NBCLIENT, "input", "nobody"),
    ],
)
def test_person_is_asked_where_they_can_answer(where, ask_with, way):
    assert how_to_ask(Circumstances(**where), ask_with) == way


async def test_nested_loop_is_seen_on_the_stack():
    assert loops_on_this_stack() == 1
    counted: list[int] = []
    thread = threading.Thread(target=lambda: counted.append(loops_on_this_stack()))
    thread.start()
    thread.join()
    assert counted == [0]


FORECAST = Request("weather", "forecast", {"location": "London"}, "agent", run="r1")
ASKED = SamplingRequest("writer", (said("Hello"), said("Hi.", "assistant")), 100, "Be brief.")
REPLY = Sampled.of("Hello to you.", "tiny")


class Typist:
    """Types lines; keeps the prompts, those whose line is not shown, and what was written."""

    def __init__(self, *lines: str | BaseException, **options: Any) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []
        self.hidden: list[str] = []
        self.written: list[str] = []
        self.asker = InputAsker(self.read, self.written.append, read_secret=self.secret, **options)

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    def secret(self, prompt: str) -> str:
        self.hidden.append(prompt)
        return self.read(prompt)

    async def decide(self, request: Request = FORECAST) -> Decision:
        return decision_of(request, await self.asker.ask(approval_question(request)))

    async def fill_in(self, asked: Elicitation) -> Answer:
        return answer_of(asked, await self.asker.ask(elicitation_question(asked)))

    async def review_request(self) -> Review:
        question = request_question(ASKED, Expected("tiny", ("no context",)))
        return request_review(ASKED, await self.asker.ask(question))

    async def review_reply(self) -> Review:
        return reply_review(ASKED, REPLY, await self.asker.ask(reply_question(ASKED, REPLY)))


def typed(value: Any) -> str:
    """Return the lines of a case as its id."""
    return " ".join(line if isinstance(line, str) else repr(line) for line in value) if isinstance(value, list) else ""


# Calls


@pytest.mark.parametrize(
    ("lines", "decision"),
    [
        (["y"], Decision(True)),
        ([" YES "], Decision(True)),
        (["n", ""], Decision.deny("")),
        (["n", "too far"], Decision.deny("too far")),
        (["no too far"], Decision.deny("too far")),
        (["", "what", "y"], Decision(True)),
        (["a", "t"], Decision.approve(always="tool")),
        (["always", "x", "a"], Decision.approve(always="arguments")),
        (["a", "r"], Decision.approve(always="run")),
        (["e", '{"location": "Paris"}', "y"], Decision.approve({"location": "Paris"})),
        (["e", "", "y"], Decision(True)),
        (["e", "{", "n never mind"], Decision.deny("never mind")),
        ([EOFError()], Decision.deny("the input ended")),
        (["e", EOFError()], Decision.deny("the input ended")),
        ([KeyboardInterrupt()], Decision.deny("interrupted")),
    ],
    ids=typed,
)
async def test_lines_decide_about_a_call(lines, decision):
    typist = Typist(*lines)
    assert await typist.decide() == decision
    assert not typist.lines


async def test_question_about_a_call_says_who_wants_what():
    typist = Typist("maybe", "e", "[1]", "e", '{"location": "Paris"}', "y")
    assert (await typist.decide()).arguments == {"location": "Paris"}
    assert typist.written[0] == "agent wants to call weather:forecast [no hints]\n  location = London"
    assert typist.written[1] == "y approves, n denies, e edits the arguments first, a and d always approve or deny"
    assert "the arguments must be a JSON object, not list" in typist.written
    assert 'now: {"location": "London"}' in typist.written
    assert typist.written[-1].endswith("  location = Paris   ✎ changed; was London")
    assert typist.prompts[2] == "Arguments as JSON, empty to leave them: "


async def test_an_unknown_letter_is_answered_with_the_letters_that_fit():
    typist = Typist("x", "f", "Oslo", "", "", "", "x", "s")
    await typist.fill_in(FORM)
    assert "type one of f, d, c" in typist.written
    assert "type one of s, f, d, c" in typist.written
    typist = Typist("a", "x", "t")
    await typist.decide()
    assert typist.written[-1] == "type one of t, a, r"


async def test_secrets_of_a_call_are_not_written_and_survive_two_edits():
    login = Request("web", "login", {"user": "me", "password": "hunter2"}, "agent")
    typist = Typist("e", '{"user": "you", "password": "***"}', "e", '{"user": "us", "password": "***"}', "y")
    decision = await typist.decide(login)
    assert decision.arguments == {"user": "us", "password": "hunter2"}
    assert "hunter2" not in "".join(typist.written)


async def test_hidden_values_of_an_agents_call_can_be_viewed():
    login = Request("web", "login", {"user": "me", "password": "hunter\x1b[2J2"}, "agent")
    typist = Typist("v", "n", "")
    assert await typist.decide(login) == Decision.deny("")
    assert typist.written[0].endswith("  password = *** (11 characters)\n  hidden: password (the name of a secret)")
    assert typist.prompts[0].endswith("[v]iew hidden: ")
    assert typist.written[1] == "  password = hunter\\x1b[2J2"
    shown: list[str] = []
    typist = Typist("v", "", "y", reveal=lambda text: shown.append(text) or shown.clear)
    assert await typist.decide(login) == Decision(True)
    assert "hunter" not in "".join(typist.written), "it is not where it would be kept"
    assert (typist.prompts[1], shown) == ("Enter hides it again: ", [])
    typist = Typist("v", "y")
    await typist.decide(replace(login, asker="person"))
    assert "hunter" not in "".join(typist.written), "of one's own call there is nothing more to view"
    assert not typist.prompts[0].endswith("[v]iew hidden: ")


# Time and interruption


async def test_ctrl_c_raises_while_reading_and_is_restored_after():
    before = signal.getsignal(signal.SIGINT)
    during: list[Any] = []

    def read(prompt: str) -> str:
        during.append(signal.getsignal(signal.SIGINT))
        signal.raise_signal(signal.SIGINT)
        return "y"

    reply = await InputAsker(read, print).ask(approval_question(FORECAST))
    assert decision_of(FORECAST, reply) == Decision.deny("interrupted")
    assert during == [signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is before


class Slow(Typist):
    """Takes so many seconds of a clock of its own over each line; the third is never typed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float, *lines: str, limit: float) -> None:
        super().__init__(*lines, seconds=limit)
        self.seconds, self.clock, self.alarms = seconds, 0.0, list[float]()
        monkeypatch.setattr("mcp_magic.ipython.ask.time", SimpleNamespace(monotonic=lambda: self.clock))
        usual = signal.setitimer

        def set_alarm(kind: int, seconds: float) -> Any:
            self.alarms.append(seconds)
            return usual(kind, seconds)

        monkeypatch.setattr(signal, "setitimer", set_alarm)

    def read(self, prompt: str) -> str:
        if len(self.prompts) == 2:
            self.prompts.append(prompt)
            threading.Event().wait(60)
        self.clock += self.seconds
        return super().read(prompt)


@pytest.fixture
def free_alarm():
    """Take the alarm away from pytest-timeout for a while, and give it back."""
    before = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    left = signal.setitimer(signal.ITIMER_REAL, *before)
    assert left == (0, 0), "nobody has left an alarm behind"


@pytest.mark.usefixtures("free_alarm")
@pytest.mark.parametrize(
    "lines", [["", "", "y"], ["e", '{"location": "Paris"}', "y"], ["a", "x", "t"]], ids=["again", "edit", "always"]
)
async def test_all_lines_of_a_question_share_one_time_limit(lines, monkeypatch):
    typist = Slow(monkeypatch, 32, *lines, limit=64.125)
    with pytest.raises(TimeoutError):
        await typist.decide()
    assert typist.alarms == [64.125, 0, 32.125, 0, 0.125, 0]
    assert len(typist.lines) == 1, "the alarm ended the third, which was not typed yet"


@pytest.mark.usefixtures("free_alarm")
async def test_next_question_has_its_own_time(monkeypatch):
    typist = Slow(monkeypatch, 40, "y", "y", limit=60)
    assert [await typist.decide() for _ in range(2)] == [Decision(True)] * 2
    assert typist.alarms == [60, 0] * 2


async def test_late_line_without_alarm_is_a_time_out(monkeypatch):
    typist = Slow(monkeypatch, 2, "y", limit=1)
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    with pytest.raises(TimeoutError):
        await typist.decide()
    assert typist.lines == [], "input() went on until the line came"


# Forms and pages of servers

FORM = Elicitation(
    "trips",
    "Where to?",
    "form",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2, "description": "Where <b>to</b>"},
            "days": {"type": "integer", "default": 3},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["sea", "hills", "food"]}},
            "password": {"type": "string"},
        },
        "required": ["city"],
    },
)
PAGE = Elicitation("bank", "Log in", "url", url="https://bank.example/login")


async def test_form_is_filled_in_line_by_line():
    typist = Typist("f", "Oslo", "", "sea, food", "hunter2", "s")
    answer = await typist.fill_in(FORM)
    assert answer == Answer.accept({"city": "Oslo", "days": 3, "tags": ["sea", "food"], "password": "hunter2"})
    assert typist.prompts[1].startswith("city (string, ")
    assert "required" in typist.prompts[1]
    assert typist.prompts[2].endswith(" [3]: ")
    assert typist.hidden == [typist.prompts[4]]
    assert typist.written[0].startswith("Server trips asks you for:\n  Where to?\nThis seems to ask for a secret: pass")
    words = "Enter your API key"
    asked = Elicitation("asker", words, "form", secrets_marked({"properties": {"it": {"type": "string"}}}, words))
    typist = Typist("f", "sk-0123456789", "s")
    assert await typist.fill_in(asked) == Answer.accept({"it": "sk-0123456789"})
    assert (len(typist.hidden), "MCP forbids" in typist.written[0]) == (1, True)


async def test_value_that_does_not_fit_is_asked_again_with_reason():
    typist = Typist("f", "O", "Oslo", "many", "4", "", "", "s")
    assert (await typist.fill_in(FORM)).content == {"city": "Oslo", "days": 4}
    written = "\n".join(typist.written)
    assert "city: " in written
    assert "days: expected integer, got 'many'" in written
    note = {"type": "object", "properties": {"note": {"type": ["object", "integer"]}}}
    typist = Typist("f", '{"a": 1}', "s", "f", "3", "s")
    assert (await typist.fill_in(Elicitation("trips", "Note?", "form", note))).content == {"note": 3}
    assert any("note: the protocol takes text" in line for line in typist.written)
    with pytest.raises(IndexError):  # it asks on for what is required
        await Typist("f", "", "", "", "", "s").fill_in(FORM)
    typist = Typist("f", "", "", "", "", "s", "f", "Oslo", "", "", "", "s")
    assert (await typist.fill_in(FORM)).content == {"city": "Oslo", "days": 3}


async def test_choices_of_a_form_are_shown_with_their_titles():
    meals = [{"const": "v", "title": "Vegan"}, {"const": "f", "title": "Fish"}]
    seats = {
        "type": "object",
        "properties": {
            "seat": {"oneOf": [{"const": "a", "title": "At the aisle"}, {"const": "w", "title": "At the window"}]},
            "level": {"type": "integer", "enum": [1, 2], "enumNames": ["upper", "lower"]},
            "meals": {"type": "array", "items": {"anyOf": meals}},
            "class": {"type": "string", "enum": ["first", "second"]},
        },
    }
    typist = Typist("f", "w", "lower", "Fish, v", "second", "s")
    answer = await typist.fill_in(Elicitation("trips", "Which seat?", "form", seats))
    assert answer.content == {"seat": "w", "level": 2, "meals": ["f", "v"], "class": "second"}
    assert [line.strip() for line in typist.written[1:]] == [
        *("'a': At the aisle", "'w': At the window", "1: upper", "2: lower", "'v': Vegan", "'f': Fish")
    ]


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["d"], "decline"),
        (["c"], "cancel"),
        (["?", "", "d"], "decline"),
        ([EOFError()], "cancel"),
        (["f", KeyboardInterrupt()], "cancel"),
        (["f", "Oslo", "", "", "", "d"], "decline"),
    ],
    ids=typed,
)
async def test_answer_to_a_form_may_be_no(lines, action):
    answer = await Typist(*lines).fill_in(FORM)
    assert (answer.action, answer.content) == (action, None)


@pytest.mark.parametrize(("line", "action"), [("o", "accept"), ("d", "decline"), ("c", "cancel")])
async def test_page_is_named_with_its_host(line, action):
    typist = Typist(line)
    assert (await typist.fill_in(PAGE)).action == action
    assert "open a page at bank.example" in typist.written[0]
    assert "  https://bank.example/login" in typist.written[0]


# What servers ask of models


@pytest.mark.parametrize(
    ("lines", "review"),
    [
        (["a"], Review.approve()),
        (["r"], Review.approve(show_reply=True)),
        (["?", "", "D", ""], Review.deny()),
        (["d", "it is private"], Review.deny("it is private")),
        ([EOFError()], Review.deny("the input ended")),
        ([KeyboardInterrupt()], Review.deny("interrupted")),
        (["e", "", "", "", "a"], Review.approve()),
        (["e", "", "Good day", "-", "a"], Review.approve(replace(ASKED, messages=(said("Good day"),)))),
        (["e", "-", "", "", "r"], Review.approve(replace(ASKED, system_prompt=""), show_reply=True)),
        (["e", "", "-", "-", "d", ""], Review.deny()),
    ],
    ids=typed,
)
async def test_lines_decide_about_a_request_to_a_model(lines, review):
    typist = Typist(*lines)
    assert await typist.review_request() == review
    assert typist.written[0].startswith("Server writer asks a model to answer:\n  system:\n    Be brief.\n")
    assert "not as asked: no context" in typist.written[0]
    assert ("no message is left: nothing would be asked" in typist.written) == (lines[1:3] == ["", "-"])


@pytest.mark.parametrize(
    ("lines", "review"),
    [
        (["s"], Review.approve()),
        (["r", ""], Review.deny()),
        (["r", "it says too much"], Review.deny("it says too much")),
        (["e", "Mine.", "s"], Review.approve(reply=Sampled.of("Mine.", "tiny"))),
        (["e", "-", "r", ""], Review.deny()),
        ([EOFError()], Review.deny("the input ended")),
    ],
    ids=typed,
)
async def test_lines_decide_about_the_reply_of_a_model(lines, review):
    typist = Typist(*lines)
    assert await typist.review_reply() == review
    assert typist.written[0] == "Reply of tiny to server writer (endTurn):\n    Hello to you."


async def test_a_terminal_asks_nothing_about_outside_clients():
    magics = MCPMagics(InteractiveShell())
    question = approval_question(Request("math", "add", {"a": 1}, "outside codex"))
    reply = await Asking(magics.cells, magics, Host()).ask_outside(question, 60.0)
    assert reply.by == "default"
    assert reply.reason == "the kernel is a terminal, where the person is asked nothing between two lines"
