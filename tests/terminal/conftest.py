import pytest

from tests.support.terminals import NOISE, Terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory of the module's terminal."""
    return tmp_path_factory.mktemp("terminal")


@pytest.fixture(scope="module")
def running(request, folder):
    """A simple prompt, into which the extension was loaded and the lines of the module's SETUP were typed."""
    terminal = Terminal(folder, "--simple-prompt", "--no-banner", "--colors=nocolor")
    try:
        for line in ("%load_ext mcp_magic", *request.module.SETUP):
            terminal.run(line)
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def terminal(running):
    """The terminal; what a test makes it print has no noise of asyncio."""
    running.said = ""
    yield running
    assert not [line for line in running.said.splitlines() if any(word in line for word in NOISE)]


@pytest.fixture
def no_rule_is_left(terminal):
    yield
    terminal.run("%mcp approvals --clear")
