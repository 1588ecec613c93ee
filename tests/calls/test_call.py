"""The call as a value, and the observers of what becomes of it."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, replace

import pytest

from mcp_magic import errors
from mcp_magic.calls.call import Call, CallObserver, Progress
from mcp_magic.flight.request import Limits


class Seeing(CallObserver):
    """Notes what it is told, under a name."""

    def __init__(self, name, heard):
        self.name, self.heard = name, heard

    def sent(self, call):
        self.heard.append(f"{self.name} sent {call.tool}{dict(call.arguments)}")

    def ended(self, call, outcome):
        self.heard.append(f"{self.name} ended {getattr(outcome, 'text', type(outcome).__name__)}")


def test_call_cannot_be_changed_and_names_its_tool(show):
    call = Call(show, "one_text", {"text": "a"}, asker="agent", run="r1")
    with pytest.raises(FrozenInstanceError):
        call.tool = "other"
    changed = replace(call, limits=Limits(1.0))
    assert (call.name, call.limits.timeout, changed.limits.timeout) == ("show:one_text", None, 1.0)
    assert (call.request.name, call.request.asker, call.request.run) == ("show:one_text", "agent", "r1")


async def test_observers_hear_of_a_call_and_of_its_end(show):
    heard = []
    observers = Seeing("a", heard), Seeing("b", heard)
    await show.caller.call(Call(show, "one_text", {"text": "hi"}), *observers)
    sent = "sent one_text{'text': 'hi'}"
    assert heard == [f"a {sent}", f"b {sent}", "a ended hi", "b ended hi"]
    del heard[:]
    with pytest.raises(errors.ProtocolError):
        await show.caller.call(Call(show, "fail_protocol", {}), *observers)
    assert heard[2:] == ["a ended ProtocolError", "b ended ProtocolError"]


async def test_observers_hear_nothing_of_a_call_that_is_not_sent(show):
    heard = []
    with pytest.raises(errors.ArgumentsError):
        await show.caller.call(Call(show, "one_text", {"text": 1}), Seeing("a", heard))
    assert heard == []


@pytest.mark.parametrize("when", ["sent", "ended"])
async def test_an_observer_that_fails_is_logged_and_fails_no_call(show, caplog, when):
    class Failing(CallObserver):
        def fail(self, *about):
            raise RuntimeError("no screen")

    setattr(Failing, when, Failing.fail)
    heard = []
    result = await show.caller.call(Call(show, "one_text", {"text": "hi"}), Seeing("a", heard), Failing())
    assert (result.text, heard[1:]) == ("hi", ["a ended hi"])
    assert "of show:one_text failed" in caplog.text


async def test_interrupt_in_an_observer_is_told_to_all(show):
    class Interrupted(CallObserver):
        def sent(self, call):
            raise KeyboardInterrupt

    heard, calls = [], show.calls
    with pytest.raises(KeyboardInterrupt):
        await show.caller.call(Call(show, "one_text", {"text": "hi"}), Seeing("a", heard), Interrupted())
    assert (heard[1:], show.calls) == (["a ended KeyboardInterrupt"], calls)


async def test_progress_goes_to_the_observer_that_shows_it(show):
    steps = []

    async def on_progress(progress, total, message):
        steps.append((progress, total))

    await show.caller.call(Call(show, "slow", {"seconds": 0.2}), Progress(on_progress))
    assert steps
    assert all(total == steps[-1][1] for _, total in steps)


async def test_interrupt_is_told_to_observers(show):
    heard = []
    waiting = asyncio.create_task(show.caller.call(Call(show, "slow", {"seconds": 60}), Seeing("a", heard)))
    while not heard:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert heard[1:] == ["a ended CancelledError"]
