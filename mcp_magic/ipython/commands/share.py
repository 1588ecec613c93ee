"""`%%mcp_server`, `%mcp export`, `record`, `docs`, `stubs`, `snapshot`, `diff`: what others can use."""

from __future__ import annotations

import ast
import inspect
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural, sentence
from mcp_magic.cassette.cassette import MODES, deck
from mcp_magic.config.parsing import check_name, write_text
from mcp_magic.config.targets import url_meant
from mcp_magic.display.listing import Listing, Text
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError, MCPMagicError, UnknownServerError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import ONE_SERVER, Argument, Implementation, Invocation, Tab
from mcp_magic.ipython.commands.serve import serve_at
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.results.results import CellCrashError, CheckFailedError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.server.cell import CellServer, Marks
    from mcp_magic.server.snapshot import Change, Changes
    from mcp_magic.session.connection import Connection


# Servers from cells: `%%mcp_server`.

_SINGULAR = {"tools": "tool", "prompts": "prompt", "resources": "resource", "templates": "template"}


async def _make_server(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Run the cell, make a server of its functions, and connect it in place of its predecessor."""
    from mcp_magic.server.cell import Marks, make_server
    from mcp_magic.server.snapshot import interface_changes, interface_of

    name = check_name(arguments.name)
    body = invocation.body
    if body is None:
        raise CommandError(
            f"%%mcp_server: the cell is empty. Begin it with `%%mcp_server {name}`; each function below is a tool: "
            "def add(a: int, b: int) -> int: return a + b"
        )
    before = await _interface(invocation, name)
    marks = Marks()
    live = f" The earlier server {name!r} is still live." if before is not None else ""
    instructions = invocation.value(arguments.instructions) if arguments.instructions else None
    try:
        functions = await _run_cell(invocation.shell, body, marks, live)
        server = make_server(name, functions, marks, source=body, instructions=instructions)
    except CellCrashError:
        raise
    except CommandError as error:
        raise CommandError(sentence(str(error)) + live) from None
    connection = await invocation.host.connect(server, name=name, trust=True)
    served = invocation.state.served.get(name)
    if served is not None and served.running and served.cassette is None:  # programs find it where the old one was
        await serve_at(invocation, name, server, served.port, served.token)
    now = await interface_of(connection)
    return _server_listing(name, now, interface_changes(before, now) if before is not None else None)


async def _interface(invocation: Invocation, name: str) -> dict[str, Any] | None:
    """Return the current interface of this name's server, or None if it is not open or does not answer."""
    from mcp_magic.server.cell import CellServer
    from mcp_magic.server.snapshot import interface_of

    old = invocation.host.connections.get(name)
    if old is None or old.state != "open":
        return None
    if not isinstance(getattr(old.spec, "server", None), CellServer):
        problem = f"%%mcp_server: {name!r} is connected, and is not a server of this notebook"
        raise CommandError(f"{problem}; take another name, or `%mcp disconnect {name}` first.")
    try:
        return await interface_of(old)
    except MCPMagicError:
        return None


async def _run_cell(shell: InteractiveShell, body: str, marks: Marks, live: str) -> list[Callable[..., Any]]:
    """Run a cell's code in the notebook's namespace; return the public functions that it defines.

    Line numbers in tracebacks and `%debug` are those of the cell: the magic is its first line.
    """
    source = "\n" + str(shell.transform_cell(body))  # type: ignore[no-untyped-call]
    number = len(shell.user_ns.get("In", ())) - 1  # `execution_count` may already be the next cell's
    file = shell.compile.cache(source, number if number > 0 else shell.execution_count, raw_code="\n" + body)
    tree, code = _compiled(shell, source, file)
    with _among(shell.user_ns, marks.names):
        crash = await _crash(code, shell.user_ns)
    if crash is not None:
        reason = f"{type(crash).__name__}: {one_line(str(crash), 300)}".rstrip(": ")
        traceback = crash.__traceback__  # from the cell's own code on
        while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
            traceback = traceback.tb_next
        error = CellCrashError(f"%%mcp_server: the cell raised {sentence(reason)}{live}")
        raise error.with_traceback(traceback) from crash.with_traceback(traceback)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    public = [name for name in dict.fromkeys(names) if not name.startswith("_")]
    functions = [shell.user_ns[name] for name in public if callable(shell.user_ns.get(name))]
    if not functions and not (marks.tools or marks.resources or marks.prompts):
        raise CommandError("%%mcp_server: the cell defines no function; each `def` in it becomes a tool.")
    return functions


async def _crash(code: CodeType, namespace: dict[str, Any]) -> Exception | None:
    try:
        running = eval(code, namespace)
        if inspect.isawaitable(running):
            await running
    except MCPMagicError:
        raise
    except Exception as error:
        return error
    return None


def _compiled(shell: InteractiveShell, source: str, file: str) -> tuple[ast.Module, CodeType]:
    try:
        tree: Any = shell.transform_ast(shell.compile.ast_parse(source, filename=file, symbol="exec"))  # type: ignore[no-untyped-call]
        flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return tree, compile(tree, file, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        number = error.lineno or 0
        line = "".join(source.split("\n")[number - 1 : number])
        raise CommandError(f"%%mcp_server: line {number}: {error.msg}: {line.strip()}") from None


@contextmanager
def _among(namespace: dict[str, Any], names: Mapping[str, Any]) -> Iterator[None]:
    """Add names to the namespace for a while; afterwards restore the variables that they replaced."""
    before = {name: namespace[name] for name in names if name in namespace}
    namespace.update(names)
    try:
        yield
    finally:
        for name, value in names.items():
            if namespace.get(name) is value:  # the cell has not assigned this name
                del namespace[name]
                if name in before:
                    namespace[name] = before[name]


def _server_listing(name: str, now: Mapping[str, Any], changes: Sequence[Change] | None) -> Listing:
    texts_of: dict[tuple[str, str], list[str]] = {}
    for change in changes or ():
        text = " ".join(part for part in (change.where, change.text) if part)
        texts_of.setdefault((change.kind, change.name), []).append(f"breaking: {text}" if change.breaking else text)
    rows = [
        {
            "kind": _SINGULAR[kind],
            "name": f"{name}:{key}" if kind in ("tools", "prompts") else key,
            "description": (definition.get("description") or "").partition("\n")[0],
            "change": "; ".join(texts_of.pop((_SINGULAR[kind], key), [])) or None,
        }
        for kind in _SINGULAR
        for key, definition in now[kind].items()
    ]
    rows += [
        {"kind": kind, "name": key, "description": None, "change": "; ".join(texts)}
        for (kind, key), texts in texts_of.items()
    ]
    note = ""
    if changes is not None:
        breaking = sum(change.breaking for change in changes)
        counts = f"{plural(len(changes), 'changes')}{f', {breaking} of them breaking' if breaking else ''}"
        note = f"It replaced the earlier one{f': {counts}' if changes else '; its interface is the same'}."
    return Listing(
        rows,
        title=f"{name}: a server in this kernel",
        columns=("kind", "name", "description", "change"),
        note=note,
        kind="offers",
    )


MCP_SERVER = Implementation(
    _make_server,
    (
        Argument("name", metavar="NAME", help="the name of the server"),
        Argument("--instructions", metavar="TEXT", help="instructions for models, or $variable"),
    ),
    examples=(
        "%%mcp_server shop",
        "def price(item: str) -> float:",
        '    "Tells the price of an item."',
        "    return prices[item]",
    ),
    details="Type hints and docstrings become the schema. `async def` works as well. A function whose name begins "
    "with `_` is a helper. `@tool(title=..., read_only=True)` adds facts about a tool; "
    "`@resource('data://{name}')` and `@prompt` make a resource or a prompt of a function. Functions see "
    "the notebook's variables. If you run the cell again, it replaces its server and shows the changes of "
    "its interface.",
    takes_body=True,
)


# Exporting.


_KINDS = ("pytest", "client", "report")  # what is written of a session, each an option


async def _export(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    kinds = [kind for kind in _KINDS if getattr(arguments, kind) is not None]
    if kinds:
        return await _export_session(invocation, arguments, *kinds)
    if arguments.server is None or arguments.file is None or arguments.last is not None:
        raise CommandError(
            "%mcp export: `NAME FILE.py` writes a server of a cell; --pytest, --client or --report FILE writes the "
            "requests of this session. `%mcp export --help` shows more."
        )
    from mcp_magic.server.export import program

    server = _cell_server(invocation, arguments.server)
    file = _new_file(invocation, arguments.file, force=arguments.force)
    namespace = invocation.shell.user_ns
    code = program(server, namespace, list(namespace.get("In", ())), file.name)
    write_text(file, code)
    return Text(f"{file} is the server {arguments.server!r}: `%mcp connect {arguments.file} --name NAME` starts it.")


def _new_file(invocation: Invocation, word: str, *, force: bool) -> Path:
    file = invocation.path(invocation.text(word))
    if file.exists() and not force:
        raise CommandError(f"%mcp export: {file} is there already; --force writes over it.")
    return file


def _cell_server(invocation: Invocation, name: str) -> CellServer:
    from mcp_magic.server.cell import CellServer

    servers = {key: getattr(c.spec, "server", None) for key, c in invocation.host.connections.items()}
    server_of_name = servers[invocation.host[name].name]
    if isinstance(server_of_name, CellServer):
        return server_of_name
    names = [key for key, server in servers.items() if isinstance(server, CellServer)]
    raise CommandError(f"%mcp export: {name!r} was not made by `%%mcp_server`; there are: {join_names(names)}.")


async def _export_session(invocation: Invocation, arguments: argparse.Namespace, kind: str) -> Text:
    """Write the requests that were made to a server as tests, as a client or as a page."""
    from mcp_magic.server.trial import writer_of

    if arguments.last is not None and arguments.last < 1:
        raise CommandError("%mcp export: --last takes a number from 1 on.")
    file = invocation.path(invocation.text(getattr(arguments, kind)))
    writer_of(kind, file)
    _new_file(invocation, str(file), force=arguments.force)
    source, server = _source(invocation, arguments.server, arguments.file)
    written = await invocation.host.export(
        source, kind, file, server=server, last=arguments.last, variables=invocation.variables
    )
    near = invocation.near(file)
    lines = [f"{near}: {plural(written.requests, 'requests')} of {server or source}, run once as recorded"]
    if written.tests:
        counts = plural(len(written.tests), "tests")
        lines = [f"{near}: {counts}, run once as recorded; `pytest {near} --mcp-record=once` records their cassettes"]
    elif kind == "report":
        lines = [f"{near}: {plural(written.requests, 'requests')}; read it before you pass it on"]
    elif any("not run" in remark for remark in written.remarks):
        lines = [lines[0].removesuffix(", run once as recorded")]
    if written.variables:
        lines.append(f"it reads from the environment: {', '.join(written.variables)}")
    return Text("\n".join([*lines, *written.remarks]))


def _source(invocation: Invocation, first: str | None, second: str | None) -> tuple[str | Path, str | None]:
    """Return what the requests are taken from: a connected server, or a cassette and one of its servers."""
    word = invocation.text(first) if first is not None else ""
    if second is not None:
        return invocation.path(invocation.text(second)), word
    if word and word not in invocation.host and (word.endswith(".jsonl") or invocation.path(word).is_file()):
        return invocation.path(word), None
    try:
        return invocation.connection(word or None).name, None
    except UnknownServerError as error:
        raise UnknownServerError(f"{error}\n  The requests of a cassette: `%mcp export FILE.jsonl ...`") from None


def _complete_source(tab: Tab) -> list[str]:
    return [*completion.COMPLETERS["SERVER"](tab), *completion.paths(tab)]


EXPORT = Implementation(
    _export,
    (
        Argument(
            "server",
            nargs="?",
            metavar="NAME|CASSETTE",
            complete=_complete_source,
            help="a connected server (default: the only one), or a cassette",
        ),
        Argument(
            "file", nargs="?", metavar="FILE", help="the program of a server; with an option the cassette that has NAME"
        ),
        (
            Argument("--pytest", metavar="FILE", help="write the requests of this session as tests (.py)"),
            Argument("--client", metavar="FILE", help="write them as a client on the bare SDK (.py, .ts)"),
            Argument("--report", metavar="FILE", help="write them as a page to pass on (.html)"),
        ),
        Argument("--last", type=int, metavar="N", help="the newest N requests only"),
        Argument("--force", action="store_true", help="overwrite an existing file"),
    ),
    examples=(
        "%mcp export shop shop_server.py",
        "%mcp export shop --pytest tests/test_shop.py",
        "%mcp export shop --client shop_client.ts --last 5",
        "%mcp export shop.jsonl --report shop.html",
    ),
    details="`NAME FILE` writes a server that `%%mcp_server` has made. The program needs the SDK (`pip install mcp`) "
    "and nothing from the notebook: it contains the imports, functions, classes and plain data that the cell uses, and "
    "reads secrets from the environment. It speaks stdio, or streamable HTTP with --http PORT.\n\n"
    "With an option, the calls, reads and prompts that you made are written, from the trace or from a cassette: "
    "different ones once, without those of agents. A test checks the value of the answer, or its schema where it "
    "varies: equal requests had different answers, or it has a time or an id of its own. Secrets are variables of the "
    "environment. Tests and clients run once against the recorded answers; if that fails, nothing is written.",
)


# Cassettes.


async def _record(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    notes: list[str] = []
    hints = dict.fromkeys(("stop", "off", "end"), "`%mcp record --stop` stops using the cassette")
    hints |= {mode: f"`%mcp record FILE --mode {mode}`" for mode in MODES}
    if arguments.file in hints:
        raise CommandError(f"%mcp record: {hints[arguments.file]}; a file of that name is ./{arguments.file}")
    if arguments.stop and arguments.file:
        raise CommandError("%mcp record takes FILE, or --stop")
    if arguments.again:
        return await _record_again(invocation, arguments)
    if arguments.servers or arguments.all:
        raise CommandError("%mcp record: SERVER and --all need --again; each server is recorded")
    if not arguments.file and (arguments.mode or arguments.pauses or arguments.in_process):
        raise CommandError("%mcp record: these options need FILE; to change a cassette in use, stop it first")
    if arguments.stop:
        notes += await _stop_cassette(invocation)
    elif arguments.file:
        notes += await _start_cassette(invocation, arguments)
    rows = []
    if (cassette := deck.cassette) is not None:
        rows.append(
            {
                "cassette": invocation.near(cassette.path),
                "now": cassette.doing,
                "servers": ", ".join(cassette.servers),
                "models": ", ".join(cassette.models),
                "lines written": cassette.recorded,
                "answers played": cassette.played,
            }
        )
    columns = ("cassette", "now", "servers", "models", "lines written", "answers played")
    empty = "nothing is recorded or replayed; `%mcp record FILE` begins"
    return Listing(rows, title="Cassette", columns=columns, empty=empty, note="; ".join(notes), kind="cassettes")


async def _record_again(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    from mcp_magic.server.verification import SECONDS, verifier

    if not arguments.file or arguments.stop or arguments.mode or arguments.pauses or arguments.in_process:
        raise CommandError("%mcp record: --again needs FILE, and takes SERVER and --all")
    path, host = invocation.path(invocation.text(arguments.file)), invocation.host
    if deck.cassette is not None and deck.cassette.path.resolve() == path.resolve():
        raise CommandError(f"%mcp record: {arguments.file} is in use; `%mcp record --stop` first")
    options = {"timeout": invocation.settings.call_timeout or SECONDS, "largest": deck.largest}
    run = verifier(path, arguments.servers, host.connections, host.reports, every=arguments.all, **options)
    with until_interrupted():
        await run.run("record again")
    return run.keep_answers()


async def _start_cassette(invocation: Invocation, arguments: argparse.Namespace) -> list[str]:
    from mcp_magic._host import begin_again, leave_replayed

    path = invocation.path(invocation.text(arguments.file))
    replays = await leave_replayed(invocation.host)
    deck.insert(path, arguments.mode or "once", pauses=arguments.pauses, in_process=arguments.in_process or "live")
    again, errors = await begin_again(invocation.host)
    notes = [f"disconnected: {join_names(replays)}"] if replays else []
    notes += [f"opened again, so that the cassette has their beginning: {join_names(again)}"] if again else []
    return notes + [f"{name}: {str(error).partition(chr(10))[0]}" for name, error in errors.items()]


async def _stop_cassette(invocation: Invocation) -> list[str]:
    from mcp_magic._host import leave_replayed

    cassette = deck.eject()
    if cassette is None:
        return []
    replays = await leave_replayed(invocation.host)
    counts = f"{plural(cassette.recorded, 'lines')} written, {plural(cassette.played, 'answers')} played"
    notes = [f"{invocation.near(cassette.path)}: {counts}"]
    return notes + ([f"disconnected, because they were replayed: {join_names(replays)}"] if replays else [])


RECORD = Implementation(
    _record,
    (
        Argument("file", nargs="?", metavar="FILE", help="the cassette, such as cassettes/tutorial.jsonl"),
        Argument(
            "--mode",
            choices=tuple(MODES),
            help="; ".join(f"{name}: {effect}" for name, effect in MODES.items()) + " (default: once)",
        ),
        Argument("--pauses", action="store_true", help="replay with the recorded pauses"),
        Argument(
            "--in-process",
            choices=("live", "replay"),
            help="live: servers in this kernel run while others are replayed (default); replay: they are replayed, too",
        ),
        Argument("--stop", action="store_true", help="stop using the cassette; requests go to the real servers again"),
        Argument("--again", action="store_true", help="send what FILE has again, to learn what varies"),
        Argument("servers", nargs="*", metavar="SERVER", help="with --again: as for `%%mcp verify`"),
        Argument("--all", action="store_true", help="with --again: also calls of tools that are not read-only"),
    ),
    examples=(
        "%mcp record tutorial.jsonl",
        "%mcp record tutorial.jsonl --mode record",
        "%mcp record tutorial.jsonl --mode replay",
        "%mcp record",
        "%mcp record --stop",
        "%mcp record tutorial.jsonl --again",
    ),
    details="The first run writes FILE. Later runs take all answers from it: no server is started, and no model is "
    "called. FILE holds every message and every turn of a model, secrets masked, one JSON object a line. Open "
    "sessions are opened again. A request that is not in FILE is an error that names the nearest one.\n\nIn notebooks "
    "that run unattended (papermill, nbclient, nbval): MCP_MAGIC_CASSETTE=FILE and MCP_MAGIC_CASSETTE_MODE=MODE. "
    "Tests: the pytest fixture mcp_cassette. `%mcp replay` sends one request of the trace again.\n\n--again adds a "
    "second answer to each request, and what differs from the first (times, ids): `%mcp verify FILE` ignores its "
    "values. Interrupt or Cancel keeps the answers so far. Replays do not change.",
)


# Pages, stubs and snapshots.

_DOCS_ARGUMENTS = (ONE_SERVER, Argument("-o", "--out", metavar="FILE", help="write it into a file"))


class _Markdown(Text):
    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(include, exclude)
        return {"text/plain": bundle["text/plain"], "text/markdown": self.text}


async def _docs(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    from mcp_magic.server.docs import page

    connection = invocation.connection(arguments.server)
    text = await page(connection)
    return _write(invocation, arguments.out, text, connection) if arguments.out else _Markdown(text)


async def _stubs(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    from mcp_magic.server.stubs import stubs as module

    connection = invocation.connection(arguments.server)
    text = module(connection.name, await connection.listing("tools"))
    return _write(invocation, arguments.out, text, connection) if arguments.out else Text(text)


def _write(invocation: Invocation, name: str, text: str, connection: Connection) -> Text:
    file = invocation.path(invocation.text(name))
    write_text(file, text)
    return _with_note(f"{file}: {plural(len(text.splitlines()), 'lines')}", connection)


def _with_note(text: str, connection: Connection) -> Text:
    """Return what was written of a server, and whether its program has changed since it was started."""
    return Text("\n".join(filter(None, (text, connection.outdated))))


DOCS = Implementation(
    _docs,
    _DOCS_ARGUMENTS,
    examples=("%mcp docs weather", "%mcp docs weather -o docs/weather.md"),
    details="Markdown, with arguments, types, hints and an example call of each tool. The server's texts are quoted"
    " with their emphasis, lists and code; their HTML, links, images and headings become text.",
)
STUBS = Implementation(
    _stubs,
    _DOCS_ARGUMENTS,
    examples=("%mcp stubs weather", "%mcp stubs weather -o weather.py"),
    details="Async functions that call the session of this name; arguments and results are typed from the schemas, "
    "so that editors and type checkers know them.",
)


def _snapshot_file(invocation: Invocation, word: str | None, server: str) -> Path:
    return invocation.path(invocation.text(word) if word else f"{server}.mcp.json")


async def _snapshot(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    from mcp_magic.server.snapshot import interface_of, snapshot_text

    connection = invocation.connection(arguments.server)
    interface = await interface_of(connection)
    file = _snapshot_file(invocation, arguments.out, connection.name)
    write_text(file, snapshot_text(interface))
    counts = ", ".join(plural(len(interface[kind]), kind) for kind in ("tools", "prompts", "resources", "templates"))
    line = " ".join(["%mcp diff", connection.name, *([shlex.quote(arguments.out)] if arguments.out else [])])
    return _with_note(f"{file}: {counts}; `{line}` says what has changed since.", connection)


async def _diff(invocation: Invocation, arguments: argparse.Namespace) -> Changes:
    from mcp_magic.server.snapshot import EFFECTS

    checked = arguments.check.split(",") if arguments.check is not None else []
    if strange := [effect for effect in checked if effect not in EFFECTS]:
        raise CommandError(
            f"%mcp diff: --check takes {', '.join(EFFECTS)}, or several of them (--check breaking,routing), not "
            f"{strange[0]!r}; SERVER and FILE come before it."
        )
    connection = invocation.connection(arguments.server)
    target = _compared(invocation, arguments.file, connection.name)
    changes = await invocation.host.diff(connection.name, target, timeout=invocation.settings.timeout)
    broken = changes.of(*checked)
    if broken:
        outdated = f"\n  {connection.outdated}" if connection.outdated else ""
        summary = broken.summary(changes.title.removeprefix(f"{connection.name} "))
        invocation.show(changes)
        raise CheckFailedError(f"%mcp diff: {summary}{outdated}", changes)
    return changes


def _compared(invocation: Invocation, word: str | None, server: str) -> Any:
    """Return what a server is compared with: a file, or what `Host.connect` takes."""
    value = invocation.value(word) if word else None
    if value is not None and not isinstance(value, str):
        return value
    text = invocation.text(word) if word else ""
    address = url_meant(text, invocation.directory) if not text.endswith(".json") else ""
    if text in invocation.host or "://" in text or address:
        return address or text
    file = _snapshot_file(invocation, word, server)
    if text and not (set(text) & set("./\\") or file.exists()):
        near = did_you_mean(text, [name for name in invocation.host if name != server])
        raise UnknownServerError(
            f"{text!r} is neither a connected server nor a file.{near} `%mcp connect TARGET --name {text}` opens a "
            f"session, `%mcp snapshot {server} -o {text}` writes the file."
        )
    return file


def _complete_compared(tab: Tab) -> list[str]:
    return [*completion.COMPLETERS["SERVER"](tab), *completion.paths(tab)]


SNAPSHOT = Implementation(
    _snapshot,
    (ONE_SERVER, Argument("-o", "--out", metavar="FILE", help="where to write it (default: SERVER.mcp.json)")),
    examples=("%mcp snapshot weather", "%mcp snapshot weather -o api/weather.json"),
    details="Tools, prompts, resources and templates as JSON, sorted, to keep under version control.",
)
DIFF = Implementation(
    _diff,
    (
        ONE_SERVER,
        Argument(
            "file",
            nargs="?",
            metavar="FILE|SERVER|URL",
            complete=_complete_compared,
            help="a snapshot (default: SERVER.mcp.json), or a later server",
        ),
        Argument(
            "--check",
            nargs="?",
            const="breaking",
            metavar="EFFECTS",
            complete=lambda tab: completion.continuing(tab, ("breaking", "behaviour", "routing")),
            help="changes of these effects (default: breaking) are an error, so that Run All stops",
        ),
    ),
    examples=(
        "%mcp diff weather",
        "%mcp diff weather api/weather.json --check",
        "%mcp diff weather weather_next --check breaking,routing",
        "%mcp diff weather https://next.example.com/mcp",
    ),
    details="Without FILE it compares with SERVER.mcp.json, which `%mcp snapshot SERVER` wrote in the working "
    "directory. With another server or a URL it shows what changes for those who go over to it.\n\n"
    "The effect of a change is breaking if working calls can fail now: a tool or a choice is gone, an argument is "
    "required now, a field of the answer is missing. It is behaviour if consent, display or what a call does changes: "
    "hints, titles, defaults, tasks, how long listings are kept. It is routing if a model reads something else: names, "
    "descriptions, examples, titles of choices, new tools and arguments. Changed texts stand side by side. A tool that "
    "is no longer read-only comes first. `changes.of('routing')` has those of an effect, `.df` the whole texts.",
)
