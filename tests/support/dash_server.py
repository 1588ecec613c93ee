"""A server with views: `sales` has one, `refresh` is for the app alone, `secret` is not for apps."""

from __future__ import annotations

from mcp.server.apps import Apps, ResourceCsp, ResourcePermissions
from mcp.server.mcpserver import MCPServer

URI = "ui://dash/sales.html"

HTML = """<!doctype html><html><head><meta charset="utf-8"><title>Sales</title></head>
<body style="font-family:sans-serif">
<h2 id="title">waiting</h2><p id="theme"></p><button id="more">More</button> <button id="note">Tell the model</button>
<p id="answer"></p>
<script>
let last = 0; const open = new Map();
const post = (m) => parent.postMessage({ jsonrpc: "2.0", ...m }, "*");
const ask = (method, params) => new Promise((ok, no) => { 
  open.set(++last, [ok, no]); post({ id: last, method, params }); });
const show = (id, text) => { document.getElementById(id).textContent = text; };
addEventListener("message", ({ data }) => {
  if (data.method === "ui/notifications/tool-input-partial") show("title", "Asked for " + data.params.arguments.region);
  else if (data.method === "ui/notifications/tool-input") show("title", "Sales of " + data.params.arguments.region);
  else if (data.method === "ui/notifications/tool-result") show("answer", data.params.content[0].text);
  else if (data.method === "ui/notifications/host-context-changed") data.params.theme && show("theme",
    data.params.theme);
  else if (data.method === "ui/resource-teardown") post({ id: data.id, result: {} });
  else if (open.has(data.id)) { const [ok, no] = open.get(data.id); open.delete(data.id);
    data.error ? no(new Error(data.error.message)) : ok(data.result); }
});
document.getElementById("more").onclick = () => ask("tools/call", { name: "refresh", arguments: { step: 2 } })
  .then((r) => show("answer", r.content[0].text), (e) => show("answer", "refused: " + e.message));
document.getElementById("note").onclick = () => 
  ask("ui/update-model-context", { content: [{ type: "text", text: "EU is chosen" }] });
ask("ui/initialize", { appInfo: { name: "sales", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" })
  .then((r) => { show("theme", r.hostContext.theme); post({ method: "ui/notifications/initialized" });
    post({ method: "ui/notifications/size-changed", params: { width: 400, height: 230 } }); });
</script></body></html>"""

apps = Apps()


@apps.tool(resource_uri=URI, description="Sales of a region")
def sales(region: str = "EU") -> str:
    return f"{region}: 42"


@apps.tool(resource_uri=URI, visibility=["app"], description="More figures")
def refresh(step: int) -> str:
    return f"step {step} done"


@apps.tool(resource_uri=URI, visibility=["model"], description="Not for apps")
def secret() -> str:
    return "hidden"


apps.add_html_resource(
    URI,
    HTML,
    csp=ResourceCsp(connect_domains=["https://api.example.com", "https://x; script-src *", "http://127.0.0.1:8888"]),
    permissions=ResourcePermissions(camera={}, geolocation={}),
    prefers_border=True,
)
server = MCPServer("dash", extensions=[apps])


@server.resource("data://regions")
def regions() -> str:
    """All regions."""
    return "EU, US"


if __name__ == "__main__":
    server.run("stdio")
