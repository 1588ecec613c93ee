"""Consent: decides by rules, policy and the user whether a call may run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from mcp_magic import schema
from mcp_magic._text import clause, join_names, sentence
from mcp_magic.consent.definitions import Definitions
from mcp_magic.consent.rules import Rule, exactly, is_outside, lasting_rule
from mcp_magic.consent.values import audited, unchanged
from mcp_magic.display.arguments import changes, hidden_arguments
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, DeniedError
from mcp_magic.flight.deadline import Unanswered, in_time
from mcp_magic.loops import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mcp_types import Tool

    from mcp_magic.consent.definitions import Change
    from mcp_magic.consent.values import ValueNote


# Request and decision: the values passed between the caller, the approver and `Consent`.

PERSON = "person"  # the asker of calls that the user types or submits: they need no approval unless a rule says so


@dataclass(frozen=True)
class Request:
    """A call that needs a decision.

    Attributes:
        server: The server's name.
        tool: The tool's name.
        arguments: The arguments of the call.
        asker: Who requests it: `PERSON`, `"agent"`, `"server NAME"`, `"app NAME"`, `"verify"`, `"outside NAME"`.
        definition: The tool as the server lists it, or None.
        trusted: Whether the user trusts the server's annotation hints.
        run: The agent run that requests it, or None.
        program: Where a model's program runs, which is the argument `code`: `"sandbox"` or `"kernel"`; "" for a call.
            Only the user, each time, approves a program in the kernel.
        calls: How many calls it stands for, 0 if that is not known; unless it is 1, the arguments summarise theirs.
        each: The arguments of each of these calls, if they are known.
        change: How the definition differs from the one the user knew, or None.
        outdated: Why a rule that allows the call no longer covers it, or "".
        variant: How the tool that the asker has read differs from the tool, or "".
        values: The values of the notebook in the arguments, which have these values, and not references.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    asker: str = PERSON
    definition: Tool | None = None
    trusted: bool = False
    run: str | None = None
    program: str = ""
    calls: int = 1
    each: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)
    change: Change | None = field(default=None, compare=False)
    outdated: str = field(default="", compare=False)
    variant: str = field(default="", compare=False)
    values: Sequence[ValueNote] = field(default=(), compare=False, repr=False)

    @property
    def name(self) -> str:
        """`"server:tool"`."""
        return f"{self.server}:{self.tool}"

    @property
    def label(self) -> str:
        """The name for a person to read: a tool of no server has no colon."""
        return self.name.removeprefix(":")

    @property
    def read_only(self) -> bool:
        """Whether a trusted server marks the tool as read-only; so is a sandbox, whose calls are decided themselves."""
        hints = self.definition.annotations if self.definition else None
        return self.program == "sandbox" or (self.trusted and hints is not None and hints.read_only_hint is True)


@dataclass(frozen=True)
class Decision:
    """The decision about a request.

    Attributes:
        approved: Whether the call goes out.
        arguments: The arguments as the user changed them; None if unchanged.
        reason: Why the call was denied, for the asker.
        by: Who decided.
        always: `""`, `"tool"` (always for this tool), `"arguments"` (always for these) or `"run"` (for this run). A
            denial is remembered for the tool, or not at all.
        definition: The seal (`Definitions.seal`) of the tool decided about, or "" if unknown.
    """

    approved: bool
    arguments: Mapping[str, Any] | None = None
    reason: str = ""
    by: str = PERSON
    always: str = ""
    definition: str = field(default="", compare=False)

    @classmethod
    def approve(cls, arguments: Mapping[str, Any] | None = None, *, always: str = "") -> Decision:
        """Approve the call, optionally with changed arguments."""
        return cls(True, arguments, always=always)

    @classmethod
    def deny(cls, reason: str = "", *, by: str = PERSON, always: str = "") -> Decision:
        """Refuse the call; with `always="tool"` also all later calls of the tool."""
        return cls(False, None, reason, by, always)


Approver = Callable[[Request], Awaitable[Decision]]


class PlannedRequest(NamedTuple):
    """A call of a plan, and the decision about it; None while it needs one."""

    request: Request
    decision: Decision | None = None


@runtime_checkable
class PlanApprover(Protocol):
    """An approver that can be asked about several calls at once, too."""

    async def __call__(self, request: Request) -> Decision:
        """Decide about a call."""

    async def plan(self, calls: Sequence[PlannedRequest]) -> Mapping[int, Decision]:
        """Decide about one or more of the calls without a decision, by their place.

        It is asked again as long as a call is left.
        """


# The audit: a record of every decision.

MAX_RECORDS = 10_000  # records kept in memory; the file, if set, keeps all of them

MAX_RECORDED_TEXT = (
    2000  # characters kept of one text in the arguments: a record identifies the call, it does not copy it
)


@dataclass(frozen=True)
class Record:
    """One decision."""

    time: str  # ISO 8601 in UTC
    asker: str  # as in `Request`
    server: str
    tool: str
    arguments: Mapping[str, Any]  # secrets masked
    decision: str  # "approve", "edit" or "deny"; "read" for a value that was shared before
    by: str  # "person", a rule, a policy, "time-out", `SHARED`
    reason: str  # why the call was denied, or ""
    changed: tuple[str, ...]  # the names of arguments that the user changed
    seconds: float  # how long the decision took
    run: str | None = None  # the id of the agent run


class Audit:
    """Keeps the latest records, oldest first, and appends all to a JSON Lines file if one is set."""

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self.file: Path | None = None

    def add(self, record: Record) -> None:
        """Keep a record, written to the file before this returns; ConfigError if not, and no call may be made."""
        if self.file is not None:
            line = json.dumps(asdict(record), ensure_ascii=False, default=str)
            try:
                with self.file.expanduser().open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(line + "\n")
            except OSError as error:
                problem = f"the audit file {str(self.file)!r} cannot be written: {error.strerror}; nothing was called"
                raise ConfigError(problem) from None
        self.records.append(record)


def masked(arguments: Mapping[str, Any], definition: Tool | None = None) -> dict[str, Any]:
    """Return a copy of arguments for a record: secrets masked, long texts without their middle."""
    short: dict[str, Any] = map_texts(hidden_arguments(arguments, definition), _without_middle)
    return short


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of a JSON value whose texts are changed by a function; names are not."""
    if isinstance(value, dict):
        return {name: map_texts(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [map_texts(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _without_middle(text: str) -> str:
    half = MAX_RECORDED_TEXT // 2
    if len(text) <= MAX_RECORDED_TEXT:
        return text
    return f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"


# Which rule decides about a call, and whether a permission covers the present definition of the tool.


def with_latest_definition(request: Request, definitions: Definitions) -> Request:
    """Return the request with the tool's latest definition, and its change since it was first seen."""
    latest, change = definitions.latest(request.name), definitions.change(request.name)
    if (latest is None or latest is request.definition) and change is None:
        return request
    return replace(request, definition=latest or request.definition, change=change)


def ruling(rules: Iterable[Rule], definitions: Definitions, request: Request) -> tuple[Rule | None, str]:
    """Return the rule that decides about a call, and its action: `"allow"`, `"deny"` or `"ask"`; "" without a rule.

    The first matching rule decides. A rule that allows an earlier definition of the tool means "ask", unless a later
    rule allows the present one. For the user's own calls, which need no permission, such a rule does not count.
    """
    outdated: Rule | None = None
    for rule in rules:
        if not rule.matches(request.name, request.arguments, request.run, request.asker):
            continue
        if rule.action != "allow":
            return (rule, rule.action) if outdated is None else (outdated, "ask")
        if covers(rule, request.name, definitions):
            return rule, "allow"
        outdated = outdated or rule
    if outdated is None or request.asker == PERSON:
        return None, ""
    return outdated, "ask"


def covers(rule: Rule, name: str, definitions: Definitions) -> bool:
    """Whether a rule covers the present definition of a tool; a tool that was never listed counts as covered."""
    if not _is_same_server(rule, name.partition(":")[0], definitions):
        return False
    if rule.definition:
        return definitions.digest(name) in ("", rule.definition)
    return definitions.change(name, rule.since) is None


def _is_same_server(rule: Rule, server: str, definitions: Definitions) -> bool:
    """Whether the server of this name is the one that the rule was given for."""
    if server in rule.identities:
        return definitions.identity(server) in ("", rule.identities[server])
    return definitions.replacement(server, rule.since) is None


def why_outdated(rule: Rule, server: str, definitions: Definitions) -> str:
    """Return why an allowing rule does not cover a tool of a server: the tool or the server has changed."""
    if _is_same_server(rule, server, definitions):
        return f"the tool has changed since rule `{rule}` allowed it"
    replacement = None if server in rule.identities else definitions.replacement(server, rule.since)
    was = f": it was {replacement.before}, and is {replacement.now}" if replacement is not None else ""
    return f"rule `{rule}` was given for another server called {server}{was}"


def because_outdated(request: Request, decision: Decision) -> Decision:
    """Add to a denial why a rule that allowed the call does not apply."""
    if decision.approved or decision.by == PERSON or not request.outdated:
        return decision
    return replace(decision, reason="; ".join(filter(None, (clause(decision.reason), request.outdated))))


def outgrown(rule: Rule, definitions: Definitions) -> list[str]:
    """Return the names of tools that a rule allowed and that have changed since."""
    if rule.action != "allow":
        return []
    return [name for name in definitions if rule.names(name) and not covers(rule, name, definitions)]


# Consent itself: may this call run, and who decides?
#
# The first matching rule decides; without one the policy does, except for the user's own calls, which run. Questions
# go to an approver: a panel in the notebook, `input()`, or any coroutine. Without an approver the call is denied, and
# the denial says what would allow it.

POLICIES = ("ask", "plan", "auto", "readonly", "deny")

VARIABLE = "MCP_MAGIC_APPROVAL"  # the environment variable that sets the policy, in programs as in notebooks
SHARED = "%mcp share"  # who decided about a read: the user, when they shared the value
UNREAD = "check"  # who decided that nothing can be read, by its reason
MAX_PROBLEM = 300  # characters of that reason
MAX_WAITING = 8  # questions of one outside client that wait at a time; the user reads the cards of others, too
MAX_WAITING_OUTSIDE = 32  # questions of all outside clients that wait at a time
ASK_SECONDS = 300.0  # seconds the user has to decide; after that the user counts as absent
MAX_PLAN = 50  # the most calls in one question

_NO_QUESTION = Decision(True)
"""The decision about the user's own call if no rule matches it: nothing is asked, and nothing recorded."""


def policy_of_environment() -> str:
    """Return the policy set in the environment, else `"ask"`."""
    policy = os.environ.get(VARIABLE) or "ask"
    if policy not in POLICIES:
        raise ConfigError(f"{VARIABLE}: {policy!r} does not fit; valid are {join_names(POLICIES)}")
    return policy


@dataclass
class Consent:
    """The rules, the policy and the approver of a host.

    Attributes:
        rules: The first matching rule decides.
        policy: Decides without a matching rule: `"ask"`, `"plan"` (asks about all calls of an agent's turn at once),
            `"auto"`, `"readonly"` (asks about tools that are not read-only) or `"deny"`. The default is the environment
            variable MCP_MAGIC_APPROVAL, else `"ask"`.
        approver: Asks the user; None if the user cannot be asked. A `PlanApprover` can be asked about a plan.
        timeout: The approver's deadline, in seconds.
        audit: The record of decisions.
        definitions: The definitions of tools since they were first seen; a rule covers a tool as it was when the rule
            was given.
        magics: Whether `%mcp allow` adds to these rules: a denial then suggests it, otherwise a line of Python.
    """

    rules: list[Rule] = field(default_factory=list)
    policy: str = field(default_factory=policy_of_environment)
    approver: Approver | None = None
    timeout: float = ASK_SECONDS
    audit: Audit = field(default_factory=Audit)
    definitions: Definitions = field(default_factory=Definitions)
    magics: bool = False
    _waiting: Counter[str] = field(default_factory=Counter, init=False, repr=False)

    async def review(
        self,
        request: Request,
        *,
        policy: str | None = None,
        approver: Approver | None = None,
        summary: Request | None = None,
    ) -> Decision:
        """Decide about a request, remember a lasting approval, and record both; ConfigError if the file fails.

        If the request is one of many, `summary` stands for all of them: the user is asked about it.
        """
        started, since = time.perf_counter(), self.definitions.count
        request, decision = self._ruled(request, policy)
        if decision is None:
            subject = request
            if summary is not None:
                subject = replace(summary, change=request.change, outdated=request.outdated)
            decision = await self._ask(subject, approver or self.approver)
        return self._recorded(request, decision, since, started, summary)

    async def review_set(
        self,
        requests: Sequence[Request],
        *,
        policy: str | None = None,
        approver: Approver | None = None,
        summary: Request | None = None,
    ) -> Decision:
        """Decide once about calls of one tool that are made together, and record it once.

        `summary` is what the user is asked about; by default it is made from the calls.

        The user is asked about all of them if rules and policy ask about any. Calls that a rule `denies` do not belong
        among them.
        """
        strictness = {"ask": 0, "deny": 1, "allow": 2}
        decisive = min(requests, key=lambda request: strictness[self.verdict(request, policy)])
        return await self.review(decisive, policy=policy, approver=approver, summary=summary or summary_of(requests))

    async def review_plan(self, requests: Sequence[Request], *, policy: str | None = None) -> list[Decision]:
        """Decide about several calls: one question shows all of them, and is asked again until each is decided.

        A single call that needs an answer gets the plain question, and so does each where the approver takes no plan.
        """
        if len(requests) > MAX_PLAN:
            first = await self.review_plan(requests[:MAX_PLAN], policy=policy)
            return [*first, *await self.review_plan(requests[MAX_PLAN:], policy=policy)]
        approver, started, since = self.approver, time.perf_counter(), self.definitions.count
        calls = [PlannedRequest(*self._ruled(request, policy)) for request in requests]
        if not isinstance(approver, PlanApprover) or sum(call.decision is None for call in calls) < 2:
            return await together(self.review(request, policy=policy) for request in requests)
        while open_requests := {at: call.request for at, call in enumerate(calls) if call.decision is None}:
            for at, decision in (await self._answers(open_requests, approver.plan(calls))).items():
                calls[at] = PlannedRequest(open_requests[at], decision)
        return [self._recorded(request, decision, since, started) for request, decision in calls if decision]

    def _ruled(self, request: Request, policy: str | None) -> tuple[Request, Decision | None]:
        """Return the request as it is asked about, and what rules and policy decide; None if the user decides."""
        request = with_latest_definition(request, self.definitions)
        rule, action = ruling(self.rules, self.definitions, request)
        if rule is None:
            if request.asker == PERSON:
                return request, _NO_QUESTION
            action = _by_policy(policy or self.policy, request)
        elif rule.action == "allow" and action == "ask":
            request = replace(request, outdated=why_outdated(rule, request.server, self.definitions))
        by = f"rule `{rule}`" if rule else f"approval = {policy or self.policy!r}"
        if action == "allow" and request.program != "kernel":
            return request, Decision(True, by=by)
        if action == "deny":
            return request, Decision(False, reason=rule.reason if rule else "", by=by)
        return request, None

    def _recorded(
        self, request: Request, decision: Decision, since: int, started: float, summary: Request | None = None
    ) -> Decision:
        if decision is _NO_QUESTION:
            return decision
        self.audit.add(record_of(summary or request, decision, time.perf_counter() - started))
        if summary is None or summary.calls == 1:
            self._remember(request, decision, since)
        return replace(decision, definition=self.definitions.seal(request.name))

    def note_read(self, asker: str, tool: str, arguments: Mapping[str, Any], problem: str = "") -> None:
        """Record that a value was read that the user has shared before, or why not; ConfigError if the file fails."""
        decision = Decision(not problem, by=UNREAD if problem else SHARED, reason=one_line(problem, MAX_PROBLEM))
        request = Request("", tool, arguments, asker)
        self.audit.add(record_of(request, decision, 0.0, verdict="" if problem else "read"))

    def verdict(self, request: Request, policy: str | None = None) -> str:
        """Return what rules and policy say about a request: `"allow"`, `"deny"` or `"ask"`; never asks the user."""
        decision = self.decide_by_rules(request, policy)
        if decision is None:
            return "ask"
        return "allow" if decision.approved else "deny"

    def decide_by_rules(self, request: Request, policy: str | None = None) -> Decision | None:
        """Return what rules and policy decide about a request, without a record; None if the user decides."""
        return self._ruled(request, policy)[1]

    def allows_any(self, request: Request, policy: str | None = None) -> bool:
        """Whether rules and policy allow the call whatever its arguments are, so that nothing is asked.

        A tool that has changed needs a rule that was given since.
        """
        request = with_latest_definition(request, self.definitions)
        if request.program == "kernel":
            return False
        for rule in self.rules:
            if rule.concerns(request.name, request.run, request.asker):
                if rule.action != "allow" or not covers(rule, request.name, self.definitions):
                    return False
                if not rule.is_conditional:
                    return True
        return request.change is None and _by_policy(policy or self.policy, request) == "allow"

    def denies_any(self, request: Request, policy: str | None = None) -> bool:
        """Whether rules and policy deny the call whatever its arguments are, so that these need not be read first."""
        for rule in self.rules:
            if rule.concerns(request.name, request.run, request.asker):
                if rule.action != "deny":
                    return False
                if not rule.is_conditional:
                    return True
        return request.asker != PERSON and _by_policy(policy or self.policy, request) == "deny"

    def denies(self, request: Request) -> bool:
        """Whether a rule denies a call."""
        return ruling(self.rules, self.definitions, with_latest_definition(request, self.definitions))[1] == "deny"

    def rule_for(self, request: Request) -> Rule | None:
        """Return the rule that decides about a request, or None; see `ruling` for one about an earlier definition."""
        return ruling(self.rules, self.definitions, request)[0]

    def refusal(self, request: Request, decision: Decision) -> DeniedError:
        """Return the error that says who denied a call, why, and what would allow it."""
        by = decision.by
        if by == PERSON:  # a model reads the errors of its calls, too
            by = "you" if request.asker == PERSON else "the user"
        text = sentence(f"{one_line(request.label, 200)} was not called; denied by {by}", decision.reason)
        if decision.by != PERSON and request.program != "kernel" and (advice := self._advice(request, decision)):
            text += f" {advice}"
        return DeniedError(text, decision.reason)

    def _advice(self, request: Request, decision: Decision) -> str:
        """Return what would allow a call: the policy, or a rule for exactly this tool."""
        tool = exactly(request.name)
        asker = request.asker if is_outside(request.asker) else ""
        rule = self.rule_for(request)
        only = f" --for {shlex.quote(asker)}" if asker else ""
        line = f"%mcp allow {shlex.quote(tool)}{only}{'' if rule is None else ' --first'}"
        if not self.magics:
            if rule is None:
                return "" if decision.by == "default" else '`host.consent.policy = "auto"` would allow it.'
            only = f", asker={asker!r}" if asker else ""
            line = f"from mcp_magic import Rule; host.consent.add(Rule('allow', {tool!r}{only}), first=True)"
        return (
            f"`{line}` would allow it." if line.isprintable() else "No rule can be typed for a tool with such a name."
        )

    def add(self, rule: Rule, *, first: bool = False) -> bool:
        """Append a rule, or put it first; an equal rule takes over the later `since`."""
        if not (rule.source or rule.since):
            rule = replace(rule, since=self.definitions.count)
        is_new = rule not in self.rules
        if first:
            self.rules[:] = [rule, *(old for old in self.rules if old != rule)]
            return is_new
        if is_new:
            self.rules.append(rule)
            return True
        at = self.rules.index(rule)
        if rule.since > self.rules[at].since:
            self.rules[at] = rule
        return False

    def forget_run(self, run: str) -> None:
        """Drop the rules of an agent run that has ended."""
        self.rules[:] = [rule for rule in self.rules if rule.run != run]

    async def _ask(self, request: Request, approver: Approver | None) -> Decision:
        if approver is None:
            reason = f"{_person(request)} cannot be asked here"
            if not self.magics and request.program != "kernel" and self.rule_for(request) is None:
                reason += f'; host.consent.policy = "auto" or {VARIABLE}=auto allows what no rule asks about'
            return because_outdated(request, Decision.deny(reason, by="default"))

        async def answers() -> dict[int, Decision]:
            return {0: await approver(request)}

        if not is_outside(request.asker):
            return (await self._answers({0: request}, answers()))[0]
        if self._waiting.total() >= MAX_WAITING_OUTSIDE:  # a program may call itself by many names
            reason = f"{MAX_WAITING_OUTSIDE} calls of agents wait for the user's answer already; call again later"
            return Decision.deny(reason, by="the limit of waiting questions")
        if self._waiting[request.asker] >= MAX_WAITING:
            reason = f"{MAX_WAITING} calls of yours wait for the user's answer already; wait for these, then call again"
            return Decision.deny(reason, by="the limit of waiting questions")
        self._waiting[request.asker] += 1
        try:
            return (await self._answers({0: request}, answers()))[0]
        finally:
            self._waiting[request.asker] -= 1
            self._waiting += Counter()  # drops who waits for nothing

    async def _answers(
        self, requests: Mapping[int, Request], asking: Awaitable[Mapping[int, Any]]
    ) -> dict[int, Decision]:
        """Return an approver's decisions about one or more of the requests, each checked."""
        before = {
            at: (_text(request.arguments), self.definitions.seal(request.name)) for at, request in requests.items()
        }
        try:
            answers = await in_time(asking, self.timeout)
            if isinstance(answers, Unanswered):
                answers = {
                    at: Decision.deny(f"{_person(request)} did not answer within {self.timeout:g} s", by="time-out")
                    for at, request in requests.items()
                }
            decided = {at: self._valid(requests[at], answer, *before[at]) for at, answer in answers.items()}
            if not decided:
                raise ValueError("it decided nothing")
        except Exception as error:
            denial = Decision.deny(f"the approver failed: {type(error).__name__}: {error}", by="approver")
            decided = dict.fromkeys(requests, denial)
        return {at: because_outdated(requests[at], decision) for at, decision in decided.items()}

    def _valid(self, request: Request, decision: Any, before: str, definition: str) -> Decision:
        """Check an approver's answer against the schema, the denying rules, and the request as it was asked."""
        if not isinstance(decision, Decision):
            raise TypeError(f"it returned {type(decision).__name__}, not a Decision")
        if not decision.approved:
            return decision
        if self.definitions.seal(request.name) != definition:
            return Decision.deny("the tool, or its server, changed while it waited", by="check")
        if request.calls != 1 and decision.arguments is not None:
            return Decision.deny("calls that are made together cannot be edited", by="check")
        if decision.arguments is None:
            if before == _text(request.arguments):
                return decision
            return Decision.deny("the arguments changed while it waited", by="check")
        try:
            if request.definition is not None:
                arguments, _ = schema.prepare_arguments(decision.arguments, request.definition.input_schema)
            else:
                arguments = schema.json_arguments(decision.arguments)
        except ArgumentsError as error:
            details = "" if request.values else f": {error}"  # it quotes values, and those by reference may be masked
            return Decision.deny(f"the changed arguments do not fit{details}", by="check")
        rule = self.rule_for(replace(request, arguments=arguments))
        if rule is not None and rule.action == "deny":
            return Decision.deny(rule.reason, by=f"rule `{rule}`")
        edited: Decision = replace(decision, arguments=arguments)
        return edited

    def _remember(self, request: Request, decision: Decision, since: int) -> None:
        """Turn "always" into a rule, placed before the rule that asked; an outside client's is for this client.

        No rule has values of the notebook: they change, and a file would keep them.
        """
        arguments = request.arguments if decision.arguments is None else decision.arguments
        if decision.approved and (request.program == "kernel" or (request.values and decision.always == "arguments")):
            return
        asker = request.asker if is_outside(request.asker) else ""
        if decision.approved:
            lasting = lasting_rule(decision.always, request.name, arguments, request.definition, request.run, asker)
        elif decision.always == "tool":
            lasting = Rule("deny", exactly(request.name), reason=decision.reason, asker=asker)
        else:
            lasting = None
        if lasting is None:
            return
        lasting, asking = replace(lasting, since=since), self.rule_for(request)
        at = self.rules.index(asking) if asking else len(self.rules)
        self.rules[at:] = [lasting, *(rule for rule in self.rules[at:] if rule != lasting)]


def _text(arguments: Mapping[str, Any]) -> str:
    """Return arguments as text, to see whether they change: it takes less time than a copy of many values."""
    return json.dumps(arguments, default=str)


def _person(request: Request) -> str:
    """Return how a reason names the user: a client from outside reads it, and is told of the person."""
    return "the person" if is_outside(request.asker) else "you"


FIRST, CALLS, DIGEST = "first calls", "number of calls", "digest of all calls"
"""What a summary of calls has besides their arguments."""

SUMMARISED = 5  # distinct values of an argument, and calls, that a summary shows


def summary_of(requests: Sequence[Request]) -> Request:
    """Return one request that stands for calls of a tool: the distinct values of each argument, and the first calls."""
    first = requests[0]
    if len(requests) == 1:
        return first
    values: dict[str, dict[str, Any]] = {}
    digest = hashlib.sha256()
    for request in requests:
        digest.update(json.dumps(request.arguments, sort_keys=True, default=str).encode() + b"\n")
        for name, value in hidden_arguments(request.arguments, request.definition).items():
            values.setdefault(name, {}).setdefault(json.dumps(value, sort_keys=True, default=str), value)
    summary: dict[str, Any] = {}
    for name, distinct in values.items():
        examples = list(distinct.values())[:SUMMARISED]
        more = [f"… {len(distinct) - SUMMARISED:,} more values"] if len(distinct) > SUMMARISED else []
        summary[name] = examples[0] if len(distinct) == 1 else [*examples, *more]
    samples = requests[:SUMMARISED]
    summary[FIRST] = [hidden_arguments(sample.arguments, sample.definition) for sample in samples]
    summary |= {CALLS: len(requests), DIGEST: digest.hexdigest()[:16]}
    return replace(first, arguments=summary, calls=len(requests), each=[request.arguments for request in requests])


def _by_policy(policy: str, request: Request) -> str:
    if policy == "readonly":
        return "allow" if request.read_only else "ask"
    return {"auto": "allow", "deny": "deny"}.get(policy, "ask")


def record_of(request: Request, decision: Decision, seconds: float, *, verdict: str = "") -> Record:
    """Return the audit record of a decision that took `seconds`; `verdict` is what it says instead of the decision."""
    names = () if decision.arguments is None else tuple(changes(request.arguments, decision.arguments))
    verdict = verdict or (("edit" if names else "approve") if decision.approved else "deny")
    arguments = request.arguments if decision.arguments is None else decision.arguments
    notes = audited(arguments, unchanged(request.values, request.arguments, arguments))
    return Record(
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        asker=request.asker,
        server=request.server,
        tool=request.tool,
        arguments=masked(notes, request.definition),
        decision=verdict,
        by=decision.by,
        reason=decision.reason,
        changed=names,
        seconds=round(seconds, 4),
        run=request.run,
    )
