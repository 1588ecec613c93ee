from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.ask.approval import approval_question, decision_of
from mcp_magic.consent.consent import Consent, Decision, Request
from mcp_magic.ipython.ask import InputAsker, how_to_ask
from mcp_magic.ipython.cells import Circumstances, loops_on_this_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

LAB: dict[str, Any] = {"allow_stdin": True, "widgets": True}
CONSOLE: dict[str, Any] = {"allow_stdin": True}
NBCLIENT: dict[str, Any] = {"allow_stdin": False, "widgets": False}


@pytest.mark.parametrize(
    ("where", "way"),
    [
        ({"kernel": (7, 4, 0), **LAB}, "panel"),
        ({"kernel": (8, 0, 0), **LAB}, "panel"),
        ({"kernel": (7, 2, 0), **LAB, "subshells": True}, "panel"),
        ({"kernel": (7, 0, 0), **LAB, "subshells": True}, "panel"),
        ({"kernel": (7, 3, 0), **LAB}, "input"),
        ({"kernel": (6, 30, 1), **LAB}, "input"),
        ({"kernel": (6, 30, 1), **LAB, "subshells": True}, "input"),
        ({"kernel": (7, 4, 0), **LAB, "nested": True}, "input"),
        ({"kernel": (7, 2, 0), **LAB, "subshells": True, "nested": True}, "input"),
        ({"kernel": (7, 4, 0), **CONSOLE}, "input"),
        ({"kernel": (0,), **LAB}, "input"),
        ({"kernel": (6, 30, 1), **LAB, "running": False}, "panel"),
        ({"kernel": (7, 4, 0), **LAB, "running": False, "nested": True}, "panel"),
        ({"kernel": (7, 4, 0), **CONSOLE, "running": False}, "nobody"),
        ({"kernel": (7, 4, 0), **NBCLIENT}, "nobody"),
        ({"kernel": (7, 4, 0), "allow_stdin": False, "widgets": True}, "nobody"),
        ({"kernel": None, "allow_stdin": True}, "input"),
        ({"kernel": None, "allow_stdin": False}, "nobody"),
    ],
)
def test_a_person_is_asked_where_they_can_answer(where: dict[str, Any], way: str) -> None:
    assert how_to_ask(Circumstances(**where)) == way


@pytest.mark.parametrize(
    ("ask_with", "where", "way"),
    [
        ("panel", {"kernel": (7, 4, 0), **CONSOLE}, "panel"),
        ("panel", {"kernel": (6, 30, 1), **LAB}, "panel"),
        ("panel", {"kernel": None, "allow_stdin": True}, "input"),
        ("input", {"kernel": (7, 4, 0), **LAB}, "input"),
        ("input", {"kernel": (7, 4, 0), **LAB, "running": False}, "nobody"),
        ("input", {"kernel": (7, 4, 0), **NBCLIENT}, "nobody"),
    ],
)
def test_a_setting_says_what_is_known_to_work_better(ask_with: str, where: dict[str, Any], way: str) -> None:
    assert how_to_ask(Circumstances(**where), ask_with) == way


async def test_a_nested_loop_is_seen_on_the_stack() -> None:
    assert loops_on_this_stack() == 1
    counted: list[int] = []
    thread = threading.Thread(target=lambda: counted.append(loops_on_this_stack()))
    thread.start()
    thread.join()
    assert counted == [0]


async def approved(asker: InputAsker, request: Request) -> Decision:
    return decision_of(request, await asker.ask(approval_question(request)))


class Typist:
    """Types lines; keeps the prompts and what was written."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.written: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self._lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    async def answer(self, request: Request) -> Decision:
        return await approved(InputAsker(self.read, self.written.append), request)


FORECAST = Request("weather", "forecast", {"location": "London"}, "agent", run="r1")


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
)
async def test_lines_are_answers(lines: list[str | BaseException], decision: Decision) -> None:
    typist = Typist(*lines)

    assert await typist.answer(FORECAST) == decision
    assert not typist._lines


async def test_the_question_says_who_wants_what() -> None:
    typist = Typist("e", '{"location": "Paris"}', "y")
    await typist.answer(FORECAST)

    assert typist.written[0] == ("agent wants to call weather:forecast [no hints]\n  location = London")
    assert typist.written[1] == 'now: {"location": "London"}'
    assert typist.written[2].endswith("  location = Paris   ✎ changed; was London")
    assert typist.prompts[1] == "Arguments as JSON, empty to leave them: "


async def test_an_edit_that_does_not_fit_is_said_and_not_taken() -> None:
    typist = Typist("e", "[1]", "y")

    assert await typist.answer(FORECAST) == Decision(True)
    assert "the arguments are a JSON object, not list" in typist.written


async def test_secrets_are_not_written_and_survive_two_edits() -> None:
    login = Request("web", "login", {"user": "me", "password": "hunter2"}, "agent")
    typist = Typist("e", '{"user": "you", "password": "***"}', "e", '{"user": "us", "password": "***"}', "y")

    decision = await typist.answer(login)

    assert decision.arguments == {"user": "us", "password": "hunter2"}
    assert "hunter2" not in "".join(typist.written)


async def test_hidden_values_of_agent_call_can_be_viewed_first() -> None:
    login = Request("web", "login", {"user": "me", "password": "hunter\x1b[2J2"}, "agent")
    typist = Typist("v", "n", "")

    assert await typist.answer(login) == Decision.deny("")
    assert typist.written[0].endswith("  password = *** (11 characters)\n  hidden: password (the name of a secret)")
    assert typist.prompts[0].endswith("[v]iew hidden: ")
    assert typist.written[1] == "  password = hunter\\x1b[2J2"


async def test_what_was_viewed_is_taken_away_where_it_would_be_kept() -> None:
    login = Request("web", "login", {"password": "hunter2"}, "agent")
    typist, shown = Typist("v", "", "y"), list[str]()

    def reveal(text: str) -> Any:
        shown.append(text)
        return shown.clear

    decision = await approved(InputAsker(typist.read, typist.written.append, reveal=reveal), login)

    assert decision == Decision(True)
    assert "hunter2" not in "".join(typist.written)
    assert (typist.prompts[1], shown) == ("Enter hides it again: ", [])


async def test_nothing_more_can_be_viewed_of_a_call_of_ones_own() -> None:
    typist = Typist("v", "y")
    await typist.answer(Request("web", "login", {"password": "hunter2"}))

    assert "hunter2" not in "".join(typist.written)
    assert not typist.prompts[0].endswith("[v]iew hidden: ")


async def test_ctrl_c_raises_while_reading_and_is_restored_after() -> None:
    before = signal.getsignal(signal.SIGINT)
    during: list[Any] = []

    def read(prompt: str) -> str:
        during.append(signal.getsignal(signal.SIGINT))
        signal.raise_signal(signal.SIGINT)
        return "y"

    assert await approved(InputAsker(read, print), FORECAST) == Decision.deny("interrupted")
    assert during == [signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is before


class Clock:
    """A person at a terminal who takes long over each line; a line that is not there in time is never typed."""

    def __init__(self, seconds: float, *lines: str, last: float | None = None) -> None:
        self.lines, self.seconds, self.late = list(lines), seconds, threading.Event()
        self.last = seconds if last is None else last
        self.times: list[float] = []

    def read(self, prompt: str) -> str:
        self.times.append(time.monotonic())
        self.late.wait(self.seconds if len(self.lines) > 1 else self.last)
        return self.lines.pop(0)


@pytest.fixture
def free_alarm() -> Iterator[None]:
    """Take the alarm away from pytest-timeout for a while, and give it back."""
    before = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    left = signal.setitimer(signal.ITIMER_REAL, *before)
    assert left == (0, 0), "nobody has left an alarm behind"


@pytest.mark.usefixtures("free_alarm")
@pytest.mark.parametrize(
    "lines", [["", "", "y"], ["e", '{"location": "Paris"}', "y"], ["a", "x", "t"]], ids=["again", "edit", "always"]
)
async def test_all_lines_of_a_question_share_one_time_limit(lines: list[str]) -> None:
    typist = Clock(0.6, *lines, last=2.4)  # the last would be in time by itself; together they take 0.6 s too much
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        await approved(InputAsker(typist.read, lambda _: None, seconds=3.0), FORECAST)

    assert len(typist.times) == 3, "two lines were in time"
    assert time.monotonic() - started >= 3.0
    assert len(typist.lines) == 1, "the alarm ended the third, which was not typed yet"


async def test_the_next_question_has_its_own_time() -> None:
    typist = Clock(0.3, "y", "y")
    asker = InputAsker(typist.read, lambda _: None, seconds=0.5)

    assert [await approved(asker, FORECAST) for _ in range(2)] == [Decision(True)] * 2


async def test_late_line_without_alarm_is_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    typist = Clock(0.2, "y")

    with pytest.raises(TimeoutError):
        await approved(InputAsker(typist.read, lambda _: None, seconds=0.1), FORECAST)
    assert typist.lines == [], "input() went on until the line came"


async def test_an_answer_that_is_none_says_what_each_letter_does() -> None:
    lines, written = ["maybe", "y"], []

    assert await approved(InputAsker(lambda prompt: lines.pop(0), written.append), FORECAST) == Decision(True)
    assert "y approves, n denies, e edits the arguments first, a and d always approve or deny" in written


async def test_a_policy_that_asks_where_nobody_can_be_asked_denies() -> None:
    decision = await Consent(magics=True).review(FORECAST)

    assert decision == Decision.deny("you cannot be asked here", by="default")
