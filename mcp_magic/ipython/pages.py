"""The pages of the notebook: whether one is open, and where in it a question of no cell can stand.

A kernel is not told who looks at it. But JupyterLab, Notebook and VS Code close a comm at once whose target they do not
know, within some 10 ms, also while another tab of JupyterLab is looked at; and a page that is closed does not. The
answer names the page's session, too. A page that is loaded again has another one, and shows no new output of cells that
ran before: a panel below such a cell would be nowhere. So the question stands below the latest cell of a page that
answers, else in the explorer.

Rejected: to go by the last message of a page (a person may read for an hour), by the kernel's subscribers (the Jupyter
server stays one when the page closes), and to ask in a page that was loaded again once its widgets come back: it
fetches every model of the kernel, whether it shows it or not, so the question might be nowhere until its time is up.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from mcp_magic.ipython.cells import kernel_version, loops_on_this_stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from mcp_magic.ipython.cells import Cells, LatestCell
    from mcp_magic.ipython.settings import Settings

T = TypeVar("T")

TARGET = "mcp_magic.page"  # the target that no page knows

ANSWER_SECONDS = (
    2.0  # seconds that a page has to answer; the kernel's own time counts, not that of a cell that computes
)
LOOK_SECONDS = 0.1
WATCH_SECONDS = 10.0  # seconds between two looks at a page while it shows a question
MISSES = 2  # looks without an answer after which a page counts as closed; a page that is loaded again is back by then

AWAITED_CLICKS = (7, 4)  # the first version of ipykernel that delivers widget messages to a cell that awaits
SUBSHELL_CLICKS = (7, 0)  # the first version of ipykernel that delivers them to a subshell

TERMINAL = "the kernel is a terminal, where the person is asked nothing between two lines"
INPUT = "the notebook asks by input only (its setting `ask_with`), and only about what a cell does"
UNATTENDED = "the notebook runs unattended, without input"
NO_CELL = (
    "no page of the notebook has run a cell since the kernel started; the person can run any cell, and you can call "
    "again then"
)
NO_PAGE = "no page of the notebook is open; the person can open it and run any cell, and you can call again then"
RELOADED = (
    "the page of the notebook was loaded again, and shows a question only once a cell has run; the person can run any "
    "cell, and you can call again then"
)
CLOSED = (
    "the page of the notebook was closed, or loaded again, while the question stood there; the person can open it and "
    "run any cell, and you can call again then"
)


class NowhereError(Exception):
    """The person cannot be asked; the text says why, for a client."""


@runtime_checkable
class Board(Protocol):
    """A widget of its own that shows questions, too: the explorer.

    Attributes:
        closed: Whether it is shown no more.
    """

    closed: bool

    def show_questions(self, widget: Any) -> None:
        """Show a widget with questions."""

    def hide_questions(self, widget: Any) -> None:
        """Show it no more."""

    def say(self, text: str) -> None:
        """Show a text about questions that stood here, until another one."""


class Place(NamedTuple):
    """Where a question stands: in all boards, and below the latest cell of a page."""

    session: str  # of the page
    cell: LatestCell | None  # None if only boards can show it, or one of them stands there


class Pages:
    """The pages of a kernel's notebook.

    Attributes:
        watch_seconds: Seconds between two looks at a page while it shows a question.
    """

    def __init__(self, cells: Cells, settings: Settings) -> None:
        self.watch_seconds = WATCH_SECONDS
        self._cells = cells
        self._settings = settings
        self._probe: Any = None
        self._heard: set[str] = set()
        self._waiting: set[asyncio.Event] = set()

    async def place(self) -> Place:
        """Return where a question of no cell can stand.

        While a cell runs in a kernel that delivers no clicks then, it waits until the cell has ended.

        Raises:
            NowhereError: Nowhere.
        """
        cells = self._cells
        if cells.kernel is None:
            raise NowhereError(TERMINAL)
        if self._settings.ask_with == "input":
            raise NowhereError(INPUT)
        pages = cells.pages
        if not pages:
            raise NowhereError(NO_CELL if cells.takes_input else UNATTENDED)
        await self._clicks_come()
        sessions = await self.open(pages)
        boards = self.boards
        for session in reversed(pages):
            if session in sessions:
                latest = pages[session]
                stands_there = cells.run(latest.request).cell in boards.values()
                return Place(session, None if stands_there else latest)
        if not sessions:
            raise NowhereError(NO_PAGE)
        if not boards:
            raise NowhereError(RELOADED)
        return Place(next(iter(sessions)), None)

    @property
    def boards(self) -> dict[Board, str]:
        """The boards that are shown, each with its cell."""
        boards = [(cell, board) for cell, board in self._cells.things if isinstance(board, Board)]
        return {board: cell for cell, board in boards if not board.closed}

    def close(self) -> None:
        """Forget the comm whose answers tell of pages."""
        if self._probe is not None:
            import comm

            self._probe.on_close(None)
            comm.get_comm_manager().comms.pop(self._probe.comm_id, None)
            self._probe = None

    async def open(self, sessions: Collection[str] = ()) -> set[str]:
        """Return the sessions of pages that answer now; as soon as one of `sessions` does, or else in time."""
        import comm

        loop, came = asyncio.get_running_loop(), asyncio.Event()
        # ipykernel 7.4 routes the answer to where the message came from that this task goes back to. After a click that
        # is the subshell of the widgets, which JupyterLab has deleted with the last of them: the answer would be lost.
        latest = next(reversed(self._cells.pages.values()), None)
        context = latest.context.copy() if latest is not None else copy_context()

        def wake() -> None:
            for event in self._waiting:
                event.set()

        def closed(message: Any) -> None:  # perhaps on the thread of a subshell
            comm.get_comm_manager().register_comm(self._probe)  # for the answers of other pages
            self._heard.add(str(message.get("header", {}).get("session", "")))
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(wake)

        if not self._waiting:
            self._heard.clear()
        self._waiting.add(came)
        try:
            if self._probe is None:
                self._probe = context.run(comm.create_comm, target_name=TARGET)
                self._probe.on_close(closed)
            else:
                self._probe.on_close(closed)
                context.run(self._probe.open)
            for _ in range(round(ANSWER_SECONDS / LOOK_SECONDS)):  # a cell that computes takes one of these only
                if self._heard.intersection(sessions) or (self._heard and not sessions):
                    break
                came.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await came.wait()
            return {*self._heard}
        finally:
            self._waiting.discard(came)

    async def while_open(self, place: Place, work: Awaitable[T]) -> T:
        """Await work that a page shows.

        Raises:
            NowhereError: The page was closed; the work is cancelled.
        """
        task, watch = asyncio.ensure_future(work), asyncio.ensure_future(self._closed(place.session))
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            watch.result()
            raise NowhereError(CLOSED)
        finally:
            task.cancel()
            watch.cancel()
            await asyncio.wait({task, watch})

    async def _closed(self, session: str) -> None:
        """Wait until the page of a session is closed, or loaded again."""
        missed = 0
        while missed < MISSES:
            await asyncio.sleep(self.watch_seconds)
            if self._hears:
                missed = 0 if session in await self.open([session]) else missed + 1

    async def _clicks_come(self) -> None:
        """Wait until clicks reach the kernel."""
        while not self._hears:
            end = asyncio.Event()
            self._cells.ended.append(end.set)
            try:
                await end.wait()
            finally:
                self._cells.ended.remove(end.set)
            await asyncio.sleep(0)

    @property
    def _hears(self) -> bool:
        """Whether messages of pages reach the kernel now."""
        if not self._cells.running:
            return True
        if loops_on_this_stack() > 1:
            return False
        version = kernel_version()
        return version >= AWAITED_CLICKS or (version >= SUBSHELL_CLICKS and self._cells.has_subshell)
