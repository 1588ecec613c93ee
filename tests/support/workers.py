"""Runs the tests in forked workers after one collection: `pytest -p tests.support.workers --workers 6`.

pytest-xdist lets each worker import and collect everything again, which costs as much as all tests of a package. Here
the tests are collected once, and each worker is a fork that asks for one file after another. With `--fork-scripts` the
scripts that the tests start are forked too (`forking.py`). Tests that are marked `timed` come last, two at a time.
"""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._io import TerminalWriter

from tests.support.forking import install_launcher

if TYPE_CHECKING:
    from _pytest.capture import CaptureManager

TIMED_WORKERS = 2
HEAVY = ("tests/browser/", "tests/kernel/", "tests/terminal/", "tests/project/")
"""Folders whose files take longest, so that none of them is the last to begin."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many forks of this process")
    parser.addoption("--fork-scripts", action="store_true", help="fork the scripts, too, that tests start")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("workers"):
        config.pluginmanager.register(Workers(config), "forked-workers")


def scope(item: pytest.Item) -> str:
    """Return what a worker takes as a whole: a file; of the browser, whose files share a JupyterLab, two parts.

    What runs in Firefox as well is all in one of them: to start a browser takes many seconds of a processor.
    """
    file = item.nodeid.partition("::")[0]
    name = file.removeprefix("tests/browser/test_")
    if name == file:
        return file
    return "tests/browser/ a to f" if name < "g" and "[firefox" not in name else "tests/browser/ g to z"


def grouped(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests of each scope, those that take longest first."""
    groups = [list(group) for _, group in groupby(sorted(items, key=scope), key=scope)]
    places = [*HEAVY, ""]
    return sorted(
        groups, key=lambda group: (next(i for i, p in enumerate(places) if scope(group[0]).startswith(p)), -len(group))
    )


def folder(run: int) -> Path:
    """Return the folder of the workers' temporary files; `run` is the process id of the parent."""
    return Path(tempfile.gettempdir()) / f"pt{run}"  # short: paths are in texts that are laid out


def capture_apart(capture: CaptureManager) -> None:
    """Capture into files of this worker, behind the objects of the parent: some are defaults of functions."""
    if not capture.is_globally_capturing():
        return
    capture.resume_global_capture()
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with tempfile.TemporaryFile() as file:
            for descriptor in {number, stream.fileno()}:
                os.dup2(file.fileno(), descriptor)
    capture.suspend_global_capture()


def send(channel: socket.socket, message: Any) -> None:
    data = pickle.dumps(message)
    channel.sendall(struct.pack("!I", len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """Return the next message, None at the end of the channel."""
    data = b""
    for size in (4, None):
        want = struct.unpack("!I", data)[0] if size is None else size
        data = b""
        while len(data) < want:
            part = channel.recv(want - len(data))
            if not part:
                return None
            data += part
    return pickle.loads(data)


@dataclass
class Worker:
    """A fork, and what it has still to do."""

    pid: int
    channel: socket.socket
    tests: list[int] = field(default_factory=list)
    """The places of its tests in the session, the one that runs now first."""


class Workers:
    """The loop of tests in the parent, and in each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.count: int = config.getoption("workers")
        self.forks = 0
        self.channel: socket.socket | None = None  # of a worker to its parent
        self.zygote_ready = install_launcher() if config.getoption("fork_scripts") else lambda: None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly:
            return None
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self.zygote_ready()
        timed = {item for item in session.items if item.get_closest_marker("timed")}
        for items, count in (
            ([item for item in session.items if item not in timed], self.count),
            ([item for item in session.items if item in timed], min(self.count, TIMED_WORKERS)),
        ):
            self.run(session, grouped(items), count)
        if not session.testsfailed:
            shutil.rmtree(folder(os.getpid()), ignore_errors=True)
        return True

    def run(self, session: pytest.Session, groups: list[list[pytest.Item]], count: int) -> None:
        """Let workers take one group after another, and report what they report."""
        places = {item: place for place, item in enumerate(session.items)}
        waiting = [[places[item] for item in group] for group in groups]
        selector = selectors.DefaultSelector()
        for _ in range(min(count, len(groups))):
            self.start(session, selector)
        while selector.get_map():
            for key, _ in selector.select():
                worker: Worker = key.data
                message = receive(worker.channel)
                if message == "next":
                    stopped = session.shouldfail or session.shouldstop
                    group = waiting.pop(0) if waiting and not stopped else []
                    worker.tests += group
                    send(worker.channel, group)
                elif message is not None:
                    self.report(worker, message)
                elif self.has_failed(session, worker, selector):
                    waiting += [worker.tests] if worker.tests else []
                    if waiting:
                        self.start(session, selector)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def start(self, session: pytest.Session, selector: selectors.BaseSelector) -> None:
        worker = self.fork(session, [key.fileobj for key in selector.get_map().values()])
        selector.register(worker.channel, selectors.EVENT_READ, worker)

    def has_failed(self, session: pytest.Session, worker: Worker, selector: selectors.BaseSelector) -> bool:
        """Wait for the end of a worker. If it ended early, its test has failed, and others run its remaining ones."""
        selector.unregister(worker.channel)
        worker.channel.close()
        _, status = os.waitpid(worker.pid, 0)
        if not status:
            return False
        code = os.waitstatus_to_exitcode(status)
        reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        nodeid: str = "the end of a worker"
        location: tuple[str, int | None, str] = (__file__, 0, "worker")
        if worker.tests:
            item = session.items[worker.tests.pop(0)]
            nodeid, location = item.nodeid, item.location
        report = pytest.TestReport(nodeid, location, {}, "failed", f"the worker ended: {reason}", "call")
        self.config.hook.pytest_runtest_logreport(report=report)
        return True

    def report(self, worker: Worker, message: tuple[str, Any]) -> None:
        kind, content = message
        if kind == "start":
            self.config.hook.pytest_runtest_logstart(nodeid=content[0], location=content[1])
        elif kind == "finish":
            worker.tests.pop(0)
            self.config.hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
        else:
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=content)
            self.config.hook.pytest_runtest_logreport(report=report)

    def fork(self, session: pytest.Session, others: list[Any]) -> Worker:
        """Start a worker; `others` are the channels of those that run, which it closes."""
        ours, theirs = socket.socketpair()
        self.forks += 1
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            theirs.close()
            return Worker(pid, ours)
        status = 1
        try:
            for channel in (ours, *others):
                channel.close()
            self.channel = theirs
            self.work(session)
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def work(self, session: pytest.Session) -> None:
        """Run groups in a worker, which takes a group before the last test of another, so that shared fixtures stay."""
        plugins = self.config.pluginmanager
        capture_apart(plugins.getplugin("capturemanager"))
        writer = SimpleNamespace(_tw=TerminalWriter(sys.__stderr__))  # for a test that times out
        plugins.unregister(plugins.getplugin("terminalreporter"))
        plugins.register(writer, "terminalreporter")
        temporary = folder(os.getppid()) / str(self.forks)
        temporary.mkdir(parents=True, exist_ok=True)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(temporary)
        items = self.take(session)
        while items:
            item = items.pop(0)
            items = items or self.take(session)
            self.config.hook.pytest_runtest_protocol(item=item, nextitem=items[0] if items else None)

    def take(self, session: pytest.Session) -> list[pytest.Item]:
        assert self.channel is not None
        send(self.channel, "next")
        return [session.items[place] for place in receive(self.channel) or ()]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        if self.channel:
            send(self.channel, ("start", (nodeid, location)))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        if self.channel:
            send(self.channel, ("finish", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.channel:
            data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
            send(self.channel, ("report", data))
