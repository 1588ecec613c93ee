"""Functions of a cell that take bytes, in the notebook and exported."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import ToolError
from mcp_magic.server.cell import Marks, make_server
from mcp_magic.server.docs import compared, interface_of
from mcp_magic.server.export import program

if TYPE_CHECKING:
    from mcp_magic._host import Host

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


def run(code: str, **namespace: Any) -> dict[str, Any]:
    exec(compile(code, "cell", "exec", dont_inherit=True), namespace)
    return namespace


def cell_server(name: str) -> Any:
    namespace = run(CELL)
    return make_server(name, [namespace[function] for function in NAMES], Marks(), source=CELL)


def exported_server(name: str) -> Any:
    return run(program(cell_server(name), {}, [], "server.py"), __name__="exported")["server"]


async def test_a_parameter_of_bytes_gets_the_bytes_that_are_sent(host: Host) -> None:
    here = await host.connect(cell_server("up"), name="up")
    there = await host.connect(exported_server("up"), name="exported")
    data = bytes(range(256))
    for server in (here, there):
        for tool in ("size", "described", "late", "decoded"):
            assert (await server.tools[tool](data=data)).data == 256, tool
        assert (await server.tools.sizes(datas=[b"\xff", b""], more=b"ab")).data == [1, 0, 2]
        assert (await server.tools.sizes(datas=[])).data == [0]
        assert (await server.call_tool("own", {"data": "00ff"})).data == 2
    interface = await interface_of(here)
    changes = compared(interface, await interface_of(there))
    assert [str(change) for change in changes if change.kind != "server"] == []
    size = interface["tools"]["size"]["inputSchema"]["properties"]["data"]
    assert (size["format"], size["description"]) == ("base64", "What is counted.")


async def test_bad_base64_and_returned_bytes_are_told_with_advice(host: Host) -> None:
    server = await host.connect(cell_server("up"), name="up")
    refused = await server.call_tool("size", {"data": "hello"})
    assert "Base64 decoding error" in str(refused.text)
    advice = r"it returned bytes, which are not JSON; return Image\(data=..., format='png'\)"
    with pytest.raises(ToolError, match=advice):
        (await server.call_tool("picture", {})).raise_for_error()


def test_the_function_of_the_cell_keeps_its_annotations() -> None:
    def twice(data: bytes) -> bytes:
        return data * 2

    @functools.wraps(twice)
    def noted(data: Any) -> Any:
        return twice(data)

    before = dict(twice.__annotations__)
    server = make_server("up", [noted], Marks())
    assert twice.__annotations__ == before
    tool = server._tool_manager.get_tool("twice")
    assert tool is not None
    assert tool.parameters["properties"]["data"]["format"] == "base64"
