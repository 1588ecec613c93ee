"""The reference server that has everything, in a kernel through the magics, over streamable HTTP."""

import ast
import base64
import gzip
import json

import pytest

from tests.environments import everything_command, needs_node
from tests.support.kernel_servers import LOAD
from tests.support.kernels import until
from tests.support.processes import free_port, start_http

pytestmark = needs_node
SETUP = [LOAD, "import json\nfrom mcp_magic import host\n%config MCPMagics.model = 'offline'"]
TOOLS = "echo get-annotated-message get-env get-resource-links get-resource-reference get-structured-content get-sum"
TOOLS += " get-tiny-image gzip-file-as-resource toggle-simulated-logging toggle-subscriber-updates"
TOOLS += " trigger-long-running-operation"
FOR_CLIENTS_THAT_CAN = "get-roots-list trigger-elicitation-request trigger-url-elicitation trigger-sampling-request"
FOR_CLIENTS_THAT_CAN += " simulate-research-query"
DYNAMIC = "demo://resource/dynamic"
CALLS = [
    ("echo", "message='hällo $5'", "r.text", "Echo: hällo $5"),
    ("get-sum", "a=1.5 b=2", "r.text", "The sum of 1.5 and 2 is 3.5."),
    ("get-env", "", "'PATH' in r.data", True),
    (
        "get-structured-content",
        "location='New York'",
        "[r.data['temperature'], *r.df]",
        [33, "temperature", "conditions", "humidity"],
    ),
    ("get-tiny-image", "", "[i.mime_type for i in r.images]", ["image/png"]),
    (
        "get-annotated-message",
        "messageType=error includeImage=true",
        "[r.text, r.raw.content[0].annotations.priority, len(r.images)]",
        ["Error: Operation failed", 1.0, 1],
    ),
    (
        "get-resource-links",
        "count=2",
        "[str(link.uri) for link in r.links]",
        [f"{DYNAMIC}/blob/1", f"{DYNAMIC}/text/2"],
    ),
    (
        "get-resource-reference",
        "resourceType=Text resourceId=3",
        "[str(x.uri) for x in r.resources]",
        [f"{DYNAMIC}/text/3"],
    ),
    (
        "trigger-long-running-operation",
        "duration=0.3 steps=3",
        "[r.text, len([e for e in host.trace.entries('e') if e.method == 'notifications/progress'])]",
        ["Long running operation completed. Duration: 0.3 seconds, Steps: 3.", 3],
    ),
]


class Everything:
    """A kernel with the server connected as `e`."""

    def __init__(self, kernel, folder):
        self.kernel = kernel
        self.folder = folder
        self.called = set()

    def value(self, code):
        """Run a cell that ends in an expression, and return its value by way of JSON."""
        head, _, last = code.rpartition("\n")
        return json.loads(ast.literal_eval(self.kernel.ok(f"{head}\njson.dumps({last}, default=str)").text))

    def call(self, tool, arguments="", look="r.text", options=""):
        """Call a tool and return what `look` sees in its result `r`."""
        self.called.add(tool)
        return self.value(f"r = %mcp call e:{tool} {arguments} {options}\n{look}")


@pytest.fixture(scope="module")
def everything(kernel, folder):
    listens = r"on port (?P<port>\d+)"
    with start_http(everything_command("streamableHttp"), {"PORT": str(free_port())}, listens) as server:
        kernel.ok(f"%mcp connect --name e --sampling auto {server.url}")
        yield Everything(kernel, folder)
        kernel.ok("%mcp disconnect e")


def test_tools_answer_with_text_media_links_and_resources(everything):
    for tool, arguments, look, expected in CALLS:
        assert everything.call(tool, arguments, look) == expected, tool
    arguments = "name=a.gz data=data:text/plain,hello outputType=resourceLink"
    [uri] = everything.call("gzip-file-as-resource", arguments, "[str(link.uri) for link in r.links]")
    data = everything.value(f"r = %mcp read {uri} --server e\nr.raw.contents[0].blob")
    assert gzip.decompress(base64.b64decode(data)) == b"hello"


def test_roots_are_told(everything):
    everything.kernel.ok("%mcp roots e .")
    until(lambda: everything.folder.name in everything.call("get-roots-list"), what="the roots of this host")


def test_forms_and_pages_are_answered_from_a_file(everything):
    values = {"name": "Ada", "check": True, "integer": 7, "untitledSingleSelectEnum": "Monica"}
    form = {"Please provide inputs for the following fields:": values}
    (everything.folder / "form.json").write_text(json.dumps(form))
    said = everything.call("trigger-elicitation-request", look="' '.join(r.text)", options="--answers form.json")
    assert "User provided the requested information" in said
    assert "Ada" in said
    (everything.folder / "page.json").write_text(json.dumps(["accept", "accept", "accept"]))
    for path in ("", "errorPath=true"):
        arguments = f"url=https://example.com/pay message=Pay {path}"
        said = everything.call("trigger-url-elicitation", arguments, "str(r.text)", "--answers page.json")
        assert "accept" in said.lower(), said


def test_a_model_answers_what_the_server_asks(everything):
    said = everything.call("trigger-sampling-request", "prompt='What is 2 plus 3?' maxTokens=50")
    assert said.startswith("LLM sampling result:")
    answered = json.loads(said.partition("\n")[2])
    assert answered["role"] == "assistant"
    assert answered["content"]["text"] if isinstance(answered["content"], dict) else answered["content"][0]["text"]


def test_a_tool_that_runs_only_as_a_task_of_2025_11_25_says_so(everything):
    """The SDK's client knows no tasks, and 2026-07-28 has them no more."""
    everything.called.add("simulate-research-query")
    plain = everything.kernel.run("%mcp call e:simulate-research-query topic=tea")
    assert plain.ename == "ToolError"
    assert "-32601: Tool simulate-research-query requires task augmentation" in plain.evalue


def test_resources_and_templates(everything):
    uris = everything.value("t = %mcp resources e\n[r['uri'] for r in t]")
    assert len([uri for uri in uris if uri.startswith("demo://resource/static/document/")]) == 7
    assert len(everything.value(f"r = %mcp read {uris[0]} --server e\nr.text")) > 100
    templates = everything.value("t = %mcp templates e\n[r['template'] for r in t]")
    assert templates == [f"{DYNAMIC}/text/{{resourceId}}", f"{DYNAMIC}/blob/{{resourceId}}"]
    text = everything.value(f"r = %mcp read {DYNAMIC}/text/5 --server e\nr.text")
    assert text.startswith("Resource 5: This is a plaintext resource")


def test_prompts(everything):
    names = everything.value("t = %mcp prompts e\n[r['prompt'] for r in t]")
    assert names == ["e:simple-prompt", "e:args-prompt", "e:completable-prompt", "e:resource-prompt"]
    for prompt, text in {
        "simple-prompt": "This is a simple prompt without arguments.",
        "args-prompt city=Oslo": "Oslo",
        "completable-prompt department=Sales name=David": "David",
        "resource-prompt resourceType=Text resourceId=2": "Resource 2: This is a plaintext resource",
    }.items():
        assert text in everything.value(f"p = %mcp prompt e:{prompt}\nstr([m.content for m in p.messages])")


def test_the_server_completes_arguments_of_prompts_and_templates(everything):
    def completed(line, value):
        """What Tab offers once the server has answered in time: Tab waits for it a moment only."""
        until(lambda: value in everything.kernel.complete(line), what=value)
        return everything.kernel.complete(line)

    completed("%mcp prompt e:completable-prompt department=", "department=Engineering")
    names = completed("%mcp prompt e:completable-prompt department=Sales name=", "name=David")
    assert "name=Alice" not in names  # she is an engineer
    completed(f"%mcp read {DYNAMIC}/text/7", f"{DYNAMIC}/text/7")


def test_updates_and_log_messages_come(everything):
    everything.kernel.ok(f"%mcp watch {DYNAMIC}/text/1 --server e --background\n%mcp logs e --level debug")
    for toggle in ("toggle-subscriber-updates", "toggle-simulated-logging"):
        assert "Started" in everything.call(toggle)
    count = "w = %mcp watch\n[row['updates'] for row in w]"
    until(lambda: everything.value(count) == [1], what="an update")
    look = "t = %mcp logs e --level debug\n[r['text'] for r in t if 'evel' in r['text'] and 'essage' in r['text']]"
    until(lambda: everything.value(look) != [], what="a log message")
    for toggle in ("toggle-subscriber-updates", "toggle-simulated-logging"):
        assert "Stopped" in everything.call(toggle)
    everything.kernel.ok("%mcp watch --stop")
    assert everything.value(count) == []


def test_doctor_reports_health_and_leaves_session_alone(everything):
    before = everything.value("host['e'].calls")
    assert everything.value("r = %mcp doctor e\n[r.ok, r.problems, len(r.steps)]") == [True, [], 12]
    assert everything.value("host['e'].calls") == before


def test_each_of_its_tools_was_offered_and_called(everything):
    tools = everything.value("t = %mcp tools e\n[r['tool'] for r in t]")
    assert len(tools) == 17
    assert {name.removeprefix("e:") for name in tools} == {*TOOLS.split(), *FOR_CLIENTS_THAT_CAN.split()}
    assert everything.called == {*TOOLS.split(), *FOR_CLIENTS_THAT_CAN.split()}
