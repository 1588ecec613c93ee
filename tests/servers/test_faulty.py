"""The server that `notebooks/debug_a_server.ipynb` mends is as sick as it says, and no sicker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from mcp_magic._host import Host
from mcp_magic.errors import ProtocolError, RequestTimeoutError, ToolError
from tests.support import bundled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.session.connection import Connection


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library() -> AsyncIterator[Connection]:
    host = Host()
    yield await host.connect(bundled.command("faulty_server"), name="library")
    await host.close()


async def test_its_definitions_have_the_planted_faults(library: Connection) -> None:
    findings = await library.lint()
    assert {(found.code, found.where) for found in findings.findings} == {
        ("schema-invalid", "tool count"),
        ("hidden-unicode", "tool return book"),
        ("schema-required", "tool find"),
        ("name-provider", "tool return book"),
        ("hints-contradict", "tool return book"),
        ("description-missing", "tool inventory"),
    }


async def test_its_tools_fail_each_in_its_way_and_the_session_goes_on(library: Connection) -> None:
    with pytest.raises(ProtocolError, match="KeyError: 'titel'"):
        await library.call_tool("find", {"title": "Emma"}, validate=False)
    with pytest.raises(RequestTimeoutError):
        await library.call_tool("inventory", {}, timeout=1)
    with pytest.raises(ToolError, match="Nobody is at the desk"):
        await library.call("return book", title="Emma")
    assert (await library.call_tool("find", {"titel": "Emma"}, validate=False)).text == "Jane Austen"
    assert "DEBUG call_tool inventory" in library.stderr()
