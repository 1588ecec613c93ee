"""Lists in pages, which `MCPServer` does not do: a server on the SDK's lower level.

Run `python paging_server.py` for 25 tools, resources, templates and prompts in pages of 10. `--empty-cursor`
ends with the cursor "" instead of none, `--endless` never ends, and `--wrong-output` makes the tools break
their promise: their results do not fit their output schema.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)
from serving import parser, serve

Item = TypeVar("Item")
Page = tuple[list[Item], str | None]


@dataclass(frozen=True)
class Pages:
    """How a list is cut.

    Attributes:
        size: Items in all.
        page: Items on a page.
        last: The cursor of the last page: None, or "" as some servers have it.
        endless: Whether there is always one more page.
        wrong_output: Whether tools break their output schema.
    """

    size: int = 25
    page: int = 10
    last: str | None = None
    endless: bool = False
    wrong_output: bool = False

    def cut(self, params: PaginatedRequestParams | None, make: Callable[[int], Item]) -> Page[Item]:
        """Return the items of the page that is asked for, and the next page's cursor."""
        cursor = params.cursor if params else None
        if cursor and not cursor.isdecimal():
            raise MCPError(INVALID_PARAMS, f"Unknown cursor {cursor!r}.")
        start = int(cursor or 0)
        end = start + self.page
        if self.endless:
            return [make(number) for number in range(start, end)], str(end)
        return [make(number) for number in range(start, min(end, self.size))], str(
            end
        ) if end < self.size else self.last


NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def make_tool(number: int) -> Tool:
    """Return the tool of a number."""
    nothing = {"type": "object", "properties": {}}
    return Tool(name=f"tool_{number:03}", description=f"Return {number}.", input_schema=nothing, output_schema=NUMBER)


def make_resource(number: int) -> Resource:
    """Return the resource of a number."""
    return Resource(uri=f"paging://number/{number}", name=f"number {number}", mime_type="text/plain")


def make_template(number: int) -> ResourceTemplate:
    """Return the resource template of a number."""
    return ResourceTemplate(uri_template=f"paging://times/{number}/{{factor}}", name=f"times {number}")


def make_prompt(number: int) -> Prompt:
    """Return the prompt of a number."""
    return Prompt(name=f"prompt_{number:03}", description=f"Say {number}.")


class Handlers:
    """Answers each request; what is listed is cut as `pages` says."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    async def tools(self, ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Answer `tools/list`."""
        items, cursor = self.pages.cut(params, make_tool)
        return ListToolsResult(tools=items, next_cursor=cursor)

    async def resources(self, ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Answer `resources/list`."""
        items, cursor = self.pages.cut(params, make_resource)
        return ListResourcesResult(resources=items, next_cursor=cursor)

    async def templates(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Answer `resources/templates/list`."""
        items, cursor = self.pages.cut(params, make_template)
        return ListResourceTemplatesResult(resource_templates=items, next_cursor=cursor)

    async def prompts(self, ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """Answer `prompts/list`."""
        items, cursor = self.pages.cut(params, make_prompt)
        return ListPromptsResult(prompts=items, next_cursor=cursor)

    async def call(self, ctx: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        """Answer `tools/call` with the number in the tool's name."""
        number = self.number(params.name)
        data = {"number": f"not {number}"} if self.pages.wrong_output else {"number": number}
        return CallToolResult(content=[TextContent(text=str(number))], structured_content=data)

    async def read(self, ctx: ServerRequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Answer `resources/read` with the number at the end of the URI, or with the product of two."""
        scheme, kind, *numbers = params.uri.replace("://", "/").split("/")
        if scheme != "paging" or kind not in ("number", "times") or not all(part.isdecimal() for part in numbers):
            raise MCPError(INVALID_PARAMS, f"Unknown resource {params.uri!r}.", {"uri": params.uri})
        text = str(math.prod(int(part) for part in numbers))
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)])

    async def prompt(self, ctx: ServerRequestContext, params: GetPromptRequestParams) -> GetPromptResult:
        """Answer `prompts/get` with the number in the prompt's name."""
        text = TextContent(text=f"Say {self.number(params.name)}.")
        return GetPromptResult(messages=[PromptMessage(role="user", content=text)])

    def number(self, name: str) -> int:
        """Return the number in a name such as tool_003, if there is one of that name."""
        digits = name.rpartition("_")[2]
        if not digits.isdecimal() or (int(digits) >= self.pages.size and not self.pages.endless):
            raise MCPError(INVALID_PARAMS, f"Unknown name {name!r}.")
        return int(digits)


def make_server(pages: Pages | None = None) -> Server:
    """Return a server whose lists are cut as `pages` says."""
    handlers = Handlers(pages or Pages())
    return Server(
        "paging",
        on_list_tools=handlers.tools,
        on_call_tool=handlers.call,
        on_list_resources=handlers.resources,
        on_list_resource_templates=handlers.templates,
        on_read_resource=handlers.read,
        on_list_prompts=handlers.prompts,
        on_get_prompt=handlers.prompt,
    )


def options() -> argparse.Namespace:
    """Return what the command line says."""
    line = parser(__doc__ or "")
    line.add_argument("--size", type=int, default=25, help="items in each list; default: 25")
    line.add_argument("--page", type=int, default=10, help="items on a page; default: 10")
    line.add_argument("--empty-cursor", action="store_true", help='end with the cursor "" instead of none')
    line.add_argument("--endless", action="store_true", help="always have one more page")
    line.add_argument("--wrong-output", action="store_true", help="return what does not fit the output schema")
    return line.parse_args()


if __name__ == "__main__":
    said = options()
    last = "" if said.empty_cursor else None
    serve(make_server(Pages(said.size, said.page, last, said.endless, said.wrong_output)), said)
