"""`%mcp doctor` in a kernel: a value, shown once; Interrupt ends it and leaves nothing behind."""

import json
import sys

from tests.support.doctors import SICK
from tests.support.kernels import until


def test_the_report_is_shown_and_is_a_value(kernel):
    shown = kernel.ok("%mcp doctor -- nothing-of-the-kind")
    assert "✗ resolve" in shown.text
    assert "nothing-of-the-kind" in shown.data["text/html"]
    kernel.ok("report = %mcp doctor -- nothing-of-the-kind")
    assert kernel.ok("report.failed_at, report.df.shape[1]").text == "('resolve', 5)"


def test_interrupt_ends_doctor_and_the_server_it_started(kernel):
    told = json.dumps({"_capabilities": {"tools": {}}, "_hangs": ["tools/list"]})
    kernel.ok(f"told = {told!r}")
    before = {child.pid for child in kernel.process.children(recursive=True)}
    cell = kernel.start(f"%mcp doctor -- {sys.executable} {SICK} $told")
    until(lambda: any(child.pid not in before for child in kernel.process.children(recursive=True)), what="the server")
    assert kernel.stop(cell).ename == "KeyboardInterrupt"
    until(lambda: {child.pid for child in kernel.process.children(recursive=True)} <= before, what="its end")
