"""What JupyterLite's web worker does in JavaScript: hands cells to the kernel, and takes what they show."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path[:0] = [f"/mounted/{number}" for number in range(count)]  # type: ignore[name-defined]  # noqa: F821
sys.dont_write_bytecode = True
os.makedirs("/drive", exist_ok=True)  # noqa: PTH103
os.chdir("/drive")

import pyodide_kernel  # noqa: E402

shown: list[str] = []
kernel = pyodide_kernel.kernel_instance
shell = kernel.interpreter


def show(data: Any, *_: Any) -> None:
    shown.append(dict(data).get("text/plain", ""))


for stream in (pyodide_kernel.stdout_stream, pyodide_kernel.stderr_stream):
    stream.publish_stream_callback = lambda name, text: shown.append(text)
shell.displayhook.publish_execution_result = lambda number, data, metadata: show(data)
shell.display_pub.display_data_callback = show
shell.display_pub.update_display_data_callback = show
shell.display_pub.clear_output_callback = lambda wait: None
shell.send_comm = lambda *message: None
kernel._parent_header = {"header": {"msg_id": "1", "msg_type": "execute_request"}, "content": {}, "metadata": {}}


async def run(cell: str) -> str:
    """Run a cell; return what it shows and how it ends, as JSON."""
    shown.clear()
    reply = await kernel.run(cell)
    error = "" if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"
    return json.dumps({"text": "\n".join(shown), "error": error})
