"""How an explorer looks: sizes and places only, the colours are the theme's."""

from __future__ import annotations

__all__ = ["EXPLORER_STYLE"]

_RULES = {
    ".mcp-explorer-found": "flex-flow:row wrap;align-items:flex-start",
    ".mcp-explorer-list": "flex:1 1 28em;min-width:0",
    ".mcp-explorer-detail": "flex:1 1 30em;min-width:0;margin-left:1em",
    ".mcp-explorer-detail:empty": "display:none",
    ".mcp-explorer-name": "flex:0 0 auto;width:15em;text-align:left;overflow:hidden;text-overflow:ellipsis",
    ".widget-text>.widget-label": "width:auto;margin:0 8px 0 6px",
    ".mcp-explorer-list .widget-hbox": "align-items:center",
    ".mcp-explorer-about": "flex:1 1 0;min-width:0;overflow:hidden;white-space:nowrap;text-overflow:ellipsis",
    ".mcp-explorer-about .widget-html-content": "min-width:0;overflow:hidden;text-overflow:ellipsis",
    ".mcp-explorer-about .mcp-magic": "padding:0 6px;overflow:hidden;text-overflow:ellipsis",
    ".mcp-explorer-card .mcp-magic": "line-height:normal",
    ".mcp-explorer-note": "color:var(--jp-ui-font-color1,inherit);white-space:pre-wrap;padding:0 6px",
}

# Twice the class, to outrank the rules that JupyterLab and ipywidgets have for the same boxes.
EXPLORER_STYLE = (
    "<style>"
    + "".join(f".mcp-explorer.mcp-explorer {selector}{{{rules}}}" for selector, rules in _RULES.items())
    + "</style>"
)
"""The style element, sent once with each explorer."""
