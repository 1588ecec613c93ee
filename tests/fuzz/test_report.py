"""A report: its table, its lines, its tests."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, StdioSpec, WebSocketSpec
from mcp_magic.fuzz.report import Failure, FuzzReport, line_to_type, python_literal
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.words import split_line
from tests.environments import ROOT
from tests.support.exporting import ran

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}
ODD = ["it's", '"', "\\", '\\"', "$HOME {1 + 1} `x` !1 # %s", "\x00\n", "é\U0001f600", "a" * 5_000, "\u202e"]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_line_is_read_alike_by_magics_and_by_shells(text):
    line = line_to_type("shop", "f", {"q": text, "no": [None]}, SCHEMA)
    assert line.startswith("%mcp raw shop tools/call '{")
    assert line.isascii()
    words = shlex.split(line)
    assert split_line(line) == words
    is_python = words[-1].startswith("{{")
    params = eval(words[-1][1:-1]) if is_python else json.loads(words[-1])
    assert params == {"name": "f", "arguments": {"q": text, "no": [None]}}


def test_line_is_a_plain_call_where_the_arguments_fit():
    assert line_to_type("shop", "f", {"q": "x y"}, SCHEMA) == "%mcp call shop:f 'q=x y'"


def test_literal_is_read_back():
    for value in (*ODD, [1] * 100, [True] * 30, {"a": [None, 1.5, {"b": "ab" * 400}]}, 2**63):
        assert eval(python_literal(value)) == value


def report_of(*failures: Failure, spec: Spec | None = None) -> FuzzReport:
    report = FuzzReport("shop", ["f", "g"], 7, spec or StdioSpec(command=sys.executable, args=("server.py",)))
    report.failures += failures
    report.calls, report.seconds = 1_200, 2.5
    return report


CRASH = Failure("dies", "shop", "f", 'it ended: "\\x"', {"q": ""}, "%mcp call shop:f q=")
ONCE = Failure("accepts", "shop", "g", "takes it", {"q": 1}, "%mcp raw ...", repeats=False)


def test_report_lists_failures_by_kind():
    report = report_of(CRASH, ONCE)
    assert not report.ok
    text = str(report.parts()[0].plain)
    assert "dies" in text
    assert "the server ends, or closes the connection" in text
    assert report.parts()[1].plain == 'dies: f: it ended: "\\x"\n%mcp call shop:f q='
    assert report.summary == "2 failures (1 dies, 1 accepts); 1,200 calls of 2 tools in 2.5 s; seed 7"
    assert report.df.columns.tolist() == ["kind", "tool", "what", "line", "arguments"]
    assert report.df["what"].tolist() == ['it ended: "\\x"', "takes it (not seen again)"]
    with pytest.raises(CheckFailedError) as caught:
        report.check()
    assert str(caught.value).splitlines() == [
        f"shop: {report.summary}",
        '  dies: f: it ended: "\\x"',
        "    %mcp call shop:f q=",
        "  accepts: g: takes it (not seen again)",
        "    %mcp raw ...",
    ]
    assert caught.value.result is report
    clean = report_of()
    assert "no call was made" in FuzzReport("shop", ["f"], 7, StdioSpec(command="x")).parts()[0].plain
    assert clean.check() is clean
    assert "nothing failed" in clean.parts()[0].plain
    assert clean.pytest == ""


def test_outcomes_for_junit_have_a_case_for_each_kind():
    cases = report_of(CRASH).suite.cases
    assert len(cases) == 18
    assert [(case.name, case.classname) for case in cases if case.failure] == [("dies", "shop:f")]


def test_tests_have_no_secrets_and_names_of_their_own():
    spec = StdioSpec(command="server", args=("--token", "sk-very-secret-1"), env={"API_KEY": "very-secret-2"})
    source = report_of(CRASH, CRASH, spec=spec).pytest
    compile(source, "test_shop.py", "exec")
    assert "very-secret" not in source
    assert '"API_KEY": os.environ["API_KEY"]' in source
    assert "def test_f_dies():" in source
    assert "def test_f_dies_2():" in source
    web = HttpSpec(url="https://me:very-secret-3@example.com/mcp", headers={"Authorization": "Bearer very-secret-4"})
    source += report_of(CRASH, spec=web).pytest
    assert "very-secret" not in source
    assert '"--token", os.environ["SHOP_TOKEN"]]' in source
    assert '"https://" + os.environ["SHOP_SECRET"] + "@example.com/mcp"' in source


GUARDED = """
import sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("shop")


@server.tool()
def f(q: str, ctx: Context) -> str:
    if sys.argv[1:] != ["--token", "very-secret-1", "--token", "very-secret-2"]:
        raise IndexError(sys.argv)
    if ctx.session.protocol_version != "2025-11-25":
        raise IndexError(ctx.session.protocol_version)
    return q


server.run()
"""


async def test_test_of_a_server_with_two_secrets_and_a_protocol_runs(tmp_path):
    server = tmp_path / "guarded.py"
    server.write_text(GUARDED)
    words = (str(server), "--token", "very-secret-1", "--token", "very-secret-2")
    spec = StdioSpec(command=sys.executable, args=words, protocol="handshake")
    file = tmp_path / "tests" / "test_shop.py"
    file.parent.mkdir()
    file.write_text(report_of(CRASH, spec=spec).tests_in(file))
    plugins = [f"-pno:{name}" for name in ("cacheprovider", "nbval", "langsmith_plugin", "asyncio", "xdist")]
    for second, outcome in (("very-secret-2", "1 passed"), ("very-secret-1", "1 failed")):
        variables = {"SHOP_TOKEN": "very-secret-1", "SHOP_TOKEN_2": second, "PYTHONPATH": str(ROOT)}
        _, output = await ran(sys.executable, "-m", "pytest", "-q", *plugins, str(file), folder=tmp_path, **variables)
        assert outcome in output, output


def test_tests_reach_servers_of_every_kind(tmp_path):
    web = {"verify": "ca.pem", "cert": ("a.pem", "b.pem"), "protocol": "2026-07-28"}
    source = report_of(CRASH, spec=WebSocketSpec(url="ws://example.com/mcp", **web)).tests_in(tmp_path / "test_a.py")
    for argument in ('"ws://example.com/mcp"', 'verify="ca.pem"', 'cert=["a.pem", "b.pem"]', 'protocol="2026-07-28"'):
        assert f"                {argument},\n" in source
    source = report_of(CRASH, spec=InProcessSpec(server=object())).tests_in(tmp_path / "test_a.py")
    assert "`%mcp export shop shop.py` writes it as a program" in source
    assert '[sys.executable, str(Path(__file__).parent / "shop.py")],\n' in source


@pytest.mark.parametrize("tool", ["a²", "class", "", "():", "é\ud800"])
def test_tests_of_tools_with_odd_names_are_code(tool):
    source = report_of(Failure("dies", "shop", tool, 'tail """ \\', {tool: tool}, "#")).pytest
    assert source.isascii()
    compile(source, "test_shop.py", "exec")
