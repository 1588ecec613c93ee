"""`put_value`: asked as the client, never over a variable of the person, and readable by the client."""

from __future__ import annotations

import pytest

from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, DeniedError
from mcp_magic.outside.clients import Clients
from mcp_magic.outside.put import PutValue
from mcp_magic.values.shared import SharedValues
from tests.support.hosts import host as host


@pytest.fixture
def space():
    return {"df": [1], "shared": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}


@pytest.fixture
def shared(space):
    values = SharedValues(space)
    values.share("shared")
    return values


@pytest.fixture
def client():
    return Clients().client("1", "codex")


@pytest.fixture
def asked(host):
    """The requests that the person has agreed to."""
    requests = []

    async def approve(request):
        requests.append(request)
        return Decision.approve()

    host.consent.policy = "ask"
    host.consent.approver = approve
    return requests


async def put(host, client, shared, **arguments) -> str:
    result = await PutValue(host).call(arguments, client, shared.of(client.key, client.name))
    return result.content[0].text


async def test_a_table_becomes_a_frame_when_the_person_agrees(host, client, shared, space, asked):
    text = await put(host, client, shared, name="joined", value=[{"a": 1}, {"a": 2}])
    assert text == (
        'joined is a variable of the notebook now: DataFrame, 2 rows x 1 column (a). {"$value": "joined"} refers to it.'
    )
    assert list(space["joined"]["a"]) == [1, 2]
    [request] = asked
    assert (request.name, request.asker) == (":put_value", "outside codex")
    assert request.arguments == {"name": "joined", "value": [{"a": 1}, {"a": 2}]}
    assert shared.of("1").names() == ("shared", "joined")
    assert shared.of("2").names() == ("shared",)


async def test_a_reference_is_put_as_its_value(host, client, shared, space, asked):
    await put(host, client, shared, name="part", value={"$value": "shared", "columns": ["b"]})
    assert space["part"].to_dict("list") == {"b": [2, 4]}
    [request] = asked
    assert [(note.path, note.name, note.shape) for note in request.values] == [
        (("value",), "shared", "2 rows x 1 column (b)")
    ]


@pytest.mark.parametrize(
    "reference", [{"$value": "config"}, {"$value": "config.api_key"}, {"$value": "keys", "columns": ["api_key"]}]
)
async def test_what_is_masked_is_put_masked(reference, host, client, shared, space, asked):
    space |= {"config": {"api_key": "s3cr3t"}, "keys": [{"api_key": "s3cr3t", "n": 1}]}
    shared.share("config", "keys")
    await put(host, client, shared, name="part", value=reference)
    assert "***" in str(space["part"])
    assert "s3cr3t" not in str(space["part"])


async def test_nothing_is_put_without_a_yes(host, client, shared, space):
    host.consent.add(Rule("deny", ":put_value", reason="not today"))
    before = dict(space)
    with pytest.raises(DeniedError, match="not today"):
        await put(host, client, shared, name="joined", value=[1])
    assert space == before
    assert shared.of("1").names() == ("shared",)


async def test_only_after_a_yes_it_is_told_that_a_name_is_taken(host, client, shared, space, asked):
    with pytest.raises(ArgumentsError, match="the name 'df' is taken; put the value under another name"):
        await put(host, client, shared, name="df", value=[2])
    assert (len(asked), space["df"]) == (1, [1])
    with pytest.raises(ArgumentsError, match="'shared' is a variable of the person, and stays"):
        await put(host, client, shared, name="shared", value=[2])
    assert len(asked) == 1


async def test_the_person_may_change_the_name(host, client, shared, space):
    async def approve(request):
        return Decision.approve(arguments={**request.arguments, "name": "mine"})

    host.consent.policy = "ask"
    host.consent.approver = approve
    told = await put(host, client, shared, name="joined", value=5)
    assert told.startswith("[the person changed the arguments before the call: name]\nmine is a variable")
    assert (space["mine"], "joined" in space) == (5, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "x"}, "value"),
        ({"name": 3, "value": 1}, "name"),
        ({"name": "x", "value": 1, "over": True}, "over"),
        ({"name": "class", "value": 1}, "the name 'class' is Python's own"),
        ({"name": "df.secret", "value": 1}, "this name cannot be used"),
        ({"name": "x", "value": "x" * 30_000_000}, "x: about 30.0 MB are too much; at most 20 MB can be put"),
        ({"name": "x", "value": {"$value": "df"}}, "value: no shared value 'df'."),
    ],
    ids=["no value", "number", "more", "keyword", "path", "large", "private"],
)
async def test_wrong_arguments_are_not_asked_about(arguments, message, host, client, shared, asked):
    with pytest.raises(ArgumentsError) as caught:
        await put(host, client, shared, **arguments)
    assert message in str(caught.value)
    assert asked == []
