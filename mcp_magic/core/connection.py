"""One server: what is known of it, and what can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.core.answering import QuestionQueue
from mcp_magic.core.border import Place
from mcp_magic.core.callables import ToolNamespace
from mcp_magic.core.card import connection_part
from mcp_magic.core.catalog import Catalog
from mcp_magic.core.elicitation import Elicitors, Questions
from mcp_magic.core.logs import Logs
from mcp_magic.core.negotiation import KnownProtocols
from mcp_magic.core.notices import Notices
from mcp_magic.core.owning import Owning
from mcp_magic.core.roots import Roots
from mcp_magic.core.sampling.requests import SamplingQuestions
from mcp_magic.core.sampling.sampling import Samplers
from mcp_magic.core.skills.skills import Skills
from mcp_magic.core.trace.record import Recorder
from mcp_magic.results.parts import bundle

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp import Client
    from mcp_types import Implementation, ServerCapabilities

    from mcp_magic.auth.login import LogIns
    from mcp_magic.config.specs import Spec
    from mcp_magic.core.consent.consent import Consent
    from mcp_magic.core.host import Host

__all__ = ["Connection"]


class Connection(Owning):
    """An open session to one MCP server.

    Made by `Host.connect`. It outlives the cell that opened it and closes with the kernel.

    Attributes:
        name: Its name in the host.
        spec: Where the server is.
        tools: The server's tools as awaitable functions: `await connection.tools.add(a=1, b=2)`.
        skills: The skills that it publishes: `await connection.skills.list()`.
        notices: What the server said unasked: log messages, changes.
        consent: The host's rules about who may call what, or None where nothing is asked.
        roots: The directories that the server is told of.
        host: The host that holds it, or None.
        logins: How a person logs in to it, and where tokens are kept; None for those of nobody.
        protocols: What is known of how the sessions of servers begin.
        trace: What it said and was told; `.entries`.
        found_open: When the session was opened that `connect` found open already, or None.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        consent: Consent | None = None,
        elicitors: Elicitors | None = None,
        samplers: Samplers | None = None,
        protocols: KnownProtocols | None = None,
    ) -> None:
        super().__init__()
        self.consent = consent
        self.name = name
        self.spec = spec
        self.protocols = protocols or KnownProtocols()
        self.trace = Recorder(name, spec)
        self.catalog = Catalog(self._list)
        self.roots = Roots(self._roots_changed)
        self.notices = Notices(self.catalog.changed, self.roots, Logs(self._may_ask, spec.masked))
        elicitors = elicitors or Elicitors()
        self._questions = QuestionQueue(self._may_ask, lambda: elicitors.max_questions)
        self.notices.questions = Questions(name, elicitors, self._questions, self.notices.log, self.trace.conceal)
        asked = (consent, self._questions, self.notices.log)
        self.notices.sampling = SamplingQuestions(name, spec, samplers or Samplers(), *asked)
        self.notices.doubted = self._stream_cut
        self.tools = ToolNamespace(self)
        self.skills = Skills(self)
        self.host: Host | None = None
        self.logins: LogIns | None = None
        self.found_open: float | None = None
        self._place = Place(name, spec)

    # What is known of the session

    @property
    def client(self) -> Client:
        """The SDK's client, for what this class does not have.

        Raises:
            SessionClosedError: The session is not open.
        """
        if self._client is None:
            raise self._gone()
        return self._client

    @property
    def protocol_version(self) -> str | None:
        """The negotiated protocol version, or None where there is no session; the last one while it is opened again."""
        return self._known.protocol_version if self._known else None

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do."""
        return self._known.capabilities if self._known else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, if it gave them."""
        return self._known.server_info if self._known else None

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models, or None."""
        return self._known.instructions if self._known else None

    def stderr(self) -> str:
        """Return the end of what a stdio server wrote to its standard error, secrets masked."""
        line = self._place.line
        self.trace.stderr()  # what is shown is in the trace, and on the cassette
        return self.spec.masked(line.errlog.tail()) if line and line.errlog else ""

    def __repr__(self) -> str:
        return f"<Connection {self.name!r} {self.state}: {self.spec.transport} {self.spec.where}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([connection_part(self)], include, exclude)
