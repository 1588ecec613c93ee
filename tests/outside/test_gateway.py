"""The server of the kernel: real clients of both eras use what its sessions offer, over real HTTP."""

from __future__ import annotations

import asyncio
import re
import sys
import threading

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from mcp_magic.consent.consent import Decision
from mcp_magic.outside.exchange import TASK
from mcp_magic.outside.gateway import KernelServer
from mcp_magic.outside.spill import listed_output_schema
from mcp_magic.values.shared import SharedValues
from tests.support import holding_server, telling_server
from tests.support.hosts import host as host
from tests.support.outside import served
from tests.support.persons import Approver
from tests.support.scripted_tasks import Scripted, done, state
from tests.support.waiting import until

VALUES = ["list_values", "describe_value", "read_value", "put_value"]


def math_server() -> MCPServer:
    server = MCPServer("math", log_level="ERROR")

    @server.tool(title="Add two", description="Adds.")
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def steps(context: Context) -> str:
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "done"

    @server.tool()
    async def note(context: Context, text: str) -> str:
        await context.info(text)
        await context.debug("not wanted")
        return text

    @server.tool()
    def fail() -> str:
        raise ValueError("no such file")

    @server.resource("math://pi", name="pi")
    def pi() -> str:
        return "3.14"

    @server.resource("math://table/{number}", name="table")
    def table(number: str) -> str:
        return f"table of {number}"

    @server.prompt()
    def solve(problem: str) -> str:
        return f"Solve {problem}."

    @server.completion()
    async def complete(reference, argument, context):
        kind = "prompt" if isinstance(reference, PromptReference) else "template"
        return Completion(values=[f"{kind} {argument.name}={argument.value}1"])

    return server


@pytest.fixture
async def math(host):
    """A host with a session, whose calls are allowed."""
    host.consent.policy = "auto"
    await host.connect(math_server(), name="math")
    return host


def texts(result) -> str:
    return "".join(block.text for block in result.content)


async def test_tools_are_those_of_the_sessions(math, mode):
    async with Client(KernelServer(math).server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == [*VALUES, "math__add", "math__steps", "math__note", "math__fail"]
        own = math["math"].catalog.tools["add"]
        spill = {"output_schema": listed_output_schema(own.output_schema)}
        assert tools["math__add"] == own.model_copy(update={"name": "math__add", **spill})
        result = await client.call_tool("math__add", {"a": 1, "b": 2})
        assert (texts(result), result.structured_content, result.is_error) == ("3", {"result": 3}, False)
        failed = await client.call_tool("math__fail", {})
        assert (failed.is_error, texts(failed)) == (True, "Error executing tool fail: ValueError: no such file")
        assert "crash" not in str(failed.meta)
        near = "there is no tool 'math__ad' (any more). Did you mean 'math__add'? tools/list names those there are"
        with pytest.raises(MCPError, match=re.escape(near)):
            await client.call_tool("math__ad", {})
        with pytest.raises(MCPError, match="serves it with `%mcp serve --kernel --stop` and `%mcp serve"):
            await client.call_tool("run_code", {"code": "1"})


def views_server(name: str, view: str = "ui://view/main") -> MCPServer:
    """A server whose tools have a view, one of them for the view only; `view` may be a template that it fits."""
    server = MCPServer(name, log_level="ERROR")

    @server.tool(meta={"ui": {"resourceUri": "ui://view/main", "visibility": ["model", "app"]}, "other": 1})
    def show() -> str:
        return name

    @server.tool(meta={"ui/resourceUri": "ui://view/main"})
    def old() -> str:
        return name

    @server.tool(meta={"ui": {"resourceUri": "ui://view/main", "visibility": ["app"]}})
    def act() -> str:
        raise AssertionError("an agent calls it")

    def html() -> str:
        return name

    def html_of(page: str) -> str:
        return name

    server.resource(view, mime_type="text/html;profile=mcp-app")(html_of if "{" in view else html)
    return server


async def test_tools_for_apps_only_are_not_there(host, mode):
    await host.connect(views_server("one"), name="one")
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [*VALUES, "one__show", "one__old"]
        with pytest.raises(MCPError, match="there is no tool 'one__act'"):
            await client.call_tool("one__act", {})


async def test_tools_name_their_views_as_they_are_listed(host, mode):
    host.consent.policy = "auto"
    for name in ("one", "two"):
        await host.connect(views_server(name), name=name)
        async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
            uri = tools[f"{name}__show"].meta["ui"]["resourceUri"]
            assert tools[f"{name}__old"].meta == {"ui/resourceUri": uri}
            assert tools[f"{name}__show"].meta["other"] == 1
            assert uri in listed
            assert uri.startswith("ui://"), "hosts take no other for a view"
            assert (await client.read_resource(uri)).contents[0].text == name


async def test_view_that_is_not_listed_is_read_from_its_server(host, mode):
    host.consent.policy = "auto"
    for name in ("one", "two"):
        await host.connect(views_server(name, view="ui://view/{page}"), name=name)
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        for tool in (await client.list_tools()).tools[len(VALUES) :]:
            uri = (tool.meta.get("ui") or {}).get("resourceUri") or tool.meta["ui/resourceUri"]
            assert (await client.read_resource(uri)).contents[0].text == tool.name.partition("__")[0]


async def test_call_goes_through_consent_as_outside(math, mode):
    approver = Approver(Decision.approve(), Decision.deny("not zero"))
    math.consent.policy, math.consent.approver = "ask", approver
    async with Client(KernelServer(math).server, mode=mode) as client:
        assert texts(await client.call_tool("math__add", {"a": 1, "b": 2})) == "3"
        denied = await client.call_tool("math__add", {"a": 0, "b": 2})
        assert (denied.is_error, texts(denied)) == (True, "math:add was not called; denied by the user: not zero.")
        wrong = await client.call_tool("math__add", {"a": "x", "b": 2})
        assert (wrong.is_error, texts(wrong)) == (True, "a: expected integer, got 'x'")
    asked = [(request.asker, request.name, dict(request.arguments)) for request in approver.asked]
    assert asked == [("outside mcp", "math:add", {"a": a, "b": 2}) for a in (1, 0)]
    records = [(record.asker, record.decision) for record in math.consent.audit.records]
    assert records == [("outside mcp", "approve"), ("outside mcp", "deny")]


async def test_resources_are_read_by_the_uris_that_are_listed(math, mode):
    await math.connect(math_server(), name="more")
    async with Client(KernelServer(math).server, mode=mode) as client:
        listed = {resource.uri: resource.name for resource in (await client.list_resources()).resources}
        assert listed == {"math+math://pi": "math__pi", "more+math://pi": "more__pi"}
        templates = (await client.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates] == ["math+math://table/{number}", "more+math://table/{number}"]
        [content] = (await client.read_resource("more+math://pi")).contents
        assert (content.text, content.uri) == ("3.14", "more+math://pi")
        await math.disconnect("more")
        [content] = (await client.read_resource("math://table/7")).contents
        assert (content.text, content.uri) == ("table of 7", "math://table/7")
        with pytest.raises(MCPError, match="math://nothing"):
            await client.read_resource("math://nothing")
        await math.connect(math_server(), name="more")
        with pytest.raises(MCPError, match=r"could be on math, more: `math\+math://other` asks math"):
            await client.read_resource("math://other")
        for name in ("math", "more"):
            await math.disconnect(name)
        with pytest.raises(MCPError, match="no server here has a resource 'math://pi'"):
            await client.read_resource("math://pi")


async def test_large_resource_and_prompt_come_as_head_and_handle(host, mode):
    server = MCPServer("docs", log_level="ERROR")
    rows = "city,n\n" + "".join(f"City {number},{number}\n" for number in range(2000))
    server.resource("docs://rows", name="rows", mime_type="text/csv")(lambda: rows)
    server.resource("docs://blob", name="blob", mime_type="application/zip")(lambda: b"x" * 50_000)
    server.prompt(name="review")(lambda: ["Review this:", rows])
    host.consent.policy = "auto"
    await host.connect(server, name="docs")
    async with Client(KernelServer(host).server, mode=mode) as client:
        [content] = (await client.read_resource("docs://rows")).contents
        assert (content.uri, content.mime_type) == ("docs://rows", "text/plain")
        assert content.text.startswith("[result_1: table of 2,000 rows x 2 columns (city, n). About ")
        assert len(content.text) < 500
        read = await client.call_tool("read_value", {"name": "result_1", "rows": "1999:", "columns": ["city"]})
        assert texts(read).splitlines()[1:] == ["city", "City 1999"]
        [content] = (await client.read_resource("docs://blob")).contents
        assert content.text.startswith(
            "[left out, as it is too large: application/zip, 50.0 kB, docs://blob; result_2 has"
        )
        first, second = (await client.get_prompt("docs__review")).messages
        assert (first.role, first.content.text, second.role) == ("user", "Review this:", "user")
        assert second.content.text.startswith("[result_3: ")
        assert "City 1999" in texts(await client.call_tool("read_value", {"name": "result_3", "rows": "-1:"}))
        host.outputs.spill = None
        [content] = (await client.read_resource("docs://rows")).contents
        assert content.text == rows
        assert (await client.get_prompt("docs__review")).messages[1].content.text == rows


async def test_reading_a_resource_is_asked_about(math, mode):
    math.consent.policy, math.consent.approver = "ask", Approver(Decision.deny("not today"))
    async with Client(KernelServer(math).server, mode=mode) as client:
        with pytest.raises(MCPError, match=r"^math:resources/read was not called; denied by the user: not today\.$"):
            await client.read_resource("math://pi")
    [record] = math.consent.audit.records
    assert (record.asker, record.tool, record.arguments) == ("outside mcp", "resources/read", {"uri": "math://pi"})


async def test_a_resource_chosen_instead_has_its_own_uri(math, mode):
    other = Decision.approve(arguments={"uri": "math://table/2"})
    math.consent.policy, math.consent.approver = "ask", Approver(other)
    async with Client(KernelServer(math).server, mode=mode) as client:
        [content] = (await client.read_resource("math://table/1")).contents
    assert (content.text, content.uri) == ("table of 2", "math://table/2")


async def test_prompts_and_completions_are_those_of_the_sessions(math, mode):
    math.consent.policy = "deny"
    async with Client(KernelServer(math).server, mode=mode) as client:
        [prompt] = (await client.list_prompts()).prompts
        assert (prompt.name, prompt.arguments[0].name) == ("math__solve", "problem")
        result = await client.get_prompt("math__solve", {"problem": "x = 1"})
        assert result.messages[0].content.text == "Solve x = 1."
        for reference, kind in (
            (PromptReference(name="math__solve"), "prompt"),
            (ResourceTemplateReference(uri="math://table/{number}"), "template"),
        ):
            answer = await client.complete(reference, {"name": "n", "value": "1"})
            assert answer.completion.values == [f"{kind} n=11"]
        with pytest.raises(MCPError, match="there is no prompt 'math__no'"):
            await client.get_prompt("math__no")
        with pytest.raises(MCPError, match="there is no such template"):
            await client.complete(ResourceTemplateReference(uri="no://{x}"), {"name": "n", "value": "1"})


async def test_progress_reaches_the_client(math, mode):
    steps = []

    async def progressed(progress, total, message):
        steps.append((progress, total, message))

    async with served(KernelServer(math)) as url, Client(url, mode=mode) as client:
        assert texts(await client.call_tool("math__steps", {}, progress_callback=progressed)) == "done"
    assert steps == [(step, 3, f"step {step}") for step in range(3)]


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_what_else_a_server_says_is_cut_and_masked(host, mode):
    key, steps, logs = telling_server.KEY, [], []
    host.consent.policy = "auto"
    await host.connect([sys.executable, telling_server.__file__], name="telling", env={"API_KEY": key})

    async def progressed(progress, total, message):
        steps.append((progress, message))

    async def logged(message):
        logs.append(message.data)

    async with Client(KernelServer(host).server, mode=mode, logging_callback=logged) as client:
        meta = {"io.modelcontextprotocol/logLevel": "info"} if mode == "auto" else None
        with pytest.raises(MCPError) as told:
            await client.call_tool("telling__tell", {}, progress_callback=progressed, meta=meta)
        with pytest.raises(MCPError) as much:
            await client.call_tool("telling__tell_much", {})
        completed = await client.complete(PromptReference(name="telling__ask"), {"name": "word", "value": ""})
    assert [message[:7] for _, message in steps] == ["*** xxx", "next"]
    assert len(steps[0][1]) == 2_000
    assert steps[0][0] < steps[1][0]
    assert logs == [{"text": "***"}]
    assert told.value.error.data == {"text": "***"}
    assert "telling:tell: *** xxx" in told.value.error.message
    assert len(told.value.error.message) < 21_000
    assert (much.value.error.code, much.value.error.data) == (-32001, None)
    assert completed.completion.values == ["***"]


async def test_an_error_names_no_secret_of_a_server(host, mode):
    key = telling_server.KEY
    host.consent.policy = "auto"
    await host.connect([sys.executable, telling_server.__file__], name="telling", env={"API_KEY": key})
    values = SharedValues({"rows": [{key: 1, "a": 2}], "config": {key: {"a": 1}}})
    values.share("rows", "config")
    async with Client(KernelServer(host, values).server, mode=mode) as client:
        for arguments in ({"name": "rows", "columns": ["b"]}, {"name": "rows", "query": "b > 1"}, {"name": "config.b"}):
            answer = texts(await client.call_tool("read_value", arguments))
            assert "There are: ***" in answer
            put = {"name": "b", "value": {"$value": arguments["name"], **arguments}}
            del put["value"]["name"]
            assert "There are: ***" in texts(await client.call_tool("put_value", put))
        host["telling"].spec.secret_values.add(["s3cr3t-of-later"])
        values.share_all()
        assert "'s3cr3t" not in texts(await client.call_tool("read_value", {"name": "rows.s3cr3t-of-later"}))
    assert key not in repr(host.consent.audit.records)


async def test_call_that_becomes_a_task_tells_how_far_it_is(host, connect, mode):
    script = Scripted(
        state(statusMessage="step 1 of 2 with s3cr3t-of-ci"), state(statusMessage="step 2 of 2"), done("built main")
    )
    await connect(script)
    host.consent.policy, messages = "auto", []
    host["ci"].spec.secret_values.add(["s3cr3t-of-ci"])

    async def progressed(progress, total, message):
        messages.append(message)

    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        result = await client.call_tool("ci__build", {"ref": "main"}, progress_callback=progressed)
    assert (texts(result), result.is_error) == ("built main", False)
    assert [message for message in messages if ", for " not in message] == [
        TASK,
        "step 1 of 2 with ***",
        "step 2 of 2",
    ]
    assert script.params("tools/call") == [{"name": "build", "arguments": {"ref": "main"}}]


async def test_task_of_a_call_that_the_client_gives_up_is_cancelled(host, connect, mode):
    script = Scripted(state())
    await connect(script)
    host.consent.policy = "auto"
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("ci__build", {}))
        await until(lambda: "tasks/get" in script.methods())
        call.cancel()
        await until(lambda: script.params("tasks/cancel") == [{"taskId": "task-1"}])


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_log_messages_reach_the_client_that_called(math, mode):
    logs = {"one": [], "two": []}

    def client_of(name, url):
        async def take(params):
            logs[name].append((params.level, params.data))

        return Client(url, mode=mode, logging_callback=take, log_level="info" if mode == "auto" else None)

    async with served(KernelServer(math)) as url, client_of("one", url) as one, client_of("two", url) as two:
        await one.call_tool("math__note", {"text": "of one"})
        await two.call_tool("math__note", {"text": "of two"})
        if mode == "legacy":
            await one.set_logging_level("error")
            await one.call_tool("math__note", {"text": "too quiet"})
    assert logs == {"one": [("info", "of one")], "two": [("info", "of two")]}


async def test_values_are_read_if_they_are_shared(host, mode):
    space = {"rows": [{"a": 1}, {"a": 2}], "secret": "hunter2"}
    values = SharedValues(space)
    async with Client(KernelServer(host, values).server, mode=mode) as client:
        assert "No value is shared" in texts(await client.call_tool("list_values", {}))
        values.share("rows")
        assert texts(await client.call_tool("list_values", {})).startswith("rows: ")
        assert "1" in texts(await client.call_tool("read_value", {"name": "rows"}))
        refused = await client.call_tool("read_value", {"name": "secret"})
        assert refused.is_error
        assert texts(refused).startswith("no shared value 'secret'. `list_values` lists them")
    records = [(record.asker, record.tool, record.decision) for record in host.consent.audit.records]
    decisions = [("list_values", "read"), ("list_values", "read"), ("read_value", "read"), ("read_value", "deny")]
    assert records == [("outside mcp", *decision) for decision in decisions]


async def test_values_are_read_in_the_kernel_without_a_session(host, mode):
    """Nothing is connected yet: the values are those of the loop on which the server was made."""
    threads = []

    class Values(SharedValues):
        def of(self, client, label=""):
            threads.append(threading.current_thread())
            return super().of(client, label)

    async with served(KernelServer(host, Values())) as url, Client(url, mode=mode) as client:
        await client.call_tool("list_values", {})
    assert threads == [threading.current_thread()]


async def test_clients_of_one_name_are_kept_apart(math):
    approver = Approver(Decision.approve())
    math.consent.policy, math.consent.approver = "ask", approver
    kernel = KernelServer(math)
    async with served(kernel) as url, Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        for client in (one, two):
            await client.call_tool("math__add", {"a": 1, "b": 2})
        assert [client.name for client in kernel.clients] == ["mcp", "mcp (2)"]
    assert [request.asker for request in approver.asked] == ["outside mcp", "outside mcp (2)"]
    assert list(kernel.clients) == []


async def test_call_that_the_client_gives_up_is_cancelled(host, mode):
    begun, ended = asyncio.Event(), asyncio.Event()
    server = MCPServer("slow", log_level="ERROR")

    @server.tool()
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    host.consent.policy = "auto"
    await host.connect(server, name="slow")
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("slow__wait", {}))
        await asyncio.wait_for(begun.wait(), 30)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 30)


async def test_question_of_a_call_that_is_given_up_goes_away(math):
    asked, gone = asyncio.Event(), asyncio.Event()

    async def approver(request):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    math.consent.policy, math.consent.approver = "ask", approver
    async with served(KernelServer(math)) as url, Client(url) as client:
        call = asyncio.create_task(client.call_tool("math__add", {"a": 1, "b": 2}))
        await asyncio.wait_for(asked.wait(), 30)
        call.cancel()
        await asyncio.wait_for(gone.wait(), 30)
    assert math["math"].calls == 0


@pytest.mark.parametrize("how", ["disconnect", "another", "lost"])
@pytest.mark.parametrize("work", ["math__add", "math://pi"])
async def test_question_about_a_session_goes_away_with_it(math, mode, work, how):
    asked, gone, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def approver(request):
        asked.set()
        try:
            await answer.wait()
        finally:
            gone.set()
        return Decision.approve()

    math.consent.policy, math.consent.approver = "ask", approver
    async with served(KernelServer(math)) as url, Client(url, mode=mode) as client:
        calls = client.read_resource(work) if "://" in work else client.call_tool(work, {"a": 1, "b": 2})
        call = asyncio.create_task(outcome(calls))
        await asyncio.wait_for(asked.wait(), 30)
        if how == "lost":  # it is still there, and opens again
            await math.reconnect("math")
            assert not gone.is_set()
            answer.set()
            assert await call in ("3", "3.14")
            return
        await math.disconnect("math")
        if how == "another":
            await math.connect(math_server(), name="math")
        await asyncio.wait_for(gone.wait(), 30)
        assert await call == "the person has disconnected 'math' while the question stood; nothing was sent."


async def outcome(answer):
    """Return the text of an answer to a client, or of the error."""
    try:
        result = await answer
    except MCPError as error:
        return str(error)
    return "".join(part.text for part in (result.content if hasattr(result, "content") else result.contents))


async def test_listing_is_answered_while_a_cell_computes(math, mode):
    kernel, free = KernelServer(math, patience=0.0), threading.Event()
    entered = threading.Event()

    async def outside(url):
        async with Client(url, mode=mode) as client:
            math.loop.call_soon_threadsafe(lambda: (entered.set(), free.wait()))
            entered.wait()
            try:
                names = [tool.name for tool in (await client.list_tools()).tools]
                return names, await client.call_tool("math__add", {"a": 1, "b": 2})
            finally:
                free.set()

    async with served(kernel) as url:
        names, result = await asyncio.to_thread(lambda: asyncio.run(outside(url)))
    assert names[4:] == ["math__add", "math__steps", "math__note", "math__fail"]
    assert result.is_error
    assert re.match(r"the kernel has been running a cell for \d+ s\. Nothing was called", texts(result))
    assert math["math"].calls == 0


async def test_session_that_is_slow_or_dead_does_not_block_others(math, mode, tmp_path):
    await math.connect([sys.executable, holding_server.__file__], name="slow")
    async with served(KernelServer(math)) as url, Client(url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("slow__hold", {"folder": str(tmp_path)}))
        await until((tmp_path / "started").exists)
        assert texts(await client.call_tool("math__add", {"a": 1, "b": 2})) == "3"
        await math.disconnect("slow")
        failed = await asyncio.wait_for(call, 30)
        assert failed.is_error
        assert texts(failed).startswith("slow:hold: the session has ended")
        assert "slow__hold" not in {tool.name for tool in (await client.list_tools()).tools}
