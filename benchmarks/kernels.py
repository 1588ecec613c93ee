"""Kernels, JupyterLab, and bare widgets: what subjects measure that need a frontend."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import not_measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.timing import Result
    from tests.support.frontends import Frontend
    from tests.support.lab import Lab

__all__ = ["bare_widgets", "frontend", "importable", "in_the_browser", "lab", "shower", "widget_types"]


def importable() -> str:
    """Return code after which a kernel can import this package."""
    from tests.environments import ROOT  # which imports pytest; the kernels that import this module shall not

    return f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"


@contextmanager
def frontend(*cells: str, plain: bool = False, **variables: str) -> Iterator[Frontend]:
    """Start a kernel with a home of its own, run cells in it, and show its widgets.

    Args:
        cells: The cells.
        plain: Whether it has imported nothing yet.
        variables: Variables of its environment.
    """
    from tests.support.started_kernels import started

    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / ".ipython" / "profile_default"
        profile.mkdir(parents=True)
        (profile / "ipython_kernel_config.py").write_text(
            "c.Application.log_level = 'ERROR'\n"
        )  # no word of encryption
        with started(Path(folder), cells, plain=plain, **variables) as shown:
            yield shown


def shower(shown: Frontend, cell: str) -> Callable[[], None]:
    """Return a function that runs a cell which shows a value, until the kernel is idle again."""

    def show() -> None:
        done = shown.run(cell)
        if done.ename or not done.displays:
            raise RuntimeError(f"{cell!r} shows nothing: {done.ename} {done.evalue}")

    return show


def in_the_browser(name: str, measure: Callable[[], list[Result]]) -> list[Result]:
    """Return what is measured in headless Chromium, or that this is missing."""
    from tests.support.lab import missing

    reason = missing()
    return [not_measured(name, reason)] if reason else measure()


@contextmanager
def lab(*cells: str) -> Iterator[Lab]:
    """Open a notebook in a JupyterLab in headless Chromium and run its cells."""
    from tests.support.lab import JupyterLab, chromium
    from tests.support.notebooks import write_notebook

    with tempfile.TemporaryDirectory() as folder:
        notebooks, home = Path(folder) / "notebooks", Path(folder) / "home"
        notebooks.mkdir()
        write_notebook(notebooks / "measured.ipynb", cells, may_fail=False)
        with (
            JupyterLab(notebooks, home) as server,
            chromium() as browser,
            server.open(browser, "measured.ipynb") as page,
        ):
            page.run_all()
            yield page


def widget_types() -> list[type]:
    """Return the ipywidgets class of each open widget that is drawn."""
    from ipywidgets import DOMWidget
    from ipywidgets.widgets.widget import _instances

    drawn = [type(widget) for widget in _instances.values() if isinstance(widget, DOMWidget)]
    return [next(base for base in kind.__mro__ if base.__module__.startswith("ipywidgets")) for kind in drawn]


def bare_widgets(kinds: Iterable[type]) -> Any:
    """Return a box of new widgets of these classes, without values."""
    from ipywidgets import VBox

    return VBox([kind() for kind in kinds])
