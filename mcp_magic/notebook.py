"""The public `Host`: the core host with approvals, elicitation, sampling, log-in and LangChain tools.

`host` is the kernel's own host, which `%mcp` uses; a program creates another with `Host()`.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic import _startup as startup
from mcp_magic._host import Host as CoreHost
from mcp_magic._text import free_name, join_names
from mcp_magic.config.parsing import slug, working_directory, working_path
from mcp_magic.config.project import find_declaration, load_declaration
from mcp_magic.config.targets import resolve_target
from mcp_magic.errors import CommandError, ConfigError, UnknownServerError
from mcp_magic.loops import on_own_loop_unless_closed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from langchain_core.documents.base import Blob
    from langchain_core.tools import StructuredTool

    from mcp_magic.addition import NewServer
    from mcp_magic.ask.elicitation import Elicitor
    from mcp_magic.ask.sampling import Sampler
    from mcp_magic.auth.login import Authorizer
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.consent import Approver
    from mcp_magic.display.listing import Listing
    from mcp_magic.doctor.report import DoctorReport
    from mcp_magic.evaluation.ablation import Ablation
    from mcp_magic.evaluation.evaluation import Evaluation
    from mcp_magic.evaluation.surface import Surface
    from mcp_magic.fuzz.report import FuzzReport
    from mcp_magic.fuzz.run import Fuzz
    from mcp_magic.map.bench import Bench
    from mcp_magic.outside.gateway import OwnTool
    from mcp_magic.outside.serving import KernelServing
    from mcp_magic.server.clients import Written
    from mcp_magic.server.snapshot import Changes
    from mcp_magic.server.verification import Verification
    from mcp_magic.session.connection import Connection
    from mcp_magic.values.shared import SharedValues

EXIT_SECONDS = 8.0  # most seconds that an exiting kernel waits for its servers

EXIT_STEPS = (0.7, 0.5)
"""Seconds that an exiting kernel gives a stdio server: after closing its stdin, and after SIGTERM, before SIGKILL.
Together well below 2.5, when Jupyter kills a kernel that still runs (half of `KernelManager.shutdown_wait_time`):
a server that ignores both would outlive the kernel."""


class NotebookHost(CoreHost):
    """The core host, with callbacks that answer for the user and with adapters for LangChain.

    Attributes:
        registry_address: The registry that `search_registry` searches; "" for the official one.
    """

    registry_address = ""
    _serving: KernelServing | None = None

    @property
    def approver(self) -> Approver | None:
        """The callback that approves calls: any `async def (request) -> Decision`; None if there is none."""
        return self.consent.approver

    @approver.setter
    def approver(self, approver: Approver | None) -> None:
        self.consent.approver = approver

    @property
    def elicitor(self) -> Elicitor | None:
        """The callback that answers elicitations: any `async def (elicitation) -> Answer`; None if there is none.

        A session announces the elicitation capability if this is set when the session opens.
        """
        return self.elicitation.elicitor

    @elicitor.setter
    def elicitor(self, elicitor: Elicitor | None) -> None:
        self.elicitation.elicitor = elicitor

    @property
    def sampler(self) -> Sampler | None:
        """The callback that answers sampling requests: any `async def (request) -> Sampled`; None if there is none.

        A session announces the sampling capability if this is set when the session opens.
        """
        return self.sampling.sampler

    @sampler.setter
    def sampler(self, sampler: Sampler | None) -> None:
        self.sampling.sampler = sampler

    @property
    def authorizer(self) -> Authorizer | None:
        """The callback that shows a log-in: any `async def (login) -> None` that returns when it is answered."""
        return self.logins.authorizer

    @authorizer.setter
    def authorizer(self, authorizer: Authorizer | None) -> None:
        self.logins.ask_with(authorizer, confirm=self.logins.confirm)

    @cached_property
    def values(self) -> SharedValues:
        """The variables that agents outside may read: `host.values.share("df")`, `host.values.stop("df")`.

        The kernel's own host has the variables of the notebook; another has none before
        `host.values.attach(namespace)`.
        """
        from mcp_magic.values.shared import SharedValues

        return SharedValues()

    @property
    def serving(self) -> KernelServing | None:
        """How this host is served to agents outside; None if it is not."""
        return self._serving if self._serving is not None and self._serving.running else None

    @on_own_loop_unless_closed
    async def serve(self, *, port: int = 0, notebook: str = "", own: Sequence[OwnTool] = ()) -> KernelServing:
        """Serve this host to agents outside, of this user, on 127.0.0.1; the same again if it is served already.

        They get its sessions' tools, resources and prompts, and the variables in `values`. `python -m mcp_magic proxy`
        finds it.

        Args:
            port: The port; 0 for any free one.
            notebook: The path of the notebook, where Jupyter does not tell it.
            own: Further tools.

        Raises:
            CommandError: The port cannot be had.
            ConfigError: The runtime file cannot be written.
        """
        if (serving := self.serving) is not None:
            if port not in (0, serving.kernel.port):
                at = serving.kernel.port
                raise CommandError(
                    f"%mcp serve: this kernel is served at port {at}; `%mcp serve --kernel --stop` ends that."
                )
            if more := [tool.tool.name for tool in own if tool.tool.name not in serving.server.own]:
                problem = f"%mcp serve: this kernel is served without {join_names(more)}"
                raise CommandError(f"{problem}; `%mcp serve --kernel --stop` ends that. Then type this line again.")
            return serving
        from mcp_magic.outside.gateway import KernelServer
        from mcp_magic.outside.serving import serve_kernel

        self._serving = await serve_kernel(KernelServer(self, self.values, own=own), port=port, notebook=notebook)
        return self._serving

    @on_own_loop_unless_closed
    async def stop_serving(self) -> list[str]:
        """Serve no longer: requests, streams and questions of clients end at once. Return their names. Idempotent."""
        serving, self._serving = self.serving, None
        if serving is None:
            return []
        clients = serving.clients
        await serving.stop()
        return clients

    def langchain_tools(self, *servers: str, **settings: Any) -> list[StructuredTool]:
        """Return the tools of the open sessions as LangChain tools.

        Args:
            *servers: Names of servers; without any, all open sessions.
            **settings: `timeout` (seconds a call may take), `images` (whether the model takes them),
                `limit` (characters of a result that it reads), `asker`.

        Raises:
            UnknownServerError: No open session has one of the names.
        """
        from mcp_magic.langchain.tools import langchain_tools

        connections = [self[name] for name in servers] if servers else self.find()
        return langchain_tools(*connections, **settings)

    async def langchain_spec_tools(
        self, target: Any, *, name: str | None = None, **options: Any
    ) -> list[StructuredTool]:
        """Return a server's tools that work without an open session: a call opens one unless this host has it open.

        Args:
            target: What `connect` takes.
            name: The server's name; the default is derived from the target.
            **options: `options`, a `langchain.tools.Options`, and the options of `connect`.

        Raises:
            TargetError: The target names no server.
            ConnectError: No session could be opened.
        """
        from mcp_magic.langchain.tools import spec_tools

        return await spec_tools(target, name=name, host=self, **options)

    async def langchain_resources(self, *sources: str) -> list[Blob]:
        """Read resources as LangChain blobs.

        Args:
            *sources: URIs, and names of servers for all resources they list; without any, all resources of all open
                sessions.

        Raises:
            UnknownServerError, UnknownResourceError, AmbiguousNameError: No server has it, or several could.
        """
        from mcp_magic.langchain.content import langchain_resources

        return await langchain_resources(self, *sources)

    async def search_registry(
        self,
        *words: str,
        registry: str | None = None,
        refresh: bool = False,
        timeout: float | None = None,
        **filters: Any,
    ) -> Listing:
        """Search a registry of MCP servers, and start nothing; `find` returns connections.

        Args:
            *words: All of them must be in the name, the title or the description.
            registry: The address of another registry than `registry_address`.
            refresh: Whether the registry is asked also where the cache has an answer of the last minutes.
            timeout: Seconds for each answer.
            **filters: `transport` (`"stdio"`, `"http"`, `"sse"`), `package` (`"npm"`, `"pypi"`, `"oci"`, `"mcpb"`,
                `"nuget"`), `every` (also deleted servers and older versions), `limit` (of matches, 100 by default).

        Raises:
            ArgumentsError, ConfigError: A filter or the address cannot be used; nothing was sent.
            RegistryError: The registry does not answer, and nothing of it is in the cache.
        """
        from mcp_magic.registry.client import OFFICIAL_REGISTRY
        from mcp_magic.registry.search import Query, search_registry

        usual = self.registry_address or OFFICIAL_REGISTRY
        query = Query(tuple(word for text in words for word in text.split()), **filters)
        return await search_registry(
            query, registry or usual, usual=usual, refresh=refresh, timeout=timeout, reports=self.reports
        )

    @on_own_loop_unless_closed
    async def add(
        self,
        what: str,
        *,
        values: Mapping[str, Any] | None = None,
        yes: str = "",
        keep: bool = False,
        folder: Path | None = None,
        **options: Any,
    ) -> NewServer:
        """Look up a server, show it and ask, try it, write it into a configuration file, and open its session.

        Args:
            what: A name in a registry, the path of a `server.json` or `.mcpb`, `"npm:NAME"`, `"pypi:NAME"`,
                `"oci:IMAGE"`, or the URL of a bundle or a server.
            values: What it takes, by name. A secret is not written; `"${...}"` is a reference that is.
            yes: The code of what is approved already, which a denial names.
            keep: Whether it is written even if it does not work.
            folder: The folder of the file; by default that of the kernel.
            **options: `name`, `version`, `package` (`"npm"`, ... or `"remote"`), `to` (the file, by default
                mcp_magic.toml), `registry` (another address than `registry_address`), and `sandbox` (a line, or a
                table, of what its program may reach).

        Raises:
            ArgumentsError: A value does not fit, or is missing.
            CommandError, ConfigError, RegistryError: It cannot be added; the message says why.
            ConnectError: It does not work; nothing was written.
            DeniedError: It was not agreed to, or nobody could be asked.
        """
        from mcp_magic.addition import add_server

        options["registry"] = options.get("registry") or self.registry_address
        options["folder"] = folder or working_directory()
        return await add_server(self, what, values=values, ask=self.secrets.asker, yes=yes, keep=keep, **options)

    @on_own_loop_unless_closed
    async def remove(self, name: str, *, file: str | Path | None = None, folder: Path | None = None) -> Listing:
        """Take a server out of the configuration file that has it, and end its session; return what was done.

        Args:
            name: The server.
            file: The file; by default the first of the folder's that has it.
            folder: The folder; by default that of the kernel.

        Raises:
            ConfigError: No file has it, or the file cannot be changed without changing something else.
        """
        from mcp_magic.addition import remove_server

        return await remove_server(self, name, folder=folder or working_directory(), file=file)

    async def doctor(self, target: Any = None, **options: Any) -> DoctorReport:
        """Examine a server, or all connected ones together.

        Args:
            target: A server, as for `connect`; without it, what the connected servers do to each other.
            **options: The options of `doctor.examine`.

        Raises:
            UnknownServerError: There is no target, and no server is connected.
        """
        from mcp_magic.doctor import examine, examine_all

        return await (examine_all(self) if target is None else examine(self, target, **options))

    async def diff(self, server: str, target: Any, **options: Any) -> Changes:
        """Return what has changed in a server's interface, by its effect.

        Args:
            server: The name of a connected server.
            target: What it is compared with: a `Path` to a snapshot, from which it has changed; or the name of another
                connected server, or anything else that `connect` takes, to which it changes. That is a session of its
                own, which is closed again.
            **options: The options of `connect`.

        Raises:
            UnknownServerError: There is no such server.
            ConfigError: The file is not a snapshot.
            TargetError, ConnectError: No session could be opened.
        """
        from mcp_magic.server.snapshot import interface_changes, interface_of, listed_changes, read_snapshot

        connection = self[server]
        interface = await interface_of(connection)
        if isinstance(target, Path):
            before = read_snapshot(target, connection.name)
            title, changes = f"{server} since {target.name}", interface_changes(before, interface)
            return listed_changes(changes, title, connection.outdated)
        if isinstance(target, str) and target in self:
            other, later = target, await interface_of(self[target])
        else:
            spec, name = resolve_target(target, **options)
            other = spec.where
            later = await _interface_of(self, spec, free_name(name, self.connections))
        return listed_changes(interface_changes(interface, later), f"from {server} to {other}", connection.outdated)

    async def export(
        self,
        source: str | Path,
        kind: str,
        file: str | Path,
        *,
        server: str | None = None,
        last: int | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Written:
        """Write the calls, reads and prompts that you made to a server into a file, and return what was written.

        A program is run once before, against the recorded answers.

        Args:
            source: The name of a connected server, whose requests the trace has, or the path of a cassette.
            kind: `"pytest"` for tests, `"client"` for a program (`.py` or `.ts`), `"report"` for a page (`.html`).
            file: The file, which is overwritten.
            server: One of several servers on a cassette.
            last: How many requests to take, from the newest; None for all.
            variables: Your names for its secrets, such as `{"TOKEN": token}`: the program reads them from there in the
                environment.

        Raises:
            UnknownServerError: There is no such server.
            CommandError: There are no requests, or no program can repeat them.
            CheckFailedError: What would be written does not run against the recorded answers.
        """
        from mcp_magic.server.exchange import recorded, traced
        from mcp_magic.server.trial import write_out, writer_of

        path = working_path(str(file))
        writer_of(kind, path)
        if isinstance(source, Path):
            recording = recorded(source, server, last)
            recording = replace(recording, spec=_spec_of(self, recording.server, recording.transport))
        else:
            recording = await traced(self[source], self.trace.entries(source), last)
        return await write_out(recording, kind, path, variables=variables, reports=self.reports)

    async def surface(self, source: Any, *, server: str | None = None, **options: Any) -> Surface:
        """Return the tools of a server as a model sees them, to be edited and given to an agent or an evaluation.

        Args:
            source: Whose texts they are: the name of a connected server, a `Path` to a snapshot, or, with `server`,
                anything else that `connect` takes. That is a session of its own, which is closed again.
            server: The connected server whose tools are called. By default that is the source, or for a snapshot the
                connected server that calls itself as the one in it.
            **options: The options of `connect`.

        Raises:
            UnknownServerError: There is no such server, or of a snapshot none or several.
            ConfigError: The file is not a snapshot.
            TargetError, ConnectError: No session could be opened.
        """
        from mcp_magic.evaluation.surface import Surface, snapshot_tools
        from mcp_magic.server.snapshot import read_snapshot

        if isinstance(source, Path):
            interface = read_snapshot(source, server or "SERVER")
            connection = self[server] if server is not None else _server_of(self, source, interface)
            return Surface(connection, await connection.listing("tools"), snapshot_tools(interface), source.name)
        connection = self[source if server is None else server]
        tools = await connection.listing("tools")
        if source == connection.name:
            return Surface(connection, tools)
        if isinstance(source, str) and source in self:
            shown = {tool.name: tool for tool in await self[source].listing("tools")}
            return Surface(connection, tools, shown, source)
        spec, name = resolve_target(source, **options)
        interface = await _interface_of(self, spec, free_name(name, self.connections))
        return Surface(connection, tools, snapshot_tools(interface), spec.where)

    async def bench(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Bench:
        """Measure a tool; `Bench.check` fails where the figures break a bound.

        Args:
            tool: `"server:tool"`, or its name alone if that is unique.
            arguments: Its arguments.
            **options: `levels` (calls in flight, one number after the other), `rate` (calls a second, however long the
                answers take), `seconds` in all, `timeout` of a call, and `reports`.

        Raises:
            ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
            DeniedError: Consent refused the call.
        """
        from mcp_magic.map.bench import run_bench

        connection, definition = await self.resolve(tool)
        return await run_bench(connection, definition.name, arguments or {}, **options)

    @on_own_loop_unless_closed
    async def verify(self, path: Path | str, *servers: str, **options: Any) -> Verification:
        """Send the requests of a cassette to the live servers, and compare the answers with the recorded ones.

        `Verification.check` fails where an answer differs.

        Args:
            path: The cassette.
            *servers: Names of its servers, `"shop=shop_next"` for a live one with another name; without any, all.
            **options: `every` (also calls of tools that are not read-only, after one question), `ignore` (patterns of
                paths), `secrets` (values in place of masked arguments, by name), `timeout` (seconds of each request).

        Raises:
            CassetteError: The file cannot be read, or has no such server.
            UnknownServerError: A server is not connected.
        """
        from mcp_magic.server.verification import verifier

        run = verifier(path, servers, self.connections, self.reports, **options)
        await run.run()
        return run.verification

    @on_own_loop_unless_closed
    async def record_again(self, path: Path | str, *servers: str, **options: Any) -> Listing:
        """Send the requests of a cassette again, and add the answers and what varies; replays do not change.

        It takes the arguments of `verify`, and returns what varies, which `verify` ignores from now on.

        Raises:
            CassetteError: The file cannot be read or written, or has no such server.
            UnknownServerError: A server is not connected.
        """
        from mcp_magic.server.verification import verifier

        run = verifier(path, servers, self.connections, self.reports, **options)
        await run.run("record again")
        return run.keep_answers()

    @on_own_loop_unless_closed
    async def fuzz(self, target: str, *, allow: Collection[str] = (), **options: Any) -> FuzzReport:
        """Call tools with made-up arguments, in a session of their own; `FuzzReport.check` fails where that broke one.

        Args:
            target: `"server:tool"`, or `"server"` for all of its tools that are marked read-only.
            allow: Tools that may be called although they are not, after a question.
            **options: `seconds`, `seed` of the values, `examples` (calls of each tool at most), and `reports`.

        Raises:
            ArgumentsError: No tool is marked read-only.
            DeniedError: Consent refused the calls.
            MissingDependencyError: Hypothesis is not installed.
            UnknownServerError, UnknownToolError: There is no such server or tool.
        """
        return await (await self.plan_fuzz(target, allow=allow, **options)).run()

    async def plan_fuzz(self, target: str, *, allow: Collection[str] = (), **options: Any) -> Fuzz:
        """Return a fuzz that is not run yet; see `fuzz`."""
        from mcp_magic.fuzz.run import Fuzz, select_tools

        if ":" in target:
            connection, definition = await self.resolve(target)
            name = definition.name
        else:
            connection, name = self[target], ""
        tools = select_tools(connection.name, await connection.listing("tools"), name, allow)
        return Fuzz(self, connection, tools, **options)

    async def evaluate(
        self, cases: Any, models: Any, variants: Mapping[str, Any] | None = None, **options: Any
    ) -> Evaluation:
        """Measure whether models use the tools rightly: `(await host.evaluate(cases, [a, b], runs=5)).summary`.

        Args:
            cases: Lines such as `"Weather in Oslo? -> weather:get_weather location=Oslo"`, a TOML file, a DataFrame
                with the columns request, expected and check, or a list of `evaluation.cases.Case`.
            models: A model, several, or names and models; each is `"PROVIDER:NAME"` or a LangChain chat model.
            variants: Names and surfaces, the tools as the models read them; None for the tools as they are.
            **options: Those of `evaluation.run.EvaluationOptions` (`runs`, `tools_only`, `concurrency`, `rate`,
                `timeout`, `max_cost`, `max_tokens`, `journal`) and of `AgentSettings` (`servers`, `system`, ...).

        Raises:
            ArgumentsError, ConfigError: A case or an option cannot be used; nothing was run.
            ModelError: A model cannot be made.
        """
        from mcp_magic.evaluation.evaluation import new_evaluation

        return await new_evaluation(self, cases, models, variants, **options).run()

    async def ablate(self, tool: str, cases: Any, models: Any, **options: Any) -> Ablation:
        """Measure what each sentence of a tool's description, and of its parameters', adds to right runs.

        Args:
            tool: The tool, as `"server:tool"`, or by its name alone if that is unique.
            cases: As `evaluate` takes them.
            models: As `evaluate` takes them.
            **options: Those of `evaluate`. With a surface of the server among `surfaces`, its sentences are dropped.

        Raises:
            ArgumentsError, ConfigError: The tool has no sentence, or a case or an option cannot be used.
            ModelError: A model cannot be made.
            UnknownServerError, UnknownToolError: There is no such server or tool.
        """
        from mcp_magic.evaluation.ablation import new_ablation

        return await (await new_ablation(self, tool, cases, models, **options)).run()

    def close_at_exit(self) -> None:
        """Close all sessions when the interpreter ends, so that no server outlives its kernel."""
        atexit.register(_close, self)  # again, it finds nothing to close


async def _interface_of(host: NotebookHost, spec: Spec, name: str) -> dict[str, Any]:
    """Return the interface of a server that is not connected."""
    from mcp_magic.server.snapshot import interface_of

    connection = host.make(name, replace(spec, reconnect=False))
    try:
        await connection.open()
        host.registry.keep_until_closed(connection)
        return await interface_of(connection)
    finally:
        await connection.close()


def _spec_of(host: NotebookHost, name: str, transport: str) -> Spec | None:
    """Return how to reach a server of this name that is connected or that the folder declares; None if none is."""
    spec = host[name].spec if name in host else None
    if spec is None:
        with suppress(ConfigError):
            servers = load_declaration(find_declaration(working_directory())).servers
            spec = next((entry.spec for key, entry in servers.items() if slug(key) == name), None)
    return spec if spec is not None and spec.transport == transport else None


def _server_of(host: NotebookHost, path: Path, interface: Mapping[str, Any]) -> Connection:
    """Return the connected server that a snapshot is of, by what it calls itself."""
    about = interface.get("server")
    own_name = about.get("name") if isinstance(about, dict) else None
    same = [c for c in host.find() if c.server_info is not None and c.server_info.name == own_name]
    if len(same) == 1:
        return same[0]
    problem = f"{len(same) or 'no'} connected server{'s' if same else ''} of the name {own_name!r}"
    raise UnknownServerError(
        f"{path.name}: {problem}, as it is in the snapshot; say whose tools are called: server='NAME'. "
        f"Connected: {join_names(host)}"
    )


def _close(host: NotebookHost) -> None:
    loop = host.loop
    if loop is None or loop.is_closed() or loop.is_running() or not (len(host) or host.registry.closing):
        return
    stdio: Any = sys.modules.get("mcp.client.stdio")
    if stdio is not None:
        stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = EXIT_STEPS

    async def close() -> None:
        with suppress(Exception):  # the interpreter is exiting, so no message could be read
            await asyncio.wait_for(host.close(), EXIT_SECONDS)

    closing = loop.create_task(close())
    # ipykernel's shutdown has scheduled another `loop.stop()`, which interrupts the first run.
    for _ in range(3):
        with suppress(RuntimeError):
            loop.run_until_complete(closing)
            break


Host = NotebookHost  # the public name of `NotebookHost`: `mcp_magic.Host`

host = Host()  # the host of this kernel

for _prepare in startup.callbacks:
    _prepare()
