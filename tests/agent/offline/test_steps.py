"""Requests of several steps, and conversations: results are carried on, errors and refusals told."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mcp_magic.agent.offline import OfflineModel
from tests.agent.offline.definitions import bindable
from tests.agent.offline.playing import Conversation


def test_a_result_is_carried_to_the_next_step() -> None:
    talk = Conversation()
    answer = talk.say("add 3 and 4, then multiply the result by 5")
    assert talk.turns == [[("math:add", {"a": 3, "b": 4})], [("math:multiply", {"a": 7, "b": 5})]]
    assert answer == "1. `math:add(a=3, b=4)` gives **7**.\n2. `math:multiply(a=7, b=5)` gives **35**."


@pytest.mark.parametrize(
    ("request_", "last"),
    [
        ("add 3 and 4, then multiply by 5", {"a": 7, "b": 5}),
        ("add 3 and 4. Then subtract 2 from it.", {"a": 7, "b": 2}),
        ("add 3 and 4; subtract it from 10", {"a": 10, "b": 7}),
        ("1. add 3 and 4\n2. double it", {"a": 7, "b": 2}),
        ("use get-sum for 3 and 4, then divide the result by 2", {"a": 7, "b": 2}),
        ("statistics of 6, 7 and 8; multiply the mean by 10", {"a": 7, "b": 10}),
        ("Get the weather in Rio and then multiply its high by 10", {"a": 3, "b": 10}),
    ],
)
def test_an_earlier_result_is_found_whatever_it_is_called(request_: str, last: dict[str, float]) -> None:
    talk = Conversation()
    talk.say(request_)
    assert len(talk.turns) == 2
    assert talk.turns[1][0][1] == last


def test_a_list_is_carried_whole() -> None:
    talk = Conversation()
    talk.say("list the primes up to 10 and then give me the statistics of them")
    assert talk.turns[1] == [("math:statistics", {"numbers": [2, 3, 5, 7]})]


def test_two_results_are_both_used() -> None:
    talk = Conversation()
    talk.say("add 3 and 4 and multiply 5 and 6, then add both results")
    assert talk.turns[-1] == [("math:add", {"a": 7, "b": 30})]


@pytest.mark.parametrize(
    ("request_", "calls"),
    [
        (
            "get the weather in Oslo and in Rome",
            [("weather:get_weather", {"location": place}) for place in ("Oslo", "Rome")],
        ),
        ("factorial of 5 and 6", [("math:factorial", {"n": n}) for n in (5, 6)]),
        (
            "What time is it in Tokyo and London?",
            [("time:get_current_time", {"timezone": zone}) for zone in ("Asia/Tokyo", "Europe/London")],
        ),
        (
            "What time is it in Tokyo, and what's the weather in Paris?",
            [("time:get_current_time", {"timezone": "Asia/Tokyo"}), ("weather:get_weather", {"location": "Paris"})],
        ),
        (
            "weather in Paris and time in Tokyo",
            [("weather:get_weather", {"location": "Paris"}), ("time:get_current_time", {"timezone": "Asia/Tokyo"})],
        ),
    ],
)
def test_what_does_not_depend_on_another_result_is_called_at_the_same_time(request_: str, calls: list[object]) -> None:
    talk = Conversation()
    talk.say(request_)
    assert talk.turns == [calls]


def test_what_changes_something_is_called_in_order_and_keeps_its_place() -> None:
    talk = Conversation()
    talk.say("Stage README.md in /srv/app and commit with message 'Say and then do'")
    assert talk.turns == [
        [("git:git_add", {"repo_path": "/srv/app", "files": ["README.md"]})],
        [("git:git_commit", {"repo_path": "/srv/app", "message": "Say and then do"})],
    ]


def test_it_is_what_the_step_before_was_about_where_its_result_does_not_fit() -> None:
    talk = Conversation()
    talk.say("create a branch called x1 in /srv/app and then switch to it")
    assert talk.turns[1] == [("git:git_checkout", {"repo_path": "/srv/app", "branch_name": "x1"})]


def test_an_expression_is_worked_out_in_the_order_of_arithmetic() -> None:
    talk = Conversation()
    answer = talk.say("What is (1 + 2) * (3 - 4) / 2?")
    assert [turn[0][0] for turn in talk.turns] == ["math:add", "math:subtract", "math:multiply", "math:divide"]
    assert answer.endswith("**-1.5**.")


def test_a_result_is_remembered_by_the_next_request() -> None:
    talk = Conversation()
    talk.say("What is 2 plus 2?")
    talk.say("double it")
    assert talk.turns == [[("math:multiply", {"a": 4, "b": 2})]]


def test_an_error_is_told_and_what_needs_its_result_is_not_tried() -> None:
    talk = Conversation()
    answer = talk.say("divide 1 by 0, then multiply the result by 5")
    assert [len(turn) for turn in talk.turns] == [1]
    assert answer == "`math:divide` failed: division by zero"


def test_what_does_not_need_a_failed_result_is_still_done() -> None:
    talk = Conversation()
    answer = talk.say("divide 1 by 0, then add 1 and 2")
    assert answer == "1. `math:divide` failed: division by zero\n2. `math:add(a=1, b=2)` gives **3**."


def test_a_denied_call_is_told_with_its_reason() -> None:
    model = OfflineModel().bind_tools(bindable("math"))
    asked = HumanMessage("add 3 and 4")
    called = model.invoke([asked])
    denied = ToolMessage(
        "not today",
        tool_call_id=called.tool_calls[0]["id"],
        status="error",
        artifact={
            "server": "math",
            "tool": "add",
            "approval": {"decision": "deny", "by": "ada", "reason": "not today"},
        },
    )
    assert model.invoke([asked, called, denied]).text == "`math:add` was not allowed: not today."


def test_a_missing_argument_is_asked_for_and_the_reply_fills_it() -> None:
    talk = Conversation()
    question = talk.say("What's the weather?")
    assert talk.turns == []
    assert question == (
        "`weather:get_weather` needs `location` (string, 1 to 80 characters): A city, for example: London. "
        "What should it be?"
    )
    talk.say("Oslo, in Fahrenheit")
    assert talk.turns == [[("weather:get_weather", {"location": "Oslo", "units": "imperial"})]]


def test_several_missing_arguments_may_be_given_one_by_one() -> None:
    talk = Conversation()
    assert "2 more arguments" in talk.say("Create a branch")
    assert "`repo_path`" in talk.say("branch_name=x1")
    talk.say("/srv/app")
    assert talk.turns == [[("git:git_create_branch", {"repo_path": "/srv/app", "branch_name": "x1"})]]


def test_a_new_request_is_no_reply() -> None:
    talk = Conversation()
    talk.say("Add 3")
    talk.say("What is 6 minus 4?")
    assert talk.turns == [[("math:subtract", {"a": 6, "b": 4})]]


def test_a_later_step_that_lacks_something_is_asked_for_after_those_before_it() -> None:
    talk = Conversation()
    answer = talk.say("add 1 and 2, then tell me the forecast")
    assert talk.turns == [[("math:add", {"a": 1, "b": 2})]]
    assert answer.startswith("`math:add(a=1, b=2)` gives **3**.\n\n`weather:forecast` needs `location`")


def test_a_step_that_no_tool_fits_is_said_beside_what_was_done() -> None:
    talk = Conversation()
    answer = talk.say("add 1 and 2, then tell me a joke")
    assert talk.turns == [[("math:add", {"a": 1, "b": 2})]]
    assert "**3**" in answer
    assert "No tool fits `tell me a joke`" in answer


def test_a_sentence_that_says_more_of_a_request_belongs_to_it() -> None:
    talk = Conversation()
    talk.say("What's the weather in Oslo? Use imperial units.")
    assert talk.turns == [[("weather:get_weather", {"location": "Oslo", "units": "imperial"})]]


def test_arguments_that_a_person_edited_are_what_the_answer_tells() -> None:
    model = OfflineModel().bind_tools(bindable("math"))
    asked = HumanMessage("add 3 and 4")
    called = model.invoke([asked])
    artifact = {"server": "math", "tool": "add", "arguments": {"a": 3, "b": 40}, "structured_content": {"result": 43}}
    ran = ToolMessage("43", tool_call_id=called.tool_calls[0]["id"], artifact=artifact)
    said = model.invoke([asked, called, ran])
    assert isinstance(said, AIMessage)
    assert said.text == "`math:add(a=3, b=40)` gives **43**."
