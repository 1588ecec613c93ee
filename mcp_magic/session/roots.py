"""The directories in which a server may work (specification, "Roots"). None by default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.parsing import working_directory
from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client
    from mcp_types import ListRootsResult


class Roots:
    """The roots of one session, which answer `roots/list`: information, no protection against a server here."""

    def __init__(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self.directories: tuple[Path, ...] = ()
        self._changed = on_change

    async def set(self, *directories: str | Path, base: Path | None = None) -> None:
        """Replace the roots; without arguments there are none. Relative paths are below `base`, by default the cwd.

        Raises:
            ArgumentsError: One is no directory; the roots are unchanged.
            SessionError: The server could not be told.
        """
        resolved = dict.fromkeys(_resolved(directory, base or working_directory()) for directory in directories)
        if tuple(resolved) != self.directories:
            self.directories = tuple(resolved)
            await self._changed()

    async def __call__(self, context: Any) -> ListRootsResult:
        """Answer the server's `roots/list`."""
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        roots = []
        for path in self.directories:
            name = path.name or str(path)
            # A name that is invalid in the system's encoding has lone surrogates, which no message can hold.
            roots.append(Root(uri=FileUrl(path.as_uri()), name=name.encode(errors="replace").decode()))
        return ListRootsResult(roots=roots)


async def tell_changed(client: Client) -> None:
    """Announce that the roots have changed. Not needed since 2026-07-28: servers ask whenever they want to know."""
    from mcp_types import RootsListChangedNotification

    if client.session.discover_result is None:
        await client.session.send_notification(RootsListChangedNotification())


def _resolved(directory: str | Path, base: Path) -> Path:
    path = (base / Path(directory).expanduser()).resolve()
    if not path.is_dir():
        problem = f"{path} is not a directory; a root must be an existing directory"
        raise ArgumentsError(problem)
    return path
