"""Asks the person about servers of a file that loosen something, hide others, or take the place of open sessions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.declaration import Declaration, load_declaration
from mcp_magic.config.files import discover_servers, is_personal
from mcp_magic.config.names import slug
from mcp_magic.config.trust import is_trusted, loosened, runs, trust, trust_line
from mcp_magic.errors import DeniedError, MCPMagicError
from mcp_magic.magics.asking import Asking
from mcp_magic.wording import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_magic.config.entries import ServerEntry
    from mcp_magic.config.specs import Spec
    from mcp_magic.magics.parsing import Invocation

__all__ = ["ask_for_servers", "ask_for_trust", "displaced", "needs_yes", "shadowed"]


async def ask_for_trust(
    invocation: Invocation, declaration: Declaration, loose: list[str], taken: Sequence[str] = (), *, dry: bool = False
) -> list[str]:
    """Ask the person about a file, once for what it loosens; return what is to be said of it.

    Args:
        invocation: Who asks.
        declaration: What the file declares.
        loose: What it loosens, in words; a yes to it is kept.
        taken: Which open sessions it replaces, in words; a yes to that holds for now.
        dry: Whether it is only said that a yes is needed.

    Raises:
        DeniedError: The answer is no, or nobody can answer; nothing was done.
    """
    if loose and is_trusted(declaration):
        loose = []
    if not loose and not taken:
        return []
    if dry:
        return [f"takes your yes: {'; '.join([*loose, *taken])}"]
    await _ask(invocation, declaration, loose, taken)
    try:
        if loose:
            trust(declaration)
    except OSError as error:
        return [f"your yes cannot be kept: {error.strerror}"]
    return []


async def _ask(invocation: Invocation, declaration: Declaration, loose: Sequence[str], taken: Sequence[str]) -> None:
    source, wants = clean(declaration.source), [*loose, *taken]
    starts = [f"- {slug(entry.name)}: {runs(entry)}" for entry in declaration.started]
    question = [f"Do you trust {source}?", "It wants to", *(f"- {line}" for line in wants)]
    question += ["and to start or connect", *starts] if starts else []
    refused = f"{source} was not applied, nothing was started. It wants to {'; '.join(wants)}."
    try:
        answer = await Asking(invocation.cells, invocation.settings, invocation.host.consent).confirm(
            "\n".join(question)
        )
    except TimeoutError:
        raise DeniedError(f"{refused} Nobody answered within {invocation.host.consent.timeout:g} s.") from None
    if answer is None and taken:
        raise DeniedError(f"{refused}\nNobody can be asked here. `%mcp disconnect NAME` makes room for it first.")
    if answer is None:
        raise DeniedError(
            f"{refused}\nNobody can be asked here. This line in a terminal says yes to the file as it is now: "
            f"`{trust_line(declaration)}`"
        )
    if not answer:
        raise DeniedError(f"{refused} You said no.")


async def ask_for_servers(invocation: Invocation, entries: Iterable[ServerEntry], *, replacing: bool = False) -> None:
    """Ask the person about configured servers before they are started, unless the files are their own.

    Args:
        invocation: Who asks.
        entries: The servers.
        replacing: Whether the person named the file, and open sessions of these names are replaced.

    Raises:
        DeniedError: The answer is no, or nobody can answer; nothing was started.
    """
    for entry in entries:
        if entry.spec is None or entry.disabled or entry.problem:
            continue
        alone = _alone(entry)
        taken = displaced(invocation, {slug(entry.name): entry.spec}, entry.source) if replacing else []
        loose = _wants(alone, None if replacing else invocation.directory)
        await ask_for_trust(invocation, alone, loose, taken)


def needs_yes(entry: ServerEntry, directory: Path) -> bool:
    """Whether the person has to say yes to a configured server before it is started."""
    alone = _alone(entry)
    return bool(_wants(alone, directory)) and not is_trusted(alone)


def _alone(entry: ServerEntry) -> Declaration:
    return Declaration({entry.name: entry}, source=entry.source, digest=entry.digest)


def _wants(declaration: Declaration, directory: Path | None) -> list[str]:
    """Return what a declared server takes a yes for; nothing if the whole file has one, or is the person's own.

    Args:
        declaration: Of this server alone.
        directory: Where the person named it, and perhaps meant one of their own; None if they named the file.
    """
    if is_personal(declaration.source):
        return []
    with suppress(MCPMagicError):
        if is_trusted(load_declaration(Path(declaration.source))):
            return []
    hides = shadowed(declaration, directory) if directory is not None else []
    return [*loosened(declaration, {}), *(f"be taken for another: {line}" for line in hides)]


def shadowed(declaration: Declaration, directory: Path) -> list[str]:
    """Say which servers of the person's own files have names that a project's file gives to other ones."""
    project = Path(declaration.source).parent
    mine: dict[str, ServerEntry] = {}
    for entry in discover_servers(directory):
        if entry.name and is_personal(entry.source):
            mine.setdefault(slug(entry.name), entry)
    return [
        f"{slug(entry.name)} is the one of {project}, not your own in {mine[slug(entry.name)].source}"
        for entry in declaration.started
        if slug(entry.name) in mine and mine[slug(entry.name)].spec != entry.spec
    ]


def displaced(invocation: Invocation, declared: dict[str, Spec], source: str) -> list[str]:
    """Say which open sessions would be replaced by other servers, but for those that the same file has opened."""
    identity = invocation.host.consent.definitions.identity
    return [
        f"replace your open session {session.name} ({session.spec.where}); your rules for that one do not hold for it"
        for session in invocation.host.find()
        if session.name in declared
        and identity(session.name) != declared[session.name].identity
        and invocation.state.opened.get(session.name) != (source, identity(session.name))
    ]
