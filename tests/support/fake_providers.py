"""Servers on 127.0.0.1 that speak OpenAI's Responses and Anthropic's Messages, and refuse what these refuse."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from mcp_magic.results.content import image_size, image_type
from tests.support.fake_openai import FakeProvider, Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from tests.support.fake_openai import Turn


class _Whole(FakeProvider):
    """One whose answers are never streamed."""

    async def respond(self, request: Request) -> Response:
        body = await request.json()
        why = self.refuses(body)
        turn: Any = None if why else self.turns.pop(0)
        if why or isinstance(turn, Refusal):
            self.refused.append(why or turn.message)
            return JSONResponse(self.error(why or turn.message), 400 if why else turn.status)
        self.requests.append(body)
        return JSONResponse(self.answer(turn, next(self.ids), body["model"]))

    def refuses(self, body: dict[str, Any]) -> str:
        """Return why a request is refused, or ""."""
        raise NotImplementedError

    def error(self, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""
        raise NotImplementedError

    def answer(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        """Return the body of an answer."""
        raise NotImplementedError


class FakeResponses(_Whole):
    """OpenAI's Responses."""

    path = "/v1/responses"

    def error(self, message: str) -> dict[str, Any]:
        param = message.partition("'")[2].partition("'")[0] or None
        return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}

    def refuses(self, body: dict[str, Any]) -> str:
        waiting: list[str] = []
        for index, item in enumerate(body["input"]):
            kind = item.get("type")
            if kind == "function_call":
                if not isinstance(item.get("arguments"), str):
                    return f"Invalid type for 'input[{index}].arguments': expected a string."
                waiting.append(item["call_id"])
            elif kind == "function_call_output":
                output = item["output"]
                kinds = {"input_text"} if isinstance(output, str) else {part.get("type") for part in output}
                if not kinds <= {"input_text", "input_image", "input_file"}:
                    return f"Invalid value: '{kinds}' (input[{index}].output)"
                waiting.remove(item["call_id"])
            elif waiting:
                break
        return f"No tool output found for function call {waiting[0]}." if waiting else ""

    def answer(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
        output: list[dict[str, Any]] = [said] if turn.text else []
        for at, (name, arguments) in enumerate(turn.calls):
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": f"call_{number}_{at}"}
            output.append({**call, "name": name, "arguments": written, "status": "completed"})
        head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "model": model}
        return {**head, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


class FakeMessages(_Whole):
    """Anthropic's Messages."""

    path = "/v1/messages"
    base = ""

    def error(self, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    def refuses(self, body: dict[str, Any]) -> str:
        waiting: set[str] = set()
        for index, message in enumerate(body["messages"]):
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
            if waiting - answered:
                ids = ", ".join(sorted(waiting - answered))
                without = "`tool_use` ids were found without `tool_result` blocks immediately after"
                return f"messages.{index}: {without}: {ids}."
            waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
            for at, block in enumerate(blocks):
                if why := _refuses_block(block, f"messages.{index}.content.{at}"):
                    return why
        return f"messages: `tool_use` ids were found without `tool_result` blocks: {waiting}" if waiting else ""

    def answer(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
        for at, (name, arguments) in enumerate(turn.calls):
            content.append({"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": arguments})
        reason = "tool_use" if turn.calls else "end_turn"
        head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": content}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {**head, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _refuses_block(block: dict[str, Any], where: str) -> str:
    if block["type"] == "text" and not block["text"]:
        return f"{where}: text content blocks must be non-empty"
    if block["type"] == "tool_use" and not isinstance(block["input"], dict):
        return f"{where}.tool_use.input: Input should be a valid dictionary"
    if block["type"] == "image":
        return _refuses_image(block["source"], f"{where}.image.source.base64")
    inner = block.get("content") if block["type"] == "tool_result" else None
    for at, part in enumerate(inner if isinstance(inner, list) else ()):
        if why := _refuses_block(part, f"{where}.tool_result.content.{at}"):
            return why
    return ""


def _refuses_image(source: dict[str, Any], where: str) -> str:
    kind, data = source["media_type"], source["data"]
    if kind not in ("image/jpeg", "image/png", "image/gif", "image/webp"):
        return f"{where}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
    if len(data) > 5 * 1024 * 1024:
        return f"{where}: image exceeds 5 MB maximum: {len(data)} bytes > 5242880 bytes"
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return f"{where}.data: Invalid base64 data"
    if (real := image_type(raw)) is None or (real == "image/png" and not raw.endswith(b"IEND\xaeB`\x82")):
        return "Could not process image"
    if real != kind:
        looks = f"was specified using the {kind} media type, but the image appears to be a {real} image"
        return f"{where}: The image {looks}"
    if max(image_size(raw)) > 8000:
        return f"{where}.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
    return ""
