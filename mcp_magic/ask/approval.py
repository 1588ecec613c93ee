"""The texts and markup of an approval question and of its outcome.

Pure functions of a request. Names, descriptions and arguments come from servers and models: markup is escaped and
invisible characters are made visible. Secrets are masked and long values cut to beginning and end; the panel can reveal
both.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration, sentence
from mcp_magic.ask.question import EDIT, Choice, Extra, Form, Outcome, Question, Reveal
from mcp_magic.consent.consent import PERSON, Decision
from mcp_magic.display.arguments import (
    MAX_VALUE,
    argument_cell,
    argument_rows,
    call_line,
    changes,
    hidden_arguments,
    hidden_note,
    hidden_parts,
    long_arguments,
    read_arguments,
    sized,
    written,
    written_arguments,
)
from mcp_magic.display.code import code_part
from mcp_magic.display.diff import diff_html, diff_text
from mcp_magic.display.document import Markup, Part, facts, joined, note, page, tag, tool_badges
from mcp_magic.display.text import one_line, shorten
from mcp_magic.display.visible import LEGEND, in_line
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mcp_magic.ask.question import Reply
    from mcp_magic.consent.consent import Request
    from mcp_magic.display.arguments import Hidden
    from mcp_magic.display.document import Badge


MAX_DESCRIPTION = 600

MAX_RULE = 600

MAX_NAME = 200  # characters shown of a tool's name

ALWAYS = {"tool": "always for this tool", "arguments": "always for these arguments", "run": "for this run"}
"""How far an approval reaches beyond the one call."""

REFUSED = "you cannot be asked here, where no input is allowed; MCP_MAGIC_APPROVAL=auto allows what no rule asks about"


REFUSED_PROGRAM = "you cannot be asked here, and only you can approve a program that runs in the kernel"


def approval_question(request: Request) -> Question:
    """Return the question whether a call may run; `decision_of` reads the reply."""
    name = one_line(_name(request), 80)
    is_one = request.calls == 1
    runs = request.run is not None
    scopes = [(text, how) for how, text in ALWAYS.items() if how != "run" or runs]
    by_hand = request.program == "kernel"
    of_the_run = ", this [r]un" if runs else ""
    secret = hidden_arguments(request.arguments, request.definition) != request.arguments
    return Question(
        about=lambda arguments: approval_part(request, arguments),
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
            Choice("deny", "Deny", "ban", f"do not call {name}", typed="[n]o (and why)", for_all="call none of them"),
            *(
                (
                    Choice(EDIT, "Edit", "pencil", f"change the arguments of {name} first", typed="[e]dit"),
                    *(() if by_hand else (Choice("approve", typed="[a]lways", sends=True, asks="scope"),)),
                    Choice("deny", typed="[d]eny always", extra={"never": True}),
                )
                if is_one
                else ()
            ),
        ),
        extra=(
            Extra("reason", label="why not; Enter denies", tooltip=f"why {name} must not be called", beside="deny"),
            Extra("never", False, label="always deny this tool", beside="deny"),
            Extra(
                "scope",
                beside="approve",
                tooltip="what Approve approves",
                options=(("only this time", ""), *([] if by_hand else scopes)),
                typed=f"Always for this [t]ool, these [a]rguments{of_the_run}: ",
            ),
        )[: 3 if is_one else 1],
        # a form field would take the mask of a secret for its value, so arguments with secrets are edited as JSON
        form=Form(
            request.arguments,
            request.definition.input_schema if request.definition is not None and not secret and is_one else None,
            write=lambda arguments, indent: written_arguments(arguments, request.definition, indent=indent),
            read=lambda text, arguments: read_arguments(text, arguments, request.definition),
        ),
        reveal=Reveal(
            lambda arguments: [] if request.program else list(long_arguments(arguments, request.definition).items()),
            lambda arguments: [(part.path, part.value) for part in hidden_of(request, arguments)],
            lambda arguments, seen: unseen_of(request, arguments, seen),
        ),
        outcome=lambda reply, seconds: outcome_of(request, reply, seconds),
        refused=REFUSED_PROGRAM if by_hand else REFUSED,
        late="Denied",
        waits_for="approval of a program" if by_hand else "approval",
        prompt=f"Approve {in_line(_name(request), 80)}? ",
        help="y approves, n denies, e edits the arguments first, a and d always approve or deny"
        if is_one
        else "y approves all of them, n denies all of them",
    )


def decision_of(request: Request, reply: Reply) -> Decision:
    """Return the decision in a reply."""
    if reply.choice != "approve":
        always = "tool" if reply.extra.get("never") else ""
        return Decision.deny(reply.reason or reply.extra.get("reason", "").strip(), by=reply.by, always=always)
    changed = reply.values if changes(request.arguments, reply.values) else None
    return Decision.approve(changed, always=reply.extra.get("scope", ""))


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
            rest.append(ALWAYS[decision.always])
    asker = f" ({_asker(request)} asked)" if request.asker != PERSON else ""
    sign = {"approve": "✓ approved", "deny": "✗ denied"}.get(reply.choice, f"… {reply.reason}")
    call = ("code", call_text(request, arguments))
    return Outcome(sign, (" ", call, f" {', '.join([*rest, duration(seconds)])}{asker}"))


def call_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return a call on one line, secrets masked and long values cut."""
    return f"{in_line(request.name, MAX_NAME)}({call_line(arguments, request.definition)})"


def _asker(request: Request) -> str:
    return "you" if request.asker == PERSON else one_line(request.asker, 60)


def _name(request: Request) -> str:
    return "the program" if request.program else request.name


def _wants(request: Request) -> str:
    if request.program:
        return f"{_asker(request)} wants to run a program in {'the' if request.program == 'sandbox' else 'your'}"
    return "You are about to call" if request.asker == PERSON else f"{_asker(request)} wants to call"


def _times(request: Request) -> str:
    """Say how many calls a request stands for."""
    if request.calls == 1:
        return ""
    return f" {request.calls:,} times" if request.calls else " for each row"


def _badges(request: Request) -> list[Badge]:
    marks = [request.change.badge] if request.change is not None else []
    return [*marks, *tool_badges(request.definition, trusted=request.trusted)]


def _changed(request: Request) -> str:
    """Say what has changed of the tool, and which rule no longer covers it."""
    texts = []
    if request.change is not None:
        when = time.strftime("%H:%M:%S", time.localtime(request.change.time))
        texts.append(f"The {request.change.parts} of this tool changed after it was first seen (noticed at {when}).")
    if request.outdated:
        texts.append(sentence(in_line(f"{request.outdated[0].upper()}{request.outdated[1:]}", MAX_RULE)))
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


def unseen_of(request: Request, arguments: Mapping[str, Any], seen: Collection[str]) -> list[tuple[str, Any]]:
    """Return the long values, hidden ones included, that the user must open before approving the call.

    None for the user's own call, because the user typed them, and none of a program, which is shown whole.
    """
    if request.asker == PERSON or request.program:
        return []
    hidden = [(part.path, part.value) for part in hidden_of(request, arguments) if len(written(part.value)) > MAX_VALUE]
    long = long_arguments(arguments, request.definition).items()
    return [(name, value) for name, value in [*long, *hidden] if name not in seen]


def approval_part(request: Request, arguments: Mapping[str, Any]) -> Part:
    """Return the question: who requests which call, with which arguments."""
    name, badges = in_line(request.program or request.name, MAX_NAME), _badges(request)
    plain = [f"{_wants(request)} {name}{_times(request)} {' '.join(map(str, badges))}"]
    html = [tag("p", joined([_wants(request), " ", tag("b", name), _times(request), " ", joined(badges, " ")]))]
    if request.change is not None or request.outdated:
        lines = request.change.lines if request.change is not None else []
        plain += [f"  {_changed(request)}", *([diff_text(lines, "    ")] if lines else [])]
        html.append(tag("div", joined([tag("p", tag("b", _changed(request))), diff_html(lines) if lines else ""])))
    if description := _description(request):
        plain += [f"  {line}" for line in description.splitlines()]
        html.append(tag("div", description, style="white-space:pre-wrap"))
    if request.program:
        code = code_part(str(arguments.get("code", "")))
        plain += [f"    {line}".rstrip() for line in code.plain.split("\n")]
        legend = LEGEND if "⟨" in code.plain else ""
        plain += [f"  {legend}"] if legend else []
        return Part("\n".join(plain), Markup(page([joined([*html, code.html, note(legend)])])))
    rows = list(_rows(request, arguments))
    for argument, value, mark in rows:
        text = value.replace("\n", "\n      ")
        plain.append(f"  {argument} = {text}{f'   ✎ {mark}' if mark else ''}")
    cells = [(argument, argument_cell(value, mark)) for argument, value, mark in rows]
    html.append(facts(cells) if rows else note("without arguments"))
    legend = LEGEND if any("⟨" in f"{argument}{value}{mark}" for argument, value, mark in rows) else ""
    notes = (legend, hidden_note(hidden_of(request, arguments)))
    plain += [f"  {line}" for line in notes if line]
    return Part("\n".join(plain), Markup(page([joined([*html, *map(note, notes)])])))
