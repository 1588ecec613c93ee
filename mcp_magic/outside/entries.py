"""The lines with which other hosts reach the kernel: each starts the stdio proxy, so none has a secret or a port."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import json_text
from mcp_magic.config.writing import toml_value
from mcp_magic.outside.runtime import runtime_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER = "kernel"  # the name of the server there

_USUAL_FOLDER = {"darwin": "~/Library/Jupyter/runtime", "win32": "~/AppData/Roaming/jupyter/runtime"}.get(
    sys.platform, "~/.local/share/jupyter/runtime"
)


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


def proxy_table(kernel: str = "") -> dict[str, Any]:
    """Return the proxy as a server of a configuration file; `kernel` names the notebook, where a folder has several.

    With `-P`, files of the folder where the client starts it are not imported by it. Clients pass few variables on, so
    the folder of the runtime files is named where it is not the usual one.
    """
    args = ["-P", "-m", "mcp_magic", "proxy", *(["--kernel", kernel] if kernel else [])]
    folder = runtime_folder().parent
    env = {} if folder == Path(_USUAL_FOLDER).expanduser() else {"env": {"JUPYTER_RUNTIME_DIR": str(folder)}}
    return {"command": sys.executable, "args": args, **env}


def entries(table: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Return the entries for the hosts that people use beside a notebook, for a server of a configuration file."""
    command = [table["command"], *table["args"]]
    typed = subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)
    env = "".join(f"-e {shlex.quote(f'{key}={value}')} " for key, value in table.get("env", {}).items())
    toml = "\n".join(f"{key} = {toml_value(value)}" for key, value in table.items())
    return (
        Entry("Claude Code, and most others", ".mcp.json", _document("mcpServers", table)),
        Entry("Claude Code", "in a terminal", f"claude mcp add {SERVER} {env}-- {typed}"),
        Entry("Codex", "~/.codex/config.toml", f"[mcp_servers.{SERVER}]\n{toml}"),
        Entry("VS Code (Copilot)", ".vscode/mcp.json", _document("servers", {"type": "stdio", **table})),
    )


def _document(key: str, table: Mapping[str, Any]) -> str:
    """Return a JSON file with the server, a line for each member."""
    members = ",\n".join(f"      {json_text(name)}: {json_text(value)}" for name, value in table.items())
    return f'{{\n  "{key}": {{\n    "{SERVER}": {{\n{members}\n    }}\n  }}\n}}'
