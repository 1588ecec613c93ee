"""The directories that a server is told it may work in (specification, "Roots"). None, unless the person says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp import Client
    from mcp_types import ListRootsResult

__all__ = ["Roots", "tell_changed"]


class Roots:
    """The callback of one session that lists its roots.

    They are information, not protection: a server that runs on this machine can reach what its user can reach.

    Args:
        changed: Tells the server that the list has changed, where its protocol has a message for that.

    Attributes:
        directories: What is listed, absolute paths.
    """

    def __init__(self, changed: Callable[[], Awaitable[None]]) -> None:
        self.directories: tuple[Path, ...] = ()
        self._changed = changed

    async def set(self, *directories: str | Path, base: Path | None = None) -> None:
        """List these from now on; without any, none.

        Args:
            *directories: Directories that exist; `~` is the home.
            base: Where relative ones start; the working directory if left out.

        Raises:
            ArgumentsError: One is no directory; then nothing has changed.
            SessionError: The server could not be told.
        """
        found = dict.fromkeys(_resolved(directory, base or Path.cwd()) for directory in directories)
        if tuple(found) != self.directories:
            self.directories = tuple(found)
            await self._changed()

    def keep(self, directories: Iterable[Path]) -> None:
        """List these, of a session before; nobody is told, because nobody has asked yet."""
        self.directories = tuple(directories)

    async def __call__(self, context: Any) -> ListRootsResult:
        """Answer the server's `roots/list`."""
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        roots = []
        for path in self.directories:
            name = path.name or str(path)
            # A name that is no text in this system's encoding has lone surrogates, which no message can hold.
            roots.append(Root(uri=FileUrl(path.as_uri()), name=name.encode(errors="replace").decode()))
        return ListRootsResult(roots=roots)


async def tell_changed(client: Client) -> None:
    """Announce that the roots have changed; since 2026-07-28 a server asks again whenever it wants to know."""
    from mcp_types import RootsListChangedNotification

    if client.session.discover_result is None:
        await client.session.send_notification(RootsListChangedNotification())


def _resolved(directory: str | Path, base: Path) -> Path:
    path = (base / Path(directory).expanduser()).resolve()
    if not path.is_dir():
        problem = f"{path} is no directory; a root is one that exists"
        raise ArgumentsError(problem)
    return path
