"""What servers ask of models, in a real JupyterLab, while the cell that called is running."""

from __future__ import annotations

import pytest

from tests.support.kernel_servers import SUMMARISE
from tests.support.kernel_servers import WRITER as SERVER
from tests.support.pages import button, expect, finished, output, press, readable, start

pytestmark = pytest.mark.slow

ROUND = """
from mcp_types import CreateMessageRequestParams, ImageContent, ModelHint, ModelPreferences
from mcp_types import SamplingMessage, TextContent
from tests.support.sampling_servers import ADD, PIXEL
look = [TextContent(text="What is <b>this</b>?"), ImageContent(data=PIXEL, mime_type="image/png")]
params = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=look)], max_tokens=200, temperature=0.3, tools=[ADD],
    model_preferences=ModelPreferences(hints=[ModelHint(name="no-such-model")], cost_priority=0.5),
)
eyes = asking_server(params)
"""
CELLS = (SERVER, ROUND, "%mcp connect writer", "%mcp connect eyes")


def test_a_request_and_its_reply_are_changed_below_the_cell(lab):
    cell = start(lab, SUMMARISE)
    expect(button(cell, "Approve")).to_be_visible()
    expect(output(cell)).to_contain_text("Server writer asks a model to answer:")
    press(output(cell), "Edit")
    areas = output(cell).locator("textarea")
    expect(areas).to_have_count(2)
    areas.nth(1).fill("Dogs bark. Loudly. Often.")
    output(cell).get_by_text("show me the reply before it is sent").click()
    press(output(cell), "Approve")
    expect(output(cell)).to_contain_text("Dogs bark. Loudly. (offline")
    press(output(cell), "Send")
    shown = finished(cell)
    expect(shown).to_contain_text("✓ approved: 1 message to offline for writer, edited")
    expect(shown).to_contain_text("✓ sent: reply of offline to writer")
    expect(shown).to_contain_text("offline endTurn: Dogs bark. Loudly.")
    expect(shown.locator("button")).to_have_count(0)


def test_images_tools_and_what_is_not_done_are_shown(lab):
    cell = start(lab, "%mcp call eyes:ask")
    expect(button(cell, "Deny")).to_be_visible()
    expect(output(cell)).to_contain_text("What is <b>this</b>?")
    expect(output(cell)).to_contain_text("1 image is not shown to the model")
    expect(output(cell).locator("img[src^='data:image/png']")).to_have_count(1)
    output(cell).get_by_text("the tools that the model may ask the server to call").click()
    expect(output(cell)).to_contain_text("Add two numbers.")
    readable(lab, picture="sampling")
    press(output(cell), "Deny")
    shown = finished(cell)
    expect(shown).to_contain_text("⊘ denied: 1 message to offline for eyes")
    expect(shown).to_contain_text("User rejected sampling request")
