"""The settings: traits of the magics class, also set by the environment and by declarations."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from traitlets import Any as Anything
from traitlets import Bool, Enum, Float, Int, TraitError, Unicode, validate
from traitlets.config import Configurable

from mcp_magic.config.masking import Concealed, named_secrets
from mcp_magic.errors import ConfigError, MCPMagicError
from mcp_magic.protocol import LEVELS
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "MCP_MAGIC_"
"""Environment variables `MCP_MAGIC_<SETTING>` apply where neither a config file nor `%config` sets a value."""


class SettingError(ConfigError, TraitError):
    """A value of a setting cannot be used. It is a TraitError, after which `%config` restores the value before."""


class Secretive(Anything):
    """A trait for an object, or for text that may hold a secret; `%config` does not show the text."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Accept any value; conceal text."""
        return Concealed(value) if isinstance(value, str) else value


class SecretiveEnum(Enum[Any]):
    """An enum trait that does not repeat an invalid value, which may be a secret."""

    def error(self, obj: Any, value: Any, error: Exception | None = None, info: str | None = None) -> NoReturn:
        """Refuse a value."""
        super().error(obj, MASK, error, info)


class Settings(Configurable):
    """The settings that `%config MCPMagics.NAME = value` sets."""

    timeout = Float(30.0, min=0.1, help="Seconds a server has to answer the handshake.").tag(config=True)
    call_timeout = Float(
        None,
        allow_none=True,
        min=0.001,
        help="Seconds to wait for the answer of a call, a read or a prompt; None: no limit.",
    ).tag(config=True)
    max_total_timeout = Float(
        None,
        allow_none=True,
        min=0.001,
        help="Seconds that a call with a time-out can take in total, even with progress; None: ten time-outs.",
    ).tag(config=True)
    strict_output = Bool(
        False, help="Whether an answer that does not fit its tool's output schema is an error, whose .result has it."
    ).tag(config=True)
    show_progress = Bool(True, help="Whether progress and waits of more than a second are shown below the cell.").tag(
        config=True
    )
    show_logs = Enum(
        (*LEVELS, "off"),
        "warning",
        help=f"The lowest level of log messages shown below the calling cell: {', '.join(LEVELS)}, off.",
    ).tag(config=True)
    display_rows = Int(20, min=1, help="Rows shown of a table.").tag(config=True)
    display_characters = Int(10_000, min=100, help="Characters shown of a text.").tag(config=True)

    approval = Enum(
        ("ask", "plan", "auto", "readonly", "deny"),
        "ask",
        help="What happens to calls of agents and servers that no rule matches: ask, plan (one question about all "
        "calls of an agent's turn), auto, readonly (asks about tools that can change something), deny.",
    ).tag(config=True)
    ask_with = Enum(
        ("auto", "panel", "input"),
        "auto",
        help="How you are asked: auto, panel (buttons, where the frontend shows widgets), input (a line to type).",
    ).tag(config=True)
    approval_timeout = Float(300.0, min=0.1, help="Seconds you have to answer when you are asked.").tag(config=True)
    max_questions = Int(
        20, min=0, help="Questions that a server can ask you during one call; each further one gets an error."
    ).tag(config=True)
    audit_file = Unicode("", help="A JSON Lines file to which consent decisions are appended; empty: none.").tag(
        config=True
    )

    model = Secretive(
        "", help="The chat model of agents: PROVIDER:NAME, a LangChain chat model, or offline (the default)."
    ).tag(config=True)
    threads = Secretive(
        "",
        help="Where agents keep threads: a file, :memory:, postgresql://..., or a LangGraph checkpointer; "
        "empty: a file in Jupyter's data directory.",
    ).tag(config=True)
    max_turns = Int(25, min=1, help="Turns of the model for one request to an agent.").tag(config=True)
    result_characters = Int(20_000, min=100, help="Characters of one result that a model gets.").tag(config=True)
    search_above = Float(
        50,
        allow_none=True,
        min=0,
        help="Number of tools above which a model gets only search_tools and the tools that fit; below 1, a share "
        "of the model's context; None: it always gets all tools.",
    ).tag(config=True)
    spill = Int(
        4000,
        allow_none=True,
        min=1,
        help="Tokens of a result above which a model, or an agent outside, gets its size, its beginning and a handle "
        "to read on; None: for a model it is only cut at `result_characters`.",
    ).tag(config=True)

    program_seconds = Float(
        10.0,
        min=0.1,
        help="Seconds that an agent's program may compute in the sandbox; waiting for calls is not counted.",
    ).tag(config=True)
    program_memory = Int(256, min=1, help="Megabytes that the values of an agent's program may take.").tag(config=True)
    program_calls = Int(100, min=0, help="Calls of tools that one program of an agent may make.").tag(config=True)
    program_characters = Int(2_000, min=100, help="Characters of a program's output and value that a model gets.").tag(
        config=True
    )

    reconnect = Enum(
        ("remote", "all", "off"),
        "remote",
        help="Which lost sessions are opened again automatically: remote (HTTP, SSE, WebSocket), all (stdio servers"
        " are started again, too), off.",
    ).tag(config=True)

    preload = Bool(
        True, help="Whether an idle kernel imports the packages of the first `%mcp connect` and `%%mcp_agent` ahead."
    ).tag(config=True)

    trace_messages = Int(10_000, min=0, help="Messages that the trace keeps; 0: none.").tag(config=True)
    trace_bytes = Int(64_000_000, min=0, help="Bytes that the trace keeps.").tag(config=True)

    cassette_bytes = Int(
        64_000_000, min=10_000, help="Bytes of a cassette: a recording ends there, and a larger file is not read."
    ).tag(config=True)

    registry = Secretive(
        "",
        help="The address of the registry that `%mcp find` and `%mcp add` use, such as your company's; empty: the "
        "official one, https://registry.modelcontextprotocol.io.",
    ).tag(config=True)

    tokens = SecretiveEnum(
        ("auto", "keyring", "file", "memory"),
        "auto",
        help="Where tokens of log-ins are kept: auto (a keyring if there is one, else a file), keyring, file, memory.",
    ).tag(config=True)
    login_timeout = Float(300.0, min=0.1, help="Seconds you have to log in to a server.").tag(config=True)

    telemetry = Secretive(
        "",
        help="Where OpenTelemetry spans go: nowhere (empty), console, otlp (to where OTEL_EXPORTER_OTLP_* say), or a "
        "SpanExporter. Spans contain no arguments and no results.",
    ).tag(config=True)

    @validate("telemetry")
    def _check_telemetry(self, proposal: Any) -> Any:
        if proposal["value"] != "":
            from mcp_magic.telemetry.telemetry import check

            try:
                check(proposal["value"])
            except MCPMagicError as error:
                raise SettingError(str(error)) from None
        return proposal["value"]

    @validate("registry")
    def _check_registry(self, proposal: Any) -> Any:
        value = proposal["value"]
        if value != "":
            from mcp_magic.registry.client import registry_address

            try:
                registry_address(str(value))
            except MCPMagicError as error:
                raise SettingError(str(error)) from None
        return value

    @classmethod
    def class_get_trait_help(cls, trait: Any, inst: Any = None, helptext: str | None = None) -> str:
        """Return a setting's help for `%config MCPMagics`, with only the type of an object: it may hold a key."""
        value = getattr(inst, trait.name, None)
        if not isinstance(trait, Secretive) or isinstance(value, str | None):
            return super().class_get_trait_help(trait, inst, helptext)
        text = super().class_get_trait_help(trait, None, helptext)
        return text.replace(f"Default: {trait.default_value_repr()}", f"Current: <{type(value).__name__}>")

    def known_settings(self) -> dict[str, type]:
        """Return the names allowed in a declaration's `[settings]`, with their types."""
        kinds: dict[type, type] = {Int: int, Float: float, Bool: bool}
        return {name: kinds.get(type(trait), str) for name, trait in self.traits(config=True).items()}

    def apply(self, values: Mapping[str, Any]) -> None:
        """Set several settings. Raises ConfigError if a value does not fit."""
        for name, value in values.items():
            self._set(name, value, where=f"settings.{name}")

    def read_environment(self, environ: Mapping[str, str] = os.environ) -> None:
        """Read settings from environment variables."""
        for name, trait in self.traits(config=True).items():
            text = environ.get(PREFIX + name.upper())
            if text is not None and name not in self.config.get(type(self).__name__, {}):
                self._set(name, _value(trait, text), where=PREFIX + name.upper())

    def _set(self, name: str, value: Any, *, where: str) -> None:
        problem = ""
        try:
            setattr(self, name, value)
        except SettingError:
            raise
        except TraitError:
            problem = self.trait_metadata(name, "help") or ""
        if problem:
            value_text = (
                MASK if named_secrets({name: name}) else repr(Concealed(value) if isinstance(value, str) else value)
            )
            raise ConfigError(f"{where}: {value_text} does not fit. {problem}")

    def pass_on(self) -> None:
        """Pass the settings on to the modules that use them; imports them here, since loading needs none of them."""
        from mcp_magic.cassette.cassette import deck
        from mcp_magic.display import document
        from mcp_magic.notebook import host

        document.display.rows = self.display_rows
        document.display.characters = self.display_characters
        host.trace.limit(self.trace_messages, self.trace_bytes)
        deck.largest = self.cassette_bytes
        host.reports.progress, host.reports.level = self.show_progress, self.show_logs
        host.reports.max_total_timeout = self.max_total_timeout
        host.outputs.strict, host.outputs.spill = self.strict_output, self.spill
        host.logins.where, host.logins.seconds = self.tokens, self.login_timeout
        host.reconnection.mode = self.reconnect
        host.registry_address = str(self.registry)
        host.consent.policy, host.consent.magics = self.approval, True
        host.consent.timeout = self.approval_timeout
        host.elicitation.max_questions = self.max_questions
        host.consent.audit.file = Path(self.audit_file) if self.audit_file else None
        # last, because the process may have a tracer provider that refuses it
        if self.telemetry != "" or "mcp_magic.telemetry.telemetry" in sys.modules:
            from mcp_magic.telemetry.telemetry import telemetry

            telemetry.export(self.telemetry)


def _value(trait: Any, text: str) -> Any:
    """Convert a variable's text for a trait; returns text that cannot be converted, which the trait then refuses."""
    if trait.allow_none and text.strip().lower() in ("", "none"):
        return None
    try:
        return trait.from_string(text)
    except (ValueError, TraitError):
        return text
