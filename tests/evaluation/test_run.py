"""The runs of evaluations: which are made, how they are scored, consent, failures, bounds, the journal, resuming."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product

import pytest
from langchain_core.messages import AIMessage
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from mcp_magic import Host
from mcp_magic.agent.run import AgentRun
from mcp_magic.ask.approval import approval_part
from mcp_magic.consent.consent import Decision
from mcp_magic.errors import ArgumentsError, ConfigError, ModelError, UnknownServerError
from mcp_magic.evaluation.cases import Case, read_expectation
from mcp_magic.evaluation.evaluation import new_evaluation
from mcp_magic.evaluation.run import REFUSED, EvaluationOptions, read_options
from tests.support.agents import ask
from tests.support.clocks import in_virtual_time
from tests.support.evaluated import CASES, answering, calls, request_of, shopper, usage, wrong_about_apples

NO_CALL = "Delete everything -> no call\n"
PEAR = "What does a pear cost? -> shop:price item=pear\n"


def failing(error: BaseException, times: int = 1000):
    """Return a turn that fails as often, and answers then."""
    left = [error] * times

    def turn(messages):
        return left.pop() if left else shopper(messages)

    return turn


# Which runs are made, and how they are scored


async def test_each_case_runs_with_each_model_in_a_thread_of_its_own(host, shop):
    models = {"good": answering(), "bad": answering(wrong_about_apples)}
    evaluation = await host.evaluate(CASES, models, runs=3)
    assert [len(evaluation), evaluation.ok] == [4 * 2 * 3, True]
    assert sorted(trial.key for trial in evaluation.trials) == [*product(range(4), range(2), (1, 2, 3))]
    wrong = [(trial.case, trial.arm) for trial in evaluation.trials if not trial.right]
    assert wrong == [(1, 1)] * 3
    assert all(len([m for m in seen.messages if m.type == "human"]) == 1 for seen in models["good"].seen)
    assert Counter(tool for tool, _ in shop.called) == {"price": 2 * 2 * 3, "buy": 2 * 3}


@pytest.mark.parametrize("models", [[], {}], ids=["list", "names"])
async def test_evaluation_needs_a_model(host, models):
    with pytest.raises(ArgumentsError, match="there is no model to evaluate"):
        await host.evaluate(CASES, models)


async def test_first_turns_are_scored_and_nothing_is_called(host, shop):
    asked = ask(host)
    evaluation = await host.evaluate(CASES, answering(), tools_only=True)
    assert [trial.right for trial in evaluation.trials] == [True] * 4
    assert [trial.turns for trial in evaluation.trials] == [1] * 4
    assert (shop.called, asked) == ([], [])
    run = evaluation.run_of(evaluation.trials[0])
    assert isinstance(run, AgentRun)
    assert "price" in str(run.transcript)


async def test_first_turn_is_that_of_an_agent(host):
    first, whole = answering(), answering()
    await host.evaluate(PEAR, first, tools_only=True, system="Be brief.")
    await host.evaluate(PEAR, whole, system="Be brief.")
    for seen, other in zip(first.seen, whole.seen[:1], strict=True):
        assert [message.content for message in seen.messages] == [message.content for message in other.messages]
        assert seen.tools == other.tools


async def test_figures_of_a_run_are_those_of_its_turns(host):
    evaluation = await host.evaluate(PEAR, answering())
    [trial] = evaluation.trials
    assert (trial.turns, trial.tokens_in, trial.tokens_out, trial.cost) == (2, 200, 20, None)
    assert trial.calls == (("shop:price", {"item": "pear"}),)
    assert trial.run.answer == "That is all."


async def test_case_may_be_a_conversation(host):
    messages = [("user", "I like pears"), ("assistant", "Good."), ("user", "What do they cost?")]
    case = Case(
        tuple({"role": role, "content": text} for role, text in messages), read_expectation("shop:price item=pear")
    )

    def turn(messages):
        assert [message.text for message in messages[1:4]] == ["I like pears", "Good.", "What do they cost?"]
        return AIMessage("done") if messages[-1].type == "tool" else calls("price", item="pear")

    for tools_only in (True, False):
        evaluation = await host.evaluate([case], answering(turn), tools_only=tools_only)
        assert [trial.right for trial in evaluation.trials] == [True], evaluation.trials[0].error


def _holds(run):
    return "all" in run.answer


def _asserts(run):
    assert run.answer == "no", "the answer is another"


async def _waits(run):
    await asyncio.sleep(0)
    return False


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (_holds, "right"),
        (_asserts, "the check fails: the answer is another"),
        (_waits, "the check fails: it returns False"),
        (lambda run: run.nothing, "the check raises AttributeError: 'AgentRun' object has no attribute 'nothing'"),
    ],
    ids=["holds", "asserts", "waits", "raises"],
)
async def test_check_decides_beside_the_calls(host, check, why):
    evaluation = await host.evaluate([Case("Delete everything", None, check)], answering())
    [trial] = evaluation.trials
    assert [trial.right, str(trial.match)] == [why == "right", why]


async def test_what_is_not_offered_is_told_before_anything_runs(host):
    model = answering()
    with pytest.raises(ConfigError, match="line 1: there is no tool 'shop:prize'"):
        await host.evaluate("What? -> shop:prize item=pear\n", model)
    with pytest.raises(UnknownServerError):
        await host.evaluate(PEAR, model, servers=["shap"])
    with pytest.raises(ArgumentsError, match="'run' is no option of an evaluation"):
        await host.evaluate(PEAR, model, run=3)
    assert model.seen == []


def test_options_are_those_of_runs_and_of_agents():
    options = read_options({"runs": 2, "rate": "60/min", "system": "Be brief."})
    assert (options.runs, options.rate, options.agent.system) == (2, 1.0, "Be brief.")
    for wrong in ({"runs": 0}, {"concurrency": 0}, {"max_cost": 0}, {"max_tokens": -1}, {"rate": "often"}):
        with pytest.raises(ArgumentsError):
            EvaluationOptions(**wrong)


async def test_each_model_has_so_many_runs_in_flight(host):
    gate, most = asyncio.Event(), 0
    at_work = {"a": 0, "b": 0}

    def turn_of(name):
        async def turn():
            nonlocal most
            at_work[name] += 1
            most = max(most, at_work[name])
            if sum(at_work.values()) == 6:
                gate.set()  # both have all that they may have
            await gate.wait()
            at_work[name] -= 1
            return AIMessage("done")

        return lambda messages: turn()

    models = {name: answering(turn_of(name)) for name in at_work}
    evaluation = await host.evaluate(NO_CALL, models, runs=10, concurrency=3, tools_only=True)
    assert (len(evaluation), most) == (20, 3)


# Consent


async def test_tools_that_only_read_are_one_question(host, shop):
    asked = ask(host)
    evaluation = await host.evaluate(CASES, answering(), runs=2)
    assert [request.tool for request in asked] == ["price", "buy", "buy"]
    assert (asked[0].calls, asked[0].asker) == (0, "agent evaluation")
    assert asked[0].arguments["tools"] == ["shop:price"]
    assert asked[0].arguments["runs"] == "8 of 4 cases"
    assert "read-only" in approval_part(asked[0], asked[0].arguments).plain.partition("\n")[0]
    assert all(trial.right and not trial.error for trial in evaluation.trials)
    assert host.consent.rules == []  # they end with the evaluation


async def test_question_about_several_tools_says_that_they_only_read(host):
    server, hints = MCPServer("menu", log_level="ERROR"), ToolAnnotations(read_only_hint=True)
    for name in ("lunch", "dinner"):
        server.add_tool(lambda: "soup", name=name, description="Tells the menu.", annotations=hints)
    await host.connect(server, name="menu")
    asked = ask(host)
    await host.evaluate(NO_CALL, answering(), servers=["menu"])
    [line] = [approval_part(request, request.arguments).plain.partition("\n")[0] for request in asked]
    assert line.startswith("agent evaluation wants to call menu:lunch, dinner any number of times [")
    assert "read-only" in line


async def test_denied_set_is_not_asked_about_again(host, shop):
    asked = ask(host, Decision.deny("not today"))
    evaluation = await host.evaluate(PEAR, answering(), runs=3)
    assert len(asked) == 1
    assert shop.called == []
    assert [trial.right for trial in evaluation.trials] == [True] * 3  # the choice was right
    assert {trial.error for trial in evaluation.trials} == {
        "shop:price was not called; denied by rule `deny shop:price (this run only)`: not today."
    }


async def test_unattended_calls_are_denied_with_the_reason(host, shop):
    host.consent.policy, host.consent.approver = "ask", None
    evaluation = await host.evaluate(PEAR, answering())
    assert shop.called == []
    assert evaluation.trials[0].error.startswith(
        "shop:price was not called; denied by default: you cannot be asked here"
    )
    evaluation = await host.evaluate(PEAR, answering(), approve="auto")
    assert (evaluation.trials[0].error, len(shop.called)) == ("", 1)


async def test_answer_for_the_run_holds_for_the_evaluation(host):
    asked = ask(host, Decision.approve(always="run"))
    evaluation = await host.evaluate("Buy a pear -> shop:buy item=pear\n", answering(), runs=3, concurrency=1)
    assert [request.tool for request in asked] == ["price", "buy"]
    assert not any(trial.error for trial in evaluation.trials)


# Failures


async def test_failed_run_is_a_row_and_ends_nothing_else(host):
    model = answering(failing(ModelError("down"), times=2))
    evaluation = await host.evaluate(CASES, model, concurrency=1)
    assert [trial.error for trial in evaluation.trials] == ["down", "down", "", ""]
    assert [trial.right for trial in evaluation.trials] == [None, None, True, True]
    assert not evaluation.ok
    again = await evaluation.resume()
    assert again is evaluation
    assert [evaluation.ok, [trial.right for trial in evaluation.trials]] == [True, [True] * 4]


async def test_bug_of_a_model_is_the_error_of_its_run(host):
    evaluation = await host.evaluate(PEAR, answering(failing(TypeError("no such field"))))
    assert evaluation.trials[0].error == "TypeError: no such field"


async def test_model_that_never_answers_is_given_up(host):
    models = {"dead": answering(failing(ModelError("the key is not accepted (HTTP 401)"))), "alive": answering()}
    evaluation = await host.evaluate(CASES, models, runs=5, concurrency=1)
    assert [sum(trial.arm == arm for trial in evaluation.trials) for arm in (0, 1)] == [3, 20]
    assert evaluation.problem == "the first 3 runs failed: the key is not accepted (HTTP 401)"


def test_run_that_takes_too_long_is_a_row():
    async def scenario():
        model = answering(lambda messages: asyncio.Event().wait() if "Wait" in request_of(messages) else "done")
        return await Host().evaluate(NO_CALL + "Wait -> no call\n", model, timeout=5, tools_only=True)

    evaluation = in_virtual_time(scenario())
    assert [trial.error for trial in evaluation.trials] == ["", "timed out: no end within 5 s"]


def test_check_that_never_ends_is_an_error_of_its_run():
    async def hangs(run):
        await asyncio.Event().wait()

    async def gives_up(run):
        raise TimeoutError("of its own")

    async def scenario():
        cases = [Case("Wait", None, hangs), Case("Give up", None, gives_up)]
        return await Host().evaluate(cases, answering(), timeout=5, tools_only=True)

    evaluation = in_virtual_time(scenario())
    trials = evaluation.trials
    assert [trial.error for trial in trials] == ["timed out: no end of the check within 5 s", ""]
    assert [str(trial.match) for trial in trials] == ["None", "the check raises TimeoutError: of its own"]


def test_refused_model_is_asked_again_later():
    async def scenario():
        model = answering(failing(ModelError("m: the rate limit is used up (HTTP 429, to be tried again in 7 s)"), 2))
        loop = asyncio.get_running_loop()
        start = loop.time()
        evaluation = await Host().evaluate(NO_CALL, model, tools_only=True)
        return loop.time() - start, evaluation.trials[0].right, len(model.seen)

    seconds, right, turns = in_virtual_time(scenario())
    assert (right, turns) == (True, 3)
    assert seconds >= 14
    assert REFUSED.search("down (HTTP 500)") is None


# Bounds


@pytest.mark.parametrize("option", ["max_tokens", "max_cost"])
async def test_no_run_is_begun_that_would_exceed_the_bound(host, option, monkeypatch):
    monkeypatch.setattr("mcp_magic.evaluation.run.cost_of", lambda messages, model: 110.0)
    model = answering(lambda messages: AIMessage("done", usage_metadata=usage()))
    evaluation = await host.evaluate(NO_CALL, model, runs=10, concurrency=1, tools_only=True, **{option: 500})
    assert len(evaluation) == 4
    assert evaluation.problem.startswith(("440 of 500 tokens are used", "$440 of $500 are spent"))
    await evaluation.resume(**{option: 2000})
    assert (len(evaluation), evaluation.problem) == (10, "")


async def test_interrupt_keeps_the_runs_so_far(host):
    ended, going = asyncio.Event(), asyncio.Event()

    def turn(messages):
        if "pear" in request_of(messages) and not going.is_set():
            ended.set()
            return asyncio.Event().wait()
        return shopper(messages)

    evaluation = new_evaluation(host, NO_CALL + PEAR, answering(turn), concurrency=1)
    task = asyncio.create_task(evaluation.run())
    await ended.wait()
    with pytest.raises(ArgumentsError, match="still runs"):
        await evaluation.resume()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(evaluation), evaluation.problem) == (1, "interrupted")
    for wrong in ({"tools_only": True}, {"runs": 0}):
        with pytest.raises(ArgumentsError):
            await evaluation.resume(**wrong)
    going.set()
    await evaluation.resume()
    assert (len(evaluation), evaluation.problem, evaluation.ok) == (2, "", True)


# The journal


async def test_runs_in_the_journal_are_not_made_again(host, tmp_path):
    journal, first, second = tmp_path / "runs.sqlite", answering(), answering()
    evaluation = await host.evaluate(CASES, first, journal=journal, runs=2)
    assert all(trial.run is None for trial in evaluation.trials)  # it is on the disk
    later = await host.evaluate(CASES, second, journal=journal, runs=3)
    assert {request_of(seen.messages) for seen in second.seen} == {case.text for case in later.cases}
    assert len(later) == 12
    assert len(second.seen) == len(first.seen) // 2
    before, after = evaluation.run_of(evaluation.trials[0]), later.run_of(later.trials[0])
    assert [str(run.transcript) for run in (before, after)] == [str(before.transcript)] * 2
    assert "price" in str(before.transcript)
    assert [trial.tokens_in for trial in later.trials[:3]] == [200] * 3


async def test_runs_in_the_journal_are_scored_by_what_is_expected_now(host, tmp_path):
    model = answering()
    await host.evaluate(PEAR, model, journal=tmp_path / "j")
    turns = len(model.seen)
    evaluation = await host.evaluate("What does a pear cost? -> no call\n", model, journal=tmp_path / "j")
    assert ([trial.right for trial in evaluation.trials], len(model.seen)) == ([False], turns)


async def test_failed_runs_are_made_again(host, tmp_path):
    evaluation = await host.evaluate(PEAR, answering(failing(ModelError("down"))), journal=tmp_path / "j")
    assert evaluation.trials[0].error == "down"
    evaluation = await host.evaluate(PEAR, answering(), journal=tmp_path / "j")
    assert evaluation.trials[0].right


async def test_runs_of_other_tools_are_not_used(host, shop, tmp_path):
    await host.evaluate(PEAR, answering(), journal=tmp_path / "j")
    shop.server.remove_tool("wait")
    await host.reconnect("shop")
    model = answering()
    evaluation = await host.evaluate(PEAR, model, journal=tmp_path / "j")
    assert model.seen
    assert "the journal has 1 run of another version of the tools; they are not used" in str(evaluation)


async def test_journal_of_something_else_is_an_error(host, tmp_path):
    (tmp_path / "notes.txt").write_text("notes" * 1000)
    model = answering()
    with pytest.raises(ConfigError, match="choose another file"):
        await host.evaluate(PEAR, model, journal=tmp_path / "notes.txt")
    assert model.seen == []


# Variants of the tools


async def test_variants_differ_only_in_what_the_model_reads(host, shop):
    surface = await host.surface("shop")
    surface["price"].description = "Tells what a fruit costs."
    surface.rename("buy", "purchase")
    del surface["wait"]

    def turn(messages):
        names = {tool["function"]["name"]: tool["function"]["description"] for tool in model.seen[-1].tools}
        if messages[-1].type == "tool" or "Delete" in request_of(messages):
            return AIMessage("done")
        if "Buy" in request_of(messages):
            name = "shop__purchase" if "shop__purchase" in names else "shop__buy"
            return AIMessage("", tool_calls=[{"name": name, "args": {"item": "pear"}, "id": "1"}])
        item = "apple" if "apple" in request_of(messages) and "fruit" in names["shop__price"] else "pear"
        return calls("price", item=item)

    model = answering(turn)
    for tools_only in (True, False):
        evaluation = await host.evaluate(CASES, model, {"now": None, "short": surface}, tools_only=tools_only)
        wrong = [(trial.case, trial.arm) for trial in evaluation.trials if not trial.right]
        assert wrong == [(1, 0)], [trial.error for trial in evaluation.trials]
        assert {trial.calls[0][0] for trial in evaluation.trials if trial.case == 2} == {"shop:buy"}
    assert evaluation.summary[["variant", "right"]].to_numpy().tolist() == [["now", 0.75], ["short", 1.0]]
    assert str(evaluation.compare("now", "short")).startswith("+25 points")
    assert Counter(tool for tool, _ in shop.called) == {"price": 4, "buy": 2}


@pytest.mark.parametrize("tools_only", [True, False])
async def test_old_name_of_a_renamed_tool_is_wrong(host, shop, tools_only):
    surface = await host.surface("shop")
    surface.rename("price", "cost")
    evaluation = await host.evaluate(PEAR, answering(), {"new": surface}, tools_only=tools_only)
    assert evaluation.df["right_tool"].tolist() == [False]
    assert "shop:price (no such tool) item='pear' instead of shop:price item=pear" in str(evaluation)
    assert shop.called == []


async def test_nobody_resumes_a_run_that_waits_for_an_answer(host):
    with pytest.raises(ArgumentsError, match="ask='interrupt': nobody resumes a run of an evaluation"):
        await host.evaluate(PEAR, answering(), ask="interrupt")


async def test_deleted_tool_is_wrong_where_it_is_expected(host):
    surface = await host.surface("shop")
    del surface["price"]
    evaluation = await host.evaluate(PEAR, answering(), {"without": [surface]}, tools_only=True)
    del surface["buy"]  # later edits change nothing
    await evaluation.resume(runs=2)
    assert [trial.right for trial in evaluation.trials] == [False, False]
    with pytest.raises(ArgumentsError):
        await host.evaluate(PEAR, answering(), {"odd": "shop"})
