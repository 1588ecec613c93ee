"""Functions of a cell that take bytes, here and exported; `tests/kernel/test_server_cell.py` has the cell itself."""

from __future__ import annotations

import functools

import pytest

from mcp_magic.errors import ToolError
from mcp_magic.server.cell import Marks, make_server
from mcp_magic.server.export import program
from mcp_magic.server.snapshot import interface_changes, interface_of

CELL = '''
from typing import Annotated
from pydantic import Base64Bytes, BeforeValidator, Field

def size(data: bytes) -> int:
    """Counts.

    Args:
        data: What is counted.
    """
    return len(data)

def sizes(datas: list[bytes], more: bytes | None = None) -> list[int]:
    return [len(data) for data in [*datas, more or b""]]

def described(data: Annotated[bytes, Field(description="All of it.")]) -> int:
    return len(data)

def late(data: "bytes") -> int:
    return len(data)

def own(data: Annotated[bytes, BeforeValidator(bytes.fromhex)]) -> int:
    return len(data)

def decoded(data: Base64Bytes) -> int:
    return len(data)

def picture() -> bytes:
    return bytes([137, 80, 78, 71])
'''
NAMES = ("size", "sizes", "described", "late", "own", "decoded", "picture")


def cell_server():
    namespace = {}
    exec(compile(CELL, "cell", "exec", dont_inherit=True), namespace)
    return make_server("up", [namespace[name] for name in NAMES], Marks(), source=CELL)


def exported_server():
    namespace = {"__name__": "exported"}
    exec(compile(program(cell_server(), {}, [], "server.py"), "server.py", "exec", dont_inherit=True), namespace)
    return namespace["server"]


@pytest.mark.parametrize("made", [cell_server, exported_server])
async def test_bytes_parameter_gets_the_sent_bytes(host, made):
    server = await host.connect(made(), name="up")
    data = bytes(range(256))
    for tool in ("size", "described", "late", "decoded"):
        assert (await server.tools[tool](data=data)).data == 256, tool
    assert (await server.tools.sizes(datas=[b"\xff", b""], more=b"ab")).data == [1, 0, 2]
    assert (await server.tools.sizes(datas=[])).data == [0]
    assert (await server.call_tool("own", {"data": "00ff"})).data == 2


async def test_bytes_are_base64_and_returned_ones_get_advice(host):
    server = await host.connect(cell_server(), name="up")
    interface = await interface_of(server)
    changes = interface_changes(interface, await interface_of(await host.connect(exported_server(), name="exported")))
    assert [str(change) for change in changes if change.kind != "server"] == []
    size = interface["tools"]["size"]["inputSchema"]["properties"]["data"]
    assert (size["format"], size["description"]) == ("base64", "What is counted.")
    assert "Base64 decoding error" in str((await server.call_tool("size", {"data": "hello"})).text)
    advice = r"it returned bytes, which are not JSON; return Image\(data=..., format='png'\)"
    with pytest.raises(ToolError, match=advice):
        (await server.call_tool("picture", {})).raise_for_error()


def test_the_function_of_the_cell_stays_what_it_is():
    def twice(data: bytes) -> bytes:
        return data * 2

    @functools.wraps(twice)
    def noted(data):
        return twice(data)

    before = dict(twice.__annotations__)
    tool = make_server("up", [noted], Marks())._tool_manager.get_tool("twice")
    assert twice.__annotations__ == before
    assert tool is not None
    assert tool.parameters["properties"]["data"]["format"] == "base64"
