"""Tab and Shift-Tab in a kernel: what is offered in a line, from what is listed and from the server, and how soon."""

import ast
from urllib.parse import quote

import pytest

from tests.support.kernel_servers import MATH, SHOWCASE, WEATHER, connect_in_process
from tests.support.timing import soon, tried_again

CACHED_SECONDS = 0.05
"""What a completion from what is cached may take (issue 2)."""

MEASURE = """
import statistics, time
from IPython.core.completer import provisionalcompleter

def slowest(lines):
    took = []
    for code in lines:
        of_one = []
        for _ in range(3):
            started = time.perf_counter()
            with provisionalcompleter():
                list(get_ipython().Completer.completions(code, len(code)))
            of_one.append(time.perf_counter() - started)
        took.append(min(of_one))
    return max(took)
"""
NAMES = ("add", "subtract", "multiply", "divide", "power", "factorial", "statistics", "primes")
CACHED = {
    "%mcp ca": ["call"],
    "%mcp re": ["remove", "reconnect", "resources", "read", "replay", "record"],
    "%mcp --h": ["--help"],
    "%mcp connect --na": ["--name"],
    "%mcp connect http://x/mcp --tran": ["--transport"],
    "%mcp connect --transport s": ["stdio", "sse"],
    "%mcp tools sho": ["showcase"],
    "%mcp read x://y --server cal": ["calculator"],
    "%mcp disconnect showcase w": ["weather"],
    "%mcp connect showc": ["showcase"],
    "%mcp call showcase:enu": ["showcase:enums"],
    "%mcp call factor": ["factorial"],
    "%mcp help con": ["connect", "config"],
    "%mcp assert calculator:fac": ["calculator:factorial"],
    "%mcp allow calculator:": ["'calculator:*'", *(f"calculator:{name}" for name in NAMES)],
    "%mcp deny 'calculator:fac": ["'calculator:factorial'"],
    "%mcp ask calculator:add ": ["a=", "b="],
    "%mcp raw calculator tools/": ["tools/call", "tools/list"],
    "%mcp raw calculator notifications/c": ["notifications/cancelled"],
    "%mcp diff cal": ["calculator"],
    "%mcp tool calculator:fac": ["calculator:factorial"],
    "%mcp call calculator:add ": ["a=", "b="],
    "%mcp call showcase:enums col": ["colour="],
    "%mcp call calculator:add a=1 ": ["b="],
    "%mcp call factorial ": ["n="],
    "%mcp call showcase:nested order.cust": ["order.customer="],
    "%mcp call showcase:nested order.customer.address.c": ["order.customer.address.country="],
    "%mcp call showcase:enums colour=": ["colour=red", "colour=green", "colour=blue"],
    "%mcp call showcase:enums colour=g": ["colour=green"],
    "%mcp call showcase:enums priority=h": ["priority=high"],  # an enum by reference
    "%mcp call showcase:defaults yes=": ["yes=true", "yes=false"],
    "%mcp call showcase:enums toppings=c": ["toppings=corn"],
    "%mcp call showcase:enums toppings=ham topp": ["toppings="],
    "%mcp read showcase://te": ["showcase://text.txt"],
    "%mcp read showcase://fru": ["showcase://fruit/"],
    "%mcp prompt showcase:gr": ["showcase:greet"],
    "%mcp prompt dialo": ["dialogue"],
    "%mcp prompt showcase:greet ": ["name=", "tone="],
    "result = %mcp ca": ["call"],
    "x = %mcp call showcase:enu": ["showcase:enums"],
    "%%mcp call showcase:enu": ["showcase:enums"],
    "def f():\n    r = %mcp call showcase:enu": ["showcase:enums"],
    "x = 1\n%mcp call calculator:fac": ["calculator:factorial"],
    "%time %mcp call calculator:fac": ["calculator:factorial"],
}
FROM_SERVER = {
    "%mcp prompt showcase:greet tone=f": ["tone=friendly", "tone=formal", "tone=funny"],
    "%mcp prompt showcase:trip country=Japan city=": ["city=Kyoto", "city=Osaka", "city=Tokyo"],
    "%mcp prompt showcase:trip country=Germany city=B": ["city=Berlin", "city=Bonn"],
    "%mcp prompt explain level=st": ["level=student"],
    "%mcp read showcase://fruit/b": ["showcase://fruit/banana", "showcase://fruit/blackberry"],
    "%mcp read weather://Lon": ["weather://London/today"],  # an argument that is not the last
    "%mcp prompt showcase:trip country='Japan' city=O": ["city=Osaka"],
    "%mcp form showcase:trip --prompt country=Japan city=K": ["city=Kyoto"],
    "%mcp form 'showcase://fruit/{name}' name=ba": ["name=banana"],
    "%mcp watch showcase://fruit/ban": ["showcase://fruit/banana"],
}


@pytest.fixture(scope="module", autouse=True)
def servers(kernel):
    for script, name in ((SHOWCASE, "showcase"), (MATH, "calculator"), (WEATHER, "weather")):
        connect_in_process(kernel, script, name)
    kernel.ok("from mcp_magic import host")


def test_tab_offers_what_is_listed_and_what_the_server_completes(kernel):
    for code, expected in {**CACHED, **FROM_SERVER}.items():
        assert kernel.complete(code) == expected, code
    kernel.ok("from mcp_magic.ipython.commands import COMMANDS")
    assert kernel.ok(f"set(COMMANDS) <= set({kernel.complete('%mcp ')!r})").text == "True"
    assert "--name" not in kernel.complete("%mcp connect --name x --"), "what was typed is not offered again"


@pytest.mark.timed
@tried_again
def test_what_is_cached_is_completed_in_time(kernel):
    kernel.ok(MEASURE)
    soon(float(kernel.ok(f"slowest({[*CACHED]!r})").text), CACHED_SECONDS)


def test_completion_stays_out_of_other_code(kernel):
    for code in ("nonsense sho", "call showcase:nonsense a", "call showcase:nothing ", "read nobody://"):
        offered = kernel.complete(f"%mcp {code}")
        assert [match for match in offered if match in ("call", "connect") or {":", "="} & set(match)] == [], code
    for code in ("ca", "mcp ca", "'%mcps ca", "# showcase:enu", "%mcp call x\nca", "x = 5 %mcp_y ca"):
        assert not {"call", "showcase:enums"} & set(kernel.complete(code)), code
    others = {"pri": "print", "import ite": "itertools", "'abc'.upp": "upper", "%loa": "%load_ext", "%mc": "%mcp"}
    for code, expected in {**others, "%%mc": "%%mcp", "print(calcul": "calculator"}.items():
        assert any(match.endswith(expected) for match in kernel.complete(code)), code


def test_what_the_server_said_is_asked_once(kernel):
    code = "%mcp prompt showcase:trip country=Japan city="
    kernel.complete(code)
    kernel.ok("before = host['showcase'].calls")
    assert kernel.complete(code) == ["city=Kyoto", "city=Osaka", "city=Tokyo"]
    assert kernel.ok("host['showcase'].calls - before").text == "0"


def test_silent_server_delays_tab_only_briefly(kernel):
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

SECRET, heard = 'hunter-22', []
texts = ["{open('PWNED','w')and(1)}", '$SECRET', '@secret.txt', r'\$SECRET', "it's # so", 'a b?',
         'a\n!touch PWNED\n#', 'a\u202eb', 'a\u2028!touch PWNED']
word = {'type': 'object', 'properties': {'kind': {'enum': texts}, "{open('PWNED','w')}": {}, 'a\n!touch PWNED\n#': {}}}
tools = [t.Tool(name=name, input_schema=word) for name in ('go', '$SECRET tool', 'a\n!touch PWNED\n#', '*')]

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
import pathlib
_ = pathlib.Path('secret.txt').write_text('secret')
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


def test_server_completions_are_text_that_runs_nothing(kernel):
    kernel.ok(SLY)
    kernel.ok("%mcp connect sly")
    for line, texts in OFFERED.items():
        kernel.ok("heard.clear()")
        for word in kernel.complete(line):
            kernel.run(f"{line.rpartition(' ')[0]} {word}")
        assert list(dict.fromkeys(ast.literal_eval(kernel.ok("heard").text))) == texts, line
    assert kernel.complete("%mcp call sly:go ") == ["kind=", "'\\{open('\"'\"'PWNED'\"'\"','\"'\"'w'\"'\"')}'="]
    rules = ["'sly:*'", "sly:go", "'sly:$SECRET tool'", "'sly:[*]'"]  # all of a server is the person's to say
    assert kernel.complete("%mcp allow sly:") == rules
    assert kernel.ok("pathlib.Path('PWNED').exists()").text == "False"
    kernel.ok("%mcp disconnect sly")


def test_files_are_offered_where_a_target_or_a_file_may_stand(kernel):
    kernel.ok("import pathlib\n_ = pathlib.Path('my_own_server.py').touch(), pathlib.Path('my_own.json').touch()")
    kernel.ok("pathlib.Path('my_own_folder').mkdir()\n_ = pathlib.Path('my_own_folder/a b.py').touch()")
    for line, offered in {
        "connect my_own": ["my_own_folder/", "my_own_server.py"],
        "doctor ./my_own_folder/": ["'./my_own_folder/a b.py'"],
        "connect --cwd my_own": ["my_own_folder/"],
        "snapshot calculator -o my_own.j": ["my_own.json"],
        "diff calculator my_own.j": ["my_own.json"],
        "connect my_own_s": ["my_own_server.py"],
        "connect --config my_own.j": ["my_own.json"],
        "up my_own.j": ["my_own.json"],
    }.items():
        assert kernel.complete(f"%mcp {line}") == offered, line
    everything = set(kernel.complete("%mcp connect "))
    assert "my_own_server.py" in everything
    assert not {"print", "%%bash", "if"} & everything
    kernel.ok("""pathlib.Path('mcp.json').write_text('{"mcpServers": {"configured": {"command": "x"}}}')""")
    assert "configured" in kernel.complete("%mcp connect conf")


def test_the_latest_requests_are_offered_with_what_they_are(kernel):
    kernel.ok("%mcp call calculator:add a=1 b=2\n%mcp tools calculator")
    last = ast.literal_eval(kernel.ok("[(e.number, e.kind, e.label) for e in host.trace]").text)
    number = next(str(n) for n, kind, label in reversed(last) if (kind, label) == ("request", "tools/call"))
    reply = kernel.client.complete("%mcp replay ", reply=True, timeout=30)["content"]
    types = {match["text"]: match["type"] for match in reply["metadata"]["_jupyter_types_experimental"]}
    assert reply["matches"][0] == number
    assert types[number] == "calculator tools/call add"
    assert kernel.complete(f"%mcp replay {number} ") == ["a=", "b="]


def test_attributes_of_a_connection_complete_and_have_signatures(kernel):
    kernel.ok("c = host['calculator']")
    assert any(match.endswith("factorial") for match in kernel.complete("c.tools.fact"))
    assert any("calculator" in match for match in kernel.complete("host['calc"))
    reply = kernel.client.inspect("c.tools.factorial", reply=True, timeout=30)
    assert "n: int" in reply["content"]["data"]["text/plain"].replace("\x1b[33m", "").replace("\x1b[39m", "")
