"""`%mcp docs`, `stubs`, `snapshot`, `diff` and `record` as lines."""

from __future__ import annotations

import re

from mcp_magic.errors import ConfigError


async def test_page_and_module_are_shown_or_written(magic):
    shown = (await magic("docs math"))._repr_mimebundle_()
    assert "### `add`" in shown["text/markdown"]
    assert "text/html" not in shown
    assert "math.md: " in str(await magic("docs math -o math.md"))
    assert (magic.folder / "math.md").read_text() == shown["text/markdown"]
    assert "async def add(" in str(await magic("stubs math"))
    await magic("stubs math -o made.py")
    assert (magic.folder / "made.py").read_text() == str(await magic("stubs math"))
    assert "math.md cannot be written: No such file" in await magic.error(ConfigError, "docs math -o nowhere/math.md")


async def test_snapshot_and_diff_name_the_line_that_goes_with_them(magic):
    assert "`%mcp snapshot math -o math.mcp.json` writes one" in await magic.error(ConfigError, "diff math")
    assert "8 tools, 1 prompt, 1 resource, 1 template; " in str(await magic("snapshot math -o math.mcp.json"))
    assert len(await magic("diff math")) == 0
    for line in ("snapshot math", "snapshot math -o api.json", "snapshot math -o 'my api.json'"):
        told = re.search(r"`%mcp (diff .*)`", str(await magic(line)))
        assert told is not None
        assert len(await magic(told[1])) == 0
    text = " ".join(str(await magic("diff --help")).split())
    assert "Without FILE it compares with SERVER.mcp.json, which `%mcp snapshot SERVER` wrote in the working" in text


async def test_cassette_may_be_called_stop(magic):
    (row,) = await magic("record ./stop")
    assert row["cassette"] == "stop"
    await magic("record --stop")
