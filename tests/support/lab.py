"""A real JupyterLab in a headless Chromium or Firefox, driven by its own commands.

with JupyterLab(folder) as server, chromium() as browser, server.open(browser, "quickstart.ipynb") as lab:
    lab.run_all()
    lab.theme("dark")
    lab.shoot("quickstart-dark")
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.support.kernels import environment
from tests.support.processes import start_http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, FloatRect, Locator, Page

__all__ = ["SHOTS", "JupyterLab", "Lab", "Notebook7", "chromium", "firefox", "missing", "picture"]

SHOTS = Path(__file__).parents[1] / "browser" / "shots"
"""Where pictures for a person to look at go, with MCP_MAGIC_SHOTS=1; git ignores it."""

PROGRAMS = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox": ("firefox-esr", "firefox")}

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",  # JupyterLab is on this machine, whatever the environment says
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",  # a camera and a microphone that any page may use
    "--use-fake-ui-for-media-stream",
)

PREFERENCES: dict[str, str | float | bool] = {
    "network.proxy.type": 0,  # as `--no-proxy-server`
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.peerconnection.ice.loopback": True,  # so that WebRTC reaches a listener of the tests
    "media.peerconnection.ice.obfuscate_host_addresses": False,
}
"""Firefox's names for what FLAGS has for Chromium."""

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

SETTINGS: dict[str, dict[str, object]] = {
    # All cells are in the page, also those out of sight, so that one screenshot has them.
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
}

POLLING = 100
"""Milliseconds between two looks at a page; without, it is drawn again and again while one waits."""

TALLEST = 16_000
"""Pixels; Chromium cannot draw a picture higher than 16384."""

START_SECONDS = 180.0
RUN_SECONDS = 180.0

_HERE = r"http://127\.0\.0\.1"

# JavaScript for the notebook that is shown, and for the part of it that scrolls.
# What JupyterLab says when it draws a list or a toolbar once more whose notebook or output was closed meanwhile.
_DISPOSED = "of null (reading 'widgets')"

_NOTEBOOK = "window.jupyterapp.shell.currentWidget"
_SCROLLER = f"{_NOTEBOOK}.content.node.querySelector('.jp-WindowedPanel-outer')"


def picture(page: Page, name: str) -> None:
    """Take a picture of a whole page for a person to look at, where one wants it."""
    if _pictures_are_wanted():
        page.screenshot(path=_shot(page, name), full_page=True)


def _shot(page: Page, name: str) -> Path:
    assert page.context.browser is not None
    browser = page.context.browser.browser_type.name
    return SHOTS / f"{name if browser == 'chromium' else f'{browser}-{name}'}.png"


def _pictures_are_wanted() -> bool:
    return os.environ.get("MCP_MAGIC_SHOTS") == "1"


def missing(browser: str = "chromium") -> str:
    """Return what is not installed, "" if nothing."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: pip install playwright"
    if _program(browser):
        return ""
    *names, last = PROGRAMS[browser]
    return f"{browser} is not installed: no {', '.join(names)} or {last} on PATH"


def _program(browser: str) -> str | None:
    return next((path for path in map(shutil.which, PROGRAMS[browser]) if path), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, and end it at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program("chromium"), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def firefox() -> Iterator[Browser]:
    """Start the browser, and end it at the end."""
    from playwright.sync_api import sync_playwright

    from tests.support.bidi import relayed

    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.firefox.launch(
            channel="moz-firefox",
            executable_path=relayed(_program("firefox") or "", Path(folder)),
            firefox_user_prefs=PREFERENCES,
        )
        try:
            yield browser
        finally:
            browser.close()


class JupyterLab:
    """A server on a free port of 127.0.0.1 that shows a folder; settings and kernels keep to a home of their own.

    Args:
        folder: What it shows.
        home: Where settings and kernels are kept.
        python: The Python of its environment.

    Attributes:
        url: Where it is, once entered.
        module: The program.
        application: The name of its settings.
        front: The path of its first page, which it says when it listens.
        documents: What stands before a notebook in a URL.
        tabs: Whether a page can open one notebook after another.
    """

    module = "jupyterlab"
    application = "LabApp"
    front = "/lab"
    documents = "/doc/tree/"
    tabs = True

    def __init__(self, folder: Path, home: Path | None = None, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python
        self.home = home or folder.parent / f"{folder.name}-home"
        self.url = ""
        self._stack = ExitStack()
        self._idle: dict[tuple[Browser, int, float], Page] = {}

    def __enter__(self) -> JupyterLab:
        for name, values in SETTINGS.items():
            file = self.home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        running = self._stack.enter_context(
            start_http(self._command(), self._environment(), rf"(?P<url>{_HERE}:\d+){self.front}", START_SECONDS)
        )
        self.url = running.url
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _command(self) -> list[str]:
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": "0",
            "ServerApp.root_dir": str(self.folder),
            "ServerApp.disable_check_xsrf": "True",
            "ServerApp.allow_root": "True",
            "IdentityProvider.token": "",
            f"{self.application}.expose_app_in_browser": "True",  # as window.jupyterapp
            f"{self.application}.user_settings_dir": str(self.home / "settings"),
            f"{self.application}.workspaces_dir": str(self.home / "workspaces"),
        }
        return [self.python, "-m", self.module, "--no-browser", *(f"--{k}={v}" for k, v in options.items())]

    def _environment(self) -> dict[str, str]:
        # The width that IPython's text is made for; PATH as it is in an activated environment.
        own = environment(self.home, COLUMNS="100", JUPYTER_PLATFORM_DIRS="1")
        return {**own, "PATH": f"{Path(self.python).parent}:{own['PATH']}"}

    @contextmanager
    def open(self, browser: Browser, notebook: str, *, width: int = 1200, scale: float = 1) -> Iterator[Lab]:
        """Open a notebook of the folder, and shut its kernel down at the end.

        A page that shows no notebook any more is used again: to load JupyterLab takes seconds of a processor.

        Args:
            browser: From `chromium()` or `firefox()`.
            notebook: Its path below the folder.
            width: Of the window, in CSS pixels.
            scale: Pixels of a screenshot for each of those.
        """
        size: Any = {"width": width, "height": 900}
        page = self._idle.pop((browser, width, scale), None)
        if page:
            page.set_viewport_size(size)
            lab = Lab(page)
            lab.command("docmanager:open", path=notebook)
        else:
            page = browser.new_page(viewport=size, device_scale_factor=scale)
            page.set_default_timeout(START_SECONDS * 1000)
            lab = Lab(page)
            page.goto(f"{self.url}{self.documents}{notebook}?reset")
        try:
            lab.wait_ready()
            yield lab
            lab.close()
        except BaseException:
            page.close()
            raise
        if self.tabs:
            self._idle[browser, width, scale] = page
        else:
            page.close()


class Notebook7(JupyterLab):
    """The same for Jupyter Notebook 7, whose page is made of JupyterLab's parts and has its commands."""

    module = "notebook"
    application = "JupyterNotebookApp"
    front = "/tree"
    documents = "/notebooks/"
    tabs = False


class Lab:
    """One notebook, open in a page.

    Attributes:
        page: The page, for whatever is not here.
        dialogs: The messages of JavaScript dialogs (`alert`) that came up.
        failures: Uncaught errors in the page.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.dialogs: list[str] = []
        self.failures: list[str] = []
        page.on("dialog", self._dialog)
        page.on("pageerror", self._failure)

    def _dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":  # the page is loaded again, saved or not
            dialog.accept()
        else:
            self.dialogs.append(dialog.message)
            dialog.dismiss()

    def _failure(self, error: Any) -> None:
        if _DISPOSED in error.message:
            return
        self.failures.append(str(error.stack or error))

    def close(self) -> None:
        """Shut the kernel down and close the notebook without saving it; the page stays."""
        self.command("kernelmenu:shutdown")
        # What fails while it closes is told at once; the next notebook in this page is not to hear of it.
        drawn = "await new Promise(done => { requestAnimationFrame(() => setTimeout(done)); setTimeout(done, 1000); });"
        self.page.evaluate(f"async () => {{ {_NOTEBOOK}.dispose(); {drawn} }}")
        self.page.remove_listener("dialog", self._dialog)
        self.page.remove_listener("pageerror", self._failure)

    def wait_ready(self) -> None:
        """Wait until the notebook is shown and its kernel is idle."""
        status = f"window.jupyterapp && {_NOTEBOOK}?.sessionContext?.session?.kernel?.status === 'idle'"
        self.page.wait_for_function(status, timeout=START_SECONDS * 1000, polling=POLLING)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def _evaluate(self, promise: str, what: str) -> None:
        """Wait for a promise of the page; one that is not kept in time is an error and not a wait without end."""
        late = f"{what} has not ended after {RUN_SECONDS:g} s"
        timer = "new Promise((_, reject) => setTimeout(() => reject(new Error(late)), ms))"
        script = f"([ms, late]) => Promise.race([{promise}, {timer}]).then(() => null)"
        self.page.evaluate(script, [RUN_SECONDS * 1000, late])

    def command(self, name: str, **arguments: object) -> None:
        """Run one of JupyterLab's commands and wait until it is done."""
        self._evaluate(f"window.jupyterapp.commands.execute({json.dumps(name)}, {json.dumps(arguments)})", name)

    def clear(self) -> None:
        """End the cell that runs, if one does, and delete all."""
        if self.page.evaluate(f"{_NOTEBOOK}.sessionContext.session.kernel.status") != "idle":
            self.command("notebook:interrupt-kernel")
            self.wait_ready()  # what comes while a cell fails is not run
        self.command("notebook:select-all")
        self.command("notebook:delete-cell")

    def run_all(self) -> None:
        """Run all cells; done when the last one is, or when one fails that is not expected to."""
        self.page.set_default_timeout(RUN_SECONDS * 1000)
        self.command("notebook:run-all-cells")
        self.wait_outputs()
        self.wait_ready()
        self._images_loaded()

    def wait_outputs(self) -> None:
        """Wait for what ended cells show: their reply may be here before it; the answer to a later question is not."""
        self._evaluate(f"{_NOTEBOOK}.sessionContext.session.kernel.requestKernelInfo()", "the kernel's answer")

    def _images_loaded(self) -> None:
        script = "[...document.querySelectorAll('.jp-OutputArea img')].every(image => image.complete)"
        self.page.wait_for_function(script, polling=POLLING)

    def theme(self, name: str) -> None:
        """Change to the "light" or the "dark" theme."""
        self.command("apputils:change-theme", theme=THEMES[name])
        self.page.wait_for_selector(f"body[data-jp-theme-name='{THEMES[name]}']", state="attached")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")  # it covers the page for a moment

    @property
    def cells(self) -> Locator:
        """The notebook's cells, in order."""
        return self.page.locator(".jp-Notebook .jp-Cell")

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Return the outputs of every cell, as nbformat writes them."""
        script = f"{_NOTEBOOK}.content.widgets.map(cell => cell.model.outputs?.toJSON() ?? [])"
        found: list[list[dict[str, Any]]] = self.page.evaluate(script)
        return found

    def picture(self, name: str, *, first: int = 0) -> None:
        """Take a picture of the cells from `first` on for a person to look at, where one wants it."""
        if _pictures_are_wanted():
            self.shoot(name, first=first)

    def shoot(self, name: str, *, first: int = 0, last: int | None = None, path: Path | None = None) -> Path:
        """Take a picture of the cells `first` to `last` (the whole notebook without) and return its file."""
        shown = self.cells.all()[first : None if last is None else last + 1]
        height = min(_bottom(shown[-1]) - _box(shown[0])["y"], TALLEST)
        self._make_visible(shown[0], height)
        box = _box(shown[0])
        file = path or _shot(self.page, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        clip: Any = {**box, "height": min(_bottom(shown[-1]) - box["y"], TALLEST)}
        self.page.screenshot(path=file, clip=clip)
        return file

    def _make_visible(self, first: Locator, height: float) -> None:
        """Make the window high enough for `height` pixels of the notebook, and scroll to the cell they begin with."""
        width = (self.page.viewport_size or {"width": 1200})["width"]
        wanted = int(height) + 200
        self.page.set_viewport_size({"width": width, "height": wanted})
        self.page.wait_for_function(f"{_SCROLLER}.clientHeight > {wanted - 150}", polling=POLLING)
        self.page.evaluate(f"() => {{ {_NOTEBOOK}.content.activeCellIndex = 0; }}")
        first.evaluate("(cell) => cell.scrollIntoView({block: 'start', behavior: 'instant'})")


def _box(cell: Locator) -> FloatRect:
    box = cell.bounding_box()
    assert box is not None, "a cell that is not in the page"
    return box


def _bottom(cell: Locator) -> float:
    box = _box(cell)
    return box["y"] + box["height"]
