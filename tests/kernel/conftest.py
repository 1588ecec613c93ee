from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kernels import Kernel, environment
from tests.support.started_kernels import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.frontends import Frontend

LOAD = "%load_ext mcp_magic"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the module's kernel."""
    return tmp_path_factory.mktemp("kernel")


@pytest.fixture(scope="module")
def frontend(request: pytest.FixtureRequest, folder: Path) -> Iterator[Frontend]:
    """A kernel that has run the module's SETUP, and somebody with widgets before it; a plain one if it says PLAIN."""
    module = request.module
    with started(folder, getattr(module, "SETUP", [LOAD]), plain=getattr(module, "PLAIN", False)) as running:
        yield running


@pytest.fixture(scope="module")
def kernel(frontend: Frontend) -> Kernel:
    """The kernel of `frontend`."""
    return frontend.kernel


@pytest.fixture(scope="module")
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    """ipykernel 6.30, which delivers no clicks while a cell runs, after the module's SETUP."""
    with started(tmp_path_factory.mktemp("older"), request.module.SETUP, "kernel630") as running:
        yield running


@pytest.fixture
def no_widget_is_left(frontend: Frontend) -> Iterator[None]:
    yield
    assert frontend.kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Starts kernels for one test; keyword arguments in capitals are environment variables, others of `Kernel`."""
    running: list[Kernel] = []

    def start(*, plain: bool = False, **variables: str) -> Kernel:
        running.append(Kernel(tmp_path, environment(tmp_path, **variables), plain=plain))
        return running[-1]

    yield start
    for kernel in running:
        kernel.shutdown()
