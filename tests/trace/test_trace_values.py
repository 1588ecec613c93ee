"""Messages are recorded as they were, whatever happens to their values later and whatever is beside them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import StdioSpec
from mcp_magic.trace.trace import IN, OUT, Recorder

LONG = 1000


def recorder() -> Recorder:
    return Recorder("box", StdioSpec(command="box"))


@pytest.mark.parametrize("value", [1, "x" * 2 * LONG, {"inside": [1]}], ids=["plain", "long", "nested"])
async def test_values_are_recorded_before_later_changes(host, value):
    server = MCPServer("box")

    async def change(context: Any, call_next: Any) -> Any:
        answer = await call_next(context)
        if context.method == "tools/call":
            arguments = context.params["arguments"]
            (arguments["value"] if isinstance(arguments["value"], dict) else arguments).clear()
        return answer

    @server.tool()
    def give(value: Any) -> dict[str, Any]:
        return {"value": value}

    server.middleware.append(change)
    connection = await host.connect(server, name="box")
    sent = {"value": value}
    result = await connection.call("give", sent)
    assert result.data == sent
    for changed in (result.data, result.raw.structured_content, sent):
        changed["value"] = "changed"
    request, answer = connection.trace.entries[-2:]
    shown = "x" * LONG if isinstance(value, str) else value
    assert str(shown) in str(request.message["params"]["arguments"])
    assert str(shown) in str(answer.message["result"]["structuredContent"])


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_infinity_is_recorded_apart_from_null(value):
    made, values = recorder(), [value, 1.0, value]
    for number, a in enumerate(values):
        params = {"name": "add", "arguments": {"a": a, "b": None}}
        made.message(OUT, {"jsonrpc": "2.0", "method": "tools/call", "id": number, "params": params})
    shown = [str(entry.message["params"]["arguments"]["a"]) for entry in made.entries]
    assert shown == [str(a) for a in values]
    assert all(entry.size == len(entry.text) for entry in made.entries)


def test_a_secret_learned_later_is_masked():
    made = recorder()
    for number in range(4):
        result = {"content": [{"type": "text", "text": str(number)}], "_meta": {"build": "sesame4711"}}
        made.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
        if number == 2:
            assert b"sesame4711" in made.entries[-1].text
            made.know(["sesame4711"])
    last = made.entries[-1]
    assert last.message["result"] == {"content": [{"type": "text", "text": "3"}], "_meta": {"build": "***"}}
    assert not last.whole


UNUSUAL: list[tuple[Any, Any]] = [
    ({"value": 2**70}, {}),
    ({"value": -0.0, "all": 1.5e300}, {}),
    ({"value": float("inf")}, {}),
    ({"value": "half \ud800"}, {}),
    ({"value": '{"id":7},"\\u001e",{"id":8}'}, {}),
    ({"value": "a,\x1e,b"}, {}),
    ({"value": 1}, {"between": [{}, "\x1e", {}]}),
    ({"value": 1}, {"much": ["x"] * 30_000}),
]


@pytest.mark.parametrize(("structured", "meta"), UNUSUAL)
def test_unusual_values_are_recorded_beside_usual_ones(structured, meta):
    made = recorder()
    rows = [({"value": 1}, {}), (structured, meta), ({"value": 3}, {"by": "math"})]
    messages = []
    for number, (values, about) in enumerate(rows, 1):
        content = [{"type": "text", "text": str(number)}]
        messages.append({"id": number, "result": {"content": content, "structuredContent": values, "_meta": about}})
        made.message(IN, messages[-1])
    first, unusual, last = (entry.message for entry in made.entries)
    assert [first, last] == [messages[0], messages[2]]
    if "much" in meta:
        assert unusual["id"] == 2
        assert not made.entries[1].whole
    else:
        assert unusual == messages[1]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.parametrize("member", ["_meta", "resultType", "structuredContent"])
@pytest.mark.parametrize("levels", [200, 300, 400, 900, 2000])
def test_answers_of_many_levels_are_recorded_beside_others(levels, member):
    made = recorder()
    for number, value in enumerate([nested(levels), {"by": "math"}, nested(levels), {"by": "math"}]):
        result = {"content": [{"type": "text", "text": "x"}], member: value}
        made.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
    assert [entry.message["id"] for entry in made.entries] == [0, 1, 2, 3]
    assert made.entries[3].message["result"][member] == {"by": "math"}
