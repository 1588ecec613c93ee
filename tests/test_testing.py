"""The fixtures `mcp_cassette` and `mcp_mock`, in test runs of their own."""

from __future__ import annotations

import asyncio

import pytest

from mcp_magic import Host
from tests.support.bundled import FOLDER, load

pytest_plugins = ["pytester"]

TEST = """
import sys
import pytest
from mcp_magic import Host

async def total(*numbers):
    host = Host()
    try:
        math = await host.connect(COMMAND, name="math")
        return [(await math.call("add", a=1, b=number)).data for number in numbers]
    finally:
        await host.close()

@pytest.mark.asyncio
@pytest.mark.parametrize("b", [2])
async def test_sum(mcp_cassette, b):
    assert await total(b) == [1 + b]

@pytest.mark.mcp_cassette("sums.jsonl")
@pytest.mark.asyncio
async def test_sums(mcp_cassette):
    assert await total(NUMBERS) == [1 + number for number in (NUMBERS,)]
"""
REAL = f"[sys.executable, {str(FOLDER / 'math_server.py')!r}]"
UNUSED = ("cacheprovider", "langsmith_plugin", "hypothesispytest", "nbval", "xdist", "pytest_cov", "anyio")
GONE = "['/nonexistent/server']"


def run(pytester: pytest.Pytester, *options: str, command: str = GONE, numbers: str = "2") -> pytest.RunResult:
    pytester.makepyfile(test_adding=f"{TEST}\nCOMMAND = {command}\n".replace("NUMBERS", numbers))
    others = [word for name in UNUSED for word in ("-p", f"no:{name}")]
    return pytester.runpytest_inprocess("-p", "mcp_magic.testing", *others, *options)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import what the runs below need: pytester forgets with each run what that has imported."""

    async def use() -> None:
        host = Host()
        await (await host.connect(load("math_server").server, name="math")).call("add", a=1, b=2)
        await host.close()

    asyncio.run(use())


def test_recorded_test_needs_no_server_afterwards(pytester):
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\naddopts = --strict-markers")
    missing = run(pytester, command=REAL)
    missing.assert_outcomes(errors=2)
    missing.stdout.fnmatch_lines(["*there is no cassette *test_sum?2?.jsonl; `pytest --mcp-record=once` makes it*"])

    run(pytester, "--mcp-record=once", command=REAL).assert_outcomes(passed=2)
    made = {path.relative_to(pytester.path).as_posix() for path in pytester.path.rglob("*.jsonl")}
    assert made == {"cassettes/test_adding/test_sum[2].jsonl", "sums.jsonl"}

    failed = run(pytester, numbers="2, 3")
    failed.assert_outcomes(passed=1, failed=1)
    failed.stdout.fnmatch_lines(
        ["*arguments.b is 3 here, 2 there*", "*`pytest --mcp-record=new` adds what is missing*"]
    )

    run(pytester, "--mcp-record=new", command=REAL, numbers="2, 3").assert_outcomes(passed=2)
    run(pytester, numbers="3, 2").assert_outcomes(passed=2)


NAMES = """
import pytest

used = []

@pytest.mark.parametrize("letters", ["+", "*", "a" * 200, "a" * 201])
def test_it(mcp_cassette, letters):
    used.append(mcp_cassette.path.name)

class TestOne:
    class TestInner:
        def test_it(self, mcp_cassette):
            used.append(mcp_cassette.path.name)

class TestTwo(TestOne):
    pass

def test_all():
    assert len(set(used)) == len(used) == 6
    assert used[4:] == ["TestOne.TestInner.test_it.jsonl", "TestTwo.TestInner.test_it.jsonl"]
    assert max(map(len, used)) < 180
"""


def test_odd_test_names_get_separate_cassettes(pytester):
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(test_names=NAMES)
    run(pytester, "--mcp-record=all", "test_names.py").assert_outcomes(passed=7)


MOCKED = """
import asyncio
import httpx2
import pytest
from mcp import Client, MCPError

async def added(url, b):
    async with Client(url) as client:
        return (await client.call_tool("add", {"a": 19, "b": b})).structured_content

def test_sync(mcp_mock):
    url = mcp_mock("quickstart.jsonl", "math")
    assert asyncio.run(added(url, 23)) == {"result": 42}
    assert httpx2.post(url.replace("/mcp", "x/mcp")).status_code == 404
    with pytest.raises(Exception, match="has several servers"):
        mcp_mock("quickstart.jsonl")

@pytest.mark.asyncio
async def test_async(mcp_mock):
    with pytest.raises(BaseExceptionGroup) as failed:
        await added(mcp_mock("quickstart.jsonl", "math"), 24)
    assert failed.group_contains(MCPError, match="arguments.b is 24 here, 23 there")
"""


def test_mock_has_a_url_for_clients_of_any_framework(pytester):
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(test_mocked=MOCKED)
    (pytester.path / "quickstart.jsonl").write_text(
        (FOLDER.parents[1] / "notebooks/cassettes/quickstart.jsonl").read_text()
    )
    run(pytester, "test_mocked.py").assert_outcomes(passed=2)
