"""A model that streams its turns as it is told, and a screen that shows the views of a run in pages."""

from __future__ import annotations

import asyncio
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from mcp_magic.agent.scripted import LocalModel
from tests.support.app_pages import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from langchain_core.messages import AIMessage, BaseMessage

    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.apps.app import App


class Dictating(LocalModel):
    """A model whose turns are functions that stream chunks; after them it says that it is done."""

    turns: list[Any]

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if not self.turns:
            yield ChatGenerationChunk(message=AIMessageChunk("Done."))
            return
        async for chunk in self.turns.pop(0)():
            yield ChatGenerationChunk(message=chunk)

    @property
    def _llm_type(self) -> str:
        return "dictating"

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        raise NotImplementedError


def begins(name: str, id_: str | None = "call_1", index: int = 0) -> AIMessageChunk:
    """The chunk with which a call begins."""
    return AIMessageChunk("", tool_call_chunks=[{"name": name, "args": "", "id": id_, "index": index}])


def goes_on(piece: str, index: int = 0) -> AIMessageChunk:
    """A chunk with a piece of a call's arguments."""
    return AIMessageChunk("", tool_call_chunks=[{"name": None, "args": piece, "id": None, "index": index}])


class PageScreen:
    """Shows each view of a run in a page."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.written: list[dict[str, Any]] = []
        """The arguments on the card of the last call when each view was shown."""
        self.transcript: Transcript | None = None
        self._came = asyncio.Event()

    def update(self, transcript: Transcript) -> None:
        self.transcript = transcript

    flush = update

    def view(self, transcript: Transcript, app: App) -> None:
        self.written.append(dict(transcript.calls[-1].arguments))
        self.pages.append(Page(app))
        self.pages[-1].tell(kind="hello")
        self._came.set()

    async def page(self, number: int = 0) -> Page:
        """Return the page of a view, once it shows the view."""
        async with asyncio.timeout(20):
            while len(self.pages) <= number:
                self._came.clear()
                await self._came.wait()
        await self.pages[number].until(lambda message: message["kind"] == "view")
        return self.pages[number]


def has(**arguments: Any) -> Callable[[dict[str, Any]], bool]:
    """Whether a message gives a view these arguments."""
    return lambda message: message["kind"] in ("view", "input") and message["arguments"] == arguments


def heard(page: Page) -> list[Any]:
    """Return what a view is told of its call: arguments with whether they are partial, and the end."""
    told: list[Any] = []
    for message in dropwhile(lambda message: message["kind"] != "view", page.messages):  # a page begins with the view
        if message["kind"] in ("view", "input") and message["arguments"]:
            told.append(("partial" if message["partial"] else "whole", message["arguments"]))
        outcome = message.get("outcome") or (message if message["kind"] == "outcome" else {})
        if outcome:
            told.append(outcome["method"].rpartition("/")[2])
    return told
