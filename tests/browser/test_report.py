"""The report of a session in a browser: light and dark, without a request, a script or a complaint of its policy."""

from __future__ import annotations

import pytest

from mcp_magic.server.exchange import Exchange, Recording
from mcp_magic.server.report import page
from tests.support.pages import expect

pytestmark = pytest.mark.slow

NOON = 1_800_000_000.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
HOSTILE = "<script>document.title='x'</script><img src=https://x.example/a.png>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_opens_alone_in_light_and_dark(live_browser, tmp_path, scheme):
    blocks = [
        {"type": "text", "text": HOSTILE * 100},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "text", "text": HOSTILE},
    ]
    answer = {"result": {"content": blocks}}
    exchanges = [Exchange("tools/call", {"name": "look", "arguments": {"at": HOSTILE}}, answer, seconds=0.5, time=NOON)]
    file = tmp_path / "report.html"
    file.write_text(page(Recording("shop", exchanges, "stdio", "shop"), NOON), "utf-8")
    tab = live_browser.new_page(color_scheme=scheme, viewport={"width": 400, "height": 800})
    requests: list[str] = []
    complaints: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda message: complaints.append(message.text))
    tab.goto(file.as_uri())
    expect(tab).to_have_title("shop: 1 request")
    assert tab.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light dark"
    assert tab.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is off the edge"
    assert tab.evaluate("document.images[0].naturalWidth") == 1
    assert not tab.locator("details pre").is_visible()
    tab.locator("summary").click()
    expect(tab.locator("details pre")).to_contain_text("<script>")
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert complaints == []
    tab.close()
