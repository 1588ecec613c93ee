"""What the presets allow."""

from __future__ import annotations

from mcp_magic.config import sandbox
from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.sandbox.backends import expanded
from mcp_magic.sandbox.presets import PRESETS


def test_every_name_of_a_preset_has_one():
    assert tuple(PRESETS) == sandbox.PRESETS


def test_a_preset_adds_to_what_a_line_allows(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    box = make_sandbox("npx,net=a.b:443,write=/srv/out")
    assert box is not None
    rights = expanded(box)
    assert rights.write == ("/srv/out", f"{tmp_path.resolve()}/.npm", f"{tmp_path.resolve()}/.cache")
    assert rights.net == ("a.b:443", "registry.npmjs.org:443")
