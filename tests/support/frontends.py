"""A frontend with a person in front of it: it shows widgets, and clicks and types while a cell runs."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from queue import Empty
from typing import TYPE_CHECKING, Any

from tests.support.kernels import SILENCE_SECONDS, Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kernels import Kernel

__all__ = ["VIEW", "Frontend", "Person", "Shown"]

VIEW = "application/vnd.jupyter.widget-view+json"


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
    """

    def __init__(self, kernel: Kernel, *, subshells: bool = True) -> None:
        self.kernel = kernel
        self.models: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, list[dict[str, Any]]] = {}  # by model: the messages that its kernel side sent
        info = kernel.client.kernel_info(reply=True, timeout=30)["content"]
        self._subshells = subshells and "kernel subshells" in info.get("supported_features", ())
        self._subshell: str | None = None
        self._cells: dict[str, Shown] = {}
        self._held_back: list[tuple[str, dict[str, Any]]] = []

    def start(self, code: str, *, stdin: bool = True, cell: bool = True, again: str = "") -> Shown:
        """Run a cell; without `cell` as a console does, which names none; `again` names one that runs repeatedly."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": stdin,
            "stop_on_error": True,
        }
        metadata = {"cellId": again or f"cell {len(self._cells)}"} if cell else {}  # each is a new cell of the notebook
        message = self.kernel.client.session.msg("execute_request", content, metadata=metadata)
        self.kernel.client.shell_channel.send(message)
        shown = self._cells[message["header"]["msg_id"]] = Shown()
        return shown

    def run(self, code: str, **options: Any) -> Shown:
        """Run a cell to its end."""
        return self.finish(self.start(code, **options))

    def finish(self, cell: Shown, timeout: float = 60.0) -> Shown:
        """Read on until a cell has ended."""
        self.read_until(lambda: cell.done, timeout, "the cell has ended")
        return cell

    def read_until(self, condition: Callable[[], bool], timeout: float = 30.0, what: str = "") -> None:
        """Read what the kernel says until a condition holds."""
        started = heard = time.monotonic()
        while not condition():
            assert time.monotonic() - started < timeout, f"not within {timeout:g} s: {what}; {self._cells}"
            try:
                message = self.kernel.client.get_iopub_msg(timeout=0.05)
            except Empty:
                if time.monotonic() - heard > SILENCE_SECONDS:
                    self.kernel.wake()
                    heard = time.monotonic()
                continue
            heard = time.monotonic()
            self._take(message)

    def panel(self, cell: Shown, count: int = 1, timeout: float = 30.0) -> None:
        """Wait until a cell shows a panel in which a number of calls wait."""
        self.read_until(lambda: len(self._named("Deny", cell)) == count, timeout, f"a panel with {count}")

    def click(self, description: str, number: int = 0, *, cell: Shown | None = None) -> None:
        """Click on a button that is shown, anywhere or below a cell."""
        self.press(self._named(description, cell)[number])

    def press(self, name: str) -> None:
        """Click on the button of this model id."""
        self._send(name, {"method": "custom", "content": {"event": "click"}})

    def type(self, model: str, text: str, number: int = 0, *, enter: bool = False) -> None:
        """Type into a text field: `"TextModel"` or `"TextareaModel"`."""
        found = [name for name, state in self.models.items() if state.get("_model_name") == model]
        self.type_into(found[number], text)
        if enter:
            self.enter(found[number])

    def type_into(self, name: str, text: str) -> None:
        """Type into the text field of this model id."""
        self.change(name, value=text)

    def type_late(self, model: str, text: str) -> None:
        """Type letters that the page holds back, because the kernel has not taken the letters before."""
        name = next(name for name, state in self.models.items() if state.get("_model_name") == model)
        self._held_back.append((name, {"value": text}))

    def enter(self, name: str) -> None:
        """Press Enter in the text field of this model id."""
        self._send(name, {"method": "custom", "content": {"event": "submit"}})

    def tell(self, name: str, **content: Any) -> None:
        """Send a message of a widget's own."""
        self._send(name, {"method": "custom", "content": content})

    def hears(self, name: str, kind: str) -> dict[str, Any]:
        """Wait for a message of this kind that a widget's kernel side sends, and return it."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.sent.get(name, ()) if each.get("kind") == kind]

        self.read_until(lambda: bool(found()), what=f"a message {kind!r}")
        message = found()[0]
        self.sent[name].remove(message)
        return message

    def change(self, name: str, **state: Any) -> None:
        """Change a widget, as the page does it."""
        self._send(name, {"method": "update", "state": state, "buffer_paths": []})

    def choose(self, option: str) -> None:
        """Choose an option of the only list that is shown."""
        [name] = [name for name, state in self.models.items() if state.get("_model_name") == "DropdownModel"]
        index = self.models[name]["_options_labels"].index(option)
        self.change(name, index=index)

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
        if kind == "comm_open":
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
        """JupyterLab makes one subshell for all widgets, when the first of them is opened."""
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
        """Approve what waits."""
        if not self.clicks:
            self.frontend.answer("y")
            return
        self.frontend.panel(cell)
        self.frontend.click("Approve", cell=cell)

    def approve_two(self, cell: Shown) -> None:
        """Approve two that wait at the same time."""
        if not self.clicks:
            self.frontend.answer("y", "y")
            return
        self.frontend.panel(cell, 2)
        self.frontend.click("Approve all", cell=cell)

    def deny(self, cell: Shown, reason: str) -> None:
        """Deny it, and say why."""
        if not self.clicks:
            self.frontend.answer("n", reason)
            return
        self.frontend.panel(cell)
        self.frontend.type("TextModel", reason, enter=True)

    def approve_changed(self, cell: Shown, arguments: dict[str, Any]) -> None:
        """Change the arguments first."""
        if not self.clicks:
            self.frontend.answer("e", json.dumps(arguments), "y")
            return
        self.frontend.panel(cell)
        self.frontend.click("Edit", cell=cell)
        self.frontend.read_until(lambda: bool(self.frontend._named("Edit as JSON", cell)), what="the form")
        self.frontend._send(
            self.frontend._named("Edit as JSON", cell)[0], {"method": "update", "state": {"value": True}}
        )
        self.frontend.type("TextareaModel", json.dumps(arguments))
        self.frontend.read_until(lambda: bool(self.frontend._named("Approve changed", cell)), what="the change is seen")
        self.frontend.click("Approve changed", cell=cell)

    def approve_always(self, cell: Shown) -> None:
        """Approve this tool for ever."""
        if not self.clicks:
            self.frontend.answer("a", "t")
            return
        self.frontend.panel(cell)
        self.frontend.choose("always for this tool")
        self.frontend.click("Approve", cell=cell)

    def sees(self, cell: Shown) -> str:
        """Wait for the question, and return what it says as text."""
        if not self.clicks:
            self.frontend.awaits_input()
            self.frontend.read_until(lambda: "wants to call" in cell.stdout, what="the question")
            return cell.stdout
        self.frontend.panel(cell)
        return str(next(bundle["text/plain"] for bundle in cell.displays.values() if VIEW in bundle))
