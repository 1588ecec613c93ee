"""A frontend with a person in front of it: it shows widgets, and clicks and types while a cell runs."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from queue import Empty
from typing import TYPE_CHECKING, Any

from tests.support.kernels import AT_ONCE, SILENCE_SECONDS, Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kernels import Kernel

__all__ = ["VIEW", "Frontend", "Person", "Shown"]

VIEW = "application/vnd.jupyter.widget-view+json"
WIDGETS = "jupyter.widget"
"""The only target of comms that a page knows."""


@dataclass
class Shown(Cell):
    """What a cell that runs has shown so far.

    Attributes:
        displays: The mimebundles, by display id where they have one, as they are now.
        done: Whether it has ended.
    """

    displays: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: bool = False

    @property
    def live(self) -> list[str]:
        """The models of the widgets that are shown."""
        return [bundle[VIEW]["model_id"] for bundle in self.displays.values() if VIEW in bundle]

    @property
    def lines(self) -> list[str]:
        """The text of what is shown without a widget."""
        return [str(bundle["text/plain"]) for bundle in self.displays.values() if bundle and VIEW not in bundle]


class Frontend:
    """What JupyterLab does, as far as widgets and input are concerned.

    Args:
        kernel: A kernel with a client.
        subshells: Whether the messages of widgets are sent to a subshell, where the kernel has them.

    Attributes:
        is_open: Whether a page is open, which closes comms whose target it does not know.
    """

    def __init__(self, kernel: Kernel, *, subshells: bool = True) -> None:
        self.kernel = kernel
        self.is_open = True
        self.models: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, list[dict[str, Any]]] = {}  # by model: the messages that its kernel side sent
        info = kernel.info()
        self._subshells = subshells and "kernel subshells" in info.get("supported_features", ())
        self._subshell: str | None = None
        self._cells: dict[str, Shown] = {}
        self._held_back: list[tuple[str, dict[str, Any]]] = []

    def start(self, code: str, *, stdin: bool = True, cell: bool = True, again: str = "") -> Shown:
        """Run a cell; without `cell` as a console does, which names none; `again` names one that runs repeatedly."""
        named = {"cellId": again or f"cell {len(self._cells)}"} if cell else {}  # each is a new cell of the notebook
        shown = self._cells[self.kernel.start(code, stdin=stdin, **named)] = Shown()
        return shown

    def run(self, code: str, **options: Any) -> Shown:
        return self.finish(self.start(code, **options))

    def finish(self, cell: Shown, timeout: float = 60.0) -> Shown:
        self.read_until(lambda: cell.done, timeout, "the cell has ended")
        return cell

    def read_until(self, condition: Callable[[], bool], timeout: float = 30.0, what: str = "") -> None:
        started = heard = time.monotonic()
        while not condition():
            assert time.monotonic() - started < timeout, (
                f"not within {timeout:g} s: {what}; {[*self._cells.values()][-1:]}"
            )
            try:
                message = self.kernel.client.get_iopub_msg(timeout=0.05)
            except Empty:
                if time.monotonic() - heard > SILENCE_SECONDS:
                    self.kernel.wake()
                    heard = time.monotonic()
                continue
            heard = time.monotonic()
            self._take(message)

    def load_again(self) -> None:
        """Become another page of the same notebook, as loading it again does."""
        self.kernel.client.session.session = uuid.uuid4().hex

    def has(self, description: str, cell: Shown | None = None, count: int = 1) -> list[str]:
        """Wait until so many buttons (or boxes) of this name are shown, anywhere or below a cell; return their ids."""
        self.read_until(lambda: len(self._named(description, cell)) == count, what=f"{count} of {description!r}")
        return self._named(description, cell)

    def panel(self, cell: Shown, count: int = 1) -> None:
        """Wait until a cell shows a panel in which a number of calls wait."""
        self.has("Deny", cell, count)

    def asks(self, cell: Shown, button: str) -> str:
        """Wait for a panel with a button below a cell; return what it says as text."""
        self.has(button, cell)
        return next(str(bundle["text/plain"]) for bundle in cell.displays.values() if VIEW in bundle)

    def text_of(self, cell: Shown) -> str:
        """Return what a cell shows, live or not."""
        live = [str(self.models[name].get("value", "")) for shown in cell.live for name in self._inside(shown)]
        return "\n".join([*live, *cell.lines])

    def shows(self, cell: Shown, *texts: str) -> None:
        """Wait until a cell shows texts, live or as the text of its widgets."""

        def seen() -> bool:
            plain = [str(bundle.get("text/plain", "")) for bundle in cell.displays.values()]
            return all(text in "\n".join([self.text_of(cell), *plain]) for text in texts)

        self.read_until(seen, what=f"it shows {texts}")

    def line(self, code: str) -> str:
        """Run a cell that must succeed, and return the only line that it shows."""
        cell = self.run(code)
        assert not cell.ename, cell.evalue
        [line] = cell.lines
        return line

    def stop(self, cell: Shown) -> Shown:
        """Interrupt a cell, which is to end at once."""
        self.kernel.interrupt()
        return self.finish(cell, AT_ONCE)

    def click(self, description: str, number: int = 0, *, cell: Shown | None = None) -> None:
        """Click on a button that is shown, anywhere or below a cell."""
        self.press(self._named(description, cell)[number])

    def press(self, name: str) -> None:
        self._send(name, {"method": "custom", "content": {"event": "click"}})

    def type(self, model: str, text: str, number: int = 0, *, enter: bool = False) -> None:
        """Type into a text field: `"TextModel"` or `"TextareaModel"`."""
        name = [name for name, state in self.models.items() if state.get("_model_name") == model][number]
        self.type_into(name, text)
        if enter:
            self.enter(name)

    def type_into(self, name: str, text: str) -> None:
        self.change(name, value=text)

    def type_late(self, model: str, text: str) -> None:
        """Type letters that the page holds back, because the kernel has not taken the letters before."""
        name = next(name for name, state in self.models.items() if state.get("_model_name") == model)
        self._held_back.append((name, {"value": text}))

    def write_json(self, cell: Shown, values: dict[str, Any]) -> None:
        """Fill in the form below a cell, as JSON."""
        self.change(self.has("Edit as JSON", cell)[0], value=True)
        self.type("TextareaModel", json.dumps(values))

    def enter(self, name: str) -> None:
        self._send(name, {"method": "custom", "content": {"event": "submit"}})

    def tell(self, name: str, **content: Any) -> None:
        """Send a message of a widget's own."""
        self._send(name, {"method": "custom", "content": content})

    def hears(self, name: str, kind: str) -> dict[str, Any]:
        """Wait for a message of this kind that a widget's kernel side sends, and return it."""

        def heard() -> list[dict[str, Any]]:
            return [message for message in self.sent.get(name, ()) if message.get("kind") == kind]

        self.read_until(lambda: bool(heard()), what=f"a message {kind!r}")
        message = heard()[0]
        self.sent[name].remove(message)
        return message

    def change(self, name: str, **state: Any) -> None:
        self._send(name, {"method": "update", "state": state, "buffer_paths": []})

    def answer(self, *lines: str) -> list[str]:
        """Answer as many requests for input; return their prompts."""
        prompts = []
        for line in lines:
            prompts.append(self.kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"])
            self.kernel.client.input(line)
        return prompts

    def awaits_input(self) -> str:
        """Wait for a request for input, and leave it open; return its prompt."""
        return str(self.kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"])

    def _named(self, description: str, cell: Shown | None = None) -> list[str]:
        inside = self.models if cell is None else [name for live in cell.live for name in self._inside(live)]
        return [name for name in inside if self.models[name].get("description") == description]

    def _inside(self, model: str) -> list[str]:
        if model not in self.models:
            return []  # it is closed, and about to be taken out
        children = [child.removeprefix("IPY_MODEL_") for child in self.models[model].get("children", ())]
        return [model, *(name for child in children for name in self._inside(child))]

    def _send(self, model: str, data: dict[str, Any]) -> None:
        message = self.kernel.client.session.msg("comm_msg", {"comm_id": model, "data": data})
        if self._subshell is not None:
            message["header"]["subshell_id"] = self._subshell
        self.kernel.client.shell_channel.send(message)

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind.startswith("comm_"):
            self._take_comm(kind, content)
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if kind in ("display_data", "execute_result", "update_display_data"):
            name = content.get("transient", {}).get("display_id") or f"output {len(cell.displays) if cell else 0}"
            owners = (
                [cell] if kind != "update_display_data" else [c for c in self._cells.values() if name in c.displays]
            )
            for owner in owners:
                if owner is not None:
                    owner.displays[name] = content["data"]
        elif cell is not None and kind == "error":
            cell.ename, cell.evalue, cell.traceback = content["ename"], content["evalue"], content["traceback"]
        elif cell is not None and kind == "stream":
            cell.streams[content["name"]] = cell.streams.get(content["name"], "") + content["text"]
        elif cell is not None and kind == "status" and content["execution_state"] == "idle":
            cell.done = True

    def _take_comm(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "comm_open" and content["target_name"] != WIDGETS:
            if self.is_open:
                self.kernel.send("comm_close", {"comm_id": content["comm_id"], "data": {}})
        elif kind == "comm_open":
            self._open_subshell()
            self.models[content["comm_id"]] = dict(content["data"]["state"])
        elif kind == "comm_close":
            self.models.pop(content["comm_id"], None)
        elif content["data"].get("method") == "custom":
            self.sent.setdefault(content["comm_id"], []).append(content["data"]["content"])
        elif content["data"].get("method") == "update" and content["comm_id"] in self.models:
            self.models[content["comm_id"]].update(content["data"]["state"])
            self._follow_links(content["comm_id"], content["data"]["state"])

    def _follow_links(self, changed: str, state: dict[str, Any]) -> None:
        """Copy a value to where a link in the page leads, and send it."""
        for link in list(self.models.values()):
            source, target = link.get("source"), link.get("target")
            if source and target and source[0] == f"IPY_MODEL_{changed}" and source[1] in state:
                while self._held_back:
                    name, late = self._held_back.pop(0)
                    self.change(name, **late)
                value = {target[1]: state[source[1]]}
                self._send(target[0].removeprefix("IPY_MODEL_"), {"method": "update", "state": value})

    def _open_subshell(self) -> None:
        if not self._subshells or self._subshell is not None:
            return
        channel = self.kernel.client.control_channel
        channel.send(self.kernel.client.session.msg("create_subshell_request", {}))
        while (reply := channel.get_msg(timeout=30))["msg_type"] != "create_subshell_reply":
            pass
        self._subshell = reply["content"]["subshell_id"]


class Person:
    """Answers questions, by clicks or line by line."""

    def __init__(self, frontend: Frontend, *, clicks: bool) -> None:
        self.frontend = frontend
        self.clicks = clicks

    def approve(self, cell: Shown) -> None:
        if not self.clicks:
            self.frontend.answer("y")
            return
        self.frontend.panel(cell)
        self.frontend.click("Approve", cell=cell)

    def approve_two(self, cell: Shown) -> None:
        if not self.clicks:
            self.frontend.answer("y", "y")
            return
        self.frontend.panel(cell, 2)
        self.frontend.click("Approve all", cell=cell)

    def sees(self, cell: Shown) -> str:
        """Wait for the question, and return what it says as text."""
        if not self.clicks:
            self.frontend.awaits_input()
            self.frontend.read_until(lambda: "wants to call" in cell.stdout, what="the question")
            return cell.stdout
        return self.frontend.asks(cell, "Deny")
