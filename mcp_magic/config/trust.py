"""Records which declaration files the user trusts, and tells what a declaration loosens.

A declaration may come with a cloned repository. Servers, denials and display settings need no trust. A line that
answers questions in the user's place, stores or sends their data elsewhere, or hands out a secret needs it. Trust holds
for one file with its current content, and is recorded in the user's own folder.
"""

from __future__ import annotations

import os
import shlex
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.masking import Concealed
from mcp_magic.config.specs import UrlSpec
from mcp_magic.schema.secrets import is_declared_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.project import Declaration
    from mcp_magic.config.servers import ServerEntry

__all__ = ["is_trusted", "loosened", "runs", "trust", "trust_line", "written"]

_HARMLESS = frozenset(
    (
        *("timeout", "call_timeout", "max_total_timeout", "login_timeout", "approval_timeout"),
        *("show_progress", "show_logs", "display_rows", "display_characters"),
        *("ask_with", "max_turns", "result_characters", "reconnect"),
    )
)
"""Settings that a file may change without trust. All others need it, also settings added later."""

_POLICIES = ("deny", "ask", "readonly", "auto")
"""Values of the setting `approval`, the strictest first."""


def loosened(declaration: Declaration, current: Mapping[str, Any]) -> list[str]:
    """Return what a declaration loosens, in words; empty if it needs no trust.

    Args:
        declaration: The declaration.
        current: The current settings by name; an unchanged setting loosens nothing.
    """
    found = [
        f"set {name} = {written(value)}"
        for name, value in declaration.settings.items()
        if name not in _HARMLESS and value != current.get(name) and not _stricter(name, value, current.get(name))
    ]
    found += [f"allow {written(rule['allow'])} without asking" for rule in declaration.consent if "allow" in rule]
    found += [
        f"let the agent {_line(name)} call tools with approve = {written(agent['approve'])}"
        for name, agent in declaration.agents.items()
        if agent.get("approve") in ("readonly", "auto")
    ]
    for entry in declaration.started:
        found += _of_server(entry)
    return found


def _stricter(name: str, value: Any, current: Any) -> bool:
    known = name == "approval" and value in _POLICIES and current in _POLICIES
    return known and _POLICIES.index(value) <= _POLICIES.index(current)


def _of_server(entry: ServerEntry) -> list[str]:
    spec, name = entry.spec, _line(entry.name)
    assert spec is not None
    found = [
        f"give {variable} of your environment or .env to the server {name}"
        for variable in entry.variables
        if is_declared_secret(variable)
    ]
    if spec.trust:
        found.append(f"believe what the server {name} says of its tools (trust = true)")
    if spec.sampling == "auto":
        found.append(f"let the server {name} use your model without asking (sampling = 'auto')")
    if isinstance(spec, UrlSpec) and spec.verify is False:
        found.append(f"accept any certificate from the server {name} (verify = false)")
    return found


def runs(entry: ServerEntry) -> str:
    """Return a server's whole command line or URL, secrets masked, and names of the variables or headers it gets."""
    line = _line(entry.written)
    line += f" (gets {', '.join(entry.variables)})" if entry.variables else ""
    kind = "headers" if isinstance(entry.spec, UrlSpec) else "variables"
    return f"{line} (sets the {kind} {_line(', '.join(entry.sets))})" if entry.sets else line


def written(value: Any) -> str:
    """Return a value as a message shows it: on one line, with the secrets in URLs masked."""
    return _line(repr(Concealed(value) if isinstance(value, str) else value))


def _line(text: str) -> str:
    from mcp_magic.display.visible import visible

    return visible(" ".join(text.split()))


def trust_file() -> Path:
    """Return the path of the file of trusted declarations, in Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "trusted"


def is_trusted(declaration: Declaration) -> bool:
    """Return whether the user trusts this file with this content."""
    try:
        lines = trust_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return _key(declaration) in (line.strip() for line in lines)


def trust(declaration: Declaration) -> None:
    """Record that the user trusts a declaration.

    Raises:
        OSError: The file of trusted declarations cannot be written.
    """
    path = trust_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{_key(declaration)}\n")


def trust_line(declaration: Declaration) -> str:
    """Return the shell command that records trust where no user can be asked, for example in CI."""
    path = trust_file()
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    return f"mkdir -p {folder} && echo {_key(declaration)} >> {file}"


def _key(declaration: Declaration) -> str:
    """Return the line that records trust: a hash of path and content, because a path may contain a line end."""
    return sha256(f"{declaration.source}\0{declaration.digest}".encode()).hexdigest()
