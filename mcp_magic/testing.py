"""A pytest plugin that replays servers and chat models from a cassette.

    async def test_the_forecast(mcp_cassette):
        weather = await host.connect("https://weather.example/mcp")
        assert (await weather.call("forecast", city="Oslo")).df.shape == (7, 4)

`pytest --mcp-record=once` records `cassettes/<module>/<test>.jsonl` beside the test module; after that the test needs
no server and no model. pytest loads this module automatically; it imports nothing else until a test uses a fixture.

    def test_the_agent(mcp_mock):
        url = mcp_mock("weather.jsonl")  # a mock server for clients of any framework
"""

from __future__ import annotations

import hashlib
import re
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mcp_magic.cassette.cassette import Cassette

_MODES = {"none": "replay", "once": "once", "new": "auto", "all": "record"}
"""Names of modes in pytest-recording -> modes of `%mcp record`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--mcp-record`."""
    parser.getgroup("mcp_magic").addoption(
        "--mcp-record",
        choices=tuple(_MODES),
        default="none",
        help="what mcp_cassette does: none: only replay (the default); once: record where there is no cassette; "
        "new: add what is not in it; all: record again",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "mcp_cassette(path=None, pauses=False, in_process='live', largest=64_000_000): the cassette of the fixture "
        "mcp_cassette, and how it is recorded and replayed",
    )


@pytest.fixture
def mcp_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """A cassette that replays or records all servers and chat models while the test runs."""
    from mcp_magic.cassette.cassette import Commands, deck

    mark = request.node.get_closest_marker("mcp_cassette")
    options = dict(mark.kwargs) if mark is not None else {}
    path = options.pop("path", None) or (mark.args[0] if mark is not None and mark.args else None)
    path = request.path.parent / path if path else _beside(request)
    options.setdefault("here", request.config.rootpath)
    commands = Commands("`pytest --mcp-record=once`", "`pytest --mcp-record=new`", _MARK)
    with deck.holding(path, _MODES[request.config.getoption("--mcp-record")], commands=commands, **options) as cassette:
        yield cassette
    if cassette.full:
        warnings.warn(f"{cassette.path} is incomplete: {cassette.doing}; {cassette.more}", stacklevel=1)


_MARK = "`@pytest.mark.mcp_cassette(largest={bytes})`"


def _beside(request: pytest.FixtureRequest) -> Path:
    classes = [node.name for node in request.node.listchain() if isinstance(node, pytest.Class)]
    test = ".".join([*classes, request.node.name])
    name = re.sub(r"[^\w.\[\]-]+", "-", test)[:150]
    if name != test:  # a hash keeps apart names that would become equal
        name += f"-{hashlib.sha256(test.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return request.path.parent / "cassettes" / request.path.stem / f"{name}.jsonl"


@pytest.fixture
def mcp_mock(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """`mcp_mock(FILE, server=None, pauses=False)` returns the URL of a mock server, which runs until the test ends.

    FILE is relative to the test module; `server` names one of several in it. The URL needs no header. It cannot be
    guessed, so that other programs on this machine find nothing.
    """
    from mcp_magic.server.mock import MockThread

    with MockThread() as mocks:
        yield lambda path, server=None, *, pauses=False: mocks.serve(request.path.parent / path, server, pauses=pauses)
