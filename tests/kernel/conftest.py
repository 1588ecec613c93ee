from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.driving import Kernel, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the module's kernel."""
    return tmp_path_factory.mktemp("kernel")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    """A kernel with the extension loaded, shared by the tests of a module."""
    running = Kernel(folder, environment(folder))
    try:
        running.ok("%load_ext mcp_magic")
        yield running
    finally:
        running.shutdown()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Starts kernels for one test; keyword arguments are environment variables."""
    running: list[Kernel] = []

    def start(**variables: str) -> Kernel:
        running.append(Kernel(tmp_path, environment(tmp_path, **variables)))
        return running[-1]

    yield start
    for kernel in running:
        kernel.shutdown()
