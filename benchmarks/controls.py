"""How soon something is seen after a click or Enter in the explorer, a form and an approval, in a real kernel."""

from __future__ import annotations

import statistics
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.approval import CALL
from benchmarks.approval import SETUP as SETUP_CLOCK
from benchmarks.explorer import SERVERS, TOOLS, connect
from benchmarks.kernels import frontend
from benchmarks.timing import Pairs, Result, at_most, compared, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.frontends import Frontend

__all__ = ["run"]

GOAL_MS = 250
"""Of each control."""

GOAL = 4.0
"""Of a round of all controls."""

BARE = """
import ipywidgets
bare, label = ipywidgets.Button(), ipywidgets.Label("0")
bare.on_click(lambda button: setattr(label, "value", str(int(label.value) + 1)))
print(bare.model_id, label.model_id)
"""


class Screen:
    """What a frontend shows, and how long each control took to change it."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.taken: dict[str, list[float]] = {}
        self.rounds = Pairs()
        self._round: list[float] = []
        self._bare, self._label = frontend.run(BARE).stdout.split()

    def measure(self, control: str, act: Callable[[], None], seen: Callable[[], bool]) -> None:
        """Note the milliseconds from an action until something of it is seen, which was not there before."""
        if seen():
            raise RuntimeError(f"{control}: it is seen before the click")
        seconds = self._until(act, seen)
        self.taken.setdefault(control, []).append(seconds * 1000)
        self._round.append(seconds)

    @contextmanager
    def round(self) -> Iterator[None]:
        """Compare what is measured meanwhile with as many clicks on a bare button."""
        self._round, label = [], self.frontend.models[self._label]
        bare = []
        for _ in range(20):
            before = label["value"]
            clicked = self._until(lambda: self.frontend.press(self._bare), lambda v=before: label["value"] != v)
            bare.append(clicked)
        yield
        self.rounds.ours.append(sum(self._round))
        self.rounds.theirs.append(statistics.median(bare) * len(self._round))

    def _until(self, act: Callable[[], None], seen: Callable[[], bool]) -> float:
        def act_and_see() -> None:
            act()
            self.frontend.read_until(seen)

        return seconds_of(act_and_see)

    def click(self, control: str, description: str, seen: Callable[[], bool]) -> None:
        """Measure a click on the button of this name."""
        self.frontend.read_until(lambda: bool(self.states(description=description)), what=f"a button {description}")
        self.measure(control, lambda: self.frontend.click(description), seen)

    def states(self, **traits: Any) -> list[str]:
        """Return the models of the widgets that have these traits."""
        states = self.frontend.models.items()
        return [name for name, state in states if all(state.get(key) == value for key, value in traits.items())]

    def reads(self, text: str) -> bool:
        """Whether a widget reads so, or holds a text in which that is."""
        states = self.frontend.models.values()
        return any(text in str(state.get(trait, "")) for state in states for trait in ("value", "description"))

    def has_code(self, line: str) -> bool:
        """Whether a text field holds a line of code that begins so."""
        return any(
            self.frontend.models[name]["value"].startswith(line) for name in self.states(_model_name="TextModel")
        )

    def results(self) -> list[Result]:
        """Return the median of each control, and of a round."""
        note = "against as many clicks on a bare button"
        return [
            *[
                at_most(name, statistics.median(times), GOAL_MS, "ms", f"slowest {max(times):.0f} ms of {len(times)}")
                for name, times in self.taken.items()
            ],
            compared("all controls, a round", self.rounds, goal=GOAL, note=note),
        ]


def run(*, quick: bool = False) -> list[Result]:
    """Measure from sending a click until a message of the kernel shows that it was seen."""
    servers, rounds = (5, 1) if quick else (SERVERS, 10)
    with frontend(*SETUP_CLOCK, connect(servers, TOOLS)) as shown:
        screen = Screen(shown)
        for _ in range(rounds):
            with screen.round():
                _explorer(screen, servers * TOOLS + 1)
                _form(screen)
                _panel(screen, "Deny")
                _panel(screen, "Approve")
    return screen.results()


def _explorer(screen: Screen, total: int) -> None:
    frontend, tool = screen.frontend, "server3:weather_8"
    shown = frontend.run("explorer = %mcp ui\nprint(explorer.items.next.model_id)\nexplorer")
    turn = shown.streams["stdout"].strip()
    [search] = screen.states(description="Search")
    [target] = screen.states(placeholder="URL, file or command of a server")
    [kinds] = screen.states(_model_name="ToggleButtonsModel")
    page = f"26\u201350 of {total:,} tools"
    screen.measure("explorer: Next", lambda: frontend.press(turn), lambda: screen.reads(page))
    screen.measure(
        "explorer: keystroke",
        lambda: frontend.type_into(search, tool),
        lambda: screen.reads(f">3 of {total:,} tools"),
    )
    screen.click("explorer: row", tool, lambda: screen.reads(f"▸ {tool}"))
    screen.click("explorer: Open form", "Open form", lambda: bool(screen.states(description="Run")))
    screen.click("explorer: Copy as code", "Copy as code", lambda: screen.has_code(f"%mcp call {tool}"))
    [toggle] = screen.states(description="Edit as JSON")
    fields = "Back to the fields"
    screen.measure("explorer: Edit as JSON", lambda: frontend.change(toggle, value=True), lambda: screen.reads(fields))
    screen.click("explorer: Close form", "Close form", lambda: not screen.states(description="Run"))
    screen.click("explorer: Close", "Close", lambda: not screen.reads(f"▸ {tool}"))
    screen.measure("explorer: kind", lambda: frontend.change(kinds, index=3), lambda: screen.reads("0 of 0 prompts"))
    screen.click("explorer: server", "clock", lambda: screen.reads("0 of 0 prompts of clock"))
    screen.click("explorer: Reconnect", "Reconnect", lambda: screen.reads("working …"))
    frontend.read_until(lambda: not screen.reads("working …"))
    screen.click("explorer: Refresh", "Refresh", lambda: screen.reads("asking the servers"))
    frontend.read_until(lambda: not screen.reads("asking the servers"))
    frontend.type_into(target, "no_such_file.py")
    screen.measure("explorer: Connect", lambda: frontend.enter(target), lambda: screen.reads("no_such_file.py"))
    frontend.run("explorer.close()")


def _form(screen: Screen) -> None:
    frontend = screen.frontend
    shown = frontend.run("form = %mcp form clock:tick\nprint(form.form.root.at('number').input.widget.model_id)\nform")
    field = shown.streams["stdout"].strip()
    screen.click("form: Run, not filled in", "Run", lambda: screen.reads("missing: number"))
    screen.measure("form: field", lambda: frontend.type_into(field, "x"), lambda: screen.reads("expected integer"))
    frontend.type_into(field, "7")
    screen.click("form: Run", "Run", lambda: bool(screen.states(description="Run", disabled=True)))
    frontend.read_until(lambda: screen.reads("done in"))
    screen.click("form: Copy as code", "Copy as code", lambda: screen.has_code("%mcp call clock:tick"))
    [name] = screen.states(placeholder="name of a variable")
    frontend.type_into(name, "ticked")
    screen.click("form: Save", "Save", lambda: screen.reads("ticked is the result now."))
    frontend.run("form.close()")


def _panel(screen: Screen, choice: str) -> None:
    frontend = screen.frontend
    cell = frontend.start(CALL)
    frontend.panel(cell)
    widgets = len(frontend.models)
    screen.click("approval: Edit", "Edit", lambda: len(frontend.models) > widgets)
    screen.click(f"approval: {choice}", choice, lambda: not screen.states(description=choice))
    frontend.finish(cell)
