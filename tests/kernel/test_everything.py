"""The reference server that has everything, in a kernel through the magics: over stdio and over streamable HTTP."""

from __future__ import annotations

import ast
import base64
import gzip
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.environments import everything_command, needs_node
from tests.support.kernels import until
from tests.support.processes import free_port, start_http
from tests.support.started_kernels import started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kernels import Kernel

pytestmark = needs_node

ALWAYS = {
    *("echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference"),
    *("get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource", "toggle-simulated-logging"),
    *("toggle-subscriber-updates", "trigger-long-running-operation"),
}
FOR_CLIENTS_THAT_CAN = {
    *("get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"),
    "simulate-research-query",
}
FORM = "Please provide inputs for the following fields:"


class Everything:
    """A kernel with the server connected as `e`."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.folder = folder
        self.called: set[str] = set()

    def value(self, code: str) -> Any:
        """Run a cell that ends in an expression, and return its value by way of JSON."""
        head, _, last = code.rpartition("\n")
        text = self.kernel.ok(f"{head}\nimport json\njson.dumps({last}, default=str)").text
        return json.loads(ast.literal_eval(text))

    def call(self, tool: str, arguments: str = "", look: str = "r.text", options: str = "") -> Any:
        """Call a tool and return what `look` sees in its result `r`."""
        self.called.add(tool)
        return self.value(f"r = %mcp call e:{tool} {arguments} {options}\n{look}")


@pytest.fixture(scope="module", params=["stdio", "http"])
def everything(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp(f"everything-{request.param}")
    setup = "%load_ext mcp_magic\nfrom mcp_magic import host\n%config MCPMagics.model = 'offline'"
    with started(folder, [setup]) as frontend, ExitStack() as stack:
        if request.param == "stdio":
            target = f"-- {' '.join(everything_command())}"
        else:
            command = everything_command("streamableHttp")
            listening = start_http(command, {"PORT": str(free_port())}, r"on port (?P<port>\d+)")
            target = stack.enter_context(listening).url
        options = "--name e --sampling auto"
        frontend.kernel.ok(f"%mcp connect {options} {target}")
        yield Everything(frontend.kernel, folder)
        frontend.kernel.ok("%mcp disconnect e")


def test_it_offers_all_its_tools_to_a_host_that_can_be_asked(everything: Everything) -> None:
    tools = everything.value("t = %mcp tools e\n[r['tool'] for r in t]")
    assert {name.removeprefix("e:") for name in tools} == ALWAYS | FOR_CLIENTS_THAT_CAN
    assert len(tools) == 17


def test_tools_that_answer_with_text_numbers_and_structure(everything: Everything) -> None:
    assert everything.call("echo", "message='hällo $5'") == "Echo: hällo $5"
    assert everything.call("get-sum", "a=1.5 b=2") == "The sum of 1.5 and 2 is 3.5."
    assert "PATH" in everything.call("get-env", look="r.data")
    shown = everything.call("get-structured-content", "location='New York'", "[r.data, list(r.df.columns)]")
    assert shown[0]["temperature"] == 33
    assert shown[1] == ["temperature", "conditions", "humidity"]


def test_tools_that_answer_with_media_links_and_resources(everything: Everything) -> None:
    assert everything.call("get-tiny-image", look="[i.mime_type for i in r.images]") == ["image/png"]
    look = "[r.text, r.raw.content[0].annotations.priority, len(r.images)]"
    found = everything.call("get-annotated-message", "messageType=error includeImage=true", look)
    assert found == ["Error: Operation failed", 1.0, 1]
    links = everything.call("get-resource-links", "count=2", "[str(link.uri) for link in r.links]")
    assert links == ["demo://resource/dynamic/blob/1", "demo://resource/dynamic/text/2"]
    found = everything.call(
        "get-resource-reference", "resourceType=Text resourceId=3", "[str(x.uri) for x in r.resources]"
    )
    assert found == ["demo://resource/dynamic/text/3"]


def test_a_file_that_a_tool_made_can_be_read(everything: Everything) -> None:
    arguments = "name=a.gz data=data:text/plain,hello outputType=resourceLink"
    [uri] = everything.call("gzip-file-as-resource", arguments, "[str(link.uri) for link in r.links]")
    data = everything.value(f"r = %mcp read {uri} --server e\nr.raw.contents[0].blob")
    assert gzip.decompress(base64.b64decode(data)) == b"hello"


def test_progress_comes_while_a_tool_works(everything: Everything) -> None:
    said = everything.call("trigger-long-running-operation", "duration=0.3 steps=3")
    assert said == "Long running operation completed. Duration: 0.3 seconds, Steps: 3."
    came = "len([e for e in host.trace.entries('e') if e.method == 'notifications/progress'])"
    assert everything.value(came) == 3


def test_roots_are_told(everything: Everything) -> None:
    everything.kernel.ok("%mcp roots e .")
    until(lambda: everything.folder.name in everything.call("get-roots-list"), what="the roots of this host")


def test_a_form_is_answered(everything: Everything) -> None:
    values = {"name": "Ada", "check": True, "integer": 7, "untitledSingleSelectEnum": "Monica"}
    (everything.folder / "form.json").write_text(json.dumps({FORM: values}))
    said = everything.call("trigger-elicitation-request", look="' '.join(r.text)", options="--answers form.json")
    assert "User provided the requested information" in said
    assert "Ada" in said


def test_url_elicitation_is_answered_on_both_paths(everything: Everything) -> None:
    (everything.folder / "page.json").write_text(json.dumps(["accept", "accept", "accept"]))
    arguments = "url=https://example.com/pay message=Pay"
    for path in ("", "errorPath=true"):
        said = everything.call(
            "trigger-url-elicitation", f"{arguments} {path}", "str(r.text)", options="--answers page.json"
        )
        assert "accept" in said.lower(), said


def test_a_model_answers_what_the_server_asks(everything: Everything) -> None:
    said = everything.call("trigger-sampling-request", "prompt='What is 2 plus 3?' maxTokens=50")
    assert said.startswith("LLM sampling result:")
    answered = json.loads(said.partition("\n")[2])
    assert answered["role"] == "assistant"
    assert answered["content"]["text"] if isinstance(answered["content"], dict) else answered["content"][0]["text"]


def test_a_tool_that_runs_only_as_a_task_of_2025_11_25_says_so(everything: Everything) -> None:
    """The SDK's client knows no tasks, and 2026-07-28 has them no more."""
    everything.called.add("simulate-research-query")
    plain = everything.kernel.run("%mcp call e:simulate-research-query topic=tea")
    assert plain.ename == "ToolError"
    assert "-32601: Tool simulate-research-query requires task augmentation" in plain.evalue


def test_resources_and_templates(everything: Everything) -> None:
    uris = everything.value("t = %mcp resources e\n[r['uri'] for r in t]")
    assert len([uri for uri in uris if uri.startswith("demo://resource/static/document/")]) == 7
    text = everything.value(f"r = %mcp read {uris[0]} --server e\nr.text")
    assert len(text) > 100
    templates = everything.value("t = %mcp templates e\n[r['template'] for r in t]")
    assert templates == ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"]
    text = everything.value("r = %mcp read demo://resource/dynamic/text/5 --server e\nr.text")
    assert text.startswith("Resource 5: This is a plaintext resource")


def test_prompts(everything: Everything) -> None:
    names = everything.value("t = %mcp prompts e\n[r['prompt'] for r in t]")
    assert names == ["e:simple-prompt", "e:args-prompt", "e:completable-prompt", "e:resource-prompt"]
    look = "[m.content if isinstance(m.content, str) else str(m.content) for m in p.messages]"
    assert everything.value(f"p = %mcp prompt e:simple-prompt\n{look}") == [
        "This is a simple prompt without arguments."
    ]
    [said] = everything.value(f"p = %mcp prompt e:args-prompt city=Oslo\n{look}")
    assert "Oslo" in said
    [said] = everything.value(f"p = %mcp prompt e:completable-prompt department=Sales name=David\n{look}")
    assert "David" in said
    said = everything.value(f"p = %mcp prompt e:resource-prompt resourceType=Text resourceId=2\n{look}")
    assert any("Resource 2: This is a plaintext resource" in text for text in said)


def test_the_server_completes_arguments_of_prompts_and_templates(everything: Everything) -> None:
    def completed(line: str, value: str) -> list[str]:
        """What Tab offers once the server has answered in time: Tab waits for it a moment only."""
        offered: list[str] = []

        def is_offered() -> bool:
            offered[:] = everything.kernel.complete(line)
            return value in offered

        until(is_offered, what=value)
        return offered

    completed("%mcp prompt e:completable-prompt department=", "department=Engineering")
    names = completed("%mcp prompt e:completable-prompt department=Sales name=", "name=David")
    assert "name=Alice" not in names  # she is an engineer
    completed("%mcp read demo://resource/dynamic/text/7", "demo://resource/dynamic/text/7")


def test_updates_of_a_resource_are_watched(everything: Everything) -> None:
    uri = "demo://resource/dynamic/text/1"
    everything.kernel.ok(f"%mcp watch {uri} --server e --background")
    assert "Started" in everything.call("toggle-subscriber-updates")
    count = "w = %mcp watch\n[row['updates'] for row in w]"
    until(lambda: everything.value(count) == [1], what="an update")
    assert "Stopped" in everything.call("toggle-subscriber-updates")
    everything.kernel.ok("%mcp watch --stop")
    assert everything.value(count) == []


def test_log_messages_come_at_the_level_that_was_asked_for(everything: Everything) -> None:
    everything.kernel.ok("%mcp logs e --level debug")
    assert "Started" in everything.call("toggle-simulated-logging")
    look = "t = %mcp logs e --level debug\n[r['text'] for r in t if 'evel' in r['text'] and 'essage' in r['text']]"
    until(lambda: everything.value(look) != [], what="a log message")
    assert "Stopped" in everything.call("toggle-simulated-logging")


def test_doctor_reports_health_and_leaves_session_alone(everything: Everything) -> None:
    before = everything.value("host['e'].calls")
    report = everything.value("r = %mcp doctor e\n[r.ok, r.problems, len(r.steps)]")
    assert report == [True, [], 12]
    assert everything.value("host['e'].calls") == before


def test_each_of_its_tools_was_called(everything: Everything) -> None:
    assert everything.called == ALWAYS | FOR_CLIENTS_THAT_CAN
