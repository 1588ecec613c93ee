"""The export of spans, off by default (setting `telemetry`).

OpenTelemetry has one provider per process. If the program has set one up, it gets our processor. Otherwise we set one
up, which makes no spans while nothing is exported; so no server is handed a trace id either.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean
from mcp_magic.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from mcp_magic.telemetry.export import CleanExporter, Switch

TARGETS = {"console": "opentelemetry.sdk", "otlp": "opentelemetry.exporter.otlp.proto.http"}
"""Name of a target -> the package that it needs."""

EXIT_SECONDS = 1.0  # longest wait in seconds for a collector when the kernel ends or the user turns telemetry off

_NOISY = ("opentelemetry.exporter", "opentelemetry.sdk")
"""Loggers silenced because they would write below a cell when the collector is down; `%mcp metrics` says so."""


def check(to: Any) -> None:
    """Check that spans can be exported to "" (nowhere), a name of `TARGETS`, or a `SpanExporter` of OpenTelemetry.

    Raises ConfigError if it is none of these, MissingDependencyError if a package is not installed.
    """
    if to == "":
        return
    if isinstance(to, str) and to not in TARGETS:
        raise ConfigError(f"telemetry: {to!r} is none of '', 'console' and 'otlp'.{did_you_mean(to, TARGETS)}")
    if not isinstance(to, str) and not (callable(getattr(to, "export", None)) and hasattr(to, "shutdown")):
        raise ConfigError(
            f"telemetry: a {type(to).__name__} is not a SpanExporter; '', 'console' and 'otlp' are names."
        )
    package = TARGETS[to] if isinstance(to, str) else TARGETS["console"]
    if not _installed(package):
        raise MissingDependencyError(f"telemetry needs {package}: pip install 'mcp-magic[otel]'")


def _installed(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # a parent package is missing
        return find_spec(module) is not None
    return False


class Telemetry:
    """The export of this process's spans."""

    def __init__(self) -> None:
        self.to: Any = ""
        self._switch: Switch | None = None
        self._exporter: CleanExporter | None = None

    def export(self, to: Any) -> None:
        """Export spans to a target, as in `check`, from now on. Pending spans go to the old target first.

        `"otlp"` is OTLP over HTTP, configured by the variables `OTEL_EXPORTER_OTLP_*` (default: `http://localhost:4318`).
        """
        if to is self.to or (isinstance(to, str) and to == self.to):
            return
        check(to)
        if self._switch is not None:
            self._stop(self._switch)
        if to != "":
            self._start(to)
        self.to = to

    def flush(self, seconds: float = 5.0) -> bool:
        """Export the pending spans; return whether that finished in time."""
        switch = self._switch
        return switch is None or _within(seconds, switch.force_flush)

    @property
    def status(self) -> str:
        """The state of the export as one line for the user, or "" while it is off."""
        if self._exporter is None:
            return ""
        where = self.to if isinstance(self.to, str) else type(self.to).__name__
        failures = f", {self._exporter.failed:,} could not be delivered" if self._exporter.failed else ""
        return f"telemetry: {self._exporter.sent:,} spans went to {where}{failures}"

    def _start(self, to: Any) -> None:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

        from mcp_magic.telemetry.export import CleanExporter

        for name in _NOISY:
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.CRITICAL)
        switch = self._switch = self._switch or _installed_switch()
        self._exporter = CleanExporter(_exporter_for(to))
        switch.target = (SimpleSpanProcessor if to == "console" else BatchSpanProcessor)(self._exporter)
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    def _stop(self, switch: Switch) -> None:
        target, exporter = switch.target, self._exporter
        switch.target = self._exporter = None
        self.to = ""
        if target is None or exporter is None:
            return
        if not _within(EXIT_SECONDS, target.shutdown):
            with suppress(Exception):  # ends its retries
                exporter.shutdown()

    def _at_exit(self) -> None:
        self.export("")


def _exporter_for(to: Any) -> Any:
    if to == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        from mcp_magic.telemetry.export import console_line

        return ConsoleSpanExporter(out=sys.stdout, formatter=console_line)
    if to == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    return to


def _installed_switch() -> Switch:
    """Add a switch to the provider of the process, or set up a provider with one."""
    from opentelemetry import trace

    from mcp_magic.telemetry.export import Switch, SwitchedProvider

    switch = Switch()
    provider: Any = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = SwitchedProvider(switch)
        trace.set_tracer_provider(provider)
    if not hasattr(provider, "add_span_processor"):
        raise ConfigError(
            f"telemetry: this process has a tracer provider of its own ({type(provider).__name__}), which takes no "
            "other processors; its spans go where it sends them."
        )
    provider.add_span_processor(switch)
    return switch


def _within(seconds: float, work: Any) -> bool:
    """Run a function that may wait for the network on a thread; return whether it finished in time."""
    thread = threading.Thread(target=work, name="mcp_magic telemetry", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        work()
        return True
    thread.join(seconds)
    return not thread.is_alive()


telemetry = Telemetry()  # the export of this process
