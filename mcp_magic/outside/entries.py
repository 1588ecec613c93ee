"""The lines with which other hosts reach the kernel: each starts the stdio proxy, so none has a secret or a port."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic._text import json_text
from mcp_magic.config.writing import toml_value

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = "kernel"  # the name of the server there


@dataclass(frozen=True)
class Entry:
    """What makes the kernel a server of another host.

    Attributes:
        host: The host.
        where: The file that it goes into, or how it is typed.
        text: The entry, or the line.
    """

    host: str
    where: str
    text: str


def proxy_command(kernel: str = "") -> list[str]:
    """Return the command of the proxy; `kernel` names the notebook, where its folder has several kernels.

    With `-P`, files of the folder where the client starts it are not imported by it.
    """
    return [sys.executable, "-P", "-m", "mcp_magic", "proxy", *(["--kernel", kernel] if kernel else [])]


def table_of(command: Sequence[str]) -> dict[str, Any]:
    """Return a server of a configuration file with `mcpServers`."""
    return {"command": command[0], "args": [*command[1:]]}


def entries(command: Sequence[str]) -> tuple[Entry, ...]:
    """Return the entries for the hosts that people use beside a notebook."""
    table = table_of(command)
    toml = "\n".join(f"{key} = {toml_value(value)}" for key, value in table.items())
    typed = subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)
    code = {"servers": {SERVER: {"type": "stdio", **table}}}
    return (
        Entry("Claude Code, and most others", ".mcp.json", json_text({"mcpServers": {SERVER: table}}, indent=2)),
        Entry("Claude Code", "in a terminal, in this folder", f"claude mcp add {SERVER} -- {typed}"),
        Entry("Codex", "~/.codex/config.toml", f"[mcp_servers.{SERVER}]\n{toml}"),
        Entry("VS Code (Copilot)", ".vscode/mcp.json", json_text(code, indent=2)),
    )
