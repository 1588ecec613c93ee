"""How outputs look: one style sheet, sent with each output because any of them may be the only one on a page.

JupyterLab's variables follow its theme; elsewhere the fallbacks are readable on white and on black.
"""

from __future__ import annotations

__all__ = ["STYLE"]

# Three times the same class, to outrank JupyterLab's own rules for outputs, which set every cell flush right and
# give code another size (`.jp-ThemedContainer .jp-RenderedHTMLCommon pre`).
_SCOPE = ".mcp-magic.mcp-magic.mcp-magic"

# Words break only where they do not fit at all: `overflow-wrap: anywhere` would let the columns of a wide
# table shrink to single letters.
_RULES = (
    (
        "",
        "font-family:var(--jp-content-font-family,system-ui,sans-serif);font-size:var(--jp-content-font-size1,14px);"
        "color:var(--jp-content-font-color1,inherit);padding:4px 6px",
    ),
    (":is(pre,p,td)", "unicode-bidi:plaintext"),  # each paragraph begins at the side that its own script begins at
    ("p", "margin:0 0 .4em"),
    (".mcp-part+.mcp-part", "margin-top:.7em"),
    (">:last-child", "margin-bottom:0"),
    (
        "pre",
        "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);"
        "line-height:var(--jp-code-line-height,1.3);white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;"
        "margin:0 0 .4em;background:none;color:inherit;max-height:64em;overflow:auto",
    ),
    ("pre code", "background:none;padding:0"),
    ("pre.mcp-line", "background:var(--jp-layout-color2,rgba(127,127,127,.15));padding:.4em .6em"),
    (".mcp-scroll", "max-height:40em;overflow:auto;margin:.3em 0 .4em"),
    ("table", "border-collapse:collapse;margin:0"),
    (
        ":is(th,td)",
        "text-align:left;vertical-align:top;padding:.25em .7em;max-width:40em;overflow-wrap:break-word;"
        "border-bottom:1px solid var(--jp-border-color2,rgba(127,127,127,.35))",
    ),
    # The header stays in sight; its colours come as a pair, so that it is readable whatever the page is.
    (
        "thead th",
        "position:sticky;top:0;background:var(--jp-layout-color0,Canvas);"
        "color:var(--jp-content-font-color1,CanvasText);box-shadow:inset 0 -1px var(--jp-border-color1,#999)",
    ),
    ("tbody th", "font-weight:normal;color:var(--jp-content-font-color2,inherit)"),
    ("tr:has(>th:first-child+td)", "background:none"),
    ("tbody th+td", "overflow-wrap:anywhere"),  # of names and what they are nothing is out of sight
    (":is(th,td).mcp-number", "text-align:right;font-variant-numeric:tabular-nums"),
    ("td pre", "margin:0"),
    ("td:has(pre)", "max-width:none"),
    ("ul", "margin:0;padding-left:1.2em"),
    ("li", "list-style:none"),  # on the items: JupyterLab gives nested lists bullets of their own
    ("summary", "cursor:pointer;display:list-item"),  # Bootstrap, in nbconvert's classic template, hides the triangle
    (".mcp-turn", "border-left:3px solid var(--jp-border-color2,#999);padding-left:.7em"),
    (".mcp-note", "color:var(--jp-content-font-color2,#767676);font-size:90%"),
    (".mcp-error", "color:var(--jp-error-color1,#d32f2f);font-weight:bold"),
    (".mcp-badges", "white-space:nowrap"),
    (
        ".mcp-badge",
        "border:1px solid var(--jp-border-color1,#999);border-radius:.8em;padding:0 .55em;font-size:11px;"
        "white-space:nowrap;font-weight:normal;vertical-align:.1em",
    ),
    (".mcp-badge-danger", "border-color:var(--jp-error-color1,#d32f2f);background:rgba(211,47,47,.12)"),
    (".mcp-badge-safe", "border-color:var(--jp-success-color1,#388e3c);background:rgba(56,142,60,.12)"),
    (".mcp-diff :is(ins,del)", "color:inherit;text-decoration:none"),
    (".mcp-diff ins", "background:rgba(56,142,60,.2)"),
    (".mcp-diff del", "background:rgba(211,47,47,.2)"),
    ("img", "max-width:100%"),
)


def _rule(selector: str, declarations: str) -> str:
    return f"{f'{_SCOPE} {selector}'.strip()}{{{declarations}}}"


STYLE = (
    "<style>"
    + "".join(_rule(selector, declarations) for selector, declarations in _RULES)
    + f"@media print{{{_rule(':is(pre,.mcp-scroll)', 'max-height:none')}}}"
    + "</style>"
)
"""The style element."""
