"""A server that publishes skills (extension `io.modelcontextprotocol/skills`), and counts what is read of them."""

from __future__ import annotations

import hashlib
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, RequestParams

__all__ = ["SkillServer", "entry_of"]

MANIFEST = "---\nname: {name}\ndescription: About {name}\nreleased: 2026-07-28\n---\n\nDo it with care.\n"


def entry_of(root: str, files: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return the honest entry of a skill whose files are given by their paths."""
    resources = [
        {"uri": f"{root}/{path}", "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text)}
        for path, text in files.items()
    ]
    name = root.rpartition("/")[2]
    front = {"name": name, "description": f"About {name}", "released": "2026-07-28"}
    return {"uri": f"{root}/SKILL.md", "frontmatter": front, "resources": resources, **more}


class GetSkillParams(RequestParams):
    uri: str


class SkillServer(Extension):
    """Skills at `skill://acme/NAME`, two entries a page.

    Attributes:
        entries: What is said of them; to be changed by a test.
        files: What is served, by URI; to be changed by a test.
        reads: The URIs that were read.
        last: The cursor that comes with the last page, if any.
    """

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, *names: str) -> None:
        self.entries: list[Any] = []
        self.files: dict[str, str] = {}
        self.reads: list[str] = []
        self.last: str | None = None
        for name in names:
            texts = {"SKILL.md": MANIFEST.format(name=name), "references/FORMS.md": "The forms.\n"}
            self.entries.append(entry_of(f"skill://acme/{name}", texts))
            self.files |= {f"skill://acme/{name}/{path}": text for path, text in texts.items()}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
        ]

    async def _list(self, context: Any, params: Any) -> dict[str, Any]:
        start = int(params.cursor or 0) if params else 0
        more = {"nextCursor": str(start + 2) if start + 2 < len(self.entries) else self.last}
        more = {name: cursor for name, cursor in more.items() if cursor is not None}
        return {"resultType": "complete", "skills": self.entries[start : start + 2], **more}

    async def _get(self, context: Any, params: Any) -> dict[str, Any]:
        for entry in self.entries:
            if entry["uri"] == params.uri:
                return {"resultType": "complete", "skill": entry}
        raise MCPError(-32602, f"No skill is served at {params.uri}")

    def server(self) -> MCPServer:
        """Return the server."""
        server = MCPServer("skills", extensions=[self])

        def serve(uri: str) -> None:
            @server.resource(uri)
            def read() -> str:
                self.reads.append(uri)
                return self.files[uri]

        for uri in self.files:
            serve(uri)
        return server
