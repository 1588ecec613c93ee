"""What a cell shows while it runs: transcripts of agents, progress of calls, logs and watched resources.

Each has three surfaces: a display that is updated in place, widgets with buttons where clicks reach the kernel, and
printed lines in terminals.

Finished work of an agent is folded by `<details>`, which also opens in a saved notebook. Displays are cut into
segments, so that a run of 200 turns rewrites only its end. Progress is a bar of HTML at first, and widgets with a
Cancel button after half a second, until the call ends: cells without progress import no widgets, and notebooks keep
none. A wait without progress leaves an empty output, because a notebook cannot remove one output.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import clean, duration, plural
from mcp_magic.display.document import (
    Markup,
    Part,
    bundle,
    details,
    inline,
    joined,
    mimebundle,
    note,
    page,
    preformatted,
    tag,
)
from mcp_magic.display.text import one_line, shorten
from mcp_magic.flight.progress import KEPT_MESSAGES, SIGNS
from mcp_magic.ipython.ask import show_below
from mcp_magic.ipython.cells import status
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.protocol import at_least
from mcp_magic.watch import STDERR, LogFollower, status_text, update_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.apps.app import App
    from mcp_magic.display.listing import Listing
    from mcp_magic.flight.progress import Report
    from mcp_magic.ipython.ask import Asking
    from mcp_magic.ipython.cells import Cells, Circumstances
    from mcp_magic.ipython.commandline import Invocation
    from mcp_magic.protocol import LogMessage
    from mcp_magic.ui.question import Replace, Show
    from mcp_magic.watch import Watch

    MakeListing = Callable[[str, Iterable[LogMessage]], Listing]


class LiveView:
    """Displays below the cell that made it, updated in place; they are replaced by widgets while there is a panel.

    Args:
        render: Returns the mimebundles of the displays that have changed, by an id of the display.
        interval: The least seconds between two updates.
        after: The seconds until the first update.
        tick: The most seconds between two updates while it is live; None for no limit.
        live: Whether the display may still change; once it may not, the widgets are closed.
        show: Shows a mimebundle, and returns a function that replaces it.
    """

    def __init__(
        self,
        render: Callable[[], Mapping[int, dict[str, Any]]],
        *,
        interval: float = 0.0,
        after: float = 0.0,
        tick: float | None = None,
        live: Callable[[], bool] = lambda: True,
        show: Show = show_below,
    ) -> None:
        self._render = render
        self._interval = interval
        self._tick = tick
        self._live = live
        self._show = show
        self._context, self._loop = copy_context(), asyncio.get_running_loop()
        self._shown: dict[int, Replace] = {}
        self._panel: LivePanel | None = None
        self._last = self._loop.time() + after - interval
        self._later: asyncio.TimerHandle | None = None

    def request_update(self) -> None:
        """Update as soon as the interval is over."""
        when = self._last + self._interval
        if when <= self._loop.time():
            self.update()
        else:
            self.update_at(when)

    def update_at(self, when: float) -> None:
        """Update at a time of the loop, unless an earlier update is planned."""
        if self._later is not None:
            if self._later.when() <= when:
                return
            self._later.cancel()
        self._later = self._loop.call_at(when, self._update_later)

    def _update_later(self) -> None:
        with suppress(asyncio.CancelledError):  # Interrupt ends slow drawing
            self.update()

    def update(self) -> None:
        """Update now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._last = self._loop.time()
        self._context.copy().run(self._draw)
        if self._tick is not None and self._live():
            self.update_at(self._last + self._tick)

    def _draw(self) -> None:
        if self._panel is not None and self._live():
            self._panel.refresh()
            return
        self._put(self._render())
        if self._panel is not None:  # only now, or a frontend shows lost widgets for a moment
            self._panel.close()
            self._panel = None

    def _put(self, bundles: Mapping[int, dict[str, Any]]) -> None:
        for key, data in bundles.items():
            if key in self._shown:
                self._shown[key](data if data["text/plain"] else {})  # an output without data is not drawn
            elif data["text/plain"]:
                self._shown[key] = self._show(data)

    def use(self, panel: LivePanel) -> None:
        """Show a panel in place of the first display, until it is no longer live."""
        self._panel = panel
        self._context.copy().run(self._put, {0: {**self._render()[0], **panel.view}})


class Button(NamedTuple):
    """A button; a click runs `click` on the loop that made the panel."""

    text: str
    icon: str
    tooltip: str
    click: Callable[[], None]


class Row(NamedTuple):
    """A row of a panel: HTML and buttons. An empty row is not shown."""

    html: str = ""
    buttons: tuple[Button, ...] = ()


class LivePanel:
    """Rows of HTML and buttons, as widgets.

    A click may arrive on another thread; it is posted to the event loop that made the panel.
    """

    def __init__(self, rows: Callable[[], Mapping[Hashable, Row]]) -> None:
        import ipywidgets

        from mcp_magic.ui.widgets import WidgetScope

        self._rows = rows
        self._scope = WidgetScope()
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._made: dict[Hashable, tuple[Any, Any, WidgetScope]] = {}
        self.widget = self._scope.make(ipywidgets.VBox, "row")
        self.refresh()

    @property
    def view(self) -> dict[str, Any]:
        """The part of a mimebundle that shows the widget."""
        from mcp_magic.ui.widgets import widget_view

        return widget_view(self.widget)

    def refresh(self) -> None:
        """Draw the changes."""
        rows = self._rows()
        removed = [self._made.pop(key) for key in list(self._made) if key not in rows]
        for key, row in rows.items():
            if key not in self._made:
                self._made[key] = self._make(row)
            _, html, _ = self._made[key]
            if html.value != row.html:
                html.value = row.html
        children = tuple(self._made[key][0] for key, row in rows.items() if row.html or row.buttons)
        if self.widget.children != children:
            self.widget.children = children
        for _, _, scope in removed:
            scope.close()

    def _make(self, row: Row) -> tuple[Any, Any, Any]:
        """Return the widget of a row, its HTML, and the scope of both."""
        import ipywidgets

        scope = self._scope.part()
        html = scope.make(ipywidgets.HTML, "label")
        if not row.buttons:
            return html, html, scope
        buttons = []
        for text, icon, tooltip, click in row.buttons:
            button = scope.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
            button.on_click(partial(self._click, click))
            buttons.append(button)
        children = (html, *buttons) if row.html else buttons
        return scope.make(ipywidgets.HBox, "line", children=children), html, scope

    def _click(self, click: Callable[[], None], button: Any) -> None:
        def on_loop() -> None:
            click()
            if button.comm is not None:  # the row is still there
                button.disabled = True

        self._loop.call_soon_threadsafe(on_loop, context=self._context)

    def close(self) -> None:
        """Close every widget."""
        self._scope.close()


# Transcripts of agents, shown while they grow.
#
# Where a frontend shows widgets, each segment is a display that is updated in place. A terminal prints each entry once
# it is complete. Unattended notebooks (nbclient, nbval, papermill) and consoles show nothing before the end.

LIVE_INTERVAL = 0.05  # least seconds between two updates: twenty a second


class _AtTheEnd:
    """Leaves the display to the cell's value; a run that breaks off has none, so it is shown here."""

    live = False

    def update(self, transcript: Transcript) -> None:
        pass

    flush = end = update

    def view(self, transcript: Transcript, app: App) -> None:
        pass

    def broken_off(self, transcript: Transcript) -> None:
        bundle = mimebundle(transcript)
        if bundle["text/plain"] and transcript.is_answered:  # the request and the error appear anyway
            show_below(bundle)


class _InDisplays:
    live = True

    def __init__(self, show_app: Callable[[App], object]) -> None:
        self._view: LiveView | None = None
        self._show_app = show_app

    def _view_of(self, transcript: Transcript) -> LiveView:
        if self._view is None:
            self._view = LiveView(
                lambda: {index: transcript.render_segment(index) for index in sorted(transcript.dirty)},
                interval=LIVE_INTERVAL,
                tick=TICK,
                live=lambda: transcript.is_running,
            )
        return self._view

    def update(self, transcript: Transcript) -> None:
        self._view_of(transcript).request_update()

    def view(self, transcript: Transcript, app: App) -> None:
        self.flush(transcript)  # the card of its call stands above
        self._show_app(app)

    def flush(self, transcript: Transcript) -> None:
        self._view_of(transcript).update()

    end = broken_off = flush


class _InTerminal:
    live = True

    def __init__(self) -> None:
        self._printed = 0

    def update(self, transcript: Transcript) -> None:
        texts = transcript.complete_texts(self._printed)
        self._printed += len(texts)
        if texts:
            status.show("")
        for text in texts:
            if text:
                print(text, flush=True)

    flush = update

    def view(self, transcript: Transcript, app: App) -> None:
        pass

    def end(self, transcript: Transcript) -> None:
        self.update(transcript)
        if transcript.summary and transcript.show != "none":
            print(f"\n{transcript.summary}", flush=True)

    broken_off = end


Screen = _AtTheEnd | _InDisplays | _InTerminal
"""Shows a transcript.

Its `live` says whether it has shown everything when the run ends. `update` shows the changes soon, `flush` now, and
`view` the view of a call below its card. `end` finishes after a run, `broken_off` after one that broke off, so that the
cell has no value to show.
"""


def screen_for(where: Circumstances, show_app: Callable[[App], object]) -> Screen:
    """Return the screen for these circumstances; `show_app` shows the view of a call below the cell."""
    if where.kernel is None:
        return _InTerminal()
    return _InDisplays(show_app) if where.widgets and where.allow_stdin else _AtTheEnd()


def shown_once(shell: InteractiveShell, run: Any) -> None:
    """Keep IPython from displaying this cell's value again: it was shown while it ran.

    Later cells display it like any value.
    """
    formatter = shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]
    hook: Any = shell.displayhook
    cell = shell.execution_count

    def write_output_prompt() -> None:
        vars(hook).pop("write_output_prompt", None)
        if shell.execution_count != cell:  # that cell assigned the value and showed none
            hook.write_output_prompt()

    if getattr(shell, "kernel", None) is None:  # a terminal would print an empty `Out[n]:`
        hook.write_output_prompt = write_output_prompt

    def display_run(value: Any) -> None:
        if value is run and shell.execution_count == cell:
            return
        from IPython.display import display

        display(mimebundle(value), raw=True)  # type: ignore[no-untyped-call]

    formatter.for_type(type(run), display_run)


def shown_again(shell: InteractiveShell) -> None:
    """Undo `shown_once`."""
    formatter = shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]
    for kind in [kind for kind, display in formatter.type_printers.items() if display.__module__ == __name__]:
        formatter.pop(kind)
    vars(shell.displayhook).pop("write_output_prompt", None)


# What a cell waits for, and the progress and log messages of its calls.
#
# Where a frontend shows widgets, all of it shares one display, with Cancel buttons if clicks reach the kernel. At the
# end, one line remains for each call with progress, nothing of what only waited, and no widget. Elsewhere progress is
# printed; what waits is a display that is emptied at the end, and in a terminal the last line, which is erased.

LINE_SECONDS = 1.0  # seconds between two printed progress lines of a call
INTERVAL = 0.1  # least seconds between two updates: ten a second, however many notifications come
SHOW_AFTER = 0.2  # seconds from the first report until a bar is shown; a quicker call gets only its last line
CANCEL_AFTER = 0.5  # seconds from the first report until there is a button; only then widgets are imported
TICK = 1.0  # most seconds between two updates, so that the elapsed time advances


LINES = 5  # ended calls that have a line each, and waits; others are only counted
MAX_ENDED = 50  # ended calls whose log messages are still shown
MESSAGES = 50  # latest log messages shown below one cell; `%mcp logs` has more
LOG_CHARACTERS = 1000  # characters shown of a log message

_BAR = "width:12em;margin:0 .6em;vertical-align:middle;accent-color:var(--jp-brand-color1,#1976d2)"


class Board:
    """What one cell waits for: calls that report progress or log messages, and whatever takes longer than a second."""

    def __init__(self) -> None:
        self.running: list[Report] = []
        self._over: deque[Report] = deque(maxlen=MAX_ENDED)
        self._calls = self._forgotten = 0

    def add(self, report: Report) -> None:
        """Add a call, at its first report."""
        self.running.append(report)

    def end(self, report: Report) -> None:
        """Note that a call has ended."""
        if report not in self.running:
            return
        self.running.remove(report)
        if len(self._over) == MAX_ENDED:
            self._forgotten += self._over[0].logged
        self._over.append(report)
        if report.meter.count:
            self._calls += 1

    @property
    def measured(self) -> list[Report]:
        """The running calls that report progress."""
        return [report for report in self.running if report.meter.count]

    @property
    def waits(self) -> list[Report]:
        """What is shown although it reports no progress, because it takes so long."""
        return [report for report in self.running if report.waits]

    def over(self) -> Part:
        """Return a line for each of the last ended calls that reported progress."""
        latest = [report for report in self._over if report.meter.count][-LINES:]
        more = self._calls - len(latest)
        earlier = [f"… {plural(more, 'more calls')}"] if more > 0 else []
        return Part.stack(*map(Part.note, [*earlier, *map(outcome_text, latest)]))

    def more_waits(self) -> Part:
        """Return a line about the waits that have none; an empty part if there are none."""
        more = len(self.waits) - LINES
        return Part.note(f"… {plural(more, 'more waits')}" if more > 0 else "")

    def waits_part(self) -> Part:
        """Return what waits, one line each."""
        return Part.stack(*map(wait_part, self.waits[:LINES]), self.more_waits())

    def messages(self) -> tuple[list[str], Counter[str], int]:
        """Return the latest log messages as lines, the counts by level, and how many messages have no line."""
        reports, by_time = [*self._over, *self.running], attrgetter("time")
        last = sorted(heapq.nlargest(MESSAGES, (m for r in reports for m in r.messages), key=by_time), key=by_time)
        levels: Counter[str] = sum((report.levels for report in reports), Counter())
        return [message_line(message) for message in last], levels, levels.total() + self._forgotten - len(last)

    def messages_part(self) -> Part:
        """Return the log messages: unfolded while a call is running, then folded."""
        lines, levels, more = self.messages()
        if not lines:
            return Part("", Markup())
        servers = dict.fromkeys(report.server for report in [*self._over, *self.running] if report.logged)
        commands = ", ".join(f"%mcp logs {one_line(server, 80)}" for server in servers)
        rest = note(f"… {more:,} more before: {commands}") if more > 0 else Markup()
        body = joined([rest, preformatted("\n".join(lines))])
        html = body if self.running else details(_messages_text(levels, self._forgotten), body)
        return Part("\n".join([f"… {more:,} more log messages before: {commands}"] * (more > 0) + lines), html)

    def bundle(self, *, only_waits: bool = False) -> dict[str, Any]:
        """Return the board, or only what waits, as a mimebundle."""
        bars = Part.stack(*(Part(report_line(report), tag("p", bar_markup(report))) for report in self.measured))
        parts = [self.waits_part()] if only_waits else [self.over(), bars, self.waits_part(), self.messages_part()]
        html = page(part.html for part in parts if part.html or only_waits)
        return {"text/html": html, "text/plain": Part.stack(*parts).plain}


def bar_markup(report: Report) -> Markup:
    """Return a call's title, bar and figures on one line."""
    name = one_line(report.title, 120)
    share = report.meter.share
    value = {} if share is None else {"value": f"{share:.3f}"}  # a bar without a value moves, to show activity
    bar = tag("progress", "", **value, max="1", style=_BAR, **{"aria-label": name})
    return joined([tag("b", name), bar, inline(report.words())])


def report_line(report: Report) -> str:
    """Return a call's progress as one line of text.

    >>> from mcp_magic.flight.progress import Report
    >>> report = Report("math", "math:slow")
    >>> report.meter.note(1, 4, "loading", 0.0)
    >>> report_line(report)  # doctest: +ELLIPSIS
    'math:slow: 1 of 4 (25 %) · ... · loading'
    """
    return f"{one_line(report.title, 120)}: {report.words()}"


def wait_part(report: Report) -> Part:
    """Return what waits, how long it has taken, and what it waits for; a screen reader says only what waits."""
    name, words = one_line(report.title, 120), report.words()
    html = joined([tag("span", name, role="status"), " · ", inline(words)])
    return Part(f"{name} · {words}", tag("p", html, class_="mcp-note"))


def outcome_text(report: Report) -> str:
    """Return a call's outcome on one line."""
    return f"{SIGNS[report.state]} {report_line(report)}"


def message_line(message: LogMessage) -> str:
    """Return a log message as text, possibly of several lines."""
    when = f"{time.strftime('%H:%M:%S', time.localtime(message.time))} " if message.time else ""
    level = f"{one_line(message.level, 20)} " if message.level else ""
    text = shorten(str(message.data), LOG_CHARACTERS)
    return clean(f"{when}{level}{one_line(message.logger, 80) or 'log'}: {text}")


def _messages_text(levels: Counter[str], forgotten: int) -> str:
    """Return the number of log messages in words.

    >>> _messages_text(Counter({"warning": 2, "error": 1}), 0), _messages_text(Counter(error=1), 2)
    ('3 log messages: 2 warning, 1 error', '3 log messages')
    """
    total = plural(levels.total() + forgotten, "log messages")
    kinds = ", ".join(f"{count:,} {one_line(level, 20)}" for level, count in levels.items())
    return total if forgotten else f"{total}: {kinds}"


class Reporting:
    """The notebook's reporter: shows what is waited for below the cell that waits."""

    def __init__(self, asking: Asking, cells: Cells) -> None:
        self._asking = asking
        self._cells = cells
        self._boards: dict[str, LiveBoard] = {}
        self._in_terminal = Board()

    def __call__(self, report: Report) -> Callable[[], None] | None:
        """Start to show a report; return the callback for its changes, or None if it is not shown."""
        where = self._cells.circumstances()
        if where.kernel is None:
            return self._terminal_line(report)
        if not self._cells.asks_from_a_cell():
            return None  # a click: its output would go to the frontend's log
        cell = self._cells.parent().get("header", {}).get("msg_id", "")
        if cell not in self._boards:
            self._boards = {name: board for name, board in self._boards.items() if board.board.running}
            gets_clicks = self._gets_clicks if where.widgets and where.allow_stdin else None
            self._boards[cell] = LiveBoard(gets_clicks, show_below if where.allow_stdin else _show_updated)
        update = self._boards[cell].add(report)
        if where.widgets and where.allow_stdin:
            return update
        lines = _ReportLines(report, lambda text: print(clean(text), flush=True))

        def both() -> None:
            update()
            lines()

        return both

    def _terminal_line(self, report: Report) -> Callable[[], None]:
        def write(text: str) -> None:
            status.show("")
            print(clean(text), file=sys.stderr, flush=True)

        lines, board = _ReportLines(report, write), self._in_terminal
        board.add(report)

        def update() -> None:
            lines()
            if report.state != "running":
                board.end(report)
            longest, others = board.waits[:1], len(board.waits) - 1
            more = f" · and {others:,} more" if others > 0 else ""
            ends = "stops the turn" if longest and longest[0].button == "Stop" else "cancels"
            status.show(f"{wait_part(longest[0]).plain}{more} · Ctrl-C {ends}" if longest else "")

        return update

    async def _gets_clicks(self) -> bool:
        return await self._asking.way() == "panel"


def _show_updated(bundle: dict[str, Any]) -> Replace:
    """Show nothing, and replace it: nbval takes the first form of a display for the last."""
    replace = show_below({})
    replace(bundle)
    return replace


class _ReportLines:
    """Prints what a call reports: progress at most once a second, and the outcome if progress was printed.

    A shorter call that raises no error, such as a map, has its outcome printed unless it is "done".
    """

    def __init__(self, report: Report, write: Callable[[str], None]) -> None:
        self._report = report
        self._write = write
        self._context = copy_context()
        self._next = time.perf_counter() + max(LINE_SECONDS - report.seconds, 0.0)
        self._begun = False
        self._logged = 0

    def __call__(self) -> None:
        report = self._report
        if report.logged > self._logged:
            if self._logged < KEPT_MESSAGES:
                for message in list(report.messages)[self._logged - report.logged :]:
                    self._say(message_line(message))
            self._logged = report.logged
        if report.state != "running":
            if (more := self._logged - KEPT_MESSAGES) > 0:
                self._say(f"… {more:,} more log messages: %mcp logs {report.server}")
            if self._begun or (report.meter.ends_without_error and report.state != "done"):
                self._say(outcome_text(report))
        elif report.meter.count and (now := time.perf_counter()) >= self._next:
            self._begun = True
            if report.meter.share != 1:  # the last line says that all is done
                self._next = now + LINE_SECONDS
                self._say(report_line(report))

    def _say(self, text: str) -> None:
        self._context.run(self._write, text)  # prints below the cell that made the call


class LiveBoard:
    """Shows a board below the cell in whose context it is created, with buttons if the kernel gets clicks.

    `gets_clicks` is None where the frontend shows no widgets. Then only what waits is shown here.
    """

    def __init__(self, gets_clicks: Callable[[], Awaitable[bool]] | None, show: Show = show_below) -> None:
        self.board = board = Board()
        self._gets_clicks = gets_clicks
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._view = LiveView(
            lambda: {0: board.bundle(only_waits=gets_clicks is None)},
            interval=INTERVAL,
            after=SHOW_AFTER,
            tick=TICK,
            live=lambda: bool(board.running),
            show=show,
        )
        self._offering: asyncio.Task[None] | None = None
        self._settled = -INTERVAL

    def add(self, report: Report) -> Callable[[], None]:
        """Show a call; return the callback for its changes."""
        self.board.add(report)
        if self._offering is None and self._gets_clicks is not None:
            self._offering = self._loop.create_task(self._offer(self._gets_clicks), context=self._context.copy())

        def update() -> None:
            if report.state != "running":
                self._end(report)
            else:
                self._view.request_update()

        return update

    def _end(self, report: Report) -> None:
        self.board.end(report)
        if self.board.running:
            self._view.request_update()
            return
        if self._offering is not None:
            self._offering.cancel()
            self._offering = None
        if self._loop.time() < self._settled + INTERVAL:
            self._view.update_at(self._settled + INTERVAL)  # one of many quick calls
        else:
            self._settled = self._loop.time()
            self._view.update()

    async def _offer(self, gets_clicks: Callable[[], Awaitable[bool]]) -> None:
        """Replace the lines by the widget with buttons, once something takes long enough."""
        await asyncio.sleep(0 if self.board.waits else CANCEL_AFTER)
        while not (self.board.measured or self.board.waits):
            await asyncio.sleep(CANCEL_AFTER)
        if await gets_clicks():
            await asyncio.to_thread(import_module, "mcp_magic.ui.widgets")
            self._view.use(LivePanel(lambda: board_rows(self.board)))


def board_rows(board: Board) -> dict[Hashable, Row]:
    """Return a board as rows of a panel: a bar with a Cancel button for each call, between outcomes and messages."""
    rows: dict[Hashable, Row] = {"over": Row(_html(board.over().html))}
    for report in [*board.measured, *board.waits[:LINES]]:
        cancel = Button(report.button, "times", f"{report.button} {report.title[:80]}", report.cancel)
        rows[id(report)] = Row(_html(bar_markup(report) if report.meter.count else wait_part(report).html), (cancel,))
    rows["more"] = Row(_html(board.more_waits().html))
    rows["messages"] = Row(_html(board.messages_part().html))
    return rows


def _html(markup: Markup) -> str:
    return page([markup]) if markup else ""


# Live logs of a server, until Interrupt.

MAX_LISTED = 50  # lines listed of each kind by default
FOLLOWED = 500  # the last lines that are kept while following, and listed at the end
FOLLOW_INTERVAL = 0.2  # least seconds between two updates


async def follow(
    invocation: Invocation,
    server: str,
    before: list[LogMessage],
    seconds: float | None,
    listing: MakeListing,
    least: str,
) -> tuple[list[LogMessage], str]:
    """Show a server's log messages of a level and above as they arrive, for some seconds or until Interrupt."""
    where = invocation.cells.circumstances()
    if seconds is None and not where.allow_stdin:
        return before, "not followed: you cannot interrupt it here; --seconds S follows for a time"
    messages: deque[LogMessage] = deque(before, maxlen=FOLLOWED)
    outcome = ""

    def render() -> dict[int, dict[str, Any]]:
        if outcome:
            return {0: {"text/html": page([note(f"{server}: {outcome}")]), "text/plain": f"{server}: {outcome}"}}
        table = listing(server, messages)
        table.note = "following; Interrupt ends it"
        return {0: bundle(table[-MAX_LISTED:].parts())}

    def show(new: Iterable[LogMessage]) -> None:
        if view is not None:
            view.update()
            return
        for message in new:
            print(message_line(message), flush=True)

    view = LiveView(render) if where.widgets else None
    started, count = time.monotonic(), 0
    show(before)
    current = lambda: invocation.host.connections.get(server)  # noqa: E731
    with until_interrupted(), suppress(TimeoutError), LogFollower(current) as follower:
        async with asyncio.timeout(seconds):
            while (new := await follower.take()) is not None:
                matches = [message for message in new if message.logger == STDERR or at_least(message.level, least)]
                if matches:
                    count += len(matches)
                    messages.extend(matches)
                    show(matches)
                    await asyncio.sleep(FOLLOW_INTERVAL)
    outcome = f"followed for {duration(time.monotonic() - started)}: {count:,} new"
    show(())
    return list(messages), outcome


# Watches of resources: which ones run, and their surfaces.

_running: dict[tuple[str, str], Running] = {}


def running() -> Iterable[Running]:
    """Return the running watches, in the order of their start."""
    return list(_running.values())


class Running:
    """A watch in a task of the cell that started it.

    `waits` says whether the cell waits for its end, `clicks` whether clicks reach the kernel meanwhile.
    """

    def __init__(
        self, watch: Watch, cells: Cells, *, waits: bool, clicks: bool, seconds: float | None, count: int | None
    ) -> None:
        self.watch = watch
        self._waits = waits
        self._show = self._surface(cells, clicks=clicks)
        self._free = asyncio.Event()
        self._key = (watch.server, watch.uri)
        if (before := _running.get(self._key)) is not None:
            before.watch.stop("another cell watches it now")
        _running[self._key] = self
        self._show()
        following = watch.follow(self._show, seconds=seconds, count=count)
        self._task = asyncio.create_task(following, name=f"mcp_magic watch {watch.uri}")
        self._task.add_done_callback(self._free_cell)

    def _surface(self, cells: Cells, *, clicks: bool) -> Callable[[], None]:
        watch, where = self.watch, cells.circumstances()
        if where.kernel is None:
            return WatchLines(watch)
        show = show_below if where.allow_stdin else _UnattendedOutput(cells, lambda: bool(watch.ended)).show
        view = LiveView(lambda: {0: watch.bundle()}, live=lambda: not watch.ended, show=show)
        if clicks and where.widgets and where.allow_stdin:
            view.use(LivePanel(self._rows))
        return view.update

    def _rows(self) -> dict[Hashable, Row]:
        watch = self.watch
        tooltip = f"stop watching {watch.uri[:80]}"
        stop = Button("Stop", "stop", tooltip, lambda: watch.stop("stopped by you"))
        go_on = Button("Go on in the background", "arrow-down", "let this cell end and go on watching", self.detach)
        buttons = (stop, go_on) if self._waits else (stop,)
        return {"watch": Row(watch.bundle()["text/html"]), buttons[1:] != (): Row(buttons=buttons)}

    def _free_cell(self, task: asyncio.Task[None]) -> None:
        if _running.get(self._key) is self:
            del _running[self._key]
        self._free.set()
        if not task.cancelled():
            task.exception()  # mark the exception as seen; `wait` raises it

    def detach(self) -> None:
        """Let `wait` return while the watch goes on."""
        self._waits = False
        self._show()
        self._free.set()

    async def wait(self) -> None:
        """Wait until the watch ends or is detached. Interrupt ends it."""
        interrupted = True
        with until_interrupted():
            await self._free.wait()
            interrupted = False
        if interrupted:
            await self.stop("interrupted")
        elif self._task.done():
            await self._task

    async def stop(self, why: str) -> None:
        """End the watch, and wait until its end is shown."""
        self.watch.stop(why)
        await asyncio.wait({self._task})

    def close(self) -> None:
        """End the watch because its cell runs again or was deleted."""
        self.watch.stop("its cell was run again")


class WatchLines:
    """Prints a watch in a terminal: the resource first, then each update, and the outcome at the end."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._said = -1

    def __call__(self) -> None:
        """Print what is new."""
        watch = self._watch
        if self._said < 0:
            print(clean(f"{watch!s}\nCtrl-C ends it"), flush=True)
        elif watch.updates > self._said or watch.problem:
            print(clean(update_line(watch)), flush=True)
        self._said = watch.updates
        if watch.ended:
            print(clean(status_text(watch)), flush=True)


class _UnattendedOutput:
    """A display in a notebook that runs unattended: nbclient drops output that a cell sends after its end.

    So the running cell sends an update. Without one, the next cell sends the last update again, until `over`.
    """

    def __init__(self, cells: Cells, over: Callable[[], bool]) -> None:
        self._cells = cells
        self._over = over
        self._replace: Replace | None = None
        self._missed: dict[str, Any] | None = None

    def show(self, bundle: dict[str, Any]) -> Replace:
        self._replace = show_below(bundle)
        self._cells.started.append(self._cell_started)
        return self._update

    def _update(self, bundle: dict[str, Any]) -> None:
        assert self._replace is not None
        if self._cells.running and self._cells.latest is not None:
            self._missed = None
            self._cells.latest.copy().run(self._replace, bundle)
        else:
            self._replace(bundle)
            self._missed = bundle

    def _cell_started(self) -> None:
        if self._missed is not None:
            self._update(self._missed)
        if self._over():
            self._cells.started.remove(self._cell_started)
