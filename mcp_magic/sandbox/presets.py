"""What servers of a kind need beyond their own program: caches, registries of packages.

Paths begin with `~` or are absolute. Those that do not exist are left out, unless they are written to: they are made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What a preset allows, as the attributes of `Sandbox`."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    net: tuple[str, ...] = ()


PRESETS = {
    "npx": Preset(write=("~/.npm", "~/.cache"), net=("registry.npmjs.org:443",)),
    "uvx": Preset(write=("~/.cache/uv", "~/.local/share/uv"), net=("pypi.org:443", "files.pythonhosted.org:443")),
    "python": Preset(),
}
