from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.kernel_servers import MATH, SHOWCASE, WEATHER, connect_in_process
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

CACHED_MS = 50
"""Milliseconds that a completion from what is cached may take (issue 2)."""


@pytest.fixture(scope="module", autouse=True)
def servers(kernel: Kernel) -> None:
    connect_in_process(kernel, SHOWCASE, "showcase")
    connect_in_process(kernel, MATH, "calculator")
    connect_in_process(kernel, WEATHER, "weather")


MEASURE = """
import statistics, time
from IPython.core.completer import provisionalcompleter

def milliseconds(code):
    took = []
    for _ in range(5):
        started = time.perf_counter()
        with provisionalcompleter():
            list(get_ipython().Completer.completions(code, len(code)))
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1000
"""

CALCULATOR = [
    f"calculator:{tool}"
    for tool in ("add", "subtract", "multiply", "divide", "power", "factorial", "statistics", "primes")
]
CACHED = {
    "a subcommand": ("%mcp ca", ["call"]),
    "several subcommands": ("%mcp re", ["reconnect", "resources", "read", "replay", "record"]),
    "help": ("%mcp --h", ["--help"]),
    "an option": ("%mcp connect --na", ["--name"]),
    "an option after a target": ("%mcp connect http://x/mcp --tran", ["--transport"]),
    "the value of an option": ("%mcp connect --transport s", ["stdio", "sse"]),
    "a server": ("%mcp tools sho", ["showcase"]),
    "a server in an option": ("%mcp read x://y --server cal", ["calculator"]),
    "a server that is not there yet": ("%mcp disconnect showcase w", ["weather"]),
    "a variable that holds a server": ("%mcp connect showc", ["showcase"]),
    "a tool with its server": ("%mcp call showcase:enu", ["showcase:enums"]),
    "a tool alone": ("%mcp call factor", ["factorial"]),
    "what help is about": ("%mcp help con", ["connect", "config"]),
    "a tool that must answer": ("%mcp assert calculator:fac", ["calculator:factorial"]),
    "what a rule is about": ("%mcp allow calculator:", ["'calculator:*'", *CALCULATOR]),
    "what a rule is about, quoted": ("%mcp deny 'calculator:fac", ["'calculator:factorial'"]),
    "what arguments must be": ("%mcp ask calculator:add ", ["a=", "b="]),
    "a method": ("%mcp raw calculator tools/", ["tools/call", "tools/list"]),
    "a notification": ("%mcp raw calculator notifications/c", ["notifications/cancelled"]),
    "a server whose interface is compared": ("%mcp diff cal", ["calculator"]),
    "a tool for its card": ("%mcp tool calculator:fac", ["calculator:factorial"]),
    "arguments": ("%mcp call calculator:add ", ["a=", "b="]),
    "an argument": ("%mcp call showcase:enums col", ["colour="]),
    "an argument that is left": ("%mcp call calculator:add a=1 ", ["b="]),
    "an argument of a tool alone": ("%mcp call factorial ", ["n="]),
    "an argument inside another": ("%mcp call showcase:nested order.cust", ["order.customer="]),
    "deeper": ("%mcp call showcase:nested order.customer.address.c", ["order.customer.address.country="]),
    "an enum": ("%mcp call showcase:enums colour=", ["colour=red", "colour=green", "colour=blue"]),
    "an enum begun": ("%mcp call showcase:enums colour=g", ["colour=green"]),
    "an enum by reference": ("%mcp call showcase:enums priority=h", ["priority=high"]),
    "a boolean": ("%mcp call showcase:defaults yes=", ["yes=true", "yes=false"]),
    "items of an array": ("%mcp call showcase:enums toppings=c", ["toppings=corn"]),
    "an array again": ("%mcp call showcase:enums toppings=ham topp", ["toppings="]),
    "a resource": ("%mcp read showcase://te", ["showcase://text.txt"]),
    "the fixed beginning of a template": ("%mcp read showcase://fru", ["showcase://fruit/"]),
    "a prompt": ("%mcp prompt showcase:gr", ["showcase:greet"]),
    "a prompt alone": ("%mcp prompt dialo", ["dialogue"]),
    "arguments of a prompt": ("%mcp prompt showcase:greet ", ["name=", "tone="]),
    "assigned": ("result = %mcp ca", ["call"]),
    "assigned, a tool": ("x = %mcp call showcase:enu", ["showcase:enums"]),
    "a cell magic": ("%%mcp call showcase:enu", ["showcase:enums"]),
    "inside a function": ("def f():\n    r = %mcp call showcase:enu", ["showcase:enums"]),
    "after other lines": ("x = 1\n%mcp call calculator:fac", ["calculator:factorial"]),
    "behind %time": ("%time %mcp call calculator:fac", ["calculator:factorial"]),
}


@pytest.mark.parametrize(("code", "expected"), CACHED.values(), ids=CACHED)
def test_tab_offers(kernel: Kernel, code: str, expected: list[str]) -> None:
    assert kernel.complete(code) == expected


@pytest.mark.timed
@pytest.mark.parametrize("code", [code for code, expected in CACHED.values() if expected])
@tried_again
def test_what_is_cached_is_completed_in_time(kernel: Kernel, code: str) -> None:
    kernel.ok(MEASURE)

    soon(float(kernel.ok(f"milliseconds({code!r})").text) / 1000, CACHED_MS / 1000)


def test_the_first_subcommands_are_all_of_them(kernel: Kernel) -> None:
    kernel.ok("from mcp_magic.ipython.commands import COMMANDS")
    offered = kernel.complete("%mcp ")

    assert kernel.ok(f"set(COMMANDS) <= set({offered!r})").text == "True"


def test_an_option_that_was_given_is_not_offered_again(kernel: Kernel) -> None:
    assert "--name" not in kernel.complete("%mcp connect --name x --")


FROM_SERVER = {
    "a prompt's argument": ("%mcp prompt showcase:greet tone=f", ["tone=friendly", "tone=formal", "tone=funny"]),
    "with the arguments given before": (
        "%mcp prompt showcase:trip country=Japan city=",
        ["city=Kyoto", "city=Osaka", "city=Tokyo"],
    ),
    "with other arguments": ("%mcp prompt showcase:trip country=Germany city=B", ["city=Berlin", "city=Bonn"]),
    "of a prompt alone": ("%mcp prompt explain level=st", ["level=student"]),
    "a template's argument": (
        "%mcp read showcase://fruit/b",
        ["showcase://fruit/banana", "showcase://fruit/blackberry"],
    ),
    "a template's argument that is not the last": ("%mcp read weather://Lon", ["weather://London/today"]),
    "of a prompt with another argument in quotes": (
        "%mcp prompt showcase:trip country='Japan' city=O",
        ["city=Osaka"],
    ),
    "in the line of a form": ("%mcp form showcase:trip --prompt country=Japan city=K", ["city=Kyoto"]),
    "a variable in the line of a form": ("%mcp form 'showcase://fruit/{name}' name=ba", ["name=banana"]),
    "what is to be watched": ("%mcp watch showcase://fruit/ban", ["showcase://fruit/banana"]),
}


@pytest.mark.parametrize(("code", "expected"), FROM_SERVER.values(), ids=FROM_SERVER)
def test_the_server_completes(kernel: Kernel, code: str, expected: list[str]) -> None:
    assert kernel.complete(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "%mcp nonsense sho",
        "%mcp call showcase:nonsense a",
        "%mcp call showcase:nothing ",
        "%mcp read nobody://",
    ],
)
def test_completion_falls_back_to_python_names(kernel: Kernel, code: str) -> None:
    offered = kernel.complete(code)

    assert [match for match in offered if match in ("call", "connect") or {":", "="} & set(match)] == []


def test_what_the_server_said_is_asked_once(kernel: Kernel) -> None:
    code = "%mcp prompt showcase:trip country=Japan city="
    kernel.complete(code)
    kernel.ok("from mcp_magic import host\nbefore = host['showcase'].calls")

    assert kernel.complete(code) == ["city=Kyoto", "city=Osaka", "city=Tokyo"]
    assert kernel.ok("host['showcase'].calls - before").text == "0"


def test_silent_server_delays_tab_only_briefly(kernel: Kernel) -> None:
    kernel.ok(
        "import asyncio, time\nfrom mcp.server.mcpserver import MCPServer\n"
        "sleepy = MCPServer('sleepy', log_level='ERROR')\n@sleepy.prompt()\ndef ask(word: str) -> str:\n    'x'\n"
        "    return word\n@sleepy.completion()\nasync def complete(ref, argument, context):\n"
        "    await asyncio.sleep(3600)\n"
    )
    kernel.ok("%mcp connect sleepy")
    kernel.complete("ab")  # the first time jedi takes seconds, and where we have nothing to offer it is asked

    reply = kernel.client.complete("%mcp prompt sleepy:ask word=a", reply=True, timeout=10)

    assert reply["content"]["status"] == "ok"
    kernel.ok("%mcp disconnect sleepy")


SLY = r"""
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp_magic import host

SECRET, heard = 'hunter-22', []
texts = ["{open('PWNED','w')and(1)}", '$SECRET', '@secret.txt', r'\$SECRET', "it's # so", 'a b?',
         'a\n!touch PWNED\n#', 'a\u202eb', 'a\u2028!touch PWNED']
word = {'type': 'object', 'properties': {'kind': {'enum': texts}, "{open('PWNED','w')}": {}, 'a\n!touch PWNED\n#': {}}}
tools = [t.Tool(name='go', input_schema=word), t.Tool(name='$SECRET tool', input_schema=word),
         t.Tool(name='a\n!touch PWNED\n#', input_schema=word), t.Tool(name='*', input_schema=word)]

async def list_tools(ctx, params): return t.ListToolsResult(tools=tools)
async def call_tool(ctx, params):
    heard.append(params.arguments['kind'] if params.arguments else params.name)
    return t.CallToolResult(content=[])
async def list_prompts(ctx, params):
    return t.ListPromptsResult(prompts=[t.Prompt(name='ask', arguments=[t.PromptArgument(name='q')])])
async def get_prompt(ctx, params):
    heard.append(params.arguments['q'])
    return t.GetPromptResult(messages=[])
async def completion(ctx, params): return t.CompleteResult(completion=t.Completion(values=texts))
async def list_resources(ctx, params):
    return t.ListResourcesResult(resources=[t.Resource(name='r', uri=text) for text in texts])
async def list_resource_templates(ctx, params):
    return t.ListResourceTemplatesResult(resource_templates=[t.ResourceTemplate(name='t', uri_template='sly://{+x}')])
async def read_resource(ctx, params):
    heard.append(params.uri)
    return t.ReadResourceResult(contents=[])

sly = Server('sly', on_list_tools=list_tools, on_call_tool=call_tool, on_list_prompts=list_prompts,
             on_get_prompt=get_prompt, on_completion=completion, on_list_resources=list_resources,
             on_read_resource=read_resource, on_list_resource_templates=list_resource_templates)
"""


TEXTS = ["{open('PWNED','w')and(1)}", "$SECRET", "@secret.txt", r"\$SECRET", "it's # so", "a b?"]
EXACT = [*TEXTS, "a\n!touch PWNED\n#", "a\u202eb", "a\u2028!touch PWNED"]
OFFERED = {
    "%mcp call sly:go kind=": TEXTS,
    "%mcp call sly:go kind:=": EXACT,  # JSON has a spelling for everything
    "%mcp prompt sly:ask q=": TEXTS,
    "%mcp prompt sly:ask q:=": EXACT,
    "%mcp prompt sly:ask q='": TEXTS,
    "%mcp call sly:$": ["$SECRET tool"],
    "%mcp watch --every 5 --for 0.01 {": TEXTS[:1],
    "%mcp read {": TEXTS[:1],
    "%mcp read $": TEXTS[1:2],
    "%mcp read 'a": TEXTS[5:],
    "%mcp read sly://": ["sly://" + quote(text, safe="/:?#[]@!$&'()*+,;=%") for text in EXACT],
}


def test_server_completions_are_text_that_runs_nothing(kernel: Kernel) -> None:
    kernel.ok(SLY)
    kernel.ok("import pathlib\n_ = pathlib.Path('secret.txt').write_text('secret')\n%mcp connect sly")
    for line, texts in OFFERED.items():
        kernel.ok("heard.clear()")
        for word in kernel.complete(line):
            kernel.run(f"{line.rpartition(' ')[0]} {word}")
        assert list(dict.fromkeys(ast.literal_eval(kernel.ok("heard").text))) == texts, line
    names = kernel.complete("%mcp call sly:go ")
    assert names == ["kind=", "'\\{open('\"'\"'PWNED'\"'\"','\"'\"'w'\"'\"')}'="]
    rules = kernel.complete("%mcp allow sly:")
    assert rules == ["'sly:*'", "sly:go", "'sly:$SECRET tool'", "'sly:[*]'"]  # all of a server is the person's to say
    assert kernel.ok("pathlib.Path('PWNED').exists()").text == "False"
    kernel.ok("%mcp disconnect sly")


OTHERS = {
    "pri": "print",
    "import ite": "itertools",
    "'abc'.upp": "upper",
    "%loa": "%load_ext",
    "%mc": "%mcp",
    "%%mc": "%%mcp",
    "print(calcul": "calculator",
}


@pytest.mark.parametrize(("code", "expected"), OTHERS.items(), ids=OTHERS)
def test_other_completions_are_undisturbed(kernel: Kernel, code: str, expected: str) -> None:
    assert any(match.endswith(expected) for match in kernel.complete(code))


@pytest.mark.parametrize("code", ["ca", "mcp ca", "'%mcps ca", "# showcase:enu", "%mcp call x\nca", "x = 5 %mcp_y ca"])
def test_outside_of_a_line_nothing_of_ours_is_offered(kernel: Kernel, code: str) -> None:
    offered = kernel.complete(code)

    assert "call" not in offered
    assert "showcase:enums" not in offered


def test_files_are_offered_where_a_target_or_a_file_may_stand(kernel: Kernel) -> None:
    kernel.ok("import pathlib\n_ = pathlib.Path('my_own_server.py').touch(), pathlib.Path('my_own.json').touch()")
    kernel.ok("pathlib.Path('my_own_folder').mkdir()\n_ = pathlib.Path('my_own_folder/a b.py').touch()")

    assert kernel.complete("%mcp connect my_own") == ["my_own_folder/", "my_own_server.py"]
    assert kernel.complete("%mcp doctor ./my_own_folder/") == ["'./my_own_folder/a b.py'"]
    assert kernel.complete("%mcp connect --cwd my_own") == ["my_own_folder/"]
    assert kernel.complete("%mcp snapshot calculator -o my_own.j") == ["my_own.json"]
    assert kernel.complete("%mcp diff calculator my_own.j") == ["my_own.json"]
    assert "my_own_server.py" in (offered := kernel.complete("%mcp connect "))
    assert not {"print", "%%bash", "if"} & set(offered)
    assert kernel.complete("%mcp connect my_own_s") == ["my_own_server.py"]
    assert kernel.complete("%mcp connect --config my_own.j") == ["my_own.json"]
    assert kernel.complete("%mcp up my_own.j") == ["my_own.json"]


def test_a_configured_server_is_offered(kernel: Kernel) -> None:
    kernel.ok("""pathlib.Path('mcp.json').write_text('{"mcpServers": {"configured": {"command": "x"}}}')""")

    assert "configured" in kernel.complete("%mcp connect conf")


def test_the_latest_requests_are_offered_with_what_they_are(kernel: Kernel) -> None:
    kernel.ok("%mcp call calculator:add a=1 b=2\n%mcp tools calculator\nfrom mcp_magic import host")
    last = ast.literal_eval(kernel.ok("[(e.number, e.kind, e.label) for e in host.trace]").text)
    number = next(str(n) for n, kind, label in reversed(last) if (kind, label) == ("request", "tools/call"))
    reply = kernel.client.complete("%mcp replay ", reply=True, timeout=30)["content"]
    types = {each["text"]: each["type"] for each in reply["metadata"]["_jupyter_types_experimental"]}

    assert reply["matches"][0] == number
    assert types[number] == "calculator tools/call add"
    assert kernel.complete(f"%mcp replay {number} ") == ["a=", "b="]


def test_the_connections_attributes_complete_in_python(kernel: Kernel) -> None:
    kernel.ok("c = host['calculator']")

    assert "c.tools.factorial" in kernel.complete("c.tools.fact") or "factorial" in kernel.complete("c.tools.fact")
    assert any("calculator" in match for match in kernel.complete("host['calc"))


def test_shift_tab_shows_a_tools_signature(kernel: Kernel) -> None:
    kernel.ok("from mcp_magic import host\nc = host['calculator']")
    reply = kernel.client.inspect("c.tools.factorial", reply=True, timeout=30)

    assert "n: int" in reply["content"]["data"]["text/plain"].replace("\x1b[33m", "").replace("\x1b[39m", "")
