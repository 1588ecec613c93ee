# ruff: noqa: RUF001 - names that deceive
"""Clients of the kernel: names that they claim, two of one name, and floods."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from mcp_magic.errors import DeniedError
from mcp_magic.outside.clients import MAX_CALLS, MAX_CLIENTS, MAX_STARTS, Client, Clients


@pytest.mark.parametrize(
    ("name", "asker"),
    [
        ("claude-code", "outside claude-code"),
        ("person", "outside person"),
        ("agent", "outside agent"),
        ("", "outside unnamed"),
        ("  a\n\tb ", "outside a b"),
        ("cl\u0430ude", "outside cl⟨Cyrillic а⟩ude"),
        ("\u202eedoc", "outside \\u202eedoc"),
        ("<b>x</b>", "outside <b>x</b>"),
    ],
    ids=repr,
)
def test_a_name_is_a_claim_without_deceptive_characters(name, asker):
    assert Clients().client("1", name).asker == asker


def test_a_long_name_is_cut():
    assert len(Clients().client("1", "x" * 100_000, "1" * 100_000).asker) < 60
    assert len(Clients().client("1", "\u202e" * 100_000).asker) < 100


def test_two_clients_of_one_name_are_told_apart():
    clients = Clients()
    names = [
        clients.client(key, name).name for key, name in [("1", "codex"), ("2", "Codex"), ("1", "other"), ("3", "codex")]
    ]
    assert names == ["codex", "Codex (2)", "codex", "codex (3)"]
    assert clients.client("4", "codex (2)").name == "codex (2) (2)"
    clients.leave("1")
    assert clients.client("5", "codex").name == "codex"


def test_a_client_that_is_gone_is_told_once():
    gone: list[Client] = []
    clients = Clients(gone.append)
    first = clients.client("1", "codex")
    clients.leave("1")
    clients.leave("1")
    assert gone == [first]
    assert len(clients) == 0


def test_too_many_calls_at_a_time_are_refused_until_one_ends():
    clients = Clients()
    client, other = clients.client("1", "codex"), clients.client("2", "codex")
    with ExitStack() as stack:
        for _ in range(MAX_CALLS):
            stack.enter_context(clients.call(client))
        with pytest.raises(DeniedError, match="nothing was called: 16 calls of yours run or wait already; wait until"):
            stack.enter_context(clients.call(client))
        stack.enter_context(clients.call(other))
    with clients.call(client):
        assert client.running == 1


def test_too_many_calls_within_a_minute_are_refused_for_a_while():
    now = [0.0]
    clients = Clients(clock=lambda: now[0])
    client = clients.client("1", "codex")

    def calls(count: int) -> None:
        for _ in range(count):
            with clients.call(client):
                pass

    calls(MAX_STARTS)
    with pytest.raises(DeniedError, match="you made 600 calls within a minute; call again in 1 s"):
        calls(1)
    now[0] = 30.0
    calls(MAX_STARTS // 2)
    with pytest.raises(DeniedError):
        calls(1)
    assert client.calls == MAX_STARTS * 3 // 2


def test_many_clients_push_out_idle_ones_and_no_busy_one():
    now = [0.0]
    gone: list[Client] = []
    clients = Clients(gone.append, lambda: now[0])
    with clients.call(clients.client("busy", "busy")):
        for number in range(2 * MAX_CLIENTS):
            now[0] += 1
            clients.client(str(number), "flood")
        assert len(clients) == MAX_CLIENTS
        assert next(iter(clients)).name == "busy"
        assert [client.key for client in gone[:2]] == ["0", "1"]
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(clients.call(client))
        with pytest.raises(DeniedError, match="64 agents are at work in this kernel; connect again when"):
            clients.client("one more")


def test_the_listing_names_them_as_text():
    clients = Clients()
    clients.client("1", "<img src=x>", "1.2")
    listing = clients.listing()
    assert "outside <img src=x>" in str(listing)
    assert "<img" not in listing._repr_mimebundle_()["text/html"]
    assert "names are what the agents call themselves" in str(listing)
