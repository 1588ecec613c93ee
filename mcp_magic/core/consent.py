"""Consent: may this call go out, and who says so.

A call is decided by the first rule that matches; without one by the policy, unless the person
themself made the call. What is to be asked goes to an approver: a panel in the notebook, `input()`,
or any coroutine. Where nobody can answer the call is denied, and the denial says what would allow it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.audit import Audit, Record, masked, now
from mcp_magic.core.rules import Rule
from mcp_magic.errors import ArgumentsError, DeniedError

if TYPE_CHECKING:
    from mcp_types import Tool

__all__ = ["PERSON", "POLICIES", "Approver", "Consent", "Decision", "Request", "refusal"]

PERSON = "person"
"""The asker of calls that the person types or submits: they need no second yes unless a rule says so."""

POLICIES = ("ask", "auto", "readonly", "deny")

ASK_SECONDS = 300.0
"""Seconds a person has to decide; after that nobody is taken to be there."""


@dataclass(frozen=True)
class Request:
    """A call that waits for a decision.

    Attributes:
        server: The server's name.
        tool: The tool's name.
        arguments: What it would be called with.
        asker: Who wants it: `PERSON`, `"agent"`, `"server NAME"`, `"app NAME"`.
        definition: The tool as the server lists it, or None.
        trusted: Whether the person believes the server's annotation hints.
        run: The agent run that asks, or None.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    asker: str = PERSON
    definition: Tool | None = None
    trusted: bool = False
    run: str | None = None

    @property
    def name(self) -> str:
        """`"server:tool"`."""
        return f"{self.server}:{self.tool}"

    @property
    def read_only(self) -> bool:
        """Whether a trusted server says that the tool changes nothing."""
        hints = self.definition.annotations if self.definition else None
        return self.trusted and hints is not None and hints.read_only_hint is True


@dataclass(frozen=True)
class Decision:
    """What was decided about a request.

    Attributes:
        approved: Whether the call goes out.
        arguments: What it goes out with, if the person changed that; else None.
        reason: Why not, for whoever asked.
        by: Who decided.
        always: `""`, `"tool"` (always for this tool), `"arguments"` (always for these) or `"run"` (for this run).
    """

    approved: bool
    arguments: Mapping[str, Any] | None = None
    reason: str = ""
    by: str = PERSON
    always: str = ""

    @classmethod
    def approve(cls, arguments: Mapping[str, Any] | None = None, *, always: str = "") -> Decision:
        """Let the call go out, with changed arguments if there are any."""
        return cls(True, arguments, always=always)

    @classmethod
    def deny(cls, reason: str = "", *, by: str = PERSON) -> Decision:
        """Refuse it."""
        return cls(False, None, reason, by)


Approver = Callable[[Request], Awaitable[Decision]]


@dataclass
class Consent:
    """The rules, the policy and the approver of a host.

    Attributes:
        rules: The first that matches decides.
        policy: What no rule matches: `"ask"`, `"auto"`, `"readonly"` (asks for what changes things) or `"deny"`.
        approver: Asks a person, or None where nobody can be asked.
        timeout: Seconds the approver has.
        audit: The record of decisions.
    """

    rules: list[Rule] = field(default_factory=list)
    policy: str = "ask"
    approver: Approver | None = None
    timeout: float = ASK_SECONDS
    audit: Audit = field(default_factory=Audit)

    async def check(self, request: Request) -> Mapping[str, Any]:
        """Return the arguments with which a call may go out.

        Raises:
            DeniedError: It may not.
            ConfigError: The audit file cannot be written.
        """
        if request.asker == PERSON and not self.rules:
            return request.arguments
        decision = await self.review(request)
        if not decision.approved:
            raise refusal(request, decision)
        return request.arguments if decision.arguments is None else decision.arguments

    async def review(self, request: Request, *, policy: str | None = None) -> Decision:
        """Decide about a request, remember what holds from now on, and put the decision on record.

        Args:
            request: What waits.
            policy: What no rule matches, instead of the host's.

        Raises:
            ConfigError: The audit file cannot be written.
        """
        started = time.perf_counter()
        decision = await self.decide(request, policy=policy)
        if decision is None:
            return Decision(True)
        self._remember(request, decision)
        self.audit.add(_record(request, decision, time.perf_counter() - started))
        return decision

    async def decide(self, request: Request, *, policy: str | None = None) -> Decision | None:
        """Return the decision about a request; None if there is nothing to decide."""
        rule = self.rule_for(request)
        if rule is None and request.asker == PERSON:
            return None
        policy = policy or self.policy
        action = rule.action if rule else _by_policy(policy, request)
        by = f"rule `{rule}`" if rule else f"approval = {policy!r}"
        if action == "allow":
            return Decision(True, by=by)
        if action == "deny":
            return Decision(False, reason=rule.reason if rule else "", by=by)
        return await self._ask(request)

    def rule_for(self, request: Request) -> Rule | None:
        """Return the first rule that matches a request, or None."""
        return next((r for r in self.rules if r.matches(request.name, request.arguments, request.run)), None)

    def add(self, rule: Rule) -> bool:
        """Append a rule, unless it is there already."""
        if rule in self.rules:
            return False
        self.rules.append(rule)
        return True

    def forget_run(self, run: str) -> None:
        """Drop the rules of an agent run that has ended."""
        self.rules[:] = [rule for rule in self.rules if rule.run != run]

    async def _ask(self, request: Request) -> Decision:
        if self.approver is None:
            reason = "nobody can be asked here"
            return Decision.deny(reason, by="nobody")
        try:
            async with asyncio.timeout(self.timeout):
                decision = await self.approver(request)
            return _valid(request, decision)
        except TimeoutError:
            return Decision.deny(f"nobody answered within {self.timeout:g} s", by="time-out")
        except ArgumentsError as error:
            return Decision.deny(f"the changed arguments do not fit: {error}", by="check")
        except Exception as error:
            return Decision.deny(f"the approver failed: {type(error).__name__}: {error}", by="approver")

    def _remember(self, request: Request, decision: Decision) -> None:
        """Turn "always" into a rule, before the one that made us ask."""
        if not decision.approved or not decision.always:
            return
        arguments = request.arguments if decision.arguments is None else decision.arguments
        exact = {name: _exactly(value) for name, value in arguments.items()}
        made = Rule(
            "allow",
            _exactly(request.name),
            exact if decision.always == "arguments" else {},
            run=request.run if decision.always == "run" else None,
            exact=decision.always == "arguments",
        )
        asked = self.rule_for(request)
        if made not in self.rules:
            self.rules.insert(self.rules.index(asked) if asked else len(self.rules), made)


def _by_policy(policy: str, request: Request) -> str:
    if policy == "readonly":
        return "allow" if request.read_only else "ask"
    return {"auto": "allow", "deny": "deny"}.get(policy, "ask")


def _exactly(value: Any) -> Any:
    """Return a pattern that matches just this text."""
    if not isinstance(value, str):
        return value
    return "".join(f"[{c}]" if c in "*?[" else c for c in value)


def _valid(request: Request, decision: Decision) -> Decision:
    """Hold changed arguments against the tool's schema."""
    if decision.approved and decision.arguments is not None and request.definition is not None:
        schema.check_arguments(decision.arguments, request.definition.input_schema)
    return decision


def refusal(request: Request, decision: Decision) -> DeniedError:
    """Return the error that says who refused a call, why, and what would allow it."""
    because = f": {decision.reason}" if decision.reason else ""
    text = f"{request.name} was not called; denied by {decision.by}{because}."
    if decision.by != PERSON:
        text += f" `%mcp allow {request.name} --first` would allow it."
    return DeniedError(text, decision.reason)


def _record(request: Request, decision: Decision, seconds: float) -> Record:
    arguments = request.arguments if decision.arguments is None else decision.arguments
    before = request.arguments
    changed = tuple(n for n in {**before, **arguments} if before.get(n) != arguments.get(n))
    verdict = ("edit" if changed else "approve") if decision.approved else "deny"
    return Record(
        time=now(),
        asker=request.asker,
        server=request.server,
        tool=request.tool,
        arguments=masked(dict(arguments)),
        decision=verdict,
        by=decision.by,
        reason=decision.reason,
        changed=changed,
        seconds=round(seconds, 4),
        run=request.run,
    )
