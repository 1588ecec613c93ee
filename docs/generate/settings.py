"""The page of the settings, from the traits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docs.generate.commands import plain
from mcp_magic.ipython.settings import PREFIX, Settings

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pages"]

_INTRODUCTION = f"""# Settings

`%config MCPMagics` lists them with what they are, `%config MCPMagics.timeout = 60` sets one. The same names stand under
`[settings]` in `mcp_magic.toml`, as `c.MCPMagics.timeout = 60` in a profile's `ipython_config.py`, and as environment
variables, `{PREFIX}TIMEOUT=60`, for runs without a person. `%config` and `ipython_config.py` win over the environment.

| setting | default | what | takes |
|---|---|---|---|
"""


def pages(root: Path) -> dict[str, str]:
    """Return name on the site -> Markdown."""
    traits = Settings.class_traits(config=True)
    own = [name for name in vars(Settings) if name in traits]
    return {"settings.md": _INTRODUCTION + "\n".join(_row(name, traits[name]) for name in own) + "\n"}


def _row(name: str, trait: Any) -> str:
    default = trait.default()
    shown = "empty" if default == "" else f"`{default!r}`"
    return f"| `{name}` | {shown} | {plain(trait.help)} | {_takes(trait)} |"


def _takes(trait: Any) -> str:
    """Return what values fit."""
    if values := getattr(trait, "values", None):
        return ", ".join(f"`{value}`" for value in values)
    kind = {"Float": "a number", "Int": "a whole number", "Bool": "true or false", "Unicode": "a text"}
    words = kind.get(type(trait).__name__, "a text or an object")
    least = getattr(trait, "min", None)
    words += f" from {least}" if least is not None else ""
    return f"{words}, or `None`" if trait.allow_none else words
