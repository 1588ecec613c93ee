from __future__ import annotations

import ast
import time
from typing import TYPE_CHECKING, cast

import pytest

from tests.support.frontends import Frontend
from tests.support.kernel_servers import HERE, MATH, SHOWCASE, connect_in_process
from tests.support.kernels import gone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.kernels import Kernel

COUNTS = (
    "ip = get_ipython()\n"
    "(sum(type(t).__name__ == 'AwaitMagics' for t in ip.ast_transformers),"
    " sum(t.__module__.startswith('mcp_magic') for t in ip.input_transformers_cleanup),"
    " sum(getattr(m, 'matcher_identifier', '') == 'mcp_magic' for m in ip.Completer.custom_matchers),"
    " sum(type(c).__name__ == 'MCPMagics' for c in ip.configurables),"
    " 'mcp' in ip.magics_manager.magics['line'], 'mcp' in ip.magics_manager.magics['cell'])"
)


@pytest.fixture
def calculator(kernel: Kernel) -> Kernel:
    """The kernel, with the extension loaded and a session open."""
    if "mcp" not in kernel.ok("%lsmagic").text:
        kernel.ok("%load_ext mcp_magic")
    connect_in_process(kernel, MATH, "calculator")
    return kernel


def test_loading_imports_nothing_heavy(start: Callable[..., Kernel]) -> None:
    kernel = start(plain=True)
    kernel.ok("%load_ext mcp_magic")
    heavy = "{'mcp', 'pandas', 'langgraph', 'langchain_core', 'jsonschema', 'pydantic', 'httpx2'}"

    assert kernel.ok(f"import sys\nsorted({heavy} & set(sys.modules))").text == "[]"


def test_idle_kernel_preloads_modules_and_busy_one_does_not(
    start: Callable[..., Kernel],
) -> None:
    heavy = "sorted({'mcp', 'langgraph.graph', 'mcp_magic.agent.sqlite'} & set(sys.modules))"
    kernel = start(plain=True, MCP_MAGIC_PRELOAD="true")
    busy = kernel.ok(f"%load_ext mcp_magic\nimport asyncio, sys\nawait asyncio.sleep(0.6)\n{heavy}")
    assert busy.text == "[]"

    begun = time.monotonic()
    while (cell := kernel.ok(heavy)).text != "['langgraph.graph', 'mcp', 'mcp_magic.agent.sqlite']":
        assert time.monotonic() - begun < 60, cell.text
        time.sleep(1)  # each question keeps the kernel from being idle
    assert cell.streams == {}

    kernel.ok("before = set(sys.modules)")
    connect_in_process(kernel, MATH, "calculator")
    kernel.ok("%%mcp_agent\nadd 1 and 2")
    new = kernel.ok("sorted(n for n in set(sys.modules) - before if n.startswith(('mcp.client', 'langgraph.')))").text
    assert new == "[]"


def test_nothing_is_imported_while_the_person_types_in_a_widget(start: Callable[..., Kernel]) -> None:
    kernel = start(plain=True, MCP_MAGIC_PRELOAD="true")
    frontend = Frontend(kernel)
    shown = frontend.run(
        "%load_ext mcp_magic\nimport sys\nexplorer = %mcp ui\nprint(explorer.search.model_id)\nexplorer"
    )
    field = shown.streams["stdout"].strip()
    begun, typed = time.monotonic(), ""
    while time.monotonic() - begun < 2:  # an idle kernel imports dozens of modules meanwhile
        frontend.type_into(field, typed := "x" if typed != "x" else "xy")
        time.sleep(0.1)

    assert kernel.ok("'langgraph' in sys.modules").text == "False"


def test_second_load_adds_nothing_and_keeps_sessions(calculator: Kernel) -> None:
    cell = calculator.ok("%load_ext mcp_magic")

    assert cell.outputs == []
    assert "already loaded" in cell.stdout
    assert calculator.ok(COUNTS).text == "(1, 2, 1, 1, True, True)"
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"


def test_a_question_mark_behind_a_subcommand_shows_its_help(calculator: Kernel) -> None:
    assert calculator.ok("%mcp call?").text.startswith("%mcp call [")
    assert calculator.ok("%mcp_server --help").text.startswith("%%mcp_server [")


def test_reloading_leaves_everything_there_once(calculator: Kernel) -> None:
    calculator.ok("%reload_ext mcp_magic")

    assert calculator.ok(COUNTS).text == "(1, 2, 1, 1, True, True)"
    calculator.ok("%mcp connect calculator")
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"


def test_unloading_takes_everything_away_and_ends_the_servers(calculator: Kernel) -> None:
    calculator.ok(f"%mcp connect {SHOWCASE}")
    servers = calculator.process.children(recursive=True)
    assert len(servers) == 1

    cell = calculator.ok("%unload_ext mcp_magic")

    assert cell.streams == {}
    gone(servers)
    assert calculator.ok(COUNTS).text == "(0, 0, 0, 0, False, False)"
    assert calculator.ok("from mcp_magic import host\nlen(host)").text == "0"
    assert "not found" in str(calculator.run("%mcp").streams)
    assert calculator.complete("%mcp connect cal") == []


def test_after_unloading_it_can_be_loaded_and_used_again(calculator: Kernel) -> None:
    calculator.ok("%unload_ext mcp_magic")

    calculator.ok("%load_ext mcp_magic")

    assert calculator.ok("%mcp").text.splitlines()[1].startswith("no server is connected")
    calculator.ok("%mcp connect calculator")
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"
    assert calculator.ok(COUNTS).text == "(1, 2, 1, 1, True, True)"


LEFT = """
def left():
    "What an extension could leave in a kernel, as text."
    import asyncio, sys, traceback
    ip = get_ipython()
    crashes = sys.modules.get("mcp_magic.results.results")
    notebook = sys.modules.get("mcp_magic.notebook")
    found = {
        "transformers": [ip.input_transformers_cleanup, ip.input_transformers_post, ip.ast_transformers],
        "hooks": {name: [hook.__qualname__ for hook in hooks] for name, hooks in ip.events.callbacks.items()},
        "completers": ip.Completer.custom_matchers,
        "magics": [sorted(ip.magics_manager.magics[kind]) for kind in ("line", "cell")],
        "registry": sorted(ip.magics_manager.registry),
        "configurables": [type(each).__name__ for each in ip.configurables],
        "formatters": [
            (formatter.format_type, [each for each in formatter.type_printers if "mcp_magic" in each.__module__])
            for formatter in [*ip.display_formatter.formatters.values(), ip.display_formatter.ipython_display_formatter]
        ],
        "should_run_async": "should_run_async" in vars(ip),
        "displayhook": "write_output_prompt" in vars(ip.displayhook),
        "handlers": sorted((kind, repr(handler)) for kind, handler in ip.kernel.shell_handlers.items()),
        "comm targets": sorted(set(ip.kernel.comm_manager.targets) - {"jupyter.widget", "jupyter.widget.control"}),
        "tasks": sorted({task.get_name() for task in asyncio.all_tasks() if "mcp" in task.get_name()}),
        "crashes": crashes is None or crashes.ToolCrashError.show is traceback.format_exception,
        "sessions": len(notebook.host) if notebook else 0,
        "asked": notebook and any([
            notebook.host.approver, notebook.host.elicitor, notebook.host.sampler, notebook.host.authorizer,
            notebook.host.sampling.reviewer, notebook.host.reports.reporter,
        ]) or False,
    }
    return {name: repr(each) for name, each in found.items()}
"""
EVERYTHING_IN_USE = (
    "%load_ext mcp_magic",
    "from mcp.server.mcpserver import MCPServer\nnotes = MCPServer('notes', log_level='ERROR')\n"
    "@notes.resource('note://text', mime_type='text/plain')\ndef text() -> str:\n    return 'here'\n"
    "@notes.tool()\ndef shout(word: str) -> str:\n    return word.upper()",
    "%mcp connect notes",
    f"%mcp connect {MATH} --name math",
    f"%mcp connect {HERE / 'holding_server.py'} --name holding",
    "watch = %mcp watch note://text --background",
    "form = %mcp form notes:shout\nform",
    "%mcp ui",
    "served = %mcp serve notes\nserved[0]",
    "%%mcp_agent --approve auto -o run\nadd 3 and 4",
)
IN_THE_BACKGROUND = """
import asyncio
from mcp_magic import ScriptedModel, build_graph, host
model = ScriptedModel([[('holding:hold', {'folder': FOLDER})], 'Well.'])
graph = build_graph(model, host, approve='auto')
running = asyncio.create_task(graph.ainvoke({'messages': [('user', 'hold on')]}))
while not Path(FOLDER, 'started').exists():
    await asyncio.sleep(0.01)
"""


def left(kernel: Kernel) -> dict[str, str]:
    return cast("dict[str, str]", ast.literal_eval(kernel.ok("left()").text))


def test_unloading_leaves_nothing_of_all_that_was_in_use(start: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = start()
    kernel.ok(f"from pathlib import Path\nFOLDER = {str(tmp_path)!r}\n{LEFT}")
    kernel.ok("%load_ext storemagic")  # it is loaded already; IPython makes the magic itself when it is first used
    before = left(kernel)
    for code in (*EVERYTHING_IN_USE, IN_THE_BACKGROUND):
        kernel.ok(code)
    servers = kernel.process.children(recursive=True)
    assert len(servers) == 2
    assert left(kernel) != before

    cell = kernel.ok("%unload_ext mcp_magic")

    assert cell.streams == {}
    assert kernel.ok("await asyncio.wait({running}, timeout=10)\nrunning.done()").text == "True"
    assert left(kernel) == before
    gone(servers)
    assert (
        kernel.ok("watch.ended, Path(served[0]['token in']).exists()").text == "('the server was disconnected', False)"
    )
    assert "Error" in kernel.run("import httpx2\nhttpx2.get(served[0]['url'])").ename
    tried = kernel.run("form.set_arguments({'word': 'late'})\nawait form.run()")
    assert (tried.ename, "notes" in tried.evalue) == ("SessionClosedError", True)

    for code in EVERYTHING_IN_USE:
        kernel.ok(code)
    assert kernel.ok("run.results[0].data").text == "7"
    kernel.ok("%unload_ext mcp_magic")
    assert left(kernel) == before


def test_reloading_module_and_extension_keeps_one_host(calculator: Kernel) -> None:
    calculator.ok("import importlib, mcp_magic\nfrom mcp_magic import host\nfirst = host\nimportlib.reload(mcp_magic)")
    assert calculator.ok("mcp_magic.host is first, len(host)").text == "(True, 1)"
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"

    calculator.ok("%reload_ext mcp_magic")

    assert calculator.ok(COUNTS).text == "(1, 2, 1, 1, True, True)"
    assert calculator.ok("mcp_magic.host is first, len(host)").text == "(True, 0)"


def test_config_settings_are_restored_after_reload(calculator: Kernel) -> None:
    calculator.ok("%config MCPMagics.approval = 'auto'\n%config MCPMagics.display_rows = 3")

    calculator.ok("%reload_ext mcp_magic")
    calculator.ok("from mcp_magic import host\nfrom mcp_magic.display.document import display")

    assert calculator.ok("host.consent.policy, display.rows").text == "('auto', 3)"
