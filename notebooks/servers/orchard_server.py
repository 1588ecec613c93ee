"""An orchard whose harvest comes with a view, over stdio: `python orchard_server.py`.

The figures are made up. Its listings and its prices may be kept, and its `survey` takes a while.
"""

import asyncio
from typing import Annotated

from mcp.server.apps import Apps
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

VIEW = "ui://orchard/harvest.html"

HARVESTS = {
    2024: {"apples": 41.5, "pears": 18.2, "plums": 7.9, "cherries": 3.1},
    2025: {"apples": 36.8, "pears": 21.4, "plums": 9.6, "cherries": 2.2},
}
"""Year -> fruit -> tonnes."""

TREES = {"apples": 520, "pears": 260, "plums": 140, "cherries": 95}

READS = ToolAnnotations(read_only_hint=True)

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Harvest</title>
<style>
  body { margin: 0; padding: 8px; font: 14px/1.5 sans-serif; color: CanvasText; background: Canvas; }
  table { border-spacing: 4px; }
  th { text-align: right; font-weight: normal; }
  button { height: 24px; border: 0; border-radius: 3px; background: #2e7d32; cursor: pointer; vertical-align: middle; }
  td { white-space: nowrap; }
</style>
<h3 id="title">Harvest</h3>
<table id="bars"></table>
<p id="says" role="status">Click a bar to count its trees.</p>
<script>
let last = 0;
const answers = new Map();
const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((resolve, reject) => {
  answers.set(++last, { resolve, reject });
  post({ id: last, method, params });
});
const element = (name) => document.getElementById(name);

function draw({ year, tonnes }) {
  element("title").textContent = `Harvest of ${year}, in tonnes`;
  const most = Math.max(...Object.values(tonnes));
  for (const [fruit, amount] of Object.entries(tonnes)) {
    const row = element("bars").insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: fruit }));
    const bar = Object.assign(document.createElement("button"), { title: `count the trees of ${fruit}` });
    bar.style.width = `${(220 * amount) / most}px`;
    bar.onclick = () => count(fruit);
    row.insertCell().append(bar, ` ${amount}`);
  }
}

async function count(fruit) {
  try {
    const { structuredContent } = await ask("tools/call", { name: "count_trees", arguments: { fruit } });
    element("says").textContent = `${structuredContent.result} trees bear ${fruit}.`;
    await ask("ui/update-model-context", { content: [{ type: "text", text: `${fruit} is chosen` }] });
  } catch (error) {
    element("says").textContent = `Not counted: ${error.message}`;
  }
}

addEventListener("message", ({ data }) => {
  if (data.method === "ui/notifications/tool-result") draw(data.params.structuredContent);
  else if (data.method === "ui/notifications/host-context-changed") look(data.params);
  else if (data.method === "ui/resource-teardown") post({ id: data.id, result: {} });
  else if (answers.has(data.id)) {
    const { resolve, reject } = answers.get(data.id);
    answers.delete(data.id);
    data.error ? reject(new Error(data.error.message)) : resolve(data.result);
  }
});

const look = ({ theme }) => { if (theme) document.documentElement.style.colorScheme = theme; };

ask("ui/initialize", {
  appInfo: { name: "harvest", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26",
}).then(({ hostContext }) => {
  look(hostContext);
  post({ method: "ui/notifications/initialized" });
  new ResizeObserver(() => post({
    method: "ui/notifications/size-changed", params: { height: document.documentElement.offsetHeight },
  })).observe(document.documentElement);
});
</script>
"""


class Harvest(BaseModel):
    """The harvest of a year."""

    year: int
    tonnes: dict[str, float] = Field(description="Fruit -> tonnes")


apps = Apps()


@apps.tool(resource_uri=VIEW, annotations=READS)
def harvest(year: Annotated[int, Field(ge=2024, le=2025)] = 2025) -> Harvest:
    """Return the harvest of a year, in tonnes by fruit."""
    return Harvest(year=year, tonnes=HARVESTS[year])


@apps.tool(resource_uri=VIEW, visibility=["app"], annotations=READS)
def count_trees(fruit: str) -> int:
    """Count the trees that bear a fruit."""
    return TREES[fruit]


apps.add_html_resource(VIEW, PAGE, title="Harvest", prefers_border=True)
HOUR = CacheHint(3_600_000)
KEPT = {"tools/list": HOUR, "resources/list": HOUR, "resources/read": CacheHint(60_000)}
server = MCPServer("orchard", log_level="ERROR", extensions=[apps], cache_hints=KEPT)


@server.tool(annotations=READS)
async def survey(context: Context, seconds: Annotated[float, Field(ge=0, le=60)] = 1.0) -> dict[str, int]:
    """Walk through the orchard and count all trees, which takes a while."""
    for number, fruit in enumerate(TREES, 1):
        await asyncio.sleep(seconds / len(TREES))
        await context.report_progress(number, len(TREES), fruit)
    return TREES


@server.resource("orchard://prices", mime_type="application/json")
def prices() -> dict[str, float]:
    """Return what a kilogram costs today, in euros."""
    return {"apples": 1.9, "pears": 2.4, "plums": 3.2, "cherries": 6.5}


if __name__ == "__main__":
    server.run("stdio")
