"""A registry of MCP servers on 127.0.0.1, over the v0.1 API of modelcontextprotocol/registry."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from mcp_magic.registry.cache import AnswerCache
from mcp_magic.registry.client import registry_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OFFICIAL = "io.modelcontextprotocol.registry/official"
MOST = 100  # entries of a page, as of the official registry


def entry(name: str, version: str = "1.0.0", *, status: str = "active", message: str = "", **fields: Any) -> Any:
    """Return a server as a registry sends it; `fields` are those of its server.json, `_meta` is the registry's."""
    updated = fields.pop("updated", "2026-11-01T00:00:00Z")
    official = {"status": status, "publishedAt": updated, "updatedAt": updated, "isLatest": fields.pop("latest", True)}
    if message:
        official["statusMessage"] = message
    server = {"name": name, "description": f"Does what {name} does.", "version": version, **fields}
    return {"server": server, "_meta": {OFFICIAL: official}}


def npm(identifier: str, version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """Return a package of npm."""
    package = {"registryType": "npm", "identifier": identifier, "version": version, "transport": {"type": "stdio"}}
    return {**package, **fields}


def many(count: int) -> list[Any]:
    """Return so many servers."""
    return [entry(f"org.example/server-{number:05}", packages=[npm(f"server-{number:05}")]) for number in range(count)]


@dataclass
class Answer:
    """An answer that is no list of servers.

    Attributes:
        wait: Returns when it is to be sent.
    """

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    wait: Callable[[], Any] = lambda: None

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


class Registry:
    """A registry, and what it was asked.

    Attributes:
        url: Its address.
        entries: The servers, as it sends them.
        answers: Answers to the next requests, instead of the right ones.
        replies: Answers by path, instead of the right ones: "/files/tool.mcpb".
        requests: The paths and queries that came.
        headers: The headers that came with each.
        path: What is before the path of the API.
        api: The version of the API that it serves.
        searches: The members of a server that are searched.
        refused: Parameters that it answers with 422.
        shape: Makes what it sends of a page of a list.
    """

    def __init__(self, entries: list[Any]) -> None:
        self.url = ""
        self.entries = entries
        self.answers: deque[Answer] = deque()
        self.replies: dict[str, Answer] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.path = ""
        self.api = "v0.1"
        self.searches: tuple[str, ...] = ("name", "description")
        self.refused: set[str] = set()
        self.shape: Callable[[Any], Any] = lambda page: page

    def answer(self, target: str, headers: dict[str, str]) -> Answer:
        """Return the answer to a request."""
        self.requests.append(target)
        self.headers.append(headers)
        if self.answers:
            return self.answers.popleft()
        parts = urlsplit(target)
        if parts.path in self.replies:
            return self.replies[parts.path]
        query = dict(parse_qsl(parts.query))
        words = parts.path.removeprefix(f"{self.path}/{self.api}/").split("/")
        if not parts.path.startswith(f"{self.path}/{self.api}/") or words[0] != "servers":
            return Answer(404, {"title": "Not Found", "status": 404})
        if self.refused & query.keys():
            return Answer(422, {"title": "Unprocessable Entity", "detail": "unexpected parameter"})
        value = self.page(query) if len(words) == 1 else self.versions(*map(unquote, words[1:]))
        if value is None:
            return Answer(404, {"title": "Not Found", "status": 404, "detail": "Server not found"})
        answer = Answer(200, self.shape(value))
        answer.headers = {"content-type": "application/json", "etag": f'"{hash(answer.content)}"'}
        if headers.get("if-none-match") == answer.headers["etag"]:
            return Answer(304, "", answer.headers)
        return answer

    def page(self, query: dict[str, str]) -> Any:
        """Return a page of the list."""
        limit = min(int(query.get("limit", 30)), MOST)
        entries = [item for item in self.entries if self._fits(item, query)]
        start = int(query.get("cursor", "0").removeprefix("after "))
        end = start + limit
        metadata = {"count": len(entries[start:end])}
        if end < len(entries):
            metadata["nextCursor"] = f"after {end}"
        return {"servers": entries[start:end], "metadata": metadata}

    def _fits(self, item: Any, query: dict[str, str]) -> bool:
        if not isinstance(item, dict) or not isinstance(item.get("server"), dict):
            return True
        official = item.get("_meta", {}).get(OFFICIAL, {})
        if official.get("status") == "deleted" and query.get("include_deleted") != "true":
            return False
        if query.get("version") == "latest" and official.get("isLatest") is False:
            return False
        texts = (str(item["server"].get(name, "")) for name in self.searches)
        word = query.get("search", "").casefold()
        return not self.searches or any(word in text.casefold() for text in texts)

    def versions(self, name: str, word: str = "", version: str = "") -> Any:
        """Return the versions of a server, or one of them; None if there are none."""
        entries = [item for item in self.entries if item["server"]["name"] == name] if word == "versions" else []
        if not version:
            return {"servers": entries, "metadata": {"count": len(entries)}} if entries else None
        wanted = [item for item in entries if item["server"].get("version") == version]
        latest = [item for item in entries if item["_meta"][OFFICIAL].get("isLatest")]
        return next(iter(latest if version == "latest" else wanted), None)


@contextmanager
def registry(*entries: Any) -> Iterator[Registry]:
    """Serve a registry."""
    served = Registry([*entries])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_GET(self) -> None:
            answer = served.answer(self.path, {name.lower(): value for name, value in self.headers.items()})
            answer.wait()
            content = answer.content
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            try:
                self.wfile.write(content if self.command == "GET" else b"")
            except OSError:
                self.close_connection = True

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()


def let_age(address: str, seconds: float) -> None:
    """Make the cached answers of a registry older."""
    for path in AnswerCache(registry_address(address)).folder.glob("*.json"):
        fields = json.loads(path.read_text())
        path.write_text(json.dumps({**fields, "time": fields["time"] - seconds}))
