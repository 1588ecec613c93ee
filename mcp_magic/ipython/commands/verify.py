"""`%mcp verify`: the requests of a cassette, sent to the live servers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.cassette.cassette import deck
from mcp_magic.config.parsing import working_path, write_text
from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab, seconds_typed
from mcp_magic.ipython.execution import until_interrupted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_magic.server.verification import Verification


async def _verify(invocation: Invocation, arguments: argparse.Namespace) -> Verification:
    from mcp_magic.server.verification import SECONDS, verifier

    host, settings, junit = invocation.host, invocation.settings, invocation.new_file(arguments.junit)
    run = verifier(
        invocation.path(invocation.text(arguments.file)),
        arguments.servers,
        host.connections,
        host.reports,
        every=arguments.all,
        ignore=arguments.ignore,
        secrets=_secrets(invocation, arguments.set),
        timeout=arguments.timeout or settings.call_timeout or SECONDS,
        largest=deck.largest,
    )
    with until_interrupted():
        await run.run()
    verification = run.verification
    if junit is not None:
        write_text(junit, verification.junit())
    if run.has_ended and not verification.ok:
        invocation.show(verification)
        verification.check()
    return verification


def _secrets(invocation: Invocation, words: Sequence[str]) -> dict[str, Any]:
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise CommandError(f"%mcp verify: --set takes NAME=VALUE, such as token=$TOKEN, not {name[:40]!r}")
        values[name] = invocation.value(value)
    return values


def _complete_servers(tab: Tab) -> list[str]:
    """Return the servers of the cassette; after `shop=` the connected ones."""
    from mcp_magic.cassette.requests import Recording

    recorded, equals, _ = tab.fragment.partition("=")
    if equals:
        connected = completion.COMPLETERS["SERVER"](Tab("", namespace=tab.namespace))
        return completion.starting(tab, [f"{recorded}={name}" for name in connected])
    with suppress(MCPMagicError, IndexError):
        return completion.starting(tab, [*Recording(working_path(tab.positional[0])).servers])
    return []


VERIFY = Implementation(
    _verify,
    (
        Argument("file", metavar="FILE", help="the cassette, written by `%%mcp record FILE`"),
        Argument(
            "servers",
            nargs="*",
            metavar="SERVER",
            complete=_complete_servers,
            help="only these of its servers; shop=shop_next sends those of shop to the session shop_next",
        ),
        Argument(
            "--all", action="store_true", help="also send calls of tools that are not read-only, after a question"
        ),
        Argument(
            "--ignore",
            action="append",
            default=[],
            metavar="PATH",
            complete=lambda tab: [],
            help="what may differ, such as result.content[0].text or rows[*].id; can be repeated",
        ),
        Argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            complete=lambda tab: [],
            help="the value of an argument that is masked in the cassette: token=$TOKEN; can be repeated",
        ),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds that each request may take (default: 60)"),
        Argument("--junit", metavar="FILE", help="write the outcomes as JUnit XML, for CI"),
    ),
    examples=(
        "%mcp verify shop.jsonl",
        "%mcp verify shop.jsonl shop=shop_next --ignore rows[*].id",
        "v = %mcp verify shop.jsonl --all --junit junit.xml",
    ),
    details="Each recorded request is sent once, and the answer compared: its status (answer, tool error, protocol "
    "error), the output schema that the server declares now, the shape (types and members), the values. Texts that are "
    "JSON are compared as JSON. Of listings, changes count that can break callers. What `%mcp record FILE --again` has "
    "seen to vary is ignored, except for its type.\n\n"
    "Calls are sent if the tool is read-only by the recorded and by the live hints; --all asks once about the others. "
    "Questions of the server get the recorded answers. Interrupt or Cancel keeps the outcomes so far.\n\n"
    "Where an answer differs, the line raises an AssertionError, so Run All, papermill and nbval stop there; "
    "`error.result` is the Verification, with .df (request, tool, status, difference), .ok, .check() and .junit().",
)
