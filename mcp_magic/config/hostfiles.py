"""The three shapes in which MCP hosts write down their servers.

`mcpServers` (Claude Desktop, Claude Code, Cursor and most others), `servers` (VS Code) and `mcp_servers`
(Jupyter AI: a list, with `env` and `headers` as lists of `{"name", "value"}`). What is wrong with one
server is that entry's `problem`; the others stay usable. A `timeout` is in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic.config.entries import ServerEntry, make_spec, ready_entry
from mcp_magic.config.fields import FieldError, flag, kind_of
from mcp_magic.config.variables import Variables
from mcp_magic.errors import ConfigError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parse_servers"]

_KEYS = ("mcpServers", "servers", "mcp_servers")


def parse_servers(
    data: Any, *, source: str, environ: Mapping[str, str], base: Path | None, cwd: Path | None = None
) -> list[ServerEntry]:
    """Return the servers of one parsed configuration, in its order.

    Args:
        data: What the JSON says.
        source: The file, for messages.
        environ: What `${VAR}` stands for, before the `.env` in `base`.
        base: The folder that relative paths and `${workspaceFolder}` mean.
        cwd: Where commands run that do not say where.

    Raises:
        ConfigError: when there is no table of servers in it.
    """
    variables = Variables(environ, base)
    return [_entry(name, fields, source, variables, cwd) for name, fields in _tables(data, source)]


def _tables(data: Any, source: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{source}: expected an object with mcpServers or servers, got {kind_of(data)}.")
    key = next((key for key in _KEYS if key in data), None)
    if (
        key is None
        and data
        and not all(isinstance(v, Mapping) and v.keys() & {"command", "url"} for v in data.values())
    ):
        hint = next((hint for name in data if (hint := did_you_mean(name, _KEYS))), "")
        raise ConfigError(f"{source}: no mcpServers or servers in it, only {listed(data)}.{hint}")
    servers = data[key] if key else data
    if isinstance(servers, list):
        for number, fields in enumerate(servers, 1):
            name = fields.get("name") if isinstance(fields, Mapping) else None
            yield name if isinstance(name, str) and name else f"server {number}", fields
    elif isinstance(servers, Mapping):
        for name, fields in servers.items():
            yield name, _as_vs_code_means(fields) if key == "servers" else fields
    else:
        raise ConfigError(f"{source}: {key}: expected an object of servers by name, got {kind_of(servers)}.")


def _as_vs_code_means(fields: Any) -> Any:
    """Drop VS Code's type "http": it stands for streamable HTTP *or* SSE, like a URL without a type."""
    if isinstance(fields, Mapping) and fields.get("type") == "http" and "url" in fields:
        return {key: value for key, value in fields.items() if key != "type"}
    return fields


def _entry(name: str, fields: Any, source: str, variables: Variables, cwd: Path | None) -> ServerEntry:
    disabled = False
    try:
        if not isinstance(fields, Mapping):
            raise FieldError(f"expected an object, got {kind_of(fields)}.")
        disabled = flag(fields, "disabled") or fields.get("enabled") is False
        spec = make_spec(fields, variables=variables, cwd=cwd)
    except FieldError as error:
        problem = ConfigError(f"{source}: server {name!r}: {error}")
        return ServerEntry(name, source, disabled=disabled, problem=problem)
    return ready_entry(name, source, spec, disabled, fields)
