"""How a transcript looks, on top of the style that all outputs have."""

from __future__ import annotations

__all__ = ["STYLE"]

_SCOPE = ".mcp-magic.mcp-magic.mcp-magic"
"""As in `results.style`: it has to outrank JupyterLab's own rules for outputs."""

_LINE = "var(--jp-border-color2,rgba(127,127,127,.35))"
_QUIET = "var(--jp-content-font-color2,#767676)"

_RULES = (
    (
        ".mcp-asked",
        "margin:.2em 0 .8em;padding:.35em .8em;border:0;border-left:3px solid var(--jp-brand-color1,#1976d2);"
        "background:var(--jp-layout-color2,rgba(127,127,127,.1));font-size:inherit;color:inherit;"
        "border-radius:0 4px 4px 0",
    ),
    (
        ".mcp-call",
        f"border:1px solid {_LINE};border-left:3px solid {_LINE};border-radius:4px;padding:.3em .7em;margin:.35em 0",
    ),
    (".mcp-call-ok", "border-left-color:var(--jp-success-color1,#388e3c)"),
    (":is(.mcp-call-error,.mcp-call-denied)", "border-left-color:var(--jp-error-color1,#d32f2f)"),
    (":is(.mcp-call-waiting,.mcp-call-running)", "border-left-color:var(--jp-brand-color1,#1976d2)"),
    (".mcp-call>summary", "line-height:1.6"),
    (".mcp-call code", "background:none;padding:0;overflow-wrap:anywhere"),
    (".mcp-sign", "font-weight:600;white-space:nowrap"),
    (":is(.mcp-call-error,.mcp-call-denied) .mcp-sign", "color:var(--jp-error-color1,#d32f2f)"),
    # Once a call is over, what its tool may do is no news.
    (
        ":is(.mcp-call-ok,.mcp-call-error,.mcp-call-denied,.mcp-call-interrupted,.mcp-call-cut-off) .mcp-badge",
        f"background:none;border-color:{_LINE};color:{_QUIET}",
    ),
    (".mcp-inside", "margin:.5em 0 .3em"),
    (".mcp-inside>:last-child", "margin-bottom:0"),
    (".mcp-said", f"color:{_QUIET};margin:.6em 0 .35em"),
    (".mcp-answer", "margin:.7em 0 .5em;line-height:1.5"),
    (":is(.mcp-said,.mcp-answer)>:first-child", "margin-top:0"),
    (":is(.mcp-said,.mcp-answer) :is(ul,ol)", "margin:.2em 0 .5em;padding-left:1.7em"),
    (":is(.mcp-said,.mcp-answer) ul>li", "list-style:disc"),
    (":is(.mcp-said,.mcp-answer) ol>li", "list-style:decimal"),
    (
        ":is(.mcp-said,.mcp-answer) :is(h4,h5,h6)",
        "font-size:1.1em;font-weight:600;font-style:normal;margin:.9em 0 .3em;color:inherit",
    ),
    (
        ":is(.mcp-said,.mcp-answer) blockquote",
        f"margin:.3em 0 .5em;padding:0 .8em;border-left:3px solid {_LINE};color:inherit;font-size:inherit",
    ),
    (
        ":is(.mcp-said,.mcp-answer) pre",
        "background:var(--jp-layout-color2,rgba(127,127,127,.12));padding:.5em .7em;border-radius:4px;white-space:pre;"
        "overflow-wrap:normal",
    ),
    (".mcp-tokens", f"color:{_QUIET};font-size:85%;margin:.1em 0 .4em"),
    (".mcp-thinking", f"color:{_QUIET};margin:.3em 0"),
    (".mcp-totals", f"color:{_QUIET};font-size:85%;border-top:1px solid {_LINE};padding-top:.4em;margin-top:.8em"),
)

STYLE = f"<style>{''.join(f'{_SCOPE} {selector}{{{declarations}}}' for selector, declarations in _RULES)}</style>"
"""The style element."""
