"""`%mcp share` in a kernel: the notebook's variables are shared, and nothing of IPython; reads are counted."""

from tests.support.kernel_servers import LOAD

SETUP = [
    LOAD,
    "import json, pandas as pd\nfrom mcp_magic import host\ndf = pd.DataFrame({'a': [1, 2]})\nresults = ['x']",
    "def function(): ...\nclass Kind: ...\napi_key, _private = 'sk-1', 1\nclient = host.values.of('1', 'codex')",
]


def test_variables_of_the_notebook_are_shared_by_name(kernel):
    assert "nothing is shared: `%mcp share NAME`" in kernel.ok("%mcp share").text
    text = kernel.ok("%mcp share df results").text
    assert "df" in text
    assert "2 rows x 1 column (a)" in text
    kernel.ok("df = 'another value'; del results")
    assert kernel.ok("client.names(), client.get('df')").text == "(('df',), 'another value')"
    assert "codex 1 x" in kernel.ok("host.values").text
    assert "df" not in kernel.ok("%mcp share --stop df").text.splitlines()[1]


def test_all_means_the_variables_of_the_person(kernel):
    kernel.ok("df = pd.DataFrame({'a': [1, 2]}); results = ['x']; number = 5\nIn[-1], Out, _, __")
    kernel.ok("%mcp share --all")
    assert set(kernel.ok("' '.join(client.names())").text.strip("'").split()) == {"df", "results", "number"}
    kernel.ok("later = 1")
    assert kernel.ok("'later' in client, 'api_key' in client").text == "(True, False)"
    kernel.ok("%mcp share --stop")
    assert kernel.ok("client.names()").text == "()"


def test_a_wrong_name_is_a_short_error(kernel):
    for name, message in {
        "dff": "there is no variable 'dff'. Did you mean 'df'?",
        "json": "'json' is a module; only data is shared",
        "Out": "'Out' is IPython's own, and is not shared",
        "host": "'host' is a NotebookHost, which is no data; only data is shared",
        "get_ipython": "'get_ipython' is IPython's own, and is not shared",
    }.items():
        cell = kernel.run(f"%mcp share {name}")
        assert cell.status == "error"
        assert cell.evalue.startswith(message)
        assert len(cell.shown_error.splitlines()) == 1


def test_what_a_client_puts_is_a_variable_of_the_notebook(kernel):
    assert kernel.ok("client.put('joined', [{'a': 1}])").text == "'DataFrame, 1 row x 1 column (a)'"
    assert kernel.ok("list(joined.a)").text == "[1]"
    cell = kernel.run("client.put('df', [{'a': 1}])")
    assert cell.evalue == "the name 'df' is taken; put the value under another name"
    kernel.ok("%mcp share --all")
    assert kernel.ok("'joined' in host.values.of('2'), 'joined' in client").text == "(False, True)"
    assert kernel.ok("%mcp share joined\nNone").status == "ok"
    assert kernel.ok("'joined' in host.values.of('2')").text == "True"
    kernel.ok("%mcp share --stop")


def test_the_setting_spill_holds_for_agents_outside(kernel):
    assert kernel.ok("host.outputs.spill").text == "4000"
    kernel.ok("%config MCPMagics.spill = 100")
    assert kernel.ok("host.outputs.spill").text == "100"
    kernel.ok("%config MCPMagics.spill = None")
    assert kernel.ok("print(host.outputs.spill)").stdout == "None\n"
