"""The panels in which a person decides what a server may ask a model, and what it is told."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.sampling.sampling import Review
from mcp_magic.core.sampling.texts import reply_texts, request_texts, with_reply_texts, with_request_texts
from mcp_magic.errors import ArgumentsError
from mcp_magic.results.html import tag
from mcp_magic.results.safe import one_line
from mcp_magic.widgets.look import FORM_STYLE, problem_markup
from mcp_magic.widgets.question import QuestionPanel
from mcp_magic.widgets.sampling_text import (
    outcome_bundle,
    reply_html,
    reply_outcome_bundle,
    reply_text,
    request_html,
    request_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.core.sampling.sampling import Expected, Sampled, SamplingRequest
    from mcp_magic.core.sampling.texts import Text
    from mcp_magic.widgets.approval import Show

__all__ = ["ReplyPanel", "RequestPanel"]


class _TextsPanel(QuestionPanel[Review]):
    """A question about texts, which can be changed in text areas.

    Attributes:
        areas: The text areas; empty until the person wants to edit.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.areas: list[Any] = []
        self._texts: Sequence[Text] = ()

    def _with_editor(self, html: str, texts: Sequence[Text]) -> list[Any]:
        self._texts = texts
        self._editor = self._shop.make(ipywidgets.VBox, "form")
        self._problem = self._shop.make(ipywidgets.HTML, "label")
        return [self._shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + html), self._editor, self._problem]

    def _edit_button(self) -> Any:
        return self._button("Edit", "pencil", "change the texts first", partial(self._post, self._edit))

    def _edit(self) -> None:
        """Show the text areas, once."""
        if self.areas:
            return
        children = []
        for text in self._texts:
            label = tag("div", tag("b", one_line(text.label, 120)), class_="mcp-form")
            area = self._shop.make(ipywidgets.Textarea, "area", value=text.text, tooltip=one_line(text.label, 120))
            children += [self._shop.make(ipywidgets.HTML, "label", value=label), area]
            self.areas.append(area)
        self._editor.children = tuple(children)

    def _settle_changed(self, changed: Callable[[list[str]], Review]) -> None:
        """Answer with what the text areas hold, if that can be sent; else say why not."""
        try:
            review = changed([area.value for area in self.areas])
        except ArgumentsError as error:
            self._problem.value = problem_markup(str(error))
        else:
            self._settle(review)


class RequestPanel(_TextsPanel):
    """Asks whether a model may answer a server. Each question is a panel of its own.

    Args:
        show: Shows the panel where the person is looking.
        show_reply: Whether the box "show me the reply" is ticked at first.
    """

    def __init__(self, show: Show, *, show_reply: bool = False) -> None:
        super().__init__(show)
        self._show_reply = show_reply

    async def ask(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Show a request in full and wait for the answer."""
        question = {"text/html": request_html(asked, expected), "text/plain": request_text(asked, expected)}
        return await self._wait(
            partial(self._build, asked, question["text/html"]), question, partial(outcome_bundle, asked, expected)
        )

    def _build(self, asked: SamplingRequest, html: str) -> list[Any]:
        parts = self._with_editor(html, request_texts(asked))
        self.box = self._shop.make(
            ipywidgets.Checkbox,
            "check",
            value=self._show_reply,
            description="show me the reply before it is sent",
            indent=False,
        )
        approve = self._button("Approve", "check", "let the model answer", partial(self._approve, asked))
        deny = self._button("Deny", "ban", "tell the server that it was rejected", partial(self._settle, Review.deny()))
        return [*parts, self._line(approve, self._edit_button(), deny, self.box)]

    def _approve(self, asked: SamplingRequest) -> None:
        def changed(texts: list[str]) -> Review:
            request = with_request_texts(asked, texts) if texts else asked
            return Review.approve(None if request is asked else request, show_reply=self.box.value)

        self._settle_changed(changed)


class ReplyPanel(_TextsPanel):
    """Asks whether a reply may be sent to a server."""

    async def ask(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Show a reply and wait for the answer."""
        question = {"text/html": reply_html(asked, reply), "text/plain": reply_text(asked, reply)}
        return await self._wait(
            partial(self._build, asked, reply, question["text/html"]),
            question,
            partial(reply_outcome_bundle, asked, reply),
        )

    def _build(self, asked: SamplingRequest, reply: Sampled, html: str) -> list[Any]:
        parts = self._with_editor(html, reply_texts(reply))
        send = self._button("Send", "check", "send the reply to the server", partial(self._send, asked, reply))
        refuse = self._button("Refuse", "ban", "send nothing of it", partial(self._settle, Review.deny()))
        return [*parts, self._line(send, self._edit_button(), refuse)]

    def _send(self, asked: SamplingRequest, reply: Sampled) -> None:
        def changed(texts: list[str]) -> Review:
            other = with_reply_texts(reply, texts, asked.usable_tools) if texts else reply
            return Review.approve(reply=None if other is reply else other)

        self._settle_changed(changed)
