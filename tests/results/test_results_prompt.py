"""What a prompt's answer is: LangChain messages, and a transcript on a page."""

from __future__ import annotations

import pickle
import re

from langchain_core.messages import AIMessage, HumanMessage
from mcp_types import (
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from mcp_magic.results import PromptResult
from tests.support.showcase import b64, bundle, png, prompted


async def test_a_prompt_becomes_messages_and_a_transcript() -> None:
    prompt = await prompted(code="x = 1 < 2")
    assert prompt.messages == [HumanMessage("Review this:\nx = 1 < 2")]
    assert prompt.text == "Review this:\nx = 1 < 2"
    assert prompt.description == "Asks for a review"
    assert len(prompt) == 1
    shown = bundle(prompt)
    assert shown["text/plain"] == "Asks for a review\n\nuser:\n    Review this:\n    x = 1 < 2"
    turn = '<b>user</b></div><div class="mcp-turn"[^>]*><pre>Review this:\nx = 1 &lt; 2</pre></div>'
    assert re.search(turn, shown["text/html"])
    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert repr(prompt) == "<PromptResult showcase:review: 1 message, Review this: x = 1 < 2>"


def test_images_files_and_links_become_blocks_in_order() -> None:
    blocks = [
        ("user", ImageContent(data=b64(png()), mime_type="image/png")),
        ("assistant", TextContent(text="a pixel")),
        ("user", EmbeddedResource(resource=TextResourceContents(uri="a:b", text="a file"))),
        ("user", ResourceLink(name="notes", uri="a:notes")),
    ]
    messages = [PromptMessage(role=role, content=block) for role, block in blocks]  # type: ignore[arg-type]
    prompt = PromptResult(GetPromptResult(messages=messages), server="s", prompt="p")
    image, answer, file, link = prompt.messages
    assert image.content == [{"type": "image", "base64": b64(png()), "mime_type": "image/png"}]
    assert answer == AIMessage("a pixel")
    assert file.content == [{"type": "text", "text": "a file"}]
    assert link.content == [{"type": "text", "text": "notes: a:notes"}]
    assert image.content_blocks[0]["type"] == "image"
    shown = bundle(prompt)
    roles = [line for line in shown["text/plain"].split("\n") if line.endswith(":")]
    assert roles == ["user:", "assistant:", "user:", "user:"]
    assert '<img src="data:image/png;base64,' in shown["text/html"]
    assert "%mcp read a:notes --server s" in shown["text/plain"]
    assert bundle(PromptResult(GetPromptResult(messages=[])))["text/plain"] == "The prompt has no messages."
