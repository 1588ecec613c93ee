"""Writes requests as a pytest file, or as a program on the bare SDK of Python or TypeScript."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult, Tool
from pydantic import ValidationError

from mcp_magic._text import free_name
from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.protocol import check_output
from mcp_magic.results.results import ResourceResult, ToolResult, value_of
from mcp_magic.schema.secrets import MASK
from mcp_magic.schema.validate import check_arguments
from mcp_magic.server.literals import (
    PYTHON,
    TYPESCRIPT,
    NoLiteralError,
    call_arguments,
    imports_of,
    literal,
    quoted,
    reads,
    variables_in,
    with_variables,
)
from mcp_magic.trace.trace import is_masked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mcp_magic.server.exchange import Exchange, Recording
    from mcp_magic.server.targets import Target


# What was written.


@dataclass(frozen=True)
class Written:
    """A file that is not on the disk yet.

    Attributes:
        text: What is in it.
        variables: The names of the variables that it reads from the environment.
        requests: How many requests it sends.
        tests: The names of its tests.
        remarks: What was left out, and why.
    """

    text: str = field(repr=False)
    variables: tuple[str, ...] = ()
    requests: int = 0
    tests: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Block:
    """The code of one request."""

    code: str
    variables: set[str]
    name: str = ""


def _blocks(recording: Recording, write: Any) -> tuple[list[_Block], list[str]]:
    """Return the code of each request that can be repeated, and remarks on the others."""
    groups, remarks = recording.groups()
    blocks = []
    for group in groups:
        try:
            blocks.append(write(group))
        except (NoLiteralError, ValidationError, RecursionError) as error:
            why = str(error) if isinstance(error, NoLiteralError) else "an answer that cannot be read"
            number = f" {group[0].number} of the trace" if group[0].number else ""
            remarks.append(f"left out: request{number}: {why}")
    if not blocks:
        raise CommandError("%mcp export: no request can be repeated by a program: " + "; ".join(remarks))
    return blocks, remarks


def _variables(target: Target, blocks: Sequence[_Block]) -> list[str]:
    return sorted(target.variables.union(*(block.variables for block in blocks)))


def _name_of(file: Path) -> str:
    """Return the name of the written file for its head, which it cannot end."""
    return re.sub(r"[^\w./-]", "_", file.name, flags=re.ASCII)


# The pytest file.

LONGEST_VALUE = 4000  # most characters of an answer that a test has; of a longer one it has the schema

_TESTS = '''\
"""Tests of the MCP server {server}, written from the requests of a session.

    pytest {file}                      replays the cassettes beside it
    pytest {file} --mcp-record=once    records them where there are none: that needs the server
{reads}"""

{imports}

pytestmark = pytest.mark.anyio
{environment}

@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def connected():
    async with Host() as host:
        yield await host.connect({connect})
'''


def write_tests(recording: Recording, target: Target, file: Path) -> Written:
    """Return a pytest file with a test for each request, by the value of the answer, or by its schema if it varies."""
    names: set[str] = set()
    blocks, remarks = _blocks(recording, lambda group: _test(recording, group, names))
    code = "".join(f"\n\n{block.code}" for block in blocks)
    connect = target.arguments_of_connect(recording.server, 8)
    variables = _variables(target, blocks)
    in_requests = "".join(block.code for block in blocks if block.variables)
    imports = ["from contextlib import asynccontextmanager", *imports_of(connect + in_requests)]
    imports.sort(key=lambda line: (line.startswith("from"), line))
    others = ["import pytest", "from mcp_magic import Host"]
    if "jsonschema.validate(" in code:
        others.insert(0, "import jsonschema")
    if "pytest.raises(ProtocolError)" in code:
        others.append("from mcp_magic.errors import ProtocolError")
    defaults = "".join(f'os.environ.setdefault("{name}", "")\n' for name in variables)
    environment = f"\n# only the server itself needs them, its cassettes do not\n{defaults}" if variables else ""
    head = _TESTS.format(
        server=quoted(recording.server),
        file=_name_of(file),
        reads=reads(variables),
        imports="\n".join([*imports, "", *others]),
        environment=environment,
        connect=connect,
    )
    tests = tuple(block.name for block in blocks)
    return Written(head + code, tuple(variables), len(blocks), tests, (*target.remarks, *remarks))


def _test(recording: Recording, group: Sequence[Exchange], names: set[str]) -> _Block:
    exchange = group[0]
    kinds = {("error" in e.answer, e.is_failure) for e in group}
    if len(kinds) > 1:
        raise NoLiteralError("it was answered, and it failed")
    arguments = with_variables(exchange.arguments, recording.server)
    name = literal(with_variables(exchange.name, recording.server), PYTHON)
    if "error" in exchange.answer:
        codes = {e.answer["error"].get("code") for e in group}
        lines = [
            "with pytest.raises(ProtocolError) as refused:",
            f"    await {_request(recording, exchange, name, arguments)}",
        ]
        check = [f"assert refused.value.code in {sorted(codes, key=str)!r}"] if len(codes) > 1 else []
        check = check or [f"assert refused.value.code == {literal(codes.pop(), PYTHON)}"]
    else:
        lines = [f"result = await {_request(recording, exchange, name, arguments)}"]
        check = _expectation(recording, group)
    title = free_name(_test_name(exchange), names)
    names.add(title)
    body = "".join(f"        {line}\n" for line in lines) + "".join(f"    {line}\n" for line in check)
    code = f"async def {title}(mcp_cassette):\n    async with connected() as server:\n{body}"
    return _Block(code, variables_in([arguments, with_variables(exchange.name, recording.server)]), title)


def _request(recording: Recording, exchange: Exchange, name: str, arguments: dict[str, Any]) -> str:
    values = literal(arguments, PYTHON, 8)
    if exchange.method == "resources/read":
        return f"server.read({name})"
    if exchange.method == "prompts/get":
        if recording.definition("prompts", exchange.name) is None:
            raise NoLiteralError("a prompt that is not listed")
        return f"server.prompt({name}, {values})" if arguments else f"server.prompt({name})"
    if exchange.is_failure or not _fits(recording, exchange):  # it is for the server to refuse arguments
        return f"server.call_tool({name}, {values}, validate=False)"
    separator = ",{}" if (keywords := call_arguments(arguments, 8)).startswith("\n") else ", {}"
    return f"server.call({name}{separator.format(keywords)})" if arguments else f"server.call({name})"


def _fits(recording: Recording, exchange: Exchange) -> bool:
    """Whether a session would send the arguments: the tool is listed, and its schema takes them."""
    definition = recording.definition("tools", exchange.name)
    try:
        check_arguments(exchange.arguments, (definition or {})["inputSchema"])
    except (ArgumentsError, KeyError, TypeError):
        return False
    return True


def _expectation(recording: Recording, group: Sequence[Exchange]) -> list[str]:
    """Return the lines that check an answer: by value, or by schema if it varies."""
    exchange = group[0]
    if exchange.method == "prompts/get":
        texts = [
            [m.content.text for m in _read(GetPromptResult, e).messages if m.content.type == "text"] for e in group
        ]
        return _checked("result.text", ["\n\n".join(text) for text in texts], group)
    results: list[Any] = []
    schema = None
    if exchange.method == "resources/read":
        results = [ResourceResult(_read(ReadResourceResult, e)) for e in group]
    else:
        schema = recording.output_schema(exchange.name)
        results = [ToolResult(_read(CallToolResult, e), output_schema=schema) for e in group]
    lines = ["assert result.is_error"] if exchange.is_failure else []
    if exchange.method == "tools/call" and not exchange.is_failure and not _fits(recording, exchange):
        lines = ["assert not result.is_error"]
    if results[0].data is not None or results[0].texts:
        access = "result.data" if results[0].data is not None else "result.text"
        lines += _checked(access, [value_of(result) for result in results], group)
        is_checked = schema is not None and not exchange.is_failure and _is_fit(recording, group)
        if lines[-1].startswith("jsonschema") and is_checked:
            lines.append("assert not result.unfit")
    elif exchange.method == "resources/read":
        lines += [f"assert result.mime_type == {literal(results[0].mime_type, PYTHON)}", "assert result.bytes"]
    else:
        kinds = [block.type for block in results[0].raw.content]
        lines += [f"assert [block.type for block in result.raw.content] == {literal(kinds, PYTHON)}"]
    return lines


def _read(model: Any, exchange: Exchange) -> Any:
    return model.model_validate(exchange.answer["result"])


def _checked(access: str, values: list[Any], group: Sequence[Exchange]) -> list[str]:
    value = values[0]
    varies = (
        any(other != value for other in values)
        or is_masked(value)
        or any(_is_of_its_time(entry, exchange) for entry, exchange in zip(values, group, strict=True))
    )
    if not varies:
        code = literal(value, PYTHON, 4)
        if len(code) <= LONGEST_VALUE:
            operator = "is" if value is None or isinstance(value, bool) else "=="
            return [f"assert {access} {operator} {code}"]
    return [f"jsonschema.validate({access}, {literal(schema_of(values), PYTHON, 4)})"]


_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")

DAY = 86_400.0  # seconds
RECENT = (1.4e9, 2.2e9)  # seconds since 1970: 2014 to 2039; a cassette does not say when it was recorded


def _is_of_its_time(value: Any, exchange: Exchange) -> bool:
    """Whether a value has an id or a time that another answer would not have, or what not all transports carry."""
    match value:
        case dict():
            return any(_is_of_its_time(entry, exchange) for entry in value.values())
        case list():
            return any(_is_of_its_time(entry, exchange) for entry in value)
        case str():
            given = repr(exchange.params)
            has_surrogate = not value.isascii() and value.encode("utf-8", "replace").decode() != value
            return (
                has_surrogate
                or any(match[0] not in given for match in _UUID.finditer(value))
                or any(match[0] not in given and _is_near(match[0], exchange.time) for match in _TIME.finditer(value))
            )
        case float() if exchange.time is None:
            return RECENT[0] < value < RECENT[1] and not value.is_integer()
        case int() | float() if exchange.time is not None and not isinstance(value, bool):
            return any(abs(value / scale - exchange.time) < DAY for scale in (1, 1000, 1_000_000))
    return False


def _is_near(text: str, time: float | None) -> bool:
    if time is None:  # a cassette does not say when it was recorded
        return True
    try:
        return abs(datetime.fromisoformat(text).timestamp() - time) < 2 * DAY  # of any zone
    except (ValueError, OverflowError, OSError):
        return False


MOST_MEMBERS = 40  # most members of an object that a schema lists
DEEPEST = 8  # levels of a schema

_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def schema_of(values: Sequence[Any], depth: int = 0) -> dict[str, Any]:
    """Return a JSON Schema that values fit.

    >>> schema_of([{"a": 1, "b": "x"}, {"a": 2.5}])["required"]
    ['a']
    """
    types = {_TYPES.get(type(value), "null") for value in values}
    if "number" in types:
        types.discard("integer")
    names = sorted(types)
    schema: dict[str, Any] = {"type": names[0] if len(names) == 1 else names} if names else {}
    objects = [value for value in values if isinstance(value, dict)]
    members = list(dict.fromkeys(name for entry in objects for name in entry))
    if members and depth < DEEPEST and len(members) <= MOST_MEMBERS:
        schema["properties"] = {
            name: schema_of([entry[name] for entry in objects if name in entry], depth + 1) for name in members
        }
        schema["required"] = [name for name in members if all(name in entry for entry in objects)]
    items = [item for value in values if isinstance(value, list) for item in value]
    if items and depth < DEEPEST:
        schema["items"] = schema_of(items, depth + 1)
    return schema


def _test_name(exchange: Exchange) -> str:
    kind = {"resources/read": "read", "prompts/get": "prompt"}.get(exchange.method, "")
    values = [value for value in exchange.arguments.values() if isinstance(value, str | int | float)]
    words = [kind, exchange.name, *map(str, values[:4])]
    return f"test_{'_'.join(filter(None, map(_slug, words)))[:50].strip('_') or 'request'}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text[:200].replace(MASK, "").lower()).strip("_")[:30]


# The clients.

_PYTHON = '''\
"""A client of the MCP server {server}, written from the requests of a session.

    pip install mcp
    python {file}
{reads}"""

{imports}


def show(title: str, result: BaseModel) -> None:
    pp({{title: result.model_dump(mode="json", by_alias=True, exclude_none=True)}}, width=120)


async def main() -> None:
{connect}
{requests}

if __name__ == "__main__":
    asyncio.run(main())
'''


def write_python(recording: Recording, target: Target, file: Path) -> Written:
    """Return a program on the Python SDK that sends the requests and prints the answers."""
    target = target.with_token()
    blocks, remarks = _blocks(recording, lambda group: _python_request(recording, group))
    mode = ', mode="legacy"' if target.protocol == "handshake" else ""
    third = ["from mcp import Client", "from pydantic import BaseModel"]
    options = {name: target.options[name] for name in ("headers", "verify", "cert") if name in target.options}
    if target.transport == "stdio":
        third[0] = "from mcp import Client, StdioServerParameters, stdio_client"
        words = {"command": target.command[0], "args": target.command[1:], **target.options}
        values = "".join(f"        {name}={literal(value, PYTHON, 8)},\n" for name, value in words.items())
        connect = f"    server = StdioServerParameters(\n{values}    )\n"
        client = "stdio_client(server)"
    elif target.transport == "sse":
        third.append("from mcp.client.sse import sse_client")
        headers = literal(options.get("headers", {}), PYTHON, 4)
        connect = f"    url = {literal(target.url, PYTHON, 4)}\n    headers = {headers}\n"
        client = "sse_client(url, headers=headers)"
    elif options:
        third += ["import httpx2", "from mcp.client.streamable_http import streamable_http_client"]
        values = "".join(f"        {name}={literal(value, PYTHON, 8)},\n" for name, value in options.items())
        connect = f"    http = httpx2.AsyncClient(\n{values}        timeout=httpx2.Timeout(30, read=300),\n    )\n"
        connect += f"    url = {literal(target.url, PYTHON, 4)}\n"
        client = "streamable_http_client(url, http_client=http)"
    else:
        connect = f"    url = {literal(target.url, PYTHON, 4)}\n"
        client = "url"
    connect += f"    async with Client({client}{mode}) as client:"
    variables = _variables(target, blocks)
    requests = "".join(block.code for block in blocks)
    if "except MCPError" in requests:
        third[0] = third[0].replace("Client", "Client, MCPError", 1)
    in_requests = "".join(block.code for block in blocks if block.variables)
    imports = ["import asyncio", *imports_of(connect + in_requests), "from pprint import pp"]
    third.sort(key=lambda line: (line.startswith("from"), line))
    text = _PYTHON.format(
        server=quoted(recording.server),
        file=_name_of(file),
        reads=reads(variables),
        imports="\n".join([*imports, "", *third]),
        connect=connect,
        requests=requests,
    )
    return Written(text, tuple(variables), len(blocks), (), (*target.remarks, *remarks))


def _is_fit(recording: Recording, group: Sequence[Exchange]) -> bool:
    """Whether the answers to a call fit the output schema of its tool."""
    schema = recording.output_schema(group[0].name) if group[0].method == "tools/call" else None
    if schema is None:
        return True
    tool = Tool(name=group[0].name, input_schema={}, output_schema=schema)
    answers = [_read(CallToolResult, exchange) for exchange in group if "result" in exchange.answer]
    return not any(check_output(answer, tool).unfit for answer in answers)


def _check_output(recording: Recording, group: Sequence[Exchange]) -> None:
    """Raise NoLiteralError for answers that the SDKs refuse."""
    if not _is_fit(recording, group):
        raise NoLiteralError("its answer does not fit the tool's output schema, so the SDKs refuse it")


def _python_request(recording: Recording, group: Sequence[Exchange]) -> _Block:
    _check_output(recording, group)
    exchange, server = group[0], recording.server
    arguments, name = with_variables(exchange.arguments, server), with_variables(exchange.name, server)
    title, values = literal(name, PYTHON), literal(arguments, PYTHON, 12)
    match exchange.method:
        case "tools/call":
            request = f"client.call_tool({title}, {values})"
        case "resources/read":
            request = f"client.read_resource({title})"
        case _:
            request = f"client.get_prompt({title}, {values})"
    lines = [f"show({title}, await {request})"]
    if any("error" in e.answer for e in group):
        lines = ["try:", f"    {lines[0]}", "except MCPError as error:", f"    pp({{{title}: str(error)}})"]
    return _Block("".join(f"        {line}\n" for line in lines), variables_in([arguments, name]))


_TYPESCRIPT = """\
// A client of the MCP server {server}, written from the requests of a session.
//
//     npm install @modelcontextprotocol/client tsx
//     npx tsx {file}
{reads}
{imports}
{helpers}
function show(title: string, result: unknown): void {{
  console.log(`${{title}}: ${{JSON.stringify(result, null, 2)}}`);
}}

async function main(): Promise<void> {{
  const client = new Client(
    {{ name: {name}, version: "1.0.0" }},
    {{ versionNegotiation: {{ mode: "{mode}" }} }},
  );
  await client.connect(
    {connect},
  );
  try {{
{requests}  }} finally {{
    await client.close();
  }}
}}

main().catch((error) => {{
  console.error(error);
  process.exitCode = 1;
}});
"""

_ENVIRONMENT = """
function environment(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`set the variable ${name} of the environment`);
  return value;
}
"""


def write_typescript(recording: Recording, target: Target, file: Path) -> Written:
    """Return a program on the TypeScript SDK that sends the requests and prints the answers."""
    target = target.with_token()
    blocks, remarks = _blocks(recording, lambda group: _typescript_request(recording, group))
    helpers = ""
    imports = []
    if target.transport == "stdio":
        imports = ['import { Client } from "@modelcontextprotocol/client";']
        imports.append('import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";')
        words = {"command": target.command[0], "args": target.command[1:], **target.options}
        values = "".join(f"      {name}: {literal(value, TYPESCRIPT, 6)},\n" for name, value in words.items())
        connect = f"new StdioClientTransport({{\n{values}    }})"
    else:
        transport = "SSEClientTransport" if target.transport == "sse" else "StreamableHTTPClientTransport"
        imports = [f'import {{ Client, {transport} }} from "@modelcontextprotocol/client";']
        connect = f"new {transport}(new URL({literal(target.url, TYPESCRIPT, 4)})"
        if headers := target.options.get("headers"):
            connect += f", {{\n      requestInit: {{ headers: {literal(headers, TYPESCRIPT, 6)} }},\n    }}"
        connect += ")"
        if {"verify", "cert"} & target.options.keys():
            remarks.append("certificates are left out: Node takes them from NODE_EXTRA_CA_CERTS")
    if "join(here" in connect:
        imports = ['import { dirname, join } from "node:path";', *imports]
        helpers += "\nconst here = dirname(process.argv[1]);\n"
    variables = _variables(target, blocks)
    text = _TYPESCRIPT.format(
        server=quoted(recording.server),
        file=_name_of(file),
        reads="".join(f"// It reads from the environment: {name}\n" for name in variables),
        imports="\n".join(imports),
        helpers=helpers + (_ENVIRONMENT if variables else ""),
        name=literal(f"{recording.server} client", TYPESCRIPT),
        mode="legacy" if target.protocol == "handshake" else "auto",
        connect=connect,
        requests="".join(block.code for block in blocks),
    )
    return Written(text, tuple(variables), len(blocks), (), (*target.remarks, *remarks))


def _typescript_request(recording: Recording, group: Sequence[Exchange]) -> _Block:
    _check_output(recording, group)
    exchange, server = group[0], recording.server
    arguments, name = with_variables(exchange.arguments, server), with_variables(exchange.name, server)
    title = literal(name, TYPESCRIPT)
    given = f", arguments: {literal(arguments, TYPESCRIPT, 4)}"
    match exchange.method:
        case "tools/call":
            request = f"client.callTool({{ name: {title}{given} }})"
        case "resources/read":
            request = f"client.readResource({{ uri: {title} }})"
        case _:
            request = f"client.getPrompt({{ name: {title}{given if arguments else ''} }})"
    lines = [f"show({title}, await {request});"]
    if any("error" in e.answer for e in group):
        lines = ["try {", f"  {lines[0]}", "} catch (error) {", f"  show({title}, String(error));", "}"]
    return _Block("".join(f"    {line}\n" for line in lines), variables_in([arguments, name]))
