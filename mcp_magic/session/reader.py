"""The tolerant reader of servers' messages: lists item by item, results block by block, text that is almost JSON.

The SDK's models decide about a whole message, so one wrong member would cost all others. What they refuse comes here.
The smallest part that is wrong is mended where its meaning is plain, and left out otherwise, with a remark for each.
The trace and cassettes have the messages as they came.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import ValidationError, to_json

from mcp_magic.display.text import BINARY, decode, one_line, standard_base64
from mcp_magic.errors import InvalidResponseError
from mcp_magic.protocol import INTERNAL_ERROR, nearest_level
from mcp_magic.results.content import image_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Remark = Callable[[str], None]
"""Takes a sentence about what was odd."""


# Text that is almost JSON-RPC.

_SURROGATES = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Escaped surrogates in JSON, each pair as one."""

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A string of JSON. One without end matches too: else each quote in it begins a search to the end."""

_CONTROL = re.compile(r"[\x00-\x1f]")

_LONG = re.compile(r'"(?:[^"\\]|\\.)*+"?|(?<![\d.eE+-])(-?[1-9]\d{4300,})(?![\d.eE])', re.DOTALL)
"""A string of JSON, or an integer with more digits than Python and pydantic read."""

BARE = "result"
"""The member of a result that holds a value which is no object: some servers write that member themselves."""


def text_of_input(value: Any) -> str:
    """Return the text of a message that pydantic refused, from the input in its error."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)


def members_of_input(details: Sequence[Any]) -> dict[str, Any] | None:
    """Return the message that pydantic refused, from the details of its error; None if it is no object.

    pydantic tries request and answer in turn, so each "missing" error has the whole message.
    """
    inputs = (detail["input"] for detail in details if detail["type"] == "missing" and len(detail["loc"]) == 2)
    members = next(inputs, None)
    return members if isinstance(members, dict) else None


def read_again(problem: ValidationError) -> Any:
    """Return the message that pydantic refused with `problem`, mended; None if it cannot be understood.

    The message has `oddities`, a remark for each thing that was mended, and `original`, its members with texts as the
    server sent them, or None where its texts are right.
    """
    from mcp_types import jsonrpc_message_adapter

    details = problem.errors(include_url=False)
    oddities: list[str] = []
    original: Any = None
    if details[0]["type"] == "json_invalid":
        raw = details[0].get("input", "")
        text = text_of_input(raw)
        if isinstance(raw, bytes | bytearray) and raw != text.encode():
            oddities.append("it sends bytes that are not UTF-8; they are read as U+FFFD")
        mended = _mended_text(text, oddities)
        if not oddities:
            return None
        try:
            members = json.loads(mended)
            original = json.loads(_with_long_integers(text.removeprefix("\ufeff")), strict=False)
            jsonrpc_message_adapter.validate_json(mended)  # JSON that is nested too deeply stays an error
        except ValidationError as error:
            if error.errors(include_url=False)[0]["type"] == "json_invalid":
                return None
        except (ValueError, RecursionError):
            return None
    else:
        members = members_of_input(details)
    if not isinstance(members, dict):
        return None
    original = _mended_members(original, []) if isinstance(original, dict) else None
    members = _mended_members(members, oddities)
    try:
        message = jsonrpc_message_adapter.validate_python(members, by_name=False)
    except ValidationError:
        return None
    if not oddities:
        return None
    mended = _mended_type(type(message)).model_construct(message.model_fields_set, **message.__dict__)
    return mended.note(original, tuple(oddities))


MAX_BEGINNINGS = 20  # places in a line at which a message may begin

_BEGINS = re.compile(r'\{\s*"(?:jsonrpc|id|result|error|method|params)"\s*:')


def read_within(problem: ValidationError, is_asked: Callable[[Any], bool]) -> tuple[list[Any], str]:
    """Return the messages in a line that has other text too, and that text; none if it is no such line.

    After other text only answers to pending requests count: a server may log what it receives.
    """
    detail = problem.errors(include_url=False)[0]
    raw = detail.get("input", "") if detail["type"] == "json_invalid" else ""
    text = text_of_input(raw)
    if _BEGINS.search(text) is None or read_again(problem) is not None:
        return [], ""
    decoder = json.JSONDecoder(strict=False)
    messages: list[Any] = []
    rest, end = "", 0
    for _ in range(MAX_BEGINNINGS):
        if (begins := _BEGINS.search(text, end)) is None:
            break
        rest += text[end : begins.start()]
        try:
            members, end = decoder.raw_decode(text, begins.start())
            is_answer = "method" not in members and is_asked(members.get("id"))
            if is_answer or not rest.strip():
                messages.append(_read_text(text[begins.start() : end]))
            else:
                rest += text[begins.start() : end]
        except (ValueError, RecursionError):
            rest += text[begins.start() : begins.end()]
            end = begins.end()
    rest = (rest + text[end:]).strip()
    return (messages, rest) if rest or len(messages) > 1 else ([], "")


def _read_text(text: str) -> Any:
    from mcp_types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as problem:
        if (message := read_again(problem)) is None:  # nested too deeply, for example
            raise
        return message


def read_members(members: dict[str, Any]) -> Any:
    """Return the message with these members, as `read_again` reads it. Raises ValidationError if it is none."""
    from mcp_types import jsonrpc_message_adapter

    try:
        try:
            to_json(members)
        except ValueError:  # half of a surrogate pair
            return jsonrpc_message_adapter.validate_json(json.dumps(members), by_name=False)
        return jsonrpc_message_adapter.validate_python(members, by_name=False)
    except ValidationError as problem:
        if (message := read_again(problem)) is None:
            raise
        return message


def read_texts(value: Any, remark: Remark) -> Any:
    """Return JSON of a server in this process without halves of surrogate pairs; usually the same object."""
    try:
        to_json(value)
    except ValueError:
        oddities: list[str] = []
        try:
            value = json.loads(_mended_text(json.dumps(value), oddities))
        except (TypeError, ValueError, RecursionError):  # it is no JSON, which the SDK reports
            return value
        for oddity in oddities:
            remark(oddity)
    return value


def _mended_text(text: str, oddities: list[str]) -> str:
    """Return JSON for a text that is almost JSON."""
    if text.startswith("\ufeff"):
        text = text[1:]
        oddities.append("its messages begin with a byte-order mark; JSON-RPC has none")
    if "\\u" in text:
        repaired = _SURROGATES.sub(lambda match: match[1] + (match[2] or "\\ufffd"), text)
        if repaired != text:
            text = repaired
            oddities.append("it sends halves of surrogate pairs, cut from emoji for example; they are read as U+FFFD")
    if _CONTROL.search(text):
        repaired = _TEXT.sub(lambda match: _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", match[0]), text)
        if repaired != text:
            text = repaired
            oddities.append("it sends control characters in texts without escaping them")
    repaired = _with_long_integers(text)
    if repaired != text:
        oddities.append("it sends integers of more than 4,300 digits; they are read as texts")
    return repaired


def _with_long_integers(text: str) -> str:
    """Return JSON in which the integers that nothing here reads are texts."""
    return _LONG.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], text)


def _mended_members(members: dict[str, Any], oddities: list[str]) -> dict[str, Any]:
    """Return the members of a JSON-RPC message."""
    members = dict(members)
    is_answer = "method" not in members and members.get("id") is not None and bool(members.keys() & {"result", "error"})
    if is_answer and members.get("jsonrpc") != "2.0":
        members["jsonrpc"] = "2.0"
        oddities.append('its answers have no "jsonrpc": "2.0"')
    if is_answer and isinstance(members["id"], float) and members["id"].is_integer():
        members["id"] = int(members["id"])
        oddities.append("its answers have ids such as 7.0 for 7")
    for member in ("result", "params"):
        if members.get(member) == [] and isinstance(members[member], list):
            members[member] = {}
            oddities.append(f"it sends [] for an empty object as the {member} of a message")
    error = members.get("error")
    if is_answer and error is None and not isinstance(members.get("result"), dict):
        oddities.append(f"the result of an answer is {_brief(members.get('result'))}, not an object; it is kept")
        members["result"] = {BARE: members.get("result")}
    if is_answer and error is not None and members.get("result") is None:
        mended = mended_error(error)
        if mended != error:
            members["error"] = mended
            oddities.append("its errors have no code that is a number and no message that is a text")
    return members


def mended_error(error: Any) -> dict[str, Any]:
    """Return an error of JSON-RPC that has a code and a message."""
    members = dict(error) if isinstance(error, dict) else {"message": error}
    code, message = members.get("code"), members.get("message")
    if isinstance(code, bool) or not isinstance(code, int):
        is_number = isinstance(code, str) and re.fullmatch(r"-?\d{1,9}", code) is not None
        members["code"] = int(str(code)) if is_number else INTERNAL_ERROR
        if code is not None and not is_number:
            members.setdefault("data", {"code": code})
    if not isinstance(message, str):
        members["message"] = _as_text(message if message is not None else error)
    return members


@cache
def _mended_type(kind: Any) -> Any:
    from pydantic import PrivateAttr

    class Mended(kind):  # type: ignore[misc]
        """A message that was mended."""

        _original: Any = PrivateAttr(default=None)
        _oddities: tuple[str, ...] = PrivateAttr(default=())

        def note(self, original: Any, oddities: tuple[str, ...]) -> Any:
            self._original, self._oddities = original, oddities
            return self

        @property
        def original(self) -> Any:
            return self._original

        @property
        def oddities(self) -> tuple[str, ...]:
            return self._oddities

    return Mended


class Batch:
    """Several messages that came as one, in place of a message; `messages` may have exceptions for unreadable ones."""

    messages: Sequence[Any]


def read_batch(problem: ValidationError) -> list[Any] | None:
    """Return the messages in the list that pydantic refused with `problem`; None if it is no list of messages.

    In place of a part that is no message there is its exception.
    """
    details = problem.errors(include_url=False)
    value = details[0]["input"]
    if details[0]["type"] == "json_invalid" or not isinstance(value, list):
        raw = value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value
        text = raw.lstrip("\ufeff \t\r\n") if isinstance(raw, str) else ""
        if not text.startswith("["):
            return None
        try:
            value = json.loads(_with_long_integers(text), strict=False)
        except (ValueError, RecursionError):
            return None
    messages: list[Any] = []
    for members in value:
        try:
            messages.append(read_members(members))
        except ValidationError as error:
            messages.append(error)
    return messages if any(not isinstance(part, Exception) for part in messages) else None


def as_one(messages: list[Any]) -> Any:
    """Return a message for the SDK's transports that carries several; an answer if there is one among them."""
    from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

    answer = next((message for message in messages if isinstance(message, JSONRPCResponse | JSONRPCError)), None)
    if answer is None:
        carrier = _batch_type(JSONRPCNotification).model_construct(jsonrpc="2.0", method="")
    else:
        carrier = _batch_type(JSONRPCResponse).model_construct(jsonrpc="2.0", id=answer.id, result={})
    carrier.__dict__["messages"] = messages
    return carrier


@cache
def _batch_type(kind: Any) -> Any:
    return type("Batched", (Batch, kind), {})


# Parts of messages: the smallest part that is wrong is mended, or left out.

ROUNDS = 20  # a part is looked at so often at most; each round mends or leaves out all that is wrong then

_EXPECTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""pydantic's name of a problem -> what would be right."""

_OBJECTS = ("dict_type", "model_type", "model_attributes_type")


class UnreadableError(ValueError):
    """A part cannot be understood without a member that is missing or wrong; the text is the reason."""


class _Part:
    """A part of a message on its way to a model: mended as pydantic's problems tell."""

    def __init__(self, raw: dict[str, Any], owner: str, remark: Remark, keys: Iterable[str]) -> None:
        self._raw = copy.deepcopy(raw)
        self._owner = owner
        self._remark = remark
        self._keys = frozenset(keys)  # members that go back to the server, and so must be as they are
        self._tried: set[tuple[Any, ...]] = set()
        self._dropped: dict[str, str] = {}

    def fit(self, model: Any) -> Any:
        """Return the model of what can be understood. Raises UnreadableError."""
        for _ in range(ROUNDS):
            try:
                return model.model_validate(self._raw, by_name=False)
            except ValidationError as error:
                problems = error.errors(include_url=False)
            for problem in reversed(problems):  # so that the numbers of list items before stay right
                self._mend(problem)
        raise UnreadableError("it has too many parts that are wrong")

    def _mend(self, problem: Any) -> None:
        path, node, parent = self._reach(problem["loc"])
        name = problem["loc"][-1]
        if problem["type"] == "missing":
            if isinstance(node, dict) and self._renamed(node, str(name)):
                return
            self._leave_out(path, f"has no {name}", str(name))
            return
        if parent is None:
            raise UnreadableError(f"it is {_brief(node)}, not an object")
        expected = _EXPECTED.get(problem["type"], "")
        if problem["type"] == "literal_error":
            expected = f"one of {problem['ctx']['expected']}"
        wrong = f"is {_brief(node)}, not {expected}" if expected else f"is {_brief(node)}: {problem['msg']}"
        if path not in self._tried and path[-1] not in self._keys:
            self._tried.add(path)
            member = next(name for name in reversed(("", *path)) if isinstance(name, str))
            mended = _mended(node, problem["type"], member)
            if mended is not None:
                parent[path[-1]] = mended
                self._remark(f"{self._owner}: {_dotted(path)} {wrong}; it is read as {_brief(mended)}")
                return
        self._leave_out(path, wrong)

    def _reach(self, loc: Sequence[Any]) -> tuple[tuple[Any, ...], Any, Any]:
        """Return the path to what a problem is about, as far as it exists, with its value and the container of that."""
        node: Any = self._raw
        parent: Any = None
        path: list[Any] = []
        for name in loc:
            if (isinstance(node, dict) and name in node) or (
                isinstance(node, list) and isinstance(name, int) and name < len(node)
            ):
                parent, node = node, node[name]
            else:  # a missing member, or the name of a model
                break
            path.append(name)
        return tuple(path), node, parent

    def _renamed(self, node: dict[str, Any], name: str) -> bool:
        """Whether a missing member is there in snake case; if so, rename it."""
        snake = re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)
        if snake == name or snake not in node:
            return False
        node[name] = node.pop(snake)
        self._remark(f"{self._owner}: {snake} is read as {name}")
        return True

    def _leave_out(self, path: tuple[Any, ...], wrong: str, missing: str = "") -> None:
        if not path:
            raise UnreadableError(self._dropped.get(missing, f"it {wrong}"))
        container: Any = self._raw
        for name in path[:-1]:
            container = container[name]
        if isinstance(container, list) and path[-1] >= len(container):
            return  # left out already
        if isinstance(container, dict) and path[-1] not in container:
            return
        del container[path[-1]]
        if len(path) == 1:
            self._dropped[str(path[0])] = f"its {path[0]} {wrong}"
        if len(path) > 1 or path[0] not in self._keys:
            self._remark(f"{self._owner}: {_dotted(path)} {wrong}; it is left out")


def _mended(value: Any, problem: str, name: str) -> Any:
    """Return what a wrong value plainly means, or None."""
    if problem == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if problem in _OBJECTS and (value is True or value == []):
        return {}  # PHP writes [] for an empty object
    if problem in _OBJECTS and name == "arguments" and isinstance(value, str):  # of a prompt
        return {"name": value}
    if problem == "list_type":
        return _as_list(value, name)
    return None


def _as_list(value: Any, name: str) -> list[Any] | None:
    if name == "sizes" and isinstance(value, str):  # the form of 2025-06-18
        return value.split()
    if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
        return [{"name": key, **inner} for key, inner in value.items()]
    return [value] if isinstance(value, str | dict) else None


def _dotted(path: Sequence[Any]) -> str:
    return one_line(".".join(map(str, path)), 120)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _brief(value: Any) -> str:
    return one_line(_as_json(value), 60)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)


# The answers to `initialize` and `server/discover`.

_CAPABILITIES = ("tools", "resources", "prompts", "logging", "completions", "experimental", "extensions", "tasks")


def read_handshake(method: str, result: dict[str, Any], remark: Remark) -> dict[str, Any]:
    """Return the result of `initialize` or `server/discover` as the SDK takes it; as it came if it means nothing."""
    from mcp_types import DiscoverResult, InitializeResult

    model: Any = InitializeResult if method == "initialize" else DiscoverResult
    owner = f"the answer to {method}"
    if method == "initialize" and result.keys() & {"protocolVersion", "capabilities", "serverInfo"}:
        result = _with_version(result, owner, remark)
    try:
        model.model_validate(result, by_name=False)
    except ValidationError:
        pass
    else:
        return result
    if "protocolVersion" not in result and "supportedVersions" not in result:
        return result
    mended = {**result, "capabilities": _capabilities(result.get("capabilities"), owner, remark)}
    if method == "initialize":
        info = result.get("serverInfo")
        mended["serverInfo"] = _server_info(info if isinstance(info, dict) else {"name": info}, owner, remark)
    try:
        read = _Part(mended, owner, remark, ()).fit(model)
    except UnreadableError:
        return result
    fields: dict[str, Any] = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**fields, **{name: value for name, value in result.items() if name not in model_members(model)}}


def _with_version(result: dict[str, Any], owner: str, remark: Remark) -> dict[str, Any]:
    """Return the result of `initialize` with a version that the SDK has: of an unknown one, the nearest before it."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS as VERSIONS

    stated = result.get("protocolVersion")
    if stated in VERSIONS:
        return result
    version = VERSIONS[-1]
    if isinstance(stated, str) and re.match(r"\d{4}-\d\d-\d\d", stated):
        version = max((candidate for candidate in VERSIONS if candidate <= stated), default=VERSIONS[0])
    remark(f"{owner}: protocolVersion is {_brief(stated)}, which mcp_magic does not know; {version} is spoken")
    return {**result, "protocolVersion": version}


def model_members(model: Any) -> frozenset[str]:
    """Return the names that the members of a model have in a message."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _capabilities(value: Any, owner: str, remark: Remark) -> dict[str, Any]:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):  # ["tools"], or [] of PHP
        if value:
            remark(f"{owner}: capabilities is {_brief(value)}, not an object")
        return {name: {} for name in value if name in _CAPABILITIES}
    if not isinstance(value, dict):
        remark(f"{owner}: capabilities is {_brief(value)}, not an object")
        return {}
    return value


def _server_info(info: dict[str, Any], owner: str, remark: Remark) -> dict[str, Any]:
    mended = dict(info)
    for name in ("name", "version"):
        if not isinstance(info.get(name), str):
            number = isinstance(info.get(name), int | float) and not isinstance(info.get(name), bool)
            mended[name] = json.dumps(info[name]) if number else ""
            remark(f"{owner}: serverInfo.{name} is {_brief(info.get(name))}, not a text")
    return mended


# Notifications.


def read_notification(method: str, params: dict[str, Any] | None, remark: Remark) -> dict[str, Any] | None:
    """Return the parameters of a notification as the SDK takes them."""
    if method == "notifications/message":
        return _log_message(params or {}, remark)
    if method == "notifications/progress" and params is not None:
        return _progress(params, remark)
    return params


def _log_message(params: dict[str, Any], remark: Remark) -> dict[str, Any]:
    level, logger = params.get("level"), params.get("logger")
    mended: dict[str, Any] = {}
    if (nearest := nearest_level(level)) != level:
        mended["level"] = nearest
        remark(f"its log messages have the level {_brief(level)}, which is no level; they are shown as {nearest}")
    if "data" not in params:
        rest = {name: value for name, value in params.items() if name not in ("level", "logger", "_meta")}
        mended["data"] = next((rest[name] for name in ("message", "msg", "text") if name in rest), rest)
        remark("its log messages have no data; the other members are shown")
    if logger is not None and not isinstance(logger, str):
        mended["logger"] = _as_text(logger)
        remark(f"its log messages have the logger {_brief(logger)}, which is not text")
    if params.get("_meta", {}) is None or isinstance(params.get("_meta"), list):
        mended["_meta"] = {}
    return {**params, **mended} if mended else params


def _progress(params: dict[str, Any], remark: Remark) -> dict[str, Any]:
    mended: dict[str, Any] = {}
    for name in ("progress", "total"):
        value = params.get(name)
        if isinstance(value, str):
            try:
                mended[name] = float(value.strip().removesuffix("%"))
            except ValueError:
                mended[name] = None
            remark(f"its progress notifications have the {name} {_brief(value)}, which is no number")
    message = params.get("message")
    if message is not None and not isinstance(message, str):
        mended["message"] = _as_text(message)
        remark("its progress notifications have a message that is not text")
    if not mended:
        return params
    return {name: value for name, value in {**params, **mended}.items() if value is not None}


# Lists, item by item.


class Unusable(NamedTuple):
    """A definition that cannot be used: its name, as far as it has one, and the reason."""

    name: str
    reason: str


class Kind(NamedTuple):
    """A kind of listing: how the SDK and the protocol name it, and its definitions."""

    capability: str
    method: str  # of the SDK's client
    field: str  # of the SDK's result
    request: str
    member: str
    key: str  # member of a definition that tells it from the others
    definition: str
    result: str
    word: str


KINDS = {
    "tools": Kind("tools", "list_tools", "tools", "tools/list", "tools", "name", "Tool", "ListToolsResult", "tool"),
    "resources": Kind(
        "resources",
        "list_resources",
        "resources",
        "resources/list",
        "resources",
        "uri",
        "Resource",
        "ListResourcesResult",
        "resource",
    ),
    "templates": Kind(
        "resources",
        "list_resource_templates",
        "resource_templates",
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "ResourceTemplate",
        "ListResourceTemplatesResult",
        "template",
    ),
    "prompts": Kind(
        "prompts", "list_prompts", "prompts", "prompts/list", "prompts", "name", "Prompt", "ListPromptsResult", "prompt"
    ),
}

_LISTS = {kind.request: kind for kind in KINDS.values()}


def read_items(method: str, value: Any, remark: Remark) -> tuple[list[Any], list[Unusable]]:
    """Return the definitions in the value of a list, and those that cannot be used. `method` is that of the list."""
    import mcp_types

    kind = _LISTS[method]
    model = getattr(mcp_types, kind.definition)
    items: list[Any] = []
    unusable: list[Unusable] = []
    for number, raw in enumerate(_raw_items(kind, value, remark)):
        if (item := _plain(kind, model, raw)) is not None:
            items.append(item)
            continue
        key = raw.get(kind.key) if isinstance(raw, dict) else None
        name = one_line(key if isinstance(key, str) else _brief(key), 80) if key is not None else ""
        owner = f"the {kind.word} `{name}`" if name else f"the {kind.word} number {number + 1}"
        try:
            items.append(_definition(kind, model, raw, owner, remark))
        except UnreadableError as error:
            remark(f"{owner} cannot be used: {error}")
            unusable.append(Unusable(name or f"number {number + 1}", str(error)))
    return items, unusable


def _raw_items(kind: Kind, value: Any, remark: Remark) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        remark(f"{kind.member} is an object, not a list; its names are taken as the name of each {kind.word}")
        return [{"name": name, **item} for name, item in value.items()]
    remark(f"{kind.member} is {_brief(value)}, not a list")
    return []


def _plain(kind: Kind, model: Any, raw: Any) -> Any:
    """Return the model of an item that is right as it is, else None; the SDK's model does not look into schemas."""
    if kind.member == "tools" and isinstance(raw, dict):
        schema: Any = raw.get("inputSchema")
        output = raw.get("outputSchema")
        if not _is_schema(schema) or schema.get("type") != "object" or not (output is None or _is_schema(output)):
            return None
    try:
        return model.model_validate(raw, by_name=False)
    except ValidationError:
        return None


def _is_schema(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return isinstance(value.get("properties", {}), dict) and isinstance(value.get("required", []), list)


def _definition(kind: Kind, model: Any, raw: Any, owner: str, remark: Remark) -> Any:
    if not isinstance(raw, dict):
        raise UnreadableError(f"it is {_brief(raw)}, not an object")
    raw = dict(raw)
    if kind.member == "tools":
        raw = _with_schemas(raw, owner, remark)
    elif kind.key != "name" and not isinstance(raw.get("name"), str) and isinstance(raw.get(kind.key), str):
        remark(f"{owner} has no name; its {kind.key} is taken")
        raw["name"] = raw[kind.key]
    return _Part(raw, owner, remark, (kind.key,)).fit(model)


def _with_schemas(raw: dict[str, Any], owner: str, remark: Remark) -> dict[str, Any]:
    """Return a tool with schemas that are objects."""
    raw = dict(raw)
    if "inputSchema" not in raw and "input_schema" in raw:
        remark(f"{owner}: input_schema is read as inputSchema")
        raw["inputSchema"] = raw.pop("input_schema")
    raw["inputSchema"] = _input_schema(raw.get("inputSchema"), "inputSchema" in raw, owner, remark)
    output = _parsed(raw.get("outputSchema"))
    if output is not None and not _is_schema(output):
        mended = _tidy(output, f"{owner}: outputSchema", remark) if isinstance(output, dict) and output else None
        if mended is None:
            remark(f"{owner}: outputSchema is {_brief(output)}, which says nothing; it is left out")
        output = mended
    if output is None:
        raw.pop("outputSchema", None)
    else:
        raw["outputSchema"] = output
    return raw


def _input_schema(value: Any, is_given: bool, owner: str, remark: Remark) -> dict[str, Any]:
    schema = _parsed(value)
    if schema is not value:
        remark(f"{owner}: inputSchema is JSON in a text")
    if schema in (None, True) or schema in ({}, []):
        wrong = f"the inputSchema {_brief(value)}" if is_given else "no inputSchema"
        remark(f"{owner} has {wrong}; it is taken as an object without properties")
        return {"type": "object"}
    if not isinstance(schema, dict):
        raise UnreadableError(f"its inputSchema is {_brief(value)}, not an object")
    schema = _tidy(schema, f"{owner}: inputSchema", remark)
    kind = schema.get("type")
    if kind == "object":
        return schema
    kinds = [kind] if not isinstance(kind, list) else kind
    if kind is None or any(isinstance(item, str) and item.lower() == "object" for item in kinds):
        wrong = "no type" if kind is None else f"the type {_brief(kind)}"
        remark(f"{owner}: inputSchema has {wrong}; it is taken as an object")
        return {"type": "object", **{name: inner for name, inner in schema.items() if name != "type"}}
    raise UnreadableError(f"its inputSchema is of type {_brief(kind)}; the arguments of a tool are an object")


def _parsed(value: Any) -> Any:
    """Return a schema; one that is JSON in a text is parsed."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _tidy(schema: dict[str, Any], owner: str, remark: Remark) -> dict[str, Any]:
    """Return a schema whose `properties` and `required` have the types that JSON Schema gives them."""
    schema = dict(schema)
    if not isinstance(schema.get("properties", {}), dict):
        wrong = schema.pop("properties")
        if wrong not in ([], None):
            remark(f"{owner}: properties is {_brief(wrong)}, not an object; it is left out")
        else:
            remark(f"{owner}: properties is {_brief(wrong)}, not an object; it is taken as empty")
    if not isinstance(schema.get("required", []), list):
        wrong = schema.pop("required")
        remark(f"{owner}: required is {_brief(wrong)}, not a list; it is left out")
    return schema


# Results, block by block.

_BLOCKS = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "resource": "EmbeddedResource",
    "resource_link": "ResourceLink",
}

_HEAD = 4096  # characters of base64 whose bytes tell a type

_ENVELOPE = frozenset({"_meta", "isError", "resultType", "ttlMs", "cacheScope"})  # members of a result about the rest


def _whole_result(method: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Return a result; one that is a mere value gets the member that the value is meant for."""
    if raw.keys() - _ENVELOPE != {BARE}:
        return raw
    value, rest = raw[BARE], {name: member for name, member in raw.items() if name != BARE}
    if isinstance(value, dict):
        return raw
    if method in _LISTS:
        return {**rest, _LISTS[method].member: value}
    if method != "tools/call":
        members = {"resources/read": "contents", "prompts/get": "messages", "completion/complete": "completion"}
        return {**rest, members[method]: value} if method in members else raw
    are_blocks = isinstance(value, list) and all(isinstance(item, dict) and _kind_of(item) in _BLOCKS for item in value)
    return {**rest, "content": value if are_blocks or value is None else _as_text(value)}


def unreadable_question(raw: dict[str, Any]) -> UnreadableError | None:
    """Return the error that says which member of a server's questions is wrong, or None."""
    import mcp_types

    questions = raw.get("inputRequests")
    for question in questions.values() if isinstance(questions, dict) else ():
        method, params = (question.get("method"), question.get("params")) if isinstance(question, dict) else ("", {})
        model: Any = {"sampling/createMessage": mcp_types.CreateMessageRequestParams}.get(str(method))
        if method == "elicitation/create":
            is_url = isinstance(params, dict) and params.get("mode") == "url"
            model = mcp_types.ElicitRequestURLParams if is_url else mcp_types.ElicitRequestFormParams
        try:
            if model is not None:
                model.model_validate(params, by_name=False)
        except ValidationError as error:
            details = error.errors(include_url=False)
            wrong = min(details, key=lambda detail: detail["type"] == "missing")
            how = "is missing" if wrong["type"] == "missing" else f"is {_brief(wrong['input'])}"
            return UnreadableError(f"its question cannot be read: {_dotted(wrong['loc']) or 'params'} {how}")
    return None


_AROUND = _ENVELOPE | {"contents", "content"}  # members of a reading that are none of an item


class Reader:
    """Reads the results of one server; `remark` takes a sentence about each thing that was odd."""

    def __init__(self, remark: Remark) -> None:
        self._remark_count = 0
        self._to = remark

    def _remark(self, text: str) -> None:
        self._remark_count += 1
        self._to(text)

    def result(self, request: Any, raw: dict[str, Any], problem: Exception, unusable: list[Unusable]) -> Any:
        """Return the result of a request that the SDK's models refused with `problem`; raise that if it is unreadable.

        Definitions that cannot be used are added to `unusable`.
        """
        method = request.method
        remarks = self._remark_count
        if raw.get("resultType") == "input_required":
            raise unreadable_question(raw) or problem
        if raw.get("resultType") not in (None, "complete"):
            raise problem
        raw = _whole_result(method, raw)
        try:
            answer = self._list(method, raw, unusable) if method in _LISTS else self._read_result(request, raw)
        except UnreadableError:
            raise problem from None
        if answer is None:
            raise problem
        if self._remark_count == remarks:  # the version's own model has refused what was read
            self._remark(f"the answer to {method} breaks the protocol: {_first(problem)}")
        return answer

    def _read_result(self, request: Any, raw: dict[str, Any]) -> Any:
        import mcp_types

        params: Any = request.params
        if request.method == "tools/call":
            return self.call_result(params.name, raw)
        if request.method == "resources/read":
            return self._reading(str(params.uri), raw)
        if request.method == "prompts/get":
            return self._prompt(params.name, raw)
        if request.method == "completion/complete":
            completion = raw.get("completion")
            values = completion if isinstance(completion, list) else None
            if values is None and isinstance(completion, dict):
                values = completion.get("values")
            if not isinstance(values, list):
                return None
            rest = completion if isinstance(completion, dict) else {}
            raw = {**raw, "completion": {**rest, "values": [_as_text(value) for value in values]}}
            return _Part(raw, "the answer to completion/complete", self._remark, ()).fit(mcp_types.CompleteResult)
        if request.method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            return mcp_types.EmptyResult()
        return None

    def _list(self, method: str, raw: dict[str, Any], unusable: list[Unusable]) -> Any:
        import mcp_types

        kind = _LISTS[method]
        items, bad = read_items(method, raw.get(kind.member), self._remark)
        unusable += bad
        rest = {**raw, kind.member: []}
        page = _Part(rest, f"the answer to {method}", self._remark, ()).fit(getattr(mcp_types, kind.result))
        setattr(page, kind.field, items)
        return page

    def page_items(self, method: str, raw: dict[str, Any], version: str) -> tuple[list[Any], list[Unusable]]:
        """Return the definitions of a page, and those that cannot be used, without a request of the SDK."""
        from mcp_types.methods import validate_server_result

        remarks = self._remark_count
        items = read_items(method, raw.get(_LISTS[method].member), self._remark)
        if self._remark_count == remarks:
            try:
                validate_server_result(method, version, raw)
            except ValidationError as problem:
                self._remark(f"the answer to {method} breaks the protocol: {_first(problem)}")
            except (ValueError, KeyError):  # a version without this method
                pass
        return items

    def call_result(self, tool: str, raw: dict[str, Any]) -> Any:
        """Return the result of a call, block by block. Raises UnreadableError."""
        from mcp_types import CallToolResult

        owner = f"the answer of the tool `{one_line(tool, 80)}`"
        raw = dict(raw)
        if "structuredContent" not in raw and "structured_content" in raw:
            raw["structuredContent"] = raw.pop("structured_content")
            self._remark(f"{owner}: structured_content is read as structuredContent")
        if "content" in raw or "structuredContent" in raw:
            blocks = self._blocks(raw.get("content"), owner) if "content" in raw else []
            if "content" not in raw:
                self._remark(f"{owner} has no content")
        else:
            rest = {name: value for name, value in raw.items() if name not in _ENVELOPE}
            blocks = [_text(_as_json(rest))] if rest else []
            self._remark(f"{owner} has no content" + (f"; it has {_brief([*rest])}, which are shown" if rest else ""))
        result = _Part({**raw, "content": []}, owner, self._remark, ()).fit(CallToolResult)
        result.content = blocks
        return self.tidied(result)

    def task_result(self, tool: str, raw: Any) -> Any:
        """Return the result of a task, which came as a part of another result. Raises ValueError if it is none."""
        from mcp_types import CallToolResult

        try:
            return self.tidied(CallToolResult.model_validate(raw, by_name=False))
        except ValidationError:
            return self.call_result(tool, raw)

    def dropped_tools(self, raw: Any, page: Any) -> list[Unusable]:
        """Return the tools that the SDK left out of a page, because the specification of 2026-07-28 requires that."""
        items = raw.get("tools") if isinstance(raw, dict) else None
        if not isinstance(items, list) or len(items) <= len(page.tools):
            return []
        from mcp.shared.inbound import find_invalid_x_mcp_header

        listed_names = {tool.name for tool in page.tools}
        dropped = []
        for item in items:
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or name in listed_names:
                continue
            if reason := find_invalid_x_mcp_header(item.get("inputSchema")):
                dropped.append(Unusable(one_line(name, 80), f"its x-mcp-header is invalid: {reason}"))
                self._remark(f"the tool `{one_line(name, 80)}` cannot be used: {dropped[-1].reason}")
        return dropped

    def _reading(self, uri: str, raw: dict[str, Any]) -> Any:
        from mcp_types import ReadResourceResult

        owner = f"the resource {one_line(uri, 120)}"
        value = raw.get("contents", raw.get("content"))
        if value is None and (rest := {name: member for name, member in raw.items() if name not in _AROUND}):
            value = rest  # the item itself
            raw = {name: member for name, member in raw.items() if name in _AROUND}
        if not isinstance(value, list):
            self._remark(f"{owner}: contents is {_brief(value)}, not a list")
            value = [] if value is None else [value]
        result = _Part({**raw, "contents": []}, owner, self._remark, ()).fit(ReadResourceResult)
        result.contents = [self._contents(item, uri, owner) for item in value if item is not None]
        return self.tidied(result)

    def _contents(self, raw: Any, uri: str, owner: str) -> Any:
        from mcp_types import BlobResourceContents, TextResourceContents

        if isinstance(raw, str):
            self._remark(f"{owner}: an item of contents is a text, not an object")
            raw = {"text": raw}
        contents = dict(raw) if isinstance(raw, dict) else {}
        if not isinstance(contents.get("uri"), str):
            self._remark(f"{owner}: an item of contents has no uri")
            contents["uri"] = uri
        if isinstance(contents.get("blob"), str):
            return _Part({k: v for k, v in contents.items() if k != "text"}, owner, self._remark, ()).fit(
                BlobResourceContents
            )
        if "text" not in contents or contents["text"] is None:
            self._remark(f"{owner}: an item of contents has neither text nor blob; it is shown as JSON")
            return TextResourceContents(uri=contents["uri"], mime_type="application/json", text=_as_text(raw))
        if not isinstance(contents["text"], str):
            self._remark(f"{owner}: the text of an item is {_brief(contents['text'])}, not a text")
            contents["text"] = _as_text(contents["text"])
        contents.pop("blob", None)
        return _Part(contents, owner, self._remark, ()).fit(TextResourceContents)

    def _prompt(self, prompt: str, raw: dict[str, Any]) -> Any:
        from mcp_types import GetPromptResult, PromptMessage

        owner = f"the prompt `{one_line(prompt, 80)}`"
        value = raw.get("messages")
        if value is None and (content := raw.get("content", raw.get("text"))) is not None:
            value = {"content": content}
        if not isinstance(value, list):
            self._remark(f"{owner}: messages is {_brief(value)}, not a list")
            value = [] if value is None else [value]
        messages: list[Any] = []
        for item in value:
            message = {"content": item} if isinstance(item, str) else item
            if not isinstance(message, dict):
                self._remark(f"{owner}: a message is {_brief(item)}, not an object")
                message = {"content": item}
            role = message.get("role")
            if role not in ("user", "assistant"):
                self._remark(f'{owner}: the role of a message is {_brief(role)}; it is read as "user"')
                role = "user"
            blocks = self._blocks(message.get("content"), owner)
            messages += [PromptMessage.model_construct(role=role, content=block) for block in blocks]
        result = _Part({**raw, "messages": []}, owner, self._remark, ()).fit(GetPromptResult)
        result.messages = messages
        return self.tidied(result)

    def _blocks(self, value: Any, owner: str) -> list[Any]:
        if not isinstance(value, list):
            if value is not None and value != {}:
                value = [value]
                if isinstance(value[0], dict):
                    self._remark(f"{owner}: content is one block, not a list of blocks")
            else:
                self._remark(f"{owner}: content is {_brief(value)}, not a list")
                value = []
        return [self._block(raw, owner) for raw in value if raw is not None]

    def _block(self, raw: Any, owner: str) -> Any:
        """Return a block; what cannot be read becomes a resource with its JSON, so that it is shown as what it is."""
        import mcp_types

        if isinstance(raw, str):
            self._remark(f"{owner}: a block is a text, not an object")
            return _text(raw)
        if not isinstance(raw, dict):
            return self._unread(raw, "a value", owner)
        kind = _kind_of(raw)
        if kind not in _BLOCKS:
            return self._unread(raw, f"a block of the type {_brief(raw.get('type'))}", owner)
        block = {**raw, "type": kind}
        if raw.get("type") != kind:
            self._remark(f"{owner}: a block has the type {_brief(raw.get('type'))}; it is read as {kind}")
        self._prepare(block, owner)
        try:
            return _Part(block, owner, self._remark, ()).fit(getattr(mcp_types, _BLOCKS[kind]))
        except UnreadableError as error:
            return self._unread(raw, f"a block of the type {kind} that cannot be read ({error})", owner)

    def _prepare(self, block: dict[str, Any], owner: str) -> None:
        """Mend what makes a block of its kind."""
        kind = block["type"]
        if kind == "text" and "text" in block and not isinstance(block["text"], str):
            self._remark(f"{owner}: a text is {_brief(block['text'])}")
            block["text"] = "" if block["text"] is None else _as_text(block["text"])
        elif kind in ("image", "audio") and isinstance(block.get("data"), str):
            if not isinstance(block.get("mimeType"), str) and not isinstance(block.get("mime_type"), str):
                block["mimeType"] = _type_of(block["data"]) or BINARY
                self._remark(f"{owner}: an {kind} has no mimeType; it is {block['mimeType']} by its bytes")
        elif kind == "resource" and isinstance(block.get("resource"), dict):
            uri = block["resource"].get("uri")
            contents = self._contents(block["resource"], uri if isinstance(uri, str) else "", owner)
            block["resource"] = contents.model_dump(by_alias=True, exclude_none=True)
        elif kind == "resource_link" and not isinstance(block.get("name"), str) and isinstance(block.get("uri"), str):
            self._remark(f"{owner}: a link has no name")
            block["name"] = block["uri"]

    def _unread(self, raw: Any, description: str, owner: str) -> Any:
        from mcp_types import EmbeddedResource, TextResourceContents

        self._remark(f"{owner} has {description}; it is shown as JSON")
        kind = raw.get("type") if isinstance(raw, dict) else None
        name = re.sub(r"[^\w.+-]", "-", kind[:60]) if isinstance(kind, str) else "unknown"
        contents = TextResourceContents(uri=f"block:{name}", mime_type="application/json", text=_as_json(raw))
        return EmbeddedResource(type="resource", resource=contents)

    # Images and other media

    def tidied(self, result: Any) -> Any:
        """Return a result whose media are standard base64, and whose images have the type of their bytes.

        Runs on each result.
        """
        for holder in _media_holders(result):
            self._tidy(holder)
        return result

    def _tidy(self, holder: Any) -> None:
        name = "data" if hasattr(holder, "data") else "blob"
        data: str = getattr(holder, name)
        standard = standard_base64(data)
        if standard is not data:
            setattr(holder, name, standard)
            self._remark("it sends base64 that is URL-safe, unpadded or a data: URL; it is read all the same")
        stated = (holder.mime_type or "").partition(";")[0].strip().lower()
        if stated and not stated.startswith("image/"):
            return
        actual = _type_of(standard)
        if actual is None or not actual.startswith("image/") or actual == _SAME.get(stated, stated):
            return
        if stated:
            self._remark(f"it sends images as {stated} whose bytes are {actual}; they are read as {actual}")
        holder.mime_type = actual


_SAME = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/vnd.microsoft.icon": "image/x-icon"}
"""Another name of a type -> the name that the bytes give it."""


def _media_holders(result: Any) -> Iterable[Any]:
    """Return the blocks and contents of a result that have base64."""
    if (blocks := getattr(result, "content", None)) is None:
        if (messages := getattr(result, "messages", None)) is not None:
            blocks = [message.content for message in messages]
        else:
            return [contents for contents in getattr(result, "contents", ()) if hasattr(contents, "blob")]
    holders = []
    for block in blocks:
        if block.type in ("image", "audio"):
            holders.append(block)
        elif block.type == "resource" and hasattr(block.resource, "blob"):
            holders.append(block.resource)
    return holders


_AUDIO = ((b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"))


def _type_of(data: str) -> str | None:
    """Return the MIME type of an image or a sound from the beginning of its base64."""
    text = "".join(standard_base64(data[: _HEAD * 2]).split())[:_HEAD]
    try:
        head = decode(text[: len(text) // 4 * 4])
    except InvalidResponseError:
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    return image_type(head) or next((kind for sign, kind in _AUDIO if head.startswith(sign)), None)


def _kind_of(raw: dict[str, Any]) -> str:
    """Return the type of a block, from its members if it does not say it."""
    kind = raw.get("type")
    if isinstance(kind, str):
        plain = kind.lower().replace("-", "_")
        return plain if plain in _BLOCKS else {"resourcelink": "resource_link", "json": ""}.get(plain, kind)
    if kind is not None:
        return ""
    return next((name for name in ("text", "resource") if name in raw), "")


def _text(text: str) -> Any:
    from mcp_types import TextContent

    return TextContent(type="text", text=text)


def _first(problem: Exception) -> str:
    """Return the first problem of a `ValidationError`."""
    details = problem.errors(include_url=False) if isinstance(problem, ValidationError) else []
    if not details:
        return one_line(str(problem), 200)
    return one_line(f"{_dotted(details[0]['loc'])}: {details[0]['msg']}", 200)
