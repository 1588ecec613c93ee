"""The texts and markup of an approval question, about a call or about a plan of several, and of its outcome.

Pure functions of requests. Names, descriptions and arguments come from servers and models: markup is escaped and
invisible characters are made visible. Secrets are masked and long values cut to beginning and end; the panel can reveal
both.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import duration, plural, sentence
from mcp_magic.ask.question import EDIT, WHY, Cell, Choice, Extra, Form, Outcome, Question, Reveal, Row
from mcp_magic.consent.consent import CALLS, FIRST, PERSON, SUMMARISED, Decision
from mcp_magic.consent.rules import is_outside
from mcp_magic.consent.values import (
    head_of,
    is_large,
    note_line,
    referenced,
    resolved,
    unchanged,
    value_at,
    with_notes,
)
from mcp_magic.display.arguments import (
    MAX_IN_LINE,
    MAX_VALUE,
    argument_cell,
    argument_rows,
    call_line,
    changes,
    hidden_arguments,
    hidden_note,
    hidden_parts,
    long_arguments,
    masked_parts,
    read_arguments,
    sized,
    value_text,
    written_arguments,
)
from mcp_magic.display.code import code_part
from mcp_magic.display.diff import diff_html, diff_text
from mcp_magic.display.document import (
    Markup,
    Part,
    facts,
    inline,
    joined,
    note,
    page,
    preformatted,
    tag,
    tool_badges,
    width,
)
from mcp_magic.display.text import one_line, shorten
from mcp_magic.display.visible import LEGEND, in_line, is_long
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import UnfitText, from_text
from mcp_magic.schema.fields import kept_root
from mcp_magic.schema.secrets import MASK
from mcp_magic.schema.validate import path_text, unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mcp_magic.ask.question import Reply
    from mcp_magic.consent.consent import PlannedRequest, Request
    from mcp_magic.consent.values import ValueNote
    from mcp_magic.display.arguments import Hidden
    from mcp_magic.display.document import Badge
    from mcp_magic.schema.fields import Field


MAX_DESCRIPTION = 600

MAX_RULE = 600

MAX_NAME = 200  # characters shown of a tool's name

MAX_ABOUT = 120  # characters shown of a tool's description in a plan

ALWAYS = {"tool": "always for this tool", "arguments": "always for these arguments", "run": "for this run"}
"""How far an approval reaches beyond the one call; that of a call from outside only to calls of this agent."""

CLAIM = "as it calls itself"
"""What is said of the name of an agent outside."""

REFUSED = "you cannot be asked here, where no input is allowed; MCP_MAGIC_APPROVAL=auto allows what no rule asks about"

REFUSED_PROGRAM = "you cannot be asked here, and only you can approve a program that runs in the kernel"


def approval_question(request: Request) -> Question:
    """Return the question whether a call may run; `decision_of` reads the reply."""
    name = one_line(_name(request), 80)
    masked = _Masked(request)
    is_one = request.calls == 1
    runs = request.run is not None
    scopes = [(text, how) for how, text in _scopes(request).items()]
    by_hand = request.program == "kernel"
    of_these = "" if request.values else ", these [a]rguments"
    of_the_run = ", this [r]un" if runs else ""
    return Question(
        about=lambda arguments: approval_part(request, arguments, masked),
        choices=(
            Choice(
                "approve",
                "Approve",
                "check",
                f"approve the call of {name} as shown",
                typed="[y]es",
                sends=True,
                for_all="approve all of them as shown",
            ),
            Choice(
                "deny", "Deny", "ban", f"do not call {name}", typed="[n]o", for_all="call none of them", asks="reason"
            ),
            *(
                (
                    Choice(EDIT, "Edit", "pencil", f"change the arguments of {name} first", typed="[e]dit"),
                    *(() if by_hand else (Choice("approve", typed="[a]lways", sends=True, asks="scope"),)),
                    Choice("deny", typed="[d]eny always", extra={"never": True}, asks="reason"),
                )
                if is_one
                else ()
            ),
        ),
        extra=(
            replace(WHY, tooltip=f"why {name} must not be called"),
            Extra("never", False, label=f"always deny this tool{_of_agent(request)}", beside="deny"),
            Extra(
                "scope",
                beside="approve",
                tooltip="what Approve approves",
                options=(("only this time", ""), *([] if by_hand else scopes)),
                typed=f"Always for this [t]ool{of_these}{of_the_run}{_of_agent(request)}: ",
            ),
        )[: 3 if is_one else 1],
        form=_arguments_form(request, fields=is_one),
        reveal=_reveal_of_calls(request) if request.each else _reveal_of_call(request, masked),
        outcome=lambda reply, seconds: outcome_of(request, reply, seconds),
        refused=REFUSED_PROGRAM if by_hand else REFUSED,
        late="Denied",
        waits_for=_waits_for(request),
        prompt=f"Approve {in_line(_name(request), 80)}? ",
        help="y approves, n denies, e edits the arguments first, a and d always approve or deny"
        if is_one
        else "y approves all of them, n denies all of them",
    )


def _waits_for(request: Request) -> str:
    """Return what a panel waits for. One button answers questions that are alike: those of one client are."""
    kind = "approval of a program" if request.program == "kernel" else "approval"
    return f"{kind} for {in_line(request.asker, 60)}" if is_outside(request.asker) else kind


def _scopes(request: Request) -> dict[str, str]:
    """Return how far an approval can reach, in words."""
    left_out = {"arguments"} if request.values else set()
    if request.run is None:
        left_out.add("run")
    return {how: f"{text}{_of_agent(request)}" for how, text in ALWAYS.items() if how not in left_out}


def _of_agent(request: Request) -> str:
    return ", for this agent" if is_outside(request.asker) else ""


def _arguments_form(request: Request, *, fields: bool = True) -> Form:
    """Return a form with the arguments of a call, which are JSON if one is a secret: a field would send its mask.

    JSON has references instead of large values, and they may be moved.
    """
    definition = request.definition
    if any(is_large(value_at(request.arguments, note.path)) for note in request.values):
        values = [(note, value_at(request.arguments, note.path)) for note in request.values]

        def fits(path: tuple[str | int, ...], value: Any) -> bool:
            place = None if definition is None else kept_root(definition.input_schema)
            for step in path:
                place = place and place.at(step)
            return place is None or place.takes(value)

        def read(text: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            edited = read_arguments(text, referenced(arguments, _present(request, arguments)), None)
            result: dict[str, Any] = resolved(edited, values, fits)
            if definition is not None:
                schema.check_arguments(result, definition.input_schema)
            return result

        return Form(
            request.arguments,
            write=lambda arguments, indent: written_arguments(
                referenced(arguments, _present(request, arguments)), definition, indent=indent
            ),
            read=read,
        )
    secret = hidden_arguments(request.arguments, definition) != request.arguments
    return Form(
        request.arguments,
        definition.input_schema if definition is not None and fields and not secret else None,
        write=lambda arguments, indent: written_arguments(arguments, definition, indent=indent),
        read=lambda text, arguments: read_arguments(text, arguments, definition),
    )


def decision_of(request: Request, reply: Reply) -> Decision:
    """Return the decision in a reply."""
    if reply.choice != "approve":
        always = "tool" if reply.extra.get("never") else ""
        return Decision.deny(reply.why_not, by=reply.by, always=always)
    arguments = reply.values if changes(request.arguments, reply.values) else None
    return Decision.approve(arguments, always=reply.extra.get("scope", ""))


def outcome_of(request: Request, reply: Reply, seconds: float) -> Outcome | None:
    """Return the line that stays: the decision, the call, who decided, why, and what was changed.

    None for a call of an agent's run: its transcript says all that.
    """
    if request.run is not None:
        return None
    decision = decision_of(request, reply)
    arguments = request.arguments if decision.arguments is None else decision.arguments
    rest = []
    if reply.choice:
        rest.append("by you" if decision.by == PERSON else f"by {one_line(decision.by, 40)}")
        if decision.reason:
            rest.append(f"because: {one_line(decision.reason, 200)}")
        if names := ", ".join(one_line(name, 40) for name in changes(request.arguments, arguments)):
            rest.append(f"changed {names}")
        if decision.always:
            rest.append(f"{ALWAYS[decision.always]}{_of_agent(request)}")
    asker = f" ({_asker(request)} asked)" if request.asker != PERSON else ""
    text = call_text(request, arguments)
    call = ("code", text if request.calls == 1 else f"{in_line(request.label, MAX_NAME)}{_times(request)}")
    return Outcome(reply.sign, (" ", call, f" {', '.join([*rest, duration(seconds)])}{asker}"))


def call_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return a call on one line, secrets masked and long values cut."""
    return f"{in_line(request.label, MAX_NAME)}({call_line(_with_notes(request, arguments), request.definition)})"


def _present(request: Request, arguments: Mapping[str, Any]) -> Sequence[ValueNote]:
    return unchanged(request.values, request.arguments, arguments)


def _with_notes(request: Request, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with a line of text for each large value of the notebook."""
    return with_notes(arguments, _present(request, arguments)) if request.values else arguments


def _asker(request: Request) -> str:
    if request.asker == PERSON:
        return "you"
    if is_outside(request.asker):
        return f"{in_line(request.asker, 60)} ({CLAIM})"
    return one_line(request.asker, 60)


def _name(request: Request) -> str:
    return "the program" if request.program else request.label


def _wants(request: Request) -> str:
    if request.program:
        return f"{_asker(request)} wants to run a program in {'the' if request.program == 'sandbox' else 'your'}"
    return "You are about to call" if request.asker == PERSON else f"{_asker(request)} wants to call"


def _times(request: Request) -> str:
    """Say how many calls a request stands for."""
    if request.calls == 1:
        return ""
    return f" {request.calls:,} times" if request.calls else " any number of times"


def _badges(request: Request) -> list[Badge]:
    if request.program:
        return []
    marks = [request.change.badge] if request.change is not None else []
    return [*marks, *tool_badges(request.definition, trusted=request.trusted)]


def _change_text(request: Request) -> str:
    """Say what has changed of the tool, which rule no longer covers it, and whether the asker read a variant of it."""
    texts = []
    if request.change is not None:
        when = time.strftime("%H:%M:%S", time.localtime(request.change.time))
        texts.append(f"The {request.change.parts} of this tool changed after it was first seen (noticed at {when}).")
    if request.outdated:
        texts.append(sentence(in_line(f"{request.outdated[0].upper()}{request.outdated[1:]}", MAX_RULE)))
    if request.variant:
        texts.append(sentence(in_line(f"{_asker(request)} read a variant of this tool: {request.variant}", MAX_RULE)))
    return " ".join(texts)


def _description(request: Request) -> str:
    text = (request.definition.description if request.definition else None) or ""
    return shorten(text.strip(), MAX_DESCRIPTION)


def _rows(request: Request, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    if request.asker == PERSON:
        return argument_rows(request.arguments, arguments, request.definition)
    return argument_rows(request.arguments, arguments, request.definition, mask=partial(sized, MASK))


def hidden_of(request: Request, arguments: Mapping[str, Any]) -> list[Hidden]:
    """Return the hidden parts of a call; none of the user's own call, because the user typed them."""
    return [] if request.asker == PERSON else hidden_parts(arguments, request.definition)


class _Masked:
    """The arguments that a question shows now, with secrets masked, and the masked parts; they may be large."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._latest: Mapping[str, Any] | None = None
        self._parts: tuple[dict[str, Any], list[Hidden]] = {}, []

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the masked arguments."""
        return self._of(arguments)[0]

    def hidden(self, arguments: Mapping[str, Any]) -> list[Hidden]:
        """Return what `hidden_of` returns."""
        return [] if self._request.asker == PERSON else self._of(arguments)[1]

    def _of(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Hidden]]:
        if arguments is not self._latest:
            self._parts = masked_parts(arguments, self._request.definition)
            self._latest = arguments
        return self._parts


def _reveal_of_call(request: Request, masked: _Masked) -> Reveal:
    return Reveal(
        lambda arguments: [] if request.program else [*_long(request, arguments), *_large(request, arguments, masked)],
        lambda arguments: [(part.path, part.value) for part in masked.hidden(arguments)],
        lambda arguments, opened: unseen_of(request, arguments, opened),
    )


def unseen_of(request: Request, arguments: Mapping[str, Any], opened: Collection[str]) -> list[tuple[str, Any]]:
    """Return the long values, hidden ones included, that the user must open before approving the call.

    None for the user's own call, because the user typed them, and none of a program, which is shown whole. Values of
    the notebook can be opened, but need not be: nobody wrote them for this call.
    """
    if request.asker == PERSON or request.program:
        return []
    long = _long(request, arguments)
    hidden = _long_hidden((part.path, part.value) for part in hidden_of(request, _with_notes(request, arguments)))
    return [(name, value) for name, value in [*long, *hidden] if name not in opened]


def _long(request: Request, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments that are drawn cut."""
    return [*long_arguments(_with_notes(request, arguments), request.definition).items()]


def _large(request: Request, arguments: Mapping[str, Any], masked: _Masked) -> list[tuple[str, Any]]:
    """Return the values of the notebook that are drawn by their shapes, with secrets masked."""
    notes = [note for note in _present(request, arguments) if is_large(value_at(arguments, note.path))]
    hidden = masked.arguments(arguments) if notes else {}
    return [(f"{path_text(note.path)} ← {note.name}", value_at(hidden, note.path)) for note in notes]


def _long_hidden(hidden: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in hidden if len(value_text(value)) > MAX_VALUE]


def _reveal_of_calls(request: Request) -> Reveal:
    """Return what reveals the calls that a question summarises, secrets masked, and their secrets.

    Somebody else's calls must be opened before they are approved, as a long value of one call. The set does not change,
    and may be large, so its text is made once.
    """
    text = "\n".join(map(value_text, request.arguments[FIRST]))
    is_cut = request.calls > SUMMARISED or is_long(text, MAX_VALUE)
    own = request.asker == PERSON

    @cache
    def calls() -> tuple[tuple[str, Any], ...]:
        lines = (value_text(hidden_arguments(arguments, request.definition)) for arguments in request.each)
        return (("the calls", "\n".join(lines)),) if is_cut else ()

    @cache
    def secrets() -> tuple[tuple[str, Any], ...]:
        if own:
            return ()
        numbered = (
            (number, hidden_parts(arguments, request.definition)) for number, arguments in enumerate(request.each, 1)
        )
        return tuple((f"{number}. {part.path}", part.value) for number, parts in numbered for part in parts)

    def unseen(_: Any, opened: Collection[str]) -> list[tuple[str, Any]]:
        return [] if own else [pair for pair in [*calls(), *_long_hidden(secrets())] if pair[0] not in opened]

    return Reveal(lambda _: [*calls()], lambda _: [*secrets()], unseen)


def approval_part(request: Request, arguments: Mapping[str, Any], masked: _Masked | None = None) -> Part:
    """Return the question: who requests which call, with which arguments."""
    if request.each:
        arguments = {name: value for name, value in arguments.items() if name != CALLS}
        arguments[FIRST] = "\n".join(map(value_text, arguments[FIRST]))
        request = replace(request, arguments=arguments)
    name, badges = in_line(request.program or request.label, MAX_NAME), _badges(request)
    line = f"{_wants(request)} {name}{_times(request)} {' '.join(map(str, badges))}"
    html = tag("p", joined([_wants(request), " ", tag("b", name), _times(request), " ", joined(badges, " ")]))
    text = Part("", Markup())
    if description := _description(request):
        plain = "\n".join(f"  {line}" for line in description.splitlines())
        text = Part(plain, tag("div", description, style="white-space:pre-wrap"))
    values = _program_part(arguments) if request.program else _arguments_part(request, arguments, masked=masked)
    part = Part.stack(Part(line, html), _change_part(request), text, values)
    return Part(part.plain, Markup(page([part.html])))


def _program_part(arguments: Mapping[str, Any]) -> Part:
    """Return the whole code of a program."""
    code = code_part(str(arguments.get("code", "")))
    legend = LEGEND if "⟨" in code.plain else ""
    plain = "\n".join(f"    {line}".rstrip() for line in code.plain.split("\n"))
    return Part.stack(Part(plain, code.html), Part(f"  {legend}" if legend else "", note(legend)))


def _change_part(request: Request, indent: str = "  ") -> Part:
    """Return what has changed of the tool, and which rule no longer covers it."""
    if request.change is None and not request.outdated and not request.variant:
        return Part("", Markup())
    lines = request.change.lines if request.change is not None else []
    diff = f"\n{diff_text(lines, indent * 2)}" if lines else ""
    html = tag("div", joined([tag("p", tag("b", _change_text(request))), diff_html(lines) if lines else ""]))
    return Part(f"{indent}{_change_text(request)}{diff}", html)


def _arguments_part(
    request: Request,
    arguments: Mapping[str, Any],
    without: Collection[str] = (),
    indent: str = "  ",
    masked: _Masked | None = None,
) -> Part:
    """Return the arguments, how they were changed, and what is hidden; without some arguments."""
    nothing = Markup() if arguments else note("without arguments")
    masked = masked or _Masked(request)
    hidden = hidden_note(masked.hidden(arguments))
    drawn = _values_drawn(request, arguments, masked)
    before, after = (
        {name: value for name, value in _with_notes(request, values).items() if name not in without}
        for values in (request.arguments, arguments)
    )
    request = replace(request, arguments=before, values=())
    rows = list(_rows(request, after))
    plain, cells = [], []
    for argument, value, mark in rows:
        if argument in drawn:
            continue
        text = value.replace("\n", f"\n{indent}    ")
        plain.append(f"{indent}{argument} = {text}{f'   ✎ {mark}' if mark else ''}")
        cells.append((argument, argument_cell(value, mark)))
    for path, (line, head) in drawn.items():
        plain += [f"{indent}{path} ← {line}", *(f"{indent}      {item}" for item in head)]
        cells.append((path, joined([tag("b", f"← {line}"), preformatted("\n".join(head)) if head else ""])))
    texts = [*plain, *(mark for _, _, mark in rows)]
    legend = LEGEND if any("⟨" in text for text in texts) else ""
    notes = [text for text in (legend, hidden) if text]
    plain += [f"{indent}{line}" for line in notes]
    return Part("\n".join(plain), joined([facts(cells) if cells else nothing, *map(note, notes)]))


def _values_drawn(request: Request, arguments: Mapping[str, Any], masked: _Masked) -> dict[str, tuple[str, list[str]]]:
    """Return for each value of the notebook, by its path: what was taken of which variable, and its head or whole."""
    hidden = masked.arguments(arguments) if request.values else {}
    drawn = {}
    for value in _present(request, arguments):
        if is_large(value_at(arguments, value.path)):
            head = head_of(arguments, value, request.definition)
        else:
            head = [in_line(value_text(value_at(hidden, value.path)), MAX_VALUE)]
        drawn[in_line(path_text(value.path), MAX_NAME)] = note_line(value), head
    return drawn


# A plan: several calls in one question, as a table.

MAX_CELL = 30  # the widest value, in characters, that a cell shows whole on a narrow page, too


def plan_question(calls: Sequence[PlannedRequest]) -> Question:
    """Return the question which calls of a plan may run; `plan_decisions` reads the reply."""
    again = any(_is_yours(call.decision) for call in calls)  # the rest of a plan: nothing is ticked any more
    rows = tuple(_plan_row(number, call, calls) for number, call in enumerate(calls, 1))
    open_rows = [row for row in rows if row.form is not None]
    ticked = [None if row.form is None or again else row.form.values for row in rows]

    def of_rows(values_of: Callable[[Request, Any], Iterable[tuple[str, Any]]], values: Any) -> list[tuple[str, Any]]:
        """Return values of the rows, with the row's number before their names."""
        triples = zip(rows, calls, values, strict=True)
        pairs_of_rows = ((row, values_of(call.request, value)) for row, call, value in triples if value is not None)
        return [(f"{row.number}. {name}", value) for row, pairs in pairs_of_rows for name, value in pairs]

    def present(values: Any) -> list[Any]:
        """Return the arguments of all rows that can be ticked."""
        return [
            row.form and (row.form.values if value is None else value) for row, value in zip(rows, values, strict=True)
        ]

    def check(values: Any) -> None:
        if not any(value is not None for value in values):
            raise ArgumentsError("no call is selected; tick one, or deny the rest")
        for number, (call, value) in enumerate(zip(calls, values, strict=True), 1):
            definition = call.request.definition
            if value is not None and definition is not None and changes(call.request.arguments, value):
                try:
                    schema.check_arguments(value, definition.input_schema)
                except ArgumentsError as error:
                    raise ArgumentsError(f"{number}. {error}") from None

    return Question(
        about=lambda values: _plan_head(calls, len(open_rows)),
        choices=(
            Choice(
                "approve",
                "Approve selected",
                "check",
                "approve the ticked calls as shown; you decide about the others then",
                typed="[a]ll",
                sends=True,
            ),
            Choice(
                "deny",
                "Deny rest",
                "ban",
                "call none of those that are not approved yet",
                typed="[d]eny the rest",
                asks="reason",
            ),
            Choice(EDIT, typed="[e]dit and a number"),
        ),
        extra=(replace(WHY, tooltip="why they must not be called"),),
        form=Form(ticked, rows=rows, check=check),
        reveal=Reveal(
            lambda values: of_rows(
                lambda request, arguments: long_arguments(arguments, request.definition).items(), present(values)
            ),
            lambda values: of_rows(
                lambda request, arguments: [(part.path, part.value) for part in hidden_of(request, arguments)],
                present(values),
            ),
            lambda values, opened: [
                (name, value)
                for name, value in of_rows(lambda request, arguments: unseen_of(request, arguments, ()), values)
                if name not in opened
            ],
        ),
        outcome=lambda reply, seconds: _plan_outcome(calls, reply, seconds),
        refused=REFUSED,
        late="Denied",
        waits_for="approval",
        prompt="Approve numbers such as 1,3-5, or ",
        help="numbers or a approve calls, d denies all that are not approved yet, e 2 edits the arguments of call 2",
    )


def plan_decisions(calls: Sequence[PlannedRequest], reply: Reply) -> dict[int, Decision]:
    """Return the decisions in a reply about calls of a plan, by their place."""
    requests = {at: call.request for at, call in enumerate(calls) if call.decision is None}
    if reply.choice != "approve":
        return {at: decision_of(request, reply) for at, request in requests.items()}
    ticked = {at: reply.values[at] for at in requests if reply.values[at] is not None}
    return {at: decision_of(requests[at], replace(reply, values=values)) for at, values in ticked.items()}


def _is_yours(decision: Decision | None) -> bool:
    return decision is not None and decision.approved and decision.by == PERSON


def _plan_head(calls: Sequence[PlannedRequest], open_calls: int) -> Part:
    approved = sum(_is_yours(call.decision) for call in calls)
    text = f"{_asker(calls[0].request)} wants to make {plural(len(calls), 'calls')}"
    if approved:
        text += f"; {approved:,} approved, {open_calls:,} left"
    return Part(text, Markup(page([tag("p", text)])))


def _plan_row(number: int, call: PlannedRequest, calls: Sequence[PlannedRequest]) -> Row:
    request, decision = call
    name, badges, status = in_line(request.label, MAX_NAME), _badges(request), ""
    if decision is not None:
        by = "you" if decision.by == PERSON else in_line(decision.by, MAX_RULE)
        status = f"{'approved' if _is_yours(decision) else 'allowed' if decision.approved else 'denied'} by {by}"
        if decision.reason:
            status += f": {one_line(decision.reason, 200)}"
    first = next(earlier.request for earlier in calls if earlier.request.name == request.name)
    about = one_line(_description(request), MAX_ABOUT) if first is request else ""
    line = f"{number:>3}. {name} {' '.join(map(str, badges))}{f' — {status}' if status else ''}"
    head = [tag("p", joined([tag("b", name), " ", joined(badges, " ")]))]
    head += [tag("p", tag("b", inline(status)))] if status else []
    head += [note(about)] if about else []
    plain = "\n".join([line, *([f"     {about}"] if about else [])])
    arguments = dict(request.arguments)
    if decision is not None and decision.arguments is not None:
        arguments = dict(decision.arguments)
    return Row(
        number,
        Part.stack(Part(plain, joined(head)), _change_part(request, "     ")),
        facts=lambda values, without: _arguments_part(
            request, arguments if values is None else values, without, "     "
        ),
        cells=lambda values: _cells(request, values),
        form=_arguments_form(request) if decision is None else None,
    )


def _cells(request: Request, arguments: Mapping[str, Any]) -> list[Cell]:
    """Return the arguments that a line of text shows exactly: short, without secrets, and without marks."""
    definition = request.definition
    fields = {} if definition is None else {child.name: child for child in kept_root(definition.input_schema).children}
    masked = hidden_arguments(arguments, definition)
    cells = []
    for name, value in arguments.items():
        text = value_text(value)
        plain = masked[name] == value and width(text) <= MAX_CELL and in_line(text, MAX_CELL) == text == text.strip()
        if plain and "\n" not in text and in_line(name, MAX_IN_LINE) == name:
            cells.append(Cell(name, text, partial(_read_cell, name, fields.get(name), value)))
    return cells


def _read_cell(name: str, field: Field | None, before: Any, text: str) -> Any:
    try:
        if field is not None:
            return from_text(text, field)
        return text if isinstance(before, str) else json.loads(text)
    except UnfitText:
        assert field is not None
        raise ArgumentsError(unfit(name, field, text)) from None
    except (ValueError, RecursionError):
        raise ArgumentsError(f"{name}: this is not JSON") from None


def _plan_outcome(calls: Sequence[PlannedRequest], reply: Reply, seconds: float) -> Outcome | None:
    """Return the line that stays; None for the calls of an agent's run: its transcript says all that."""
    requests = [call.request for call in calls if call.decision is None]
    if requests[0].run is not None:
        return None
    decisions = plan_decisions(calls, reply)
    because = f", because: {one_line(reason, 200)}" if (reason := next(iter(decisions.values())).reason) else ""
    rest = f" {len(decisions):,} of {plural(len(calls), 'calls')} by you{because}, {duration(seconds)}"
    return Outcome(reply.sign, (f"{rest} ({_asker(requests[0])} asked)",))
