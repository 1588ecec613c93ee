"""Bundles (`.mcpb`) made in a test."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def manifest(**fields: Any) -> dict[str, Any]:
    """Return a manifest; `type`, `entry_point` and `mcp_config` are those of its server."""
    server = {
        "type": fields.pop("type", "node"),
        "entry_point": fields.pop("entry_point", "server/index.js"),
        "mcp_config": fields.pop("mcp_config", {"command": "node", "args": ["${__dirname}/server/index.js"]}),
    }
    server = {key: value for key, value in server.items() if value is not None}
    head = {"manifest_version": "0.3", "name": "tool", "version": "1.0.0", "description": "A tool.", "server": server}
    return {**head, "author": {"name": "Somebody"}, **fields}


def zipped(files: Mapping[str, Any], modes: Mapping[str, int] | None = None) -> bytes:
    """Return a zip of files, some with a mode; what is not bytes is written as JSON."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, 0o644) << 16
            archive.writestr(info, content if isinstance(content, bytes) else json.dumps(content))
    return stream.getvalue()


PLAIN = Path(__file__).with_name("plain_server.py")


def plain_bundle(**fields: Any) -> bytes:
    """Return a bundle of the plain server; `fields` are those of its manifest."""
    config = {
        "command": "python",
        "args": ["${__dirname}/main.py", "${user_config.protocol}"],
        "env": {"PLAIN_TOKEN": "${user_config.token}"},
    }
    user_config = {
        "protocol": {"type": "string", "title": "Protocol", "default": "2025-06-18"},
        "token": {"type": "string", "title": "Token", "sensitive": True},
    }
    content = manifest(
        type="python",
        entry_point="main.py",
        mcp_config=config,
        **{"user_config": user_config, "name": "plain", **fields},
    )
    program = f"import runpy\nrunpy.run_path({str(PLAIN)!r}, run_name='__main__')\n"
    return zipped({"manifest.json": content, "main.py": program.encode()})
