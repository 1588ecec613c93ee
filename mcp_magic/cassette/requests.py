"""The requests of a cassette that can be sent again, with their final answers.

What is read is read as far as it can be understood: wrong lines are left out, and said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.cassette.file import LARGEST, CassetteFile
from mcp_magic.cassette.masks import Mask
from mcp_magic.cassette.match import key_of, read, request_text
from mcp_magic.errors import CassetteError
from mcp_magic.protocol import OPENINGS
from mcp_magic.schema.resolve import object_of
from mcp_magic.schema.secrets import MASK
from mcp_magic.session.catalog import KINDS
from mcp_magic.trace.trace import is_masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mcp_magic.cassette.match import Scene, Server, Step

LISTS = {kind.request: name for name, kind in KINDS.items()}
"""Method -> kind of listing."""

TASK = "tasks/get"  # the method that asks after a task

_READS = ("resources/read", "prompts/get", "completion/complete")
_ROUND = ("inputResponses", "requestState")  # parameters of a request that goes on after questions


@dataclass
class Question:
    """A recorded question of the server, and the result that it got, or None."""

    method: str
    message: str
    result: dict[str, Any] | None
    is_asked: bool = False


@dataclass
class Recorded:
    """A recorded request and its final answer.

    Attributes:
        answers: The `result` or `error` of each recording, the first one first.
        questions: What the server asked meanwhile.
        problem: Why it cannot be sent; "" if it can.
    """

    server: str
    method: str
    params: dict[str, Any]
    answers: list[dict[str, Any]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    problem: str = ""

    def __post_init__(self) -> None:
        self.recorded = self.params  # with secrets masked
        self.text = request_text(self.method, self.params)

    @property
    def name(self) -> str:
        """The name of its tool or prompt, or its URI; "" if it has none."""
        return str(self.params.get("name", self.params.get("uri", "")))


class Recording:
    """What a cassette has to verify; wrong lines are left out, and `odd` says what was wrong.

    Raises:
        CassetteError: The file cannot be read, or is no cassette.
    """

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self.path = path
        if not path.exists():
            raise CassetteError(f"there is no cassette {path}; `%mcp record FILE` makes it.")
        self.odd: list[str] = []
        self.file = CassetteFile(path, largest=largest)
        content = read(self.file.read(self.odd))
        self.servers = content.servers
        self.masks: dict[tuple[str, str, str], list[Mask]] = {}
        for line in content.masks:
            mask = Mask(line["path"], tuple(line.get("types", ())), bool(line.get("order")), line.get("why", ""))
            _join(self.masks.setdefault((line["mask"], line["method"], line.get("name", "")), []), mask)
        self._again = content.again
        if not self.servers:
            raise CassetteError(f"{path} has no server; `%mcp record FILE` records one.")

    def requests(self, server: str) -> list[Recorded]:
        """Return the requests of a server, listings first and once each, then the others in recorded order."""
        recorded = self.servers[server]
        requests = [Recorded(server, method, {}) for method in LISTS if _lists(recorded, method)]
        for session in recorded.sessions:
            for at, scene in enumerate(session.scenes):
                is_round = scene.params.keys() & set(_ROUND)
                if scene.id is not None and scene.method in ("tools/call", *_READS) and not is_round:
                    requests.append(_request(server, session.scenes, at))
        later: dict[str, list[dict[str, Any]]] = {}
        for line in self._again:
            if line["again"] == server and answer_of(line):
                later.setdefault(key_of(line["method"], line.get("params") or {}), []).append(answer_of(line))
        for request in requests:
            request.answers += later.get(key_of(request.method, request.params), [])
        return requests

    def definitions(self, server: str, method: str) -> dict[str, Any]:
        """Return what a server listed when it was recorded: name -> definition, of the latest listing."""
        return by_key(method, _lists(self.servers[server], method))


def pick_server(path: Path, servers: Mapping[str, Server], name: str | None, todo: str = "") -> Server:
    """Return the server of this name, or the only one, of a cassette that has some.

    `todo` says how to name one of several: the word SERVER in it stands for the name.

    Raises:
        CassetteError: There is none of this name, or there are several and no name.
    """
    first = next(iter(servers))
    if name is None and len(servers) > 1:
        raise CassetteError(f"{path} has several servers, {join_names(servers)}: {todo.replace('SERVER', first, 1)}.")
    name = name or first
    if name not in servers:
        raise CassetteError(f"{name} is not in {path}.{did_you_mean(name, servers)} It has {join_names(servers)}.")
    return servers[name]


def _join(masks: list[Mask], mask: Mask) -> None:
    """Add a mask to others; of those with the same path one is left."""
    for at, present in enumerate(masks):
        if (present.path, present.is_order) == (mask.path, mask.is_order):
            masks[at] = present.joined(mask)
            return
    masks.append(mask)


def _lists(server: Server, method: str) -> list[list[Any]]:
    """Return the pages of the latest recorded listing."""
    pages: list[list[Any]] = []
    member = KINDS[LISTS[method]].member
    for session in server.sessions:
        for scene in (scene for scene in session.scenes if scene.method == method):
            items = object_of(_final(scene).get("result")).get(member)
            if isinstance(items, list):
                pages = [*(pages if scene.params.get("cursor") is not None else []), items]
    return pages


def by_key(method: str, pages: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Return the definitions in the pages of a listing, by name or URI."""
    key = KINDS[LISTS[method]].key
    items = (item for page in pages for item in page if isinstance(item, dict) and isinstance(item.get(key), str))
    return {item[key]: {name: value for name, value in item.items() if name != key} for item in items}


def answer_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `result` or the `error` of a message; {} if it has none."""
    return {name: message[name] for name in ("result", "error") if name in message}


def opening_of(scenes: Iterable[Scene]) -> dict[str, Any]:
    """Return what a server said of itself when it was last opened, with the members of the handshake in each version.

    `serverInfo` is an object, `protocolVersion` a text or None; {} if no opening was recorded.
    """
    from mcp_types import SERVER_INFO_META_KEY

    results = (object_of(_final(scene).get("result")) for scene in scenes if scene.method in OPENINGS)
    result: dict[str, Any] = next(reversed([result for result in results if result]), {})
    versions = result.get("supportedVersions")
    info = result.get("serverInfo") or object_of(result.get("_meta")).get(SERVER_INFO_META_KEY)
    version = result.get("protocolVersion") or (versions[-1] if isinstance(versions, list) and versions else None)
    members = {"serverInfo": object_of(info), "protocolVersion": version if isinstance(version, str) else None}
    return {**result, **members} if result else {}


def _step(scene: Scene) -> Step | None:
    return next((step for step in scene.steps if step.kind == "answer"), None)


def _final(scene: Scene) -> dict[str, Any]:
    step = _step(scene)
    return {} if step is None else answer_of(step.message)


def _request(server: str, scenes: Sequence[Scene], at: int) -> Recorded:
    """Return a request with the answer of its last round, or of the task that it became."""
    scene = scenes[at]
    params = {name: value for name, value in scene.params.items() if name != "_meta"}
    request = Recorded(server, scene.method, params)
    key, later = key_of(scene.method, _without_round(params)), iter(scenes[at + 1 :])
    while True:
        request.questions += _asked(scene)
        step, answer = _step(scene), _final(scene)
        result = object_of(answer.get("result"))
        if step is None or not answer:
            request.problem = "its recording has no answer"
        elif step.http and "error" in answer and not step.http.get("said"):
            how = f"HTTP {step.http['status']}" if "status" in step.http else "the connection"
            request.problem = f"its recording is a failure of the transport: {how}"
        elif result.get("resultType") == "task":
            answer = _of_task(scenes[at:], result.get("taskId"))
            request.questions += _asked_by_task(scenes[at:], result.get("taskId"))
            request.problem = "" if answer else "the end of its task was not recorded"
        elif result.get("resultType") == "input_required":
            round_ = next((scene for scene in later if _is_round(scene, key)), None)
            if round_ is not None:
                request.questions += _of_round(result, round_.params)
                scene = round_
                continue
            request.problem = "its recording ends with a question"
        if request.questions and scene.method != "tools/call":
            request.problem = request.problem or "it asks a question; only those of calls are answered as recorded"
        if any(is_masked(question.result) for question in request.questions):
            request.problem = request.problem or f"the cassette has {MASK} in place of a secret that the user entered"
        request.answers += [answer] if answer else []
        return request


def _is_round(scene: Scene, key: str) -> bool:
    """Whether a request goes on with another one after its questions."""
    return bool(scene.params.keys() & set(_ROUND)) and key_of(scene.method, _without_round(scene.params)) == key


def _without_round(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in _ROUND}


def _asked(scene: Scene) -> Iterator[Question]:
    """Yield what the server asked by requests of its own."""
    for step in scene.steps:
        if step.kind == "request" and step.message.get("method") != "roots/list":
            yield _question(step.message, (step.reply or {}).get("result"))


def _of_round(result: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[Question]:
    """Yield what the server asked by an answer, with the answers of the next round."""
    responses = params.get("inputResponses")
    for name, message in object_of(result.get("inputRequests")).items():
        if isinstance(message, dict) and message.get("method") != "roots/list":
            yield _question(message, responses.get(name) if isinstance(responses, dict) else None)


def _question(message: Mapping[str, Any], result: Any) -> Question:
    text = str(object_of(message.get("params")).get("message", ""))
    return Question(str(message.get("method")), text, result if isinstance(result, dict) else None)


def _of_task(scenes: Iterable[Scene], task: Any) -> dict[str, Any]:
    """Return the answer with which a task ended, or {}."""
    for scene in scenes:
        if scene.method == TASK and scene.params.get("taskId") == task and (ended := task_end(_final(scene))):
            return ended
    return {}


def _asked_by_task(scenes: Iterable[Scene], task: Any) -> Iterator[Question]:
    """Yield what a task asked, with the answers that it got."""
    requests: dict[str, Any] = {}
    for scene in scenes:
        if scene.params.get("taskId") == task:
            requests |= object_of(object_of(_final(scene).get("result")).get("inputRequests"))
            answers = object_of(scene.params.get("inputResponses"))
            questions = {name: requests.pop(name) for name in [*requests] if name in answers}
            yield from _of_round({"inputRequests": questions}, scene.params)


def task_end(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer with which a task ended, out of its state; {} if it goes on."""
    return answer_of(object_of(answer.get("result")))
