"""Answers from a file and line by line, and the roots of a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.ask.elicitation import Answer, Elicitation, answer_of, elicitation_question
from mcp_magic.errors import ArgumentsError, CommandError, ConfigError
from mcp_magic.ipython.ask import Answers, InputAsker
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.session.test_roots import roots_server
from tests.support.eliciting_server import trip_server, url_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "description": "Where <b>to</b>"},
        "days": {"type": "integer", "default": 3},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["sea", "hills", "food"]}},
        "password": {"type": "string"},
    },
    "required": ["city"],
}
FORM = Elicitation("trips", "Where to?", "form", TRIP)
PAGE = Elicitation("bank", "Log in", "url", url="https://bank.example/login")


@pytest.fixture
def asking() -> Iterator[None]:
    """The kernel's host announces that it can be asked, and nobody answers."""

    async def nobody(asked: Elicitation) -> Answer:
        return Answer.decline("nobody")

    before = host.elicitor
    host.elicitor = nobody
    yield
    host.elicitor = before


def written(folder: Path, answers: Any) -> None:
    (folder / "answers.json").write_text(json.dumps(answers))


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([{"city": "Oslo", "days": 1}], "accept Oslo 1"),
        ([{"action": "accept", "content": {"city": "Rome"}}], "accept Rome 3"),
        (["decline"], "decline"),
        (["cancel"], "cancel"),
        ({"other": "cancel", "Where to?": {"city": "Paris"}}, "accept Paris 3"),
    ],
)
async def test_a_file_answers_what_the_server_asks(
    magic: Any, asking: None, tmp_path: Path, answers: Any, text: str
) -> None:
    written(tmp_path, answers)
    await host.connect(trip_server(), name="trip")

    assert (await magic("call trip:plan --answers answers.json")).text == text


async def test_a_file_answers_that_a_page_was_visited(magic: Any, asking: None, tmp_path: Path) -> None:
    written(tmp_path, ["accept"])
    await host.connect(url_server("https://pay.example.org/"), name="pay")

    assert (await magic("call pay:pay --answers answers.json")).text == "accept"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "answers.json has no answer to 'Where to?'"),
        ({"What?": "cancel"}, "answers.json has no answer to 'Where to?'"),
        ([{"city": "O"}], "the answer to 'Where to?' in answers.json does not fit: city: "),
        ([7], 'answers.json: an answer is "accept", "decline", "cancel" or an object, not 7'),
        ("yes", "answers.json must hold a list of answers, or an object with an answer for each message"),
    ],
)
async def test_an_answer_that_is_missing_or_wrong_is_an_error(
    magic: Any, asking: None, tmp_path: Path, answers: Any, message: str
) -> None:
    written(tmp_path, answers)
    await host.connect(trip_server(), name="trip")

    with pytest.raises(ArgumentsError) as raised:
        await magic("call trip:plan --answers answers.json")
    assert str(raised.value).startswith(message)


async def test_a_file_that_cannot_be_read_sends_nothing(magic: Any, asking: None, tmp_path: Path) -> None:
    connection = await host.connect(trip_server(), name="trip")
    await connection.find_tool("plan")
    before = connection.calls
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read: No such file or directory"):
        await magic("call trip:plan --answers none.json")
    assert connection.calls == before


async def test_the_log_says_that_nobody_could_be_asked(magic: Any, asking: None) -> None:
    await host.connect(trip_server(), name="trip")

    assert (await magic("call trip:plan")).text == "decline"
    rows = (await magic("logs trip")).rows
    assert [row["source"] for row in rows] == ["mcp_magic"]
    assert str(rows[0]["text"]).startswith("elicitation 'Where to?': decline: nobody (")


async def test_answers_by_message_serve_again_and_in_order_once() -> None:
    by_message = Answers({"Where to?": "cancel"}, "a")
    in_order = Answers(["cancel"], "a")

    assert [(await by_message.elicit(FORM)).action for _ in range(2)] == ["cancel", "cancel"]
    assert [(await in_order.elicit(FORM)).action for _ in range(2)] == ["cancel", "decline"]


class Typist:
    """Types lines; keeps the prompts and what was written."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.written: list[str] = []
        self.hidden: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self._lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    def secret(self, prompt: str) -> str:
        self.hidden.append(prompt)
        return self.read(prompt)

    async def answer(self, asked: Elicitation) -> Answer:
        asker = InputAsker(self.read, self.written.append, 30, read_secret=self.secret)
        return answer_of(asked, await asker.ask(elicitation_question(asked)))


async def test_a_form_is_filled_in_line_by_line() -> None:
    typist = Typist("f", "Oslo", "", "sea, food", "hunter2", "s")

    answer = await typist.answer(FORM)

    assert answer == Answer.accept({"city": "Oslo", "days": 3, "tags": ["sea", "food"], "password": "hunter2"})
    assert typist.prompts[1].startswith("city (string, ")
    assert "required" in typist.prompts[1]
    assert typist.prompts[2].endswith(" [3]: ")
    assert len(typist.hidden) == 1
    assert typist.written[0].startswith("Server trips asks you for:\n  Where to?\nThis seems to ask for a secret: pass")


async def test_unfitting_value_is_asked_again_with_reason() -> None:
    typist = Typist("f", "O", "Oslo", "many", "4", "", "", "s")

    assert (await typist.answer(FORM)).content == {"city": "Oslo", "days": 4}
    said = "\n".join(typist.written)
    assert "city: " in said
    assert "days: expected integer, got 'many'" in said


MEALS = [{"const": "v", "title": "Vegan"}, {"const": "f", "title": "Fish"}]

SEATS = {
    "type": "object",
    "properties": {
        "seat": {"oneOf": [{"const": "a", "title": "At the aisle"}, {"const": "w", "title": "At the window"}]},
        "level": {"type": "integer", "enum": [1, 2], "enumNames": ["upper", "lower"]},
        "meals": {
            "type": "array",
            "items": {"anyOf": [{"const": "v", "title": "Vegan"}, {"const": "f", "title": "Fish"}]},
        },
        "class": {"type": "string", "enum": ["first", "second"]},
    },
}


async def test_choices_are_shown_with_their_titles() -> None:
    typist = Typist("f", "w", "lower", "Fish, v", "second", "s")

    answer = await typist.answer(Elicitation("trips", "Which seat?", "form", SEATS))

    assert answer.content == {"seat": "w", "level": 2, "meals": ["f", "v"], "class": "second"}
    assert [line.strip() for line in typist.written[1:]] == [
        *("'a': At the aisle", "'w': At the window", "1: upper", "2: lower", "'v': Vegan", "'f': Fish"),
    ]


async def test_values_that_the_protocol_lacks_are_asked_again() -> None:
    typist = Typist("f", '{"a": 1}', "s", "f", "3", "s")
    anything = {"type": "object", "properties": {"note": {"type": ["object", "integer"]}}}

    assert (await typist.answer(Elicitation("trips", "Note?", "form", anything))).content == {"note": 3}
    assert any("note: the protocol takes text" in line for line in typist.written)


async def test_what_is_required_cannot_be_left_out() -> None:
    with pytest.raises(IndexError):  # it asks on
        await Typist("f", "", "", "", "", "s").answer(FORM)
    typist = Typist("f", "", "", "", "", "s", "f", "Oslo", "", "", "", "s")
    assert (await typist.answer(FORM)).content == {"city": "Oslo", "days": 3}


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
)
async def test_the_answer_may_be_no(lines: list[Any], action: str) -> None:
    answer = await Typist(*lines).answer(FORM)
    assert (answer.action, answer.content) == (action, None)


@pytest.mark.parametrize(("line", "action"), [("o", "accept"), ("d", "decline"), ("c", "cancel")])
async def test_a_page_is_named_with_its_host(line: str, action: str) -> None:
    typist = Typist(line)

    assert (await typist.answer(PAGE)).action == action
    assert "open a page at bank.example" in typist.written[0]
    assert "  https://bank.example/login" in typist.written[0]


async def test_roots_are_set_shown_and_cleared(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    connection = await host.connect(roots_server(), name="where")

    assert (await magic("roots where")).rows == []
    rows = (await magic("roots where . data")).rows
    assert [row["directory"] for row in rows] == [str(tmp_path), str(tmp_path / "data")]
    assert (tmp_path / "data").as_uri() in (await connection.call("where")).text
    assert (await magic("roots where --clear")).rows == []
    assert (await connection.call("where")).text == "none"


async def test_roots_are_directories_or_nothing(magic: Any, tmp_path: Path) -> None:
    await host.connect(roots_server(), name="where")
    with pytest.raises(CommandError, match=r"takes directories, or --clear"):
        await magic("roots where . --clear")
    with pytest.raises(ArgumentsError, match=r"nowhere is not a directory"):
        await magic("roots where nowhere")


async def test_tab_offers_servers_and_then_directories(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data.csv").touch()
    assert candidates("roots ma", {}).texts == ["math"]
    assert candidates("roots math ", {}).texts == ["data/"]
