"""`%mcp` in a shell of this process."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.ipython import execution
from mcp_magic.ipython.extension import MCPMagics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process forget afterwards which loop ran the cells of a test; a kernel has one as long as it lives."""
    wakeups: list[Any] = []
    for name, value in (("_home", None), ("_process", None), ("_wakeups", wakeups)):
        monkeypatch.setattr(execution, name, value)
    yield
    for loop, woken, wakeup in wakeups:
        signal.set_wakeup_fd(-1)
        loop.remove_reader(woken)
        woken.close()
        wakeup.close()


class Magic:
    """Runs lines of `%mcp` in a shell.

    Attributes:
        folder: Where it runs.
        settings: The settings of the magics.
    """

    def __init__(self, shell: InteractiveShell, folder: Path) -> None:
        self.folder = folder
        self.settings: Any = MCPMagics(shell)

    async def __call__(self, line: str, cell: str | None = None, **names: Any) -> Any:
        return await self.settings.run(None, line, cell, names)

    async def error(self, kind: type[Exception], line: str, cell: str | None = None, **names: Any) -> str:
        """Return the text of the error that a line raises."""
        with pytest.raises(kind) as caught:
            await self(line, cell, **names)
        return str(caught.value)
