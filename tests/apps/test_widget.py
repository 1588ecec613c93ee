"""What a notebook shows of a result with a view, with and without the widget."""

from __future__ import annotations

import sys

from tests.support.dash_server import HTML


async def test_a_result_mentions_its_view_and_what_to_install(host, monkeypatch):
    result = await host.call("dash:sales")
    assert "dash:sales has a view: `%mcp view` opens it" in str(result)
    assert HTML[:40] not in str(result._repr_mimebundle_())
    assert "<script>" not in str(result._repr_mimebundle_())
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert str(result) == (
        "EU: 42\n\ndash:sales has a view: `%mcp view` opens it in a tab of the browser; with anywidget (pip install "
        "'mcp-magic[apps]') it is below the call"
    )
