"""What `%load_ext`, `%reload_ext` and `%unload_ext` add and take away, and what is imported when."""

import ast
import time
from typing import cast

import pytest

from tests.support.frontends import Frontend
from tests.support.kernel_servers import CONNECT_PLAIN, HOLDING, LOAD, MATH, connect_in_process
from tests.support.kernels import gone

COUNTS = (
    "ip = get_ipython()\n"
    "(sum(type(t).__name__ == 'AwaitMagics' for t in ip.ast_transformers),"
    " sum(t.__module__.startswith('mcp_magic') for t in ip.input_transformers_cleanup),"
    " sum(getattr(m, 'matcher_identifier', '') == 'mcp_magic' for m in ip.Completer.custom_matchers),"
    " sum(type(c).__name__ == 'MCPMagics' for c in ip.configurables),"
    " 'mcp' in ip.magics_manager.magics['line'], 'mcp' in ip.magics_manager.magics['cell'])"
)
LEFT = """
def left():
    "What an extension could leave in a kernel, as text."
    import asyncio, sys, traceback
    ip = get_ipython()
    crashes = sys.modules.get("mcp_magic.results.results")
    notebook = sys.modules.get("mcp_magic.notebook")
    seen = {
        "transformers": [ip.input_transformers_cleanup, ip.input_transformers_post, ip.ast_transformers],
        "hooks": {name: [hook.__qualname__ for hook in hooks] for name, hooks in ip.events.callbacks.items()},
        "completers": ip.Completer.custom_matchers,
        "magics": [sorted(ip.magics_manager.magics[kind]) for kind in ("line", "cell")],
        "registry": sorted(ip.magics_manager.registry),
        "configurables": [type(one).__name__ for one in ip.configurables],
        "formatters": [
            (formatter.format_type, [kind for kind in formatter.type_printers if "mcp_magic" in kind.__module__])
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
    return {name: repr(value) for name, value in seen.items()}
"""
EVERYTHING_IN_USE = (
    LOAD,
    "from mcp.server.mcpserver import MCPServer\nnotes = MCPServer('notes', log_level='ERROR')\n"
    "@notes.resource('note://text', mime_type='text/plain')\ndef text() -> str:\n    return 'here'\n"
    "@notes.tool()\ndef shout(word: str) -> str:\n    return word.upper()",
    "%mcp connect notes",
    f"%mcp connect {MATH} --name math",
    f"%mcp connect {HOLDING} --name holding",
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


@pytest.fixture
def calculator(kernel):
    """The kernel, with the extension loaded and a session open."""
    if "mcp" not in kernel.ok("%lsmagic").text:
        kernel.ok(LOAD)
    connect_in_process(kernel, MATH, "calculator")
    return kernel


def adds(kernel):
    """The extension is there once, and a session works."""
    assert kernel.ok(COUNTS).text == "(1, 2, 1, 1, True, True)"
    assert kernel.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"


def test_loading_imports_nothing_heavy_until_the_kernel_is_idle(start):
    kernel = start(plain=True, MCP_MAGIC_PRELOAD="true")
    heavy = "{'mcp', 'pandas', 'langgraph', 'langchain_core', 'jsonschema', 'pydantic', 'httpx2'}"
    busy = kernel.ok(f"{LOAD}\nimport asyncio, sys\nawait asyncio.sleep(0.6)\nsorted({heavy} & set(sys.modules))")
    assert busy.text == "[]"
    wanted = "sorted({'mcp', 'langgraph.graph', 'mcp_magic.agent.sqlite'} & set(sys.modules))"
    begun = time.monotonic()
    while (cell := kernel.ok(wanted)).text != "['langgraph.graph', 'mcp', 'mcp_magic.agent.sqlite']":
        assert time.monotonic() - begun < 60, cell.text
        time.sleep(1)  # each question keeps the kernel from being idle
    assert cell.streams == {}
    kernel.ok("before = set(sys.modules)")
    connect_in_process(kernel, MATH, "calculator")
    kernel.ok("%%mcp_agent\nadd 1 and 2")
    new = kernel.ok("sorted(n for n in set(sys.modules) - before if n.startswith(('mcp.client', 'langgraph.')))").text
    assert new == "[]"


def test_nothing_is_imported_while_the_person_types_in_a_widget(start):
    frontend = Frontend(start(plain=True, MCP_MAGIC_PRELOAD="true"))
    shown = frontend.run(f"{LOAD}\nimport sys\nexplorer = %mcp ui\nprint(explorer.filter.search.model_id)\nexplorer")
    field = shown.streams["stdout"].strip()
    for number in range(20):  # an idle kernel imports dozens of modules meanwhile
        frontend.type_into(field, "xy"[: number % 2 + 1])
        time.sleep(0.1)
    assert frontend.kernel.ok("'langgraph' in sys.modules").text == "False"


def test_loading_again_adds_nothing_and_keeps_sessions(calculator):
    cell = calculator.ok(LOAD)
    assert (cell.outputs, "already loaded" in cell.stdout) == ([], True)
    adds(calculator)
    assert calculator.ok("%mcp call?").text.startswith("%mcp call [")
    assert calculator.ok("%mcp_server --help").text.startswith("%%mcp_server [")
    calculator.ok("import importlib, mcp_magic\nfrom mcp_magic import host\nfirst = host\nimportlib.reload(mcp_magic)")
    assert calculator.ok("mcp_magic.host is first, len(host)").text == "(True, 1)"
    adds(calculator)


def test_reloading_leaves_everything_there_once_and_settings(calculator):
    calculator.ok("from mcp_magic import host\nfirst = host")
    calculator.ok("%config MCPMagics.approval = 'auto'\n%config MCPMagics.display_rows = 3")
    calculator.ok("%reload_ext mcp_magic")
    assert calculator.ok("import mcp_magic\nmcp_magic.host is first, len(host)").text == "(True, 0)"
    calculator.ok("from mcp_magic.display.document import display")
    assert calculator.ok("host.consent.policy, display.rows").text == "('auto', 3)"
    calculator.ok("%mcp connect calculator")
    adds(calculator)
    calculator.ok("%config MCPMagics.approval = 'ask'\n%config MCPMagics.display_rows = 20")


def test_unloading_ends_the_servers_and_it_can_be_loaded_again(calculator):
    calculator.ok(CONNECT_PLAIN)
    servers = calculator.process.children(recursive=True)
    assert len(servers) == 1
    assert calculator.ok("%unload_ext mcp_magic").streams == {}
    gone(servers)
    assert calculator.ok(COUNTS).text == "(0, 0, 0, 0, False, False)"
    assert calculator.ok("from mcp_magic import host\nlen(host)").text == "0"
    assert "not found" in str(calculator.run("%mcp").streams)
    assert calculator.complete("%mcp connect cal") == []
    calculator.ok(LOAD)
    assert calculator.ok("%mcp").text.splitlines()[1].startswith("no server is connected")
    calculator.ok("%mcp connect calculator")
    adds(calculator)


def left(kernel):
    return cast("dict[str, str]", ast.literal_eval(kernel.ok("left()").text))


def test_unloading_leaves_nothing_of_all_that_was_in_use(start, tmp_path):
    kernel = start()
    kernel.ok(f"from pathlib import Path\nFOLDER = {str(tmp_path)!r}\n{LEFT}")
    kernel.ok("%load_ext storemagic")  # it is loaded already; IPython makes the magic itself when it is first used
    before = left(kernel)
    for code in (*EVERYTHING_IN_USE, IN_THE_BACKGROUND):
        kernel.ok(code)
    servers = kernel.process.children(recursive=True)
    assert len(servers) == 2
    assert left(kernel) != before
    assert kernel.ok("%unload_ext mcp_magic").streams == {}
    assert kernel.ok("await asyncio.wait({running}, timeout=10)\nrunning.done()").text == "True"
    assert left(kernel) == before
    gone(servers)
    ended = kernel.ok("watch.ended, Path(served[0]['token in']).exists()").text
    assert ended == "('the server was disconnected', False)"
    assert "Error" in kernel.run("import httpx2\nhttpx2.get(served[0]['url'])").ename
    tried = kernel.run("form.set_arguments({'word': 'late'})\nawait form.run()")
    assert (tried.ename, "notes" in tried.evalue) == ("SessionClosedError", True)
    for code in EVERYTHING_IN_USE:
        kernel.ok(code)
    assert kernel.ok("run.results[0].data").text == "7"
    kernel.ok("%unload_ext mcp_magic")
    assert left(kernel) == before
