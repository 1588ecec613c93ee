"""Plain messages: calls with a few short arguments, and answers of one short text, perhaps with a flat object.

Nearly all messages of a session are plain and differ only in a few values. What they share is kept once.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# `call_values` and `answer_values` run once per call, between unrelated work, so most of their cost is filling the
# processor's caches. They therefore have few lines, leave loops to C, and write no JSON.

FEW, SHORT = 20, 1000  # most values of an object of a plain message, and characters of a text in it

LEVELS = 8  # most levels of `_meta`: a stranger's may have hundreds, which Python can neither copy nor compare

_ANSWER = frozenset(("content", "structuredContent", "isError", "resultType", "_meta"))

_SCALARS = frozenset((int, float, bool, type(None)))


Values = tuple[str, dict[str, Any] | None]  # the name and the arguments of a call; the text and the object of an answer


@dataclass(slots=True, eq=False)
class Form:
    """What plain calls or plain answers of a connection share: all but their ids and a few values."""

    message: dict[str, Any]  # one message of this form
    inner: dict[str, Any]  # its params or its result
    members: int  # how many the params or the result has
    meta: Any  # `_meta`, or None
    failed: bool | None  # `isError` of an answer
    type: str | None  # `resultType` of an answer
    is_flat: bool  # whether an answer has an object
    text: bytes  # that message as JSON
    rest: int  # bytes of a message besides its id and its values

    def fill(self, number: int, values: Values) -> dict[str, Any]:
        """Return the message with this id and these values."""
        first, second = values
        if "params" in self.message:
            return {**self.message, "id": number, "params": {**self.inner, "name": first, "arguments": second}}
        result = {**self.inner, "content": [{**self.inner["content"][0], "text": first}]}
        if second is not None:
            result["structuredContent"] = second
        return {**self.message, "id": number, "result": result}


def form_of(message: dict[str, Any], text: bytes, write: Callable[[Any], bytes]) -> Form | None:
    """Return the form of a message; None if it is not plain, or if no message like it can be expected.

    Args:
        message: The message.
        text: The same as JSON.
        write: What returns a value as JSON.
    """
    is_call = "method" in message
    inner = message.get("params" if is_call else "result")
    if type(inner) is not dict or None in inner.values():
        return None
    meta, failed, kind = inner.get("_meta"), inner.get("isError"), inner.get("resultType")
    if is_call:
        if "progressToken" in (meta or ()) or len(inner) != (2 if meta is None else 3):
            return None
    elif not (_ANSWER.issuperset(inner) and type(failed) in (bool, type(None)) and (kind is None or type(kind) is str)):
        return None
    if meta is not None and not _is_fixed(meta, (str, bool) if is_call else (str,)):
        return None
    form = Form(message, inner, len(inner), meta, failed, kind, "structuredContent" in inner, text, 0)
    values = (call_values if is_call else answer_values)(message, form)
    written = None if values is None else _as_json(values, write)
    if written is None:
        return None
    form.message = deepcopy(message)  # its sender or receiver may change it; the texts stay the same objects
    form.inner = form.message["params" if is_call else "result"]
    form.meta = form.inner.get("_meta")
    form.rest = len(text) - len(written) - len(str(message["id"]))
    return form


def _is_fixed(meta: Any, types: tuple[type, ...], levels: int = LEVELS) -> bool:
    """Whether `_meta` has few levels, and values of these types only.

    They are texts in an answer, because other values are equal in Python though they differ, as 1 and true. A call's
    `_meta` is ours.
    """
    if type(meta) is dict or type(meta) is list:
        inner = meta.values() if type(meta) is dict else meta
        return levels > 0 and all(_is_fixed(each, types, levels - 1) for each in inner)
    return type(meta) in types


def call_values(message: dict[str, Any], form: Form) -> Values | None:
    """Return the name and the arguments of a plain call of this form; None for another message."""
    try:
        params = message["params"]
        if len(message) != 4 or len(params) != form.members or params.get("_meta") != form.meta:
            return None
        arguments = params["arguments"]
        if message["method"] != "tools/call" or type(message["id"]) is not int or len(arguments) > FEW:
            return None
        if _SCALARS.issuperset(map(type, arguments.values())) or _is_short(arguments):
            return params["name"], arguments.copy()
    except (LookupError, TypeError, ValueError, AttributeError):
        pass
    return None


def answer_values(message: dict[str, Any], form: Form) -> Values | None:
    """Return the text and the object, or None, of a plain answer of this form; None for another message."""
    try:
        result = message["result"]
        if len(message) != 3 or len(result) != form.members or result.get("_meta") != form.meta:
            return None
        if result.get("isError") is not form.failed or result.get("resultType") != form.type:
            return None
        (item,) = result["content"]
        text = item["text"]
        if type(text) is not str or len(text) > SHORT or len(item) != 2 or item["type"] != "text":
            return None
        if type(message["id"]) is not int:
            return None
        if not form.is_flat:
            return text, None
        flat = result["structuredContent"]
        if len(flat) <= FEW and (_SCALARS.issuperset(map(type, flat.values())) or _is_short(flat)):
            return text, flat.copy()
    except (LookupError, TypeError, ValueError, AttributeError):
        pass
    return None


def _is_short(value: dict[str, Any]) -> bool:
    """Whether all values of an object are numbers and short texts."""
    return all(type(v) in _SCALARS or (type(v) is str and len(v) <= SHORT) for v in value.values())


def as_json(many: Sequence[Values], write: Callable[[Any], bytes]) -> Sequence[bytes | None]:
    """Return values as JSON; None where JSON cannot hold them: a large number, infinity, half of a surrogate pair."""
    try:
        texts = [write(values) for values in many]
    except (TypeError, ValueError):
        return [_as_json(values, write) for values in many]
    if b"null" in b"".join(texts):  # as infinity is written, too
        return [_as_json(values, write) for values in many]
    return texts


def _as_json(values: Values, write: Callable[[Any], bytes]) -> bytes | None:
    if any(type(v) is float and v - v != 0 for v in (values[1] or {}).values()):
        return None
    try:
        return write(values)
    except (TypeError, ValueError):
        return None
