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
from tests.support.showcase import b64, bundle, png


async def test_a_prompt_becomes_langchain_messages(prompt: PromptResult) -> None:
    assert prompt.messages == [HumanMessage("Review this:\nx = 1 < 2")]
    assert prompt.text == "Review this:\nx = 1 < 2"
    assert prompt.description == "Asks for a review"
    assert len(prompt) == 1


async def test_a_prompt_is_shown_as_a_transcript(prompt: PromptResult) -> None:
    shown = bundle(prompt)
    assert shown["text/plain"] == "Asks for a review\n\nuser:\n    Review this:\n    x = 1 < 2"
    assert re.search(
        '<b>user</b></div><div class="mcp-turn"[^>]*><pre>Review this:\nx = 1 &lt; 2</pre></div>', shown["text/html"]
    )


def _several() -> PromptResult:
    embedded = EmbeddedResource(resource=TextResourceContents(uri="a:b", text="a file"))
    blocks = [
        ("user", ImageContent(data=b64(png()), mime_type="image/png")),
        ("assistant", TextContent(text="a pixel")),
        ("user", embedded),
        ("user", ResourceLink(name="notes", uri="a:notes")),
    ]
    messages = [PromptMessage(role=role, content=block) for role, block in blocks]  # type: ignore[arg-type]
    return PromptResult(GetPromptResult(messages=messages), server="s", prompt="p")


def test_what_is_not_text_becomes_content_blocks() -> None:
    image, answer, file, link = _several().messages
    assert image.content == [{"type": "image", "base64": b64(png()), "mime_type": "image/png"}]
    assert answer == AIMessage("a pixel")
    assert file.content == [{"type": "text", "text": "a file"}]
    assert link.content == [{"type": "text", "text": "notes: a:notes"}]
    assert image.content_blocks[0]["type"] == "image"


def test_roles_and_images_are_shown_in_order() -> None:
    shown = bundle(_several())
    assert [line for line in shown["text/plain"].split("\n") if line.endswith(":")] == [
        "user:",
        "assistant:",
        "user:",
        "user:",
    ]
    assert '<img src="data:image/png;base64,' in shown["text/html"]
    assert "%mcp read a:notes --server s" in shown["text/plain"]


def test_a_prompt_without_messages_says_so() -> None:
    assert bundle(PromptResult(GetPromptResult(messages=[])))["text/plain"] == "The prompt has no messages."


async def test_prompts_survive_pickle(prompt: PromptResult) -> None:
    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert repr(prompt) == "<PromptResult showcase:review: 1 message, Review this: x = 1 < 2>"
