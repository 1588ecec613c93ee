import pytest

from tests.support.kernel_servers import LOAD
from tests.support.kernels import Kernel, environment
from tests.support.started_kernels import started


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory of the module's kernel."""
    return tmp_path_factory.mktemp("kernel")


@pytest.fixture(scope="module")
def frontend(request, folder):
    """A kernel that has run the module's SETUP, and somebody with widgets before it.

    It is a plain one if the module says PLAIN; its environment has the variables of VARIABLES.
    """
    module = request.module
    variables = getattr(module, "VARIABLES", {})
    with started(
        folder, getattr(module, "SETUP", [LOAD]), plain=getattr(module, "PLAIN", False), **variables
    ) as running:
        yield running


@pytest.fixture(scope="module")
def kernel(frontend):
    """The kernel of `frontend`."""
    return frontend.kernel


@pytest.fixture(scope="module")
def older(request, tmp_path_factory):
    """ipykernel 6.30, which delivers no clicks while a cell runs, after the module's SETUP."""
    with started(tmp_path_factory.mktemp("older"), request.module.SETUP, "kernel630") as running:
        yield running


@pytest.fixture
def no_widget_is_left(frontend):
    yield
    assert frontend.kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


@pytest.fixture
def start(tmp_path):
    """Starts kernels for one test; keyword arguments in capitals are environment variables, others of `Kernel`."""
    running = []

    def start(*, plain=False, **variables):
        running.append(Kernel(tmp_path, environment(tmp_path, **variables), plain=plain))
        return running[-1]

    yield start
    for kernel in running:
        kernel.shutdown()
