"""A server on 127.0.0.1 that speaks OpenAI's chat completions, and refuses what OpenAI refuses."""

from __future__ import annotations

import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.asgi import serving
from tests.support.provider_rules import OPENAI_NAME, openai_refuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx
    from langchain_core.language_models import BaseChatModel
    from starlette.requests import Request

KEY = "sk-proj-Fake0123456789abcdefghijWXYZ"

PIECE = 3
"""Characters of a piece of text or of arguments, as they are streamed."""

ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass
class Turn:
    """One answer.

    Attributes:
        text: What the model says.
        calls: (name, arguments) of the tools that it wants; arguments that are a string go out as they are.
        finish: Why it ends; None: what OpenAI would say.
        cut: `"socket"`: the connection breaks before the end, `"quiet"`: the stream ends early and says nothing,
            `"event"`: the server says in the stream that it failed.
    """

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str | None = None
    cut: str = ""


@dataclass
class Refusal:
    """An error in place of an answer."""

    status: int
    message: str
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """Return it as OpenAI writes it."""
        error = {"message": self.message, "type": "invalid_request_error", "param": None, "code": self.code}
        return JSONResponse({"error": error}, self.status, headers=self.headers)


class FakeProvider:
    """Plays turns, one a request.

    Attributes:
        turns: What is still to be played.
        requests: The bodies that were accepted.
        refused: Why requests were refused.
    """

    path = ""
    base = "/v1"

    def __init__(self, *turns: Turn | Refusal) -> None:
        self.turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.url = ""
        self.ids = itertools.count(1)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve; `url` is what `base_url` takes."""
        async with serving(Starlette(routes=[Route(self.path, self.respond, methods=["POST"])])) as url:
            self.url = f"{url}{self.base}"
            yield self

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        raise NotImplementedError


class FakeOpenAI(FakeProvider):
    """OpenAI's chat completions, or with `strict` one that is compatible with them, as vLLM and llama.cpp are."""

    path = "/v1/chat/completions"

    def __init__(self, *turns: Turn | Refusal, key: str = KEY, quote: bool = False, strict: bool = False) -> None:
        super().__init__(*turns)
        self.used: list[dict[str, int]] = []
        """The usage that was told, one a turn."""
        self._key, self._quote, self._strict = key, quote, strict

    async def respond(self, request: Request) -> Response:
        body = await request.json()
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key != self._key:
            shown = key if self._quote else f"{key[:8]}{'*' * 20}{key[-4:]}"
            said = f"Incorrect API key provided: {shown}. You can find your API key at https://example.com/api-keys."
            return Refusal(401, said, "invalid_api_key").response()
        if why := refuses(body) or (strictly_refuses(body["messages"]) if self._strict else ""):
            self.refused.append(why)
            return Refusal(400, why).response()
        turn = self.turns.pop(0)
        if isinstance(turn, Refusal):
            return turn.response()
        self.requests.append(body)
        number = next(self.ids)
        message = _message(turn, number)
        usage = _usage(body, message)
        self.used.append(usage)
        head = {"id": f"chatcmpl-{number}", "created": 1, "model": f"{body['model']}-2026-01-01"}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}
            return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        chunks = _chunks({**head, "object": "chat.completion.chunk"}, message, turn, usage if wants_usage else None)
        return StreamingResponse(_sent(chunks, turn.cut), media_type="text/event-stream")


def chat(fake: Any, client: httpx.AsyncClient, **more: Any) -> BaseChatModel:
    """Return a model of langchain-openai that asks the fake."""
    from langchain_openai import ChatOpenAI  # takes long

    settings = {"model": "gpt-5", "api_key": KEY, "max_retries": 0, "stream_usage": True, **more}
    return ChatOpenAI(base_url=fake.url, http_async_client=client, **settings)


def refuses(body: dict[str, Any]) -> str:
    """Return why OpenAI refuses a request, or ""."""
    if not body.get("model"):
        return "you must provide a model parameter"
    if "tools" in body and not body["tools"]:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1."
    return openai_refuses(body.get("tools", [])) or _refuses_messages(body.get("messages") or [])


def strictly_refuses(messages: list[dict[str, Any]]) -> str:
    """Return why an endpoint with a template for chats refuses messages, or "": it reads the arguments of calls."""
    for message in messages:
        for call in message.get("tool_calls") or []:
            try:
                arguments = json.loads(call["function"]["arguments"], parse_constant=_no_constant)
            except ValueError as error:
                return f"{error}"
            if not isinstance(arguments, dict):
                return "Can only get item pairs from a mapping."
    return ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"[json.exception.parse_error.101] parse error: invalid literal; last read: '{name}'")


def _refuses_messages(messages: list[dict[str, Any]]) -> str:
    if not messages:
        return "Invalid 'messages': empty array."
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if why := _refuses_message(message, index):
            return why
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = [call["id"] for call in message.get("tool_calls") or []]
    if waiting:
        must = "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
        return f"{must} 'tool_call_id'. The following tool_call_ids did not have response messages: {waiting}"
    return ""


def _refuses_message(message: dict[str, Any], index: int) -> str:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        return f"Invalid value: '{role}'. Supported values are: {', '.join(ROLES)}."
    if calls is not None and (role != "assistant" or not calls):
        return f"Invalid 'messages[{index}].tool_calls': not here, or empty array."
    if content is None and not calls:
        return f"Invalid value for 'content': expected a string, got null. (messages.[{index}])"
    return _refuses_calls(calls or [], index) or _refuses_content(content, role, index)


def _refuses_calls(calls: list[dict[str, Any]], index: int) -> str:
    for call in calls:
        function = call.get("function", {})
        if call.get("type") != "function" or not call.get("id") or not isinstance(function.get("arguments"), str):
            return f"Invalid 'messages[{index}].tool_calls': {call}"
        if not OPENAI_NAME.fullmatch(str(function.get("name"))):
            return f"Invalid 'messages[{index}].tool_calls[0].function.name': string does not match pattern."
    return ""


def _refuses_content(content: Any, role: str, index: int) -> str:
    if content is None or isinstance(content, str):
        return ""
    valid = {"text", "image_url", "input_audio", "file"} if role == "user" else {"text", "refusal"}
    kinds = {part.get("type") if isinstance(part, dict) else None for part in content}
    if role != "user" and "image_url" in kinds:
        only = "Image URLs are only allowed for messages with role 'user', but this message with role"
        return f"Invalid 'messages[{index}]'. {only} '{role}' contains an image URL."
    return "" if kinds <= valid else f"Invalid value in 'messages[{index}].content': {kinds - valid}"


def _message(turn: Turn, number: int) -> dict[str, Any]:
    calls = []
    for index, (name, arguments) in enumerate(turn.calls):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": name, "arguments": written}
        calls.append({"id": f"call_{number}_{index}", "type": "function", "function": function})
    return {"role": "assistant", "content": turn.text or None, **({"tool_calls": calls} if calls else {})}


def _finish(turn: Turn) -> str:
    return turn.finish or ("tool_calls" if turn.calls else "stop")


def _usage(body: dict[str, Any], message: dict[str, Any]) -> dict[str, int]:
    asked, answered = len(json.dumps(body)) // 4, len(json.dumps(message)) // 4
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _chunks(head: dict[str, Any], message: dict[str, Any], turn: Turn, usage: dict[str, int] | None) -> Iterator[Any]:
    """Yield a message in pieces, those of parallel calls by turns; at last the usage if it was asked for."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(message["content"] or ""):
        yield chunk({"content": piece})
    calls = message.get("tool_calls", [])
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{**call, "index": index, "function": function}]})
    for row in itertools.zip_longest(*(_pieces(call["function"]["arguments"]) for call in calls)):
        for index, piece in enumerate(row):
            if piece is not None:
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if turn.cut:
        return
    yield chunk({}, _finish(turn))
    if usage is not None:
        yield {**head, "choices": [], "usage": usage}
    yield "[DONE]"


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


async def _sent(chunks: Iterator[Any], cut: str) -> AsyncIterator[str]:
    sent = list(chunks)
    for chunk in sent[: len(sent) * 2 // 3] if cut else sent:
        yield f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n"
    if cut == "event":
        yield f"data: {json.dumps({'error': {'message': 'The server had an error', 'type': 'server_error'}})}\n\n"
    if cut == "socket":
        raise ConnectionResetError
