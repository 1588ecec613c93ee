"""What the SDK keeps private is touched in one module, and is still there."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from mcp import Client, ClientSession
from mcp.client import stdio, streamable_http
from mcp.server.mcpserver import MCPServer

import mcp_magic
from mcp_magic import _sdk

PACKAGE = Path(mcp_magic.__file__).parent
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "_sdk.py"]
PUBLIC = {"_replace", "_asdict", "_fields", "_current_frames", "_exit", "_repr_mimebundle_", "_repr_png_"}
"""Attributes with an underscore that are public: those of named tuples, of `sys`, and of IPython's displays."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_module_uses_private_names(path):
    tree = ast.parse(path.read_text())
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_own(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mcp":
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not [name for name in names if name.startswith("_")], "import it in mcp_magic/_sdk.py"
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            assert not private or node.attr in PUBLIC | own, f"{ast.unparse(node)} is private; see mcp_magic/_sdk.py"


def is_own(value: ast.expr) -> bool:
    named = isinstance(value, ast.Name) and value.id in ("self", "cls")
    return named or ast.unparse(value) == "super()"


def test_the_sdk_has_what_is_replaced():
    assert inspect.iscoroutinefunction(inspect.unwrap(stdio._create_platform_compatible_process))
    assert hasattr(stdio, "TextReceiveStream")
    assert hasattr(streamable_http, "jsonrpc_message_adapter")
    assert callable(ClientSession.send_request)
    assert inspect.iscoroutinefunction(ClientSession.validate_tool_result)
    assert callable(Client(MCPServer("here"))._connect)
    assert _sdk.memory_transport(MCPServer("here")) is not None
