"""`%mcp tools` and its like: what servers offer, as lists, cards, forms, watches and views."""

from __future__ import annotations

import asyncio
import shlex
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic import schema
from mcp_magic._compat import IN_BROWSER
from mcp_magic._host import owner_of
from mcp_magic._text import clean, did_you_mean, join_names
from mcp_magic.config.servers import discover_servers
from mcp_magic.display.document import tool_badges
from mcp_magic.display.listing import LazyRows, Listing
from mcp_magic.errors import CommandError, MCPMagicError, UnknownResourceError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import how_to_ask, needs_yes
from mcp_magic.ipython.commandline import (
    ANY_SERVER,
    ONE_TOOL,
    Argument,
    Implementation,
    Invocation,
    Parser,
    seconds_typed,
)
from mcp_magic.results.cards import ToolCard

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from mcp_types import ResourceTemplate

    from mcp_magic._host import Host
    from mcp_magic.apps.app import App
    from mcp_magic.apps.page import AppPage
    from mcp_magic.results.results import ResourceResult
    from mcp_magic.session.connection import Connection
    from mcp_magic.skills import Skill, Skills
    from mcp_magic.ui.explorer import Explorer
    from mcp_magic.ui.request_form import RequestForm
    from mcp_magic.watch import Watch

_T = TypeVar("_T")

# Listings: tools, resources, templates, prompts, skills.


async def _run_tools(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    if not (arguments.bound or arguments.cost):
        return await _list("tools", _tool_row, invocation, arguments)
    from mcp_magic.agent.tools import bound_tools, tool_costs

    if arguments.cost:
        return await tool_costs(invocation.host, arguments.server, invocation.settings.search_above)
    return await bound_tools(invocation.host, arguments.server, arguments.search or "")


def _tool_row(connection: Connection, tool: Any) -> dict[str, Any]:
    root = schema.input_root(tool.input_schema)
    arguments = [field.name if field.is_mandatory else f"[{field.name}]" for field in root.children]
    if root.unlisted:
        arguments.append(f"… {root.unlisted:,} more")
    change = connection.change_of(tool)
    return {
        "tool": f"{connection.name}:{tool.name}",
        "arguments": ", ".join(arguments),
        "hints": [*([change.badge] if change else []), *tool_badges(tool, trusted=connection.spec.trust)],
        "description": _first_line(tool),
    }


def _resource_row(connection: Connection, resource: Any) -> dict[str, Any]:
    return {
        "uri": str(resource.uri),
        "server": connection.name,
        "name": resource.title or resource.name,
        "type": resource.mime_type,
        "bytes": resource.size,
        "description": _first_line(resource),
    }


def _template_row(connection: Connection, template: Any) -> dict[str, Any]:
    return {
        "template": template.uri_template,
        "server": connection.name,
        "name": template.title or template.name,
        "type": template.mime_type,
        "description": _first_line(template),
    }


def _prompt_row(connection: Connection, prompt: Any) -> dict[str, Any]:
    return {
        "prompt": f"{connection.name}:{prompt.name}",
        "arguments": ", ".join(a.name if a.required else f"[{a.name}]" for a in prompt.arguments or ()),
        "description": _first_line(prompt),
    }


def _first_line(item: Any) -> str:
    return str(item.description or item.title or "").strip().partition("\n")[0]


async def _list(
    kind: str, row: Callable[[Connection, Any], dict[str, Any]], invocation: Invocation, arguments: argparse.Namespace
) -> Listing:
    connections = invocation.host.find(arguments.server)
    words = (arguments.search or "").casefold()

    def matches(item: Any) -> bool:
        texts = (item.name, item.title or "", item.description or "", str(getattr(item, "uri", "")))
        return words in "\n".join(texts).casefold()

    async def of_one(connection: Connection) -> list[tuple[partial[dict[str, Any]], Sequence[Any]]]:
        items = await connection.listing(kind, refresh=arguments.refresh, timeout=arguments.timeout)
        return [(partial(row, connection), [*filter(matches, items)] if words else items)]

    groups, problems = await _of_all(map(of_one, connections), raising=arguments.server is not None)
    problems += [line for connection in connections for line in _unusable_lines(connection, kind, words)]
    problems += [connection.outdated for connection in connections if connection.outdated]
    rows = LazyRows(groups)
    empty = f"{arguments.server} lists no {kind}" if arguments.server else f"the connected servers list no {kind}"
    if not connections:
        empty = "no server is connected: `%mcp connect TARGET` opens a session"
    elif arguments.search:
        empty = f"no {kind} with {arguments.search!r} in name, title or description"
    return Listing(
        rows,
        columns=list(rows[0]) if rows else (),
        title=f"{kind.capitalize()} of {arguments.server}" if arguments.server else kind.capitalize(),
        empty=empty,
        note="\n".join(problems),
        kind=kind,
    )


MAX_UNUSABLE = 10  # most definitions of a server that cannot be used to show below a listing


def _unusable_lines(connection: Connection, kind: str, words: str) -> list[str]:
    """Return a line for each definition that cannot be used, with the reason."""
    unusable = connection.catalog.unusable.get(kind, {})
    lines = [
        f"unusable: {connection.name}:{name}: {reason} (fault: the server)"
        for name, reason in unusable.items()
        if words in name.casefold()
    ]
    if (more := len(lines) - MAX_UNUSABLE) > 0:
        lines[MAX_UNUSABLE:] = [f"{more:,} more of {connection.name} cannot be used"]
    return lines


async def _of_all(work: Iterable[Coroutine[Any, Any, list[_T]]], *, raising: bool) -> tuple[list[_T], list[str]]:
    """Return what several servers list, and what went wrong with the others unless that is raised."""
    items: list[_T] = []
    problems: list[str] = []
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, MCPMagicError) and not raising:
            problems.append(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            items += outcome
    return items, problems


_LISTING_ARGUMENTS = (
    ANY_SERVER,
    Argument("--search", metavar="TEXT", help="only those with TEXT in name, title or description"),
    Argument("--refresh", action="store_true", help="ask the servers again"),
    Argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the list of each server"),
)


def _lister(kind: str, row: Callable[[Connection, Any], dict[str, Any]]) -> Implementation:
    examples = (f"%mcp {kind}", f"%mcp {kind} weather", f"%mcp {kind} --search city")
    return Implementation(partial(_list, kind, row), _LISTING_ARGUMENTS, examples)


TOOLS = Implementation(
    _run_tools,
    (
        *_LISTING_ARGUMENTS,
        (
            Argument("--bound", action="store_true", help="the tools as a model gets them, and their size in tokens"),
            Argument("--cost", action="store_true", help="servers and tools by the tokens they cost at each turn"),
        ),
    ),
    ("%mcp tools", "%mcp tools weather", "%mcp tools --search city", "%mcp tools --bound", "%mcp tools --cost"),
)
RESOURCES = _lister("resources", _resource_row)
TEMPLATES = _lister("templates", _template_row)
PROMPTS = _lister("prompts", _prompt_row)


async def _tool(invocation: Invocation, arguments: argparse.Namespace) -> ToolCard:
    connection, tool = await invocation.host.resolve(arguments.tool)
    return ToolCard(
        tool,
        server=connection.name,
        trusted=connection.spec.trust,
        change=connection.change_of(tool),
        outdated=connection.outdated,
    )


TOOL = Implementation(
    _tool, (ONE_TOOL,), examples=("%mcp tool weather:forecast",), left_over="A tool is SERVER:TOOL, in one word."
)


async def _skills(invocation: Invocation, arguments: argparse.Namespace) -> Listing | ResourceResult:
    host = invocation.host
    if arguments.load:
        if arguments.server is None:
            raise CommandError("%mcp skills --load takes the server too: `%mcp skills SERVER --load SKILL`")
        return await _load_skill(host[arguments.server].skills, invocation.text(arguments.load))
    connections = host.find(arguments.server)
    offering = [connection.skills for connection in connections if arguments.server or connection.skills.offered]

    async def of_one(skills: Skills) -> list[dict[str, Any]]:
        return [_skill_row(skill) for skill in await skills.list()]

    rows, problems = await _of_all(map(of_one, offering), raising=arguments.server is not None)
    nothing = "no connected server lists skills" if connections else "no server is connected"
    return Listing(rows, title="Skills", empty=nothing, note="\n".join(problems), kind="skills")


def _skill_row(skill: Skill) -> dict[str, Any]:
    return {
        "skill": f"{skill.server}:{skill.name}",
        "description": skill.description.strip().partition("\n")[0],
        "files": len(skill.files) or None,
        "bytes": sum(file.size for file in skill.files) or None,
        "uri": skill.uri,
        **({"problem": skill.problem} if skill.problem else {}),
    }


async def _load_skill(skills: Skills, name: str) -> ResourceResult:
    if "://" in name:
        return (await skills.load(name)).result
    entries = await skills.list()
    matches = [skill for skill in entries if skill.name == name]
    if not matches:
        names = [skill.name for skill in entries]
        message = f"no skill {name!r} is listed.{did_you_mean(name, names)} There are: {join_names(names)}"
        raise UnknownResourceError(message)
    if len(matches) > 1:
        message = f"{len(matches)} skills are named {name!r}; say which: {join_names(skill.uri for skill in matches)}"
        raise CommandError(message)
    return (await skills.load(matches[0])).result


SKILLS = Implementation(
    _skills,
    (ANY_SERVER, Argument("--load", metavar="SKILL", help="the name or URI of a skill: shows its SKILL.md")),
    examples=("%mcp skills", "%mcp skills acme", "%mcp skills acme --load refunds"),
    details="A skill is instructions for models, with files. Its text is fetched only when you load it, and shown "
    "only if it matches what the server announced. An agent gets only skills that `--skills` names.",
)


# Forms and the explorer.


async def _form(invocation: Invocation, arguments: argparse.Namespace) -> RequestForm:
    from mcp_magic.ui.request_form import RequestForm

    host, name = invocation.host, str(arguments.name)
    item: Any
    timeout = arguments.timeout if arguments.timeout is not None else invocation.settings.call_timeout
    if arguments.prompt:
        connection, item = await host.resolve(name, "prompts")
    elif "{" in name or "://" in name:
        connection, item = await _template(invocation, name, arguments.server)
    else:
        connection, item = await invocation.tool(name, arguments.arguments)
    form = RequestForm(connection, item, timeout=timeout, loop=host.loop, save=invocation.shell.user_ns.__setitem__)
    try:
        if arguments.arguments:
            with connection.explain_misfits():
                form.set_arguments(invocation.arguments(arguments.arguments, form.form.schema))
    except Exception:
        form.close()
        raise
    if invocation.cells.kernel is not None:
        publish = invocation.shell.display_pub.publish
        shown_as = {"display_id": uuid.uuid4().hex}  # by which the copy that the notebook saves is replaced later
        form.publish = lambda bundle, update: publish(bundle, transient=shown_as, update=update)
    return invocation.cells.keep(form)


async def _template(invocation: Invocation, name: str, server: str | None) -> tuple[Connection, ResourceTemplate]:
    templates: list[str] = []
    for connection in [invocation.host[server]] if server else invocation.host.find():
        for template in await connection.listing("templates"):
            if template.uri_template == name:
                return connection, template
            templates.append(template.uri_template)
    near = did_you_mean(name, templates)
    raise UnknownResourceError(f"no connected server has the template {name!r}.{near} `%mcp templates` lists them.")


FORM = Implementation(
    _form,
    (
        Argument(
            "name",
            metavar="SERVER:TOOL",
            complete=completion.forms,
            help="or SERVER:PROMPT with --prompt, or a URI template",
        ),
        Argument(
            "arguments",
            nargs="*",
            metavar="NAME=VALUE",
            complete=completion.form_arguments,
            help="the first values, as for %%mcp call",
        ),
        Argument("--prompt", action="store_true", help="fill in a prompt"),
        Argument("--server", metavar="SERVER", help="the server of the URI template, if several have it"),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer"),
    ),
    examples=(
        "%mcp form weather:forecast",
        "%mcp form weather:forecast location=London",
        "%mcp form weather:travel_advice --prompt",
        "form = %mcp form 'weather://{city}/today' --server weather",
    ),
    details="`form.arguments` and `form.result` hold the form's values and the server's last answer; `await "
    "form.run()` does what the button does. If you run the cell again, its earlier form is closed.",
)


async def _connect(invocation: Invocation, text: str) -> None:
    """Connect what was typed into the explorer: a target as of `%mcp connect`, or the words of a command."""
    from mcp_magic.ipython.commands.connect import CONNECT

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"cannot read {text!r}: {error}") from None
    is_command = len(words) > 1
    arguments = Parser("%mcp connect", CONNECT.arguments).parse_args([] if is_command else words)
    await CONNECT.run(replace(invocation, command=words if is_command else ()), arguments)


async def _ui(invocation: Invocation, arguments: argparse.Namespace) -> Explorer:
    from mcp_magic.ui.explorer import Explorer

    configured = discover_servers(invocation.directory)
    ready = [e for e in configured if e.spec and not (e.problem or e.disabled or e.shadowed_by)]
    offered = {e.name: e.spec for e in ready if e.spec and not needs_yes(e, invocation.directory)}
    explorer = Explorer(
        invocation.host,
        arguments.server,
        offered=offered,
        timeout=lambda: invocation.settings.call_timeout,
        connect=partial(_connect, invocation),
        save=invocation.shell.user_ns.__setitem__,
    )
    return invocation.cells.keep(explorer)


UI = Implementation(
    _ui,
    (Argument("server", nargs="?", metavar="SERVER", help="show only this server at first"),),
    examples=("%mcp ui", "%mcp ui weather"),
    details="It also lists the configured servers: click one to connect it, or type a URL, file or command. If you "
    "run the cell again, its earlier explorer is closed.",
)


# Watches.

SHORTEST = 0.1  # least seconds between two reads of `--every`


async def _watch(invocation: Invocation, arguments: argparse.Namespace) -> Watch | Listing:
    uri = None if arguments.uri is None else str(invocation.value(arguments.uri))
    if arguments.stop:
        return await _stop_watching(invocation, uri, arguments.server)
    if uri is None:
        return _watches(invocation.host)
    if arguments.every is not None and arguments.every < SHORTEST:
        raise CommandError(f"%mcp watch: --every takes seconds, {SHORTEST:g} at least")
    if arguments.count is not None and arguments.count < 1:
        raise CommandError("%mcp watch: --count takes a number of updates, 1 at least")
    where = invocation.cells.circumstances()
    if arguments.background and where.kernel is None:
        raise CommandError("%mcp watch: in a terminal nothing runs between the commands; leave out --background")
    from mcp_magic.ipython.live import Running, shown_once
    from mcp_magic.watch import Watch

    owner = owner_of(uri, invocation.host.find(arguments.server))
    watch = Watch(invocation.host, owner.name, uri, arguments.every)
    await watch.open()
    bounded = arguments.seconds is not None or arguments.count is not None
    if not (arguments.background or bounded or where.allow_stdin):
        watch.stop("shown once, because you cannot stop it here; --for SECONDS or --count N keeps watching")
        return watch
    background = arguments.background
    clicks = background or how_to_ask(where, invocation.settings.ask_with) == "panel"
    started = Running(
        watch, invocation.cells, waits=not background, clicks=clicks, seconds=arguments.seconds, count=arguments.count
    )
    shown_once(invocation.shell, watch)
    invocation.cells.keep(started)
    if not background:
        await started.wait()
    return watch


async def _stop_watching(invocation: Invocation, uri: str | None, server: str | None) -> Listing:
    from mcp_magic.ipython.live import running

    matches = [entry for entry in running() if uri in (None, entry.watch.uri) and server in (None, entry.watch.server)]
    if uri is not None and not matches:
        watched = [entry.watch.uri for entry in running()]
        raise UnknownResourceError(f"{uri} is not watched.{did_you_mean(uri, watched)} Watched: {join_names(watched)}")
    for entry in matches:
        await entry.stop("stopped by %mcp watch --stop")
    return _watches(invocation.host, f"stopped: {join_names(entry.watch.uri for entry in matches)}")


def _watches(host: Host, note: str = "") -> Listing:
    from mcp_magic.ipython.live import running

    rows = [
        {
            "what": "resource",
            "name": entry.watch.uri,
            "server": entry.watch.server,
            "state": entry.watch.how,
            "updates": entry.watch.updates,
            "last": _clock(entry.watch.changed_at),
            "since": _clock(entry.watch.began),
            "problem": entry.watch.problem or None,
        }
        for entry in running()
    ]
    rows += [
        {
            "what": event.kind,
            "name": event.name,
            "server": event.server,
            "state": event.text,
            "updates": None,
            "last": _clock(event.time),
            "since": _clock(began),
            "problem": None,
        }
        for began, event in host.events.under_way()
    ]
    columns = ("what", "name", "server", "state", "updates", "last", "since", "problem")
    empty = "nothing is watched: `%mcp watch URI --background` watches while other cells run"
    return Listing(rows, title="Under way", columns=columns, empty=empty, note=note, kind="rows")


def _clock(when: float | None) -> str | None:
    return None if when is None else time.strftime("%H:%M:%S", time.localtime(when))


WATCH = Implementation(
    _watch,
    (
        Argument("uri", nargs="?", metavar="URI", help="of a resource; without it, list the watches, jobs and apps"),
        Argument("--server", metavar="SERVER", help="the server of the resource, if several have it"),
        Argument("--background", action="store_true", help="end the cell, and keep updating below it"),
        Argument("--for", dest="seconds", type=seconds_typed, metavar="SECONDS", help="end after that time"),
        Argument("--count", type=int, metavar="N", help="end after N updates"),
        Argument(
            "--every",
            type=seconds_typed,
            metavar="S",
            help="read it every S seconds, if the server announces no changes",
        ),
        Argument("--stop", action="store_true", help="stop watching URI; without URI, stop all watches"),
    ),
    examples=(
        "%mcp watch log://today",
        "%mcp watch log://today --background",
        "%mcp watch",
        "%mcp watch --stop log://today",
        "%mcp watch status://build --every 5 --for 60",
    ),
    details="The watch goes on until Interrupt or Stop; with --background the cell ends, and its output is updated "
    "while other cells run. If you run the cell again, the watch ends. Fast updates are shown together. The"
    " value is the watch: `.result` is the last reading, `.difference` the last change, `.updates` the "
    "number of updates.",
)


# The view of a tool in a tab of the browser.

LATEST = "$_"  # the latest value of a cell


async def _view(invocation: Invocation, arguments: argparse.Namespace) -> AppPage | None:
    if IN_BROWSER:
        raise CommandError("%mcp view: this Python runs in a browser, where it can serve no page.")
    page = await _page_of(_app(invocation, arguments.result), invocation.state.pages)
    page.invite()
    if invocation.cells.kernel is not None:
        return page
    print(clean(f"{page}\nIt is served until its tab is closed; Ctrl-C ends it, too."), flush=True)
    try:
        await page.closed.wait()  # in a terminal nothing runs between the commands
    finally:
        await page.stop()
    return None


def _app(invocation: Invocation, word: str) -> App:
    """Return the app of a result, or of a value that is one."""
    from mcp_magic.apps.app import App

    value = invocation.value(word)
    app = getattr(value, "app", value)
    if isinstance(app, App):
        return app
    noun = "the last value" if word == LATEST else word
    raise CommandError(
        f"%mcp view: {noun} is no result of a tool with a view; `r = %mcp call SERVER:TOOL`, then `%mcp view $r`"
    )


async def _page_of(app: App, pages: list[AppPage]) -> AppPage:
    """Return the page of an app, begun if it has none yet; forget the pages that have ended."""
    from mcp_magic.apps.page import AppPage

    pages[:] = [page for page in pages if page.running]
    for page in pages:
        if page.app is app:
            return page
    page = AppPage(app)
    await page.start()
    pages.append(page)
    return page


VIEW = Implementation(
    _view,
    (
        Argument(
            "result",
            nargs="?",
            default=LATEST,
            metavar="RESULT",
            help="the result of a tool that has a view, as $result (default: the last value)",
        ),
    ),
    examples=("%mcp view", "%mcp view $result"),
    details="For terminals, and for notebooks whose frontend shows no widgets. The page is served on 127.0.0.1 with a "
    "token, so it opens in a browser on the kernel's machine. Its address opens once; type the line again for another. "
    "The page asks you about the requests of the view, above the view. In a terminal the line waits until you close "
    "the tab; in a kernel it ends at once, and the page lasts until the kernel ends.",
)
