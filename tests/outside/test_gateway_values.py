"""Values through the server of the kernel: references in arguments, large answers by handle, values that are put."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pandas as pd
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import Implementation
from pydantic import Field

from mcp_magic.ask.approval import approval_question
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.outside.gateway import KernelServer
from mcp_magic.values.shared import SharedValues
from tests.support.hosts import host as host
from tests.support.outside import served

Rows = list[dict[str, Any]]


def tables_server() -> MCPServer:
    server = MCPServer("tables", log_level="ERROR")

    @server.tool()
    def customers(count: int) -> Rows:
        return [{"id": number, "name": f"Customer {number}"} for number in range(count)]

    @server.tool()
    def join(left: Rows, right: Rows, on: str) -> int:
        keys = {row[on] for row in right}
        return sum(row[on] in keys for row in left)

    @server.tool()
    def total(numbers: list[float]) -> float:
        return sum(numbers)

    @server.tool()
    def echo(text: str, data: Any = None) -> str:
        return json.dumps([text, data])

    return server


@pytest.fixture
async def host_of_tables(host):
    host.consent.policy = "auto"
    await host.connect(tables_server(), name="tables")
    return host


@pytest.fixture
def space():
    return {"df": pd.DataFrame({"id": range(10_000), "price": 1.5}), "secret": "s3cr3t", "text": "hello"}


@pytest.fixture
async def kernel(host_of_tables, space):
    values = SharedValues(space)
    values.share("df", "text")
    return KernelServer(host_of_tables, values)


def texts(result) -> str:
    return "".join(block.text for block in result.content)


async def test_a_client_joins_what_it_does_not_read(kernel, host, space, mode):
    async with Client(kernel.server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert '{"$value": "df"' in str(tools["tables__join"].input_schema["properties"]["left"])
        answer = await client.call_tool("tables__customers", {"count": 10_000})
        assert texts(answer).startswith("[result_1: table of 10,000 rows x 2 columns (id, name). About")
        assert answer.structured_content == {"spilled": {"handle": "result_1"}}
        arguments = {"left": {"$value": "df", "rows": [0, 700]}, "right": {"$value": "result_1"}, "on": "id"}
        assert (await client.call_tool("tables__join", arguments)).structured_content == {"result": 700}
        column = {"$value": "df", "columns": ["price"], "query": "id < 4"}
        assert (await client.call_tool("tables__total", {"numbers": column})).structured_content == {"result": 6.0}
        echoed = await client.call_tool("tables__echo", {"text": {"$value": "text"}, "data": [{"$value": "text"}]})
        assert texts(echoed) == '["hello", ["hello"]]'
        assert len(space["result_1"].df) == 10_000


async def test_rules_see_the_values_and_the_audit_does_not(kernel, host):
    host.consent.add(Rule("deny", "tables:echo", {"text": "hello"}, "no greetings"))
    async with Client(kernel.server) as client:
        refused = await client.call_tool("tables__echo", {"text": {"$value": "text"}})
        assert refused.is_error
        assert "no greetings" in texts(refused)
        await client.call_tool("tables__join", {"left": {"$value": "df"}, "right": [], "on": "id"})
    record = host.consent.audit.records[-1]
    assert record.arguments["left"] == {"$value": "df", "is": "10,000 rows x 2 columns (id, price)"}


@pytest.mark.parametrize("spill", [4000, None])
async def test_an_agent_is_told_that_the_person_changed_its_call(spill, kernel, host, mode):
    async def edit(request):
        return Decision.approve(arguments={**request.arguments, "numbers": [31337.0]})

    async def agree(request):
        return Decision.approve(arguments=dict(request.arguments))

    host.consent.policy, host.consent.approver, host.outputs.spill = "ask", edit, spill
    async with Client(kernel.server, mode=mode) as client:
        await client.list_tools()  # from here on the client validates structured content
        arguments = {"numbers": {"$value": "df", "columns": ["price"], "rows": [0, 4]}}
        answer = await client.call_tool("tables__total", arguments)
        assert answer.content[0].text == "[the person changed the arguments before the call: numbers]"
        assert "31337" in answer.content[1].text
        assert answer.structured_content["result"] == 31337.0
        # a program with a closed schema gets no other member
        assert answer.structured_content.get("changed_arguments") == (None if spill is None else ["numbers"])
        host.consent.approver = agree
        answer = await client.call_tool("tables__total", arguments)
        assert (texts(answer), answer.structured_content) == ("6.0", {"result": 6.0})


async def test_a_reference_counts_as_a_read_if_its_value_leaves(host_of_tables, space):
    decisions = iter(
        [Decision.deny("no"), Decision.approve(arguments={"numbers": [1.0]}), Decision.approve(), Decision.approve()]
    )

    async def decide(request):
        return next(decisions)

    host_of_tables.consent.policy, host_of_tables.consent.approver = "ask", decide
    values = SharedValues(space)
    values.share("df")
    async with Client(KernelServer(host_of_tables, values).server) as client:
        arguments = {"numbers": {"$value": "df", "columns": ["price"], "rows": [0, 4]}}
        counts = []
        for _ in range(3):
            await client.call_tool("tables__total", arguments)
            counts.append(values.readers("df").total())
        await client.call_tool("put_value", {"name": "copy", "value": {"$value": "df", "rows": [0, 4]}})
        counts.append(values.readers("df").total())
    assert counts == [0, 0, 1, 2]


async def test_the_audit_has_a_reference_that_is_refused(kernel, host):
    async with Client(kernel.server) as client:
        assert (await client.call_tool("tables__total", {"numbers": {"$value": "secret"}})).is_error
    record = host.consent.audit.records[-1]
    assert (record.tool, record.arguments) == ("tables:total", {"numbers": {"$value": "secret"}})
    assert record.decision == "deny"
    assert record.reason.startswith("numbers: no shared value 'secret'")


async def test_what_the_question_showed_is_sent(kernel, host, space):
    async def approve(request):
        space["df"] = pd.DataFrame({"id": [7], "price": [7.0]})
        space["text"] = "changed"
        return Decision.approve()

    host.consent.policy = "ask"
    host.consent.approver = approve
    async with Client(kernel.server) as client:
        arguments = {"left": {"$value": "df"}, "right": {"$value": "df", "rows": [0, 9]}, "on": "id"}
        assert (await client.call_tool("tables__join", arguments)).structured_content == {"result": 9}


async def test_an_edit_of_another_argument_changes_no_value(kernel, host):
    server = MCPServer("forms", log_level="ERROR")
    sent = {}

    @server.tool()
    def forms(rows: Rows, matrix: list[list[Any]], text: str, data: Any, note: str) -> str:
        sent.update(rows=rows, matrix=matrix, text=text, data=data, note=note)
        return "taken"

    async def edit(request):
        form = approval_question(request).form
        text = form.write(request.arguments, 2)
        return Decision.approve(arguments=form.read(text.replace("short", "long"), request.arguments))

    async def agree(request):
        return Decision.approve()

    await host.connect(server, name="forms")
    async with Client(kernel.server) as client:
        await client.call_tool("tables__customers", {"count": 2_000})
        table, answer = {"$value": "df", "rows": [0, 50]}, {"$value": "result_1"}
        arguments = {"rows": table, "matrix": table, "text": answer, "data": answer, "note": "short"}
        host.consent.policy, host.consent.approver = "ask", agree
        assert texts(await client.call_tool("forms__forms", arguments)) == "taken"
        unchanged = dict(sent)
        host.consent.approver = edit
        edited = await client.call_tool("forms__forms", arguments)
    assert texts(edited) == "[the person changed the arguments before the call: note]taken"
    assert sent == {**unchanged, "note": "long"}
    assert (len(sent["data"]), type(sent["text"]), sent["matrix"][1]) == (2_000, str, [1, 1.5])


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("tables__echo", {"text": {"$value": "secret"}}, "text: no shared value 'secret'. `list_values` lists them"),
        ("tables__echo", {"text": "a", "data": {"$value": "df.secret"}}, "data: df has no part 'secret'."),
        ("tables__echo", {"$value": "text"}, "a reference stands in the place of one argument, not of all"),
        ("tables__total", {"numbers": {"$value": "text"}}, "numbers: expected"),
        ("tables__total", {"numbers": {"$value": "df", "row": 1}}, "numbers: a reference has no 'row'."),
        ("put_value", {"name": "class", "value": 1}, "the name 'class' is Python's own"),
        ("put_value", {"name": "secret", "value": 1}, "the name 'secret' is taken"),
    ],
)
async def test_a_wrong_call_gets_a_sentence(tool, arguments, message, kernel):
    async with Client(kernel.server) as client:
        answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    assert message in texts(answer)
    assert "s3cr3t" not in texts(answer)


@pytest.mark.parametrize(
    "reference",
    [
        {"$value": "config", "columns": ["api_key"]},
        {"$value": "config.0.api_key"},
        {"$value": "config.1.api.key"},
        {"$value": "keys"},
    ],
)
async def test_an_error_quotes_nothing_that_is_masked(reference, host_of_tables):
    space = {"config": [{"api_key": "s3cr3t"}, {"api.key": "s3cr3t"}], "keys": pd.Series(["s3cr3t"], name="api_key")}
    values = SharedValues(space)
    values.share("config", "keys")
    async with Client(KernelServer(host_of_tables, values).server) as client:
        answer = await client.call_tool("tables__total", {"numbers": reference})
    assert answer.is_error
    assert texts(answer).startswith("numbers")
    assert "s3cr3t" not in texts(answer)


@pytest.mark.parametrize("query", ["value == 's3cr3t'", "value == 'other'", "value > 3", "none > 3"])
async def test_no_query_and_no_error_asks_what_is_masked(query, host_of_tables):
    values = SharedValues({"config": {"credentials": {"user": "s3cr3t", "pin": "1"}}})
    values.share("config")
    async with Client(KernelServer(host_of_tables, values).server) as client:
        reference = {"$value": "config.credentials", "query": query}
        answer = texts(await client.call_tool("tables__echo", {"text": "a", "data": reference}))
        assert answer == "data: config.credentials is masked: it is passed on whole, without a selection"
        answer = texts(await client.call_tool("read_value", {"name": "config.credentials.none"}))
        assert answer == "config has no such part; the names there are masked"


@pytest.fixture
async def guess(host):
    """Returns what an agent reads when it passes a masked value to a tool that takes only texts which begin with h."""
    server = MCPServer("guesser", log_level="ERROR")

    @server.tool()
    def guess(key: Annotated[str, Field(pattern="^h")]) -> str:
        return f"{len(key)} characters"

    await host.connect(server, name="guesser")
    space = {"config": {"api_key": "hunter2", "password": "xylophone"}}
    values = SharedValues(space)
    values.share("config")

    async def call(name: str) -> str:
        async with Client(KernelServer(host, values).server) as client:
            arguments = {"key": {"$value": f"config.{name}"}}
            return texts(await client.call_tool("guesser__guess", arguments)).replace(name, "NAME")

    return call


async def test_the_schema_of_a_tool_does_not_ask_what_is_masked(guess, host):
    questions = []

    async def refuse(request):
        questions.append(request.name)
        return Decision.deny("no")

    host.consent.policy = "deny"
    assert "denied" in await guess("api_key")
    assert await guess("api_key") == await guess("password")
    host.consent.policy, host.consent.approver = "ask", refuse
    assert await guess("api_key") == await guess("password")
    assert questions == ["guesser:guess"] * 2


async def test_a_masked_value_that_does_not_fit_is_told_after_consent(guess, host):
    edits = {}

    async def agree(request):
        return Decision.approve(arguments=edits or None)

    host.consent.policy, host.consent.approver = "ask", agree
    assert await guess("api_key") == "7 characters"
    told = await guess("password")
    assert told.startswith("key")
    assert "xylophone" not in told
    edits["key"] = "hello"
    assert (await guess("password")).endswith("5 characters")
    edits["key"] = "xylophone"
    told = await guess("password")
    assert "the changed arguments do not fit" in told
    assert "xylophone" not in told


@pytest.mark.parametrize("denial", ["policy", "rule", "rule for all tools"])
async def test_no_value_is_read_for_a_call_that_is_denied_anyhow(denial, host_of_tables, space):
    values, consent = SharedValues(space), host_of_tables.consent
    values.share("df")
    if denial == "policy":
        consent.policy = "deny"
    else:
        consent.add(Rule("deny", "*:*" if denial == "rule for all tools" else "tables:echo", {"text": "other"}))
        consent.add(Rule("deny", "*:*" if denial == "rule for all tools" else "tables:echo", reason="never"))
        consent.add(Rule("deny", ":put_value"))
    async with Client(KernelServer(host_of_tables, values).server) as client:
        for tool, arguments in (
            ("tables__echo", {"text": "a", "data": [{"$value": "df"}]}),
            ("put_value", {"name": "mine", "value": {"$value": "df"}}),
        ):
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error
            assert "was not called; denied by" in texts(answer)
            assert (consent.audit.records[-1].decision, consent.audit.records[-1].arguments) == ("deny", arguments)
    assert not values.readers("df")


async def test_a_value_is_read_only_if_other_arguments_fit(host_of_tables, space):
    values = SharedValues(space)
    values.share("df", "text")
    async with Client(KernelServer(host_of_tables, values).server) as client:
        answer = await client.call_tool("tables__echo", {"text": 7, "data": {"$value": "df"}})
        assert texts(answer) == "text: expected string, got 7"
        answer = await client.call_tool("put_value", {"name": 7, "value": {"$value": "df"}})
        assert texts(answer) == "name: expected string, got 7"
        assert not values.readers("df")
        answer = await client.call_tool("tables__total", {"numbers": {"$value": "text"}})
        assert texts(answer) == "numbers: expected list of number, got 'hello'"
        assert [*values.readers("text").values()] == [1]


async def test_two_clients_do_not_read_each_others_values(kernel):
    async with served(kernel) as url, Client(url, client_info=Implementation(name="one", version="1")) as one:
        await one.call_tool("tables__customers", {"count": 2_000})
        put = await one.call_tool("put_value", {"name": "mine", "value": [{"a": 1}]})
        assert texts(put).startswith("mine is a variable of the notebook now: DataFrame, 1 row x 1 column (a).")
        assert "result_1" in texts(await one.call_tool("list_values", {}))
        async with Client(url, client_info=Implementation(name="two", version="1")) as two:
            names = texts(await two.call_tool("list_values", {}))
            assert "df" in names
            assert "result_1" not in names
            assert "mine" not in names
            for name in ("result_1", "mine"):
                answer = await two.call_tool("tables__echo", {"text": "a", "data": {"$value": name}})
                assert f"no shared value {name!r}" in texts(answer)
                assert (await two.call_tool("read_value", {"name": name})).is_error
            assert "the name 'mine' is taken" in texts(await two.call_tool("put_value", {"name": "mine", "value": 1}))
        assert texts(await one.call_tool("tables__echo", {"text": "a", "data": {"$value": "mine"}})) == (
            '["a", [{"a": 1}]]'
        )


async def test_without_the_setting_all_of_an_answer_is_sent(kernel, host):
    host.outputs.spill = None
    async with Client(kernel.server) as client:
        answer = await client.call_tool("tables__customers", {"count": 2_000})
        assert len(answer.structured_content["result"]) == 2_000
