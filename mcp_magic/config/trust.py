"""What a declaration in a file loosens, and the person's yes to it.

A file may come with a cloned repository. Servers, denials and the look of things need no yes; what takes a question
away from the person, keeps or sends their data elsewhere, or hands out a secret of theirs needs one. It holds for this
file with this content, and is kept in the person's own folder.
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
        *("ask_with", "max_steps", "result_characters", "reconnect"),
    )
)
"""Settings that a file may set unasked. Any other, also one that is added later, needs a yes."""

_POLICIES = ("deny", "ask", "readonly", "auto")
"""What `approval` may be, the strictest first."""


def loosened(declaration: Declaration, current: Mapping[str, Any]) -> list[str]:
    """Return what a declaration loosens, in words; empty where it needs no yes.

    Args:
        declaration: The declaration.
        current: The settings as they are, by name: one that stays as it is loosens nothing.
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
    """Return the whole command line or the URL of a server, secrets masked, and by name what it gets besides."""
    line = _line(entry.written)
    line += f" (gets {', '.join(entry.variables)})" if entry.variables else ""
    kind = "headers" if isinstance(entry.spec, UrlSpec) else "variables"
    return f"{line} (sets the {kind} {_line(', '.join(entry.sets))})" if entry.sets else line


def written(value: Any) -> str:
    """Write a value as a message does: on one line, the secrets of URLs masked."""
    return _line(repr(Concealed(value) if isinstance(value, str) else value))


def _line(text: str) -> str:
    from mcp_magic.display.text import visible

    return visible(" ".join(text.split()))


def trust_file() -> Path:
    """Return the file of what was said yes to, in Jupyter's data directory; nothing is made yet."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "trusted"


def is_trusted(declaration: Declaration) -> bool:
    """Whether the person has said yes to this file with this content."""
    try:
        lines = trust_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return _key(declaration) in (line.strip() for line in lines)


def trust(declaration: Declaration) -> None:
    """Remember a yes.

    Raises:
        OSError: It cannot be written.
    """
    path = trust_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{_key(declaration)}\n")


def trust_line(declaration: Declaration) -> str:
    """Return the line for a shell that says yes where nobody can be asked, in CI for example."""
    path = trust_file()
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    return f"mkdir -p {folder} && echo {_key(declaration)} >> {file}"


def _key(declaration: Declaration) -> str:
    """Return what a yes is kept as; the path of the file is part of it, and a hash has no line of its own in it."""
    return sha256(f"{declaration.source}\0{declaration.digest}".encode()).hexdigest()
