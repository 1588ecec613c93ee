"""A kernel that serves: its server, its runtime file, and what is shown of it."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traitlets.config import MultipleInstanceError

from mcp_magic._text import join_names
from mcp_magic.config.parsing import working_directory
from mcp_magic.display.document import Part, parts_text, show_parts
from mcp_magic.outside.entries import entries, proxy_table
from mcp_magic.outside.runtime import NAME, announce, private_folder, running_kernels, withdraw
from mcp_magic.server.http import serve, thread_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.outside.entries import Entry
    from mcp_magic.outside.gateway import KernelServer
    from mcp_magic.outside.runtime import RunningKernel
    from mcp_magic.server.http import Serving

LIBRARIES = ("mcp", "uvicorn", "starlette", "sse_starlette", "anyio")  # what serves, and logs what clients do

NOBODY = "No agent was connected."


class KernelServing:
    """A kernel that serves; it displays what other hosts need to reach it.

    Attributes:
        server: What it offers.
        kernel: What its runtime file says.
        asks: Whether the person can be asked about calls, which a terminal does not do between two lines.
    """

    def __init__(self, server: KernelServer, kernel: RunningKernel, serving: Serving) -> None:
        self.server = server
        self.kernel = kernel
        self.asks = True
        self._serving = serving

    @property
    def running(self) -> bool:
        """Whether it can be reached."""
        return self._serving.running

    @property
    def url(self) -> str:
        """Its URL, for programs that have the token."""
        return self._serving.url

    @property
    def token_file(self) -> Path:
        """The file with its token, which only the user can read."""
        return self._serving.token_file

    @property
    def clients(self) -> list[str]:
        """The names of the clients that are connected, as they say themselves."""
        return [client.name for client in self.server.clients]

    @property
    def table(self) -> dict[str, Any]:
        """The proxy as a server of a JSON file; it names the notebook where its folder has several kernels."""
        twins = [kernel for kernel in running_kernels() if kernel.folder == self.kernel.folder]
        return proxy_table(self.kernel.notebook if len(twins) > 1 else "")

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries for other hosts."""
        return entries(self.table)

    async def stop(self) -> None:
        """Stop serving at once: requests, streams and questions of clients end. Idempotent."""
        self.server.close()
        withdraw(self.kernel)
        await self._serving.stop()

    def farewell(self, clients: Sequence[str]) -> str:
        """Return the line that says that it has ended, and which clients it has cut off."""
        return f"The kernel is no longer served. {f'Cut off: {join_names(clients)}.' if clients else NOBODY}"

    def __repr__(self) -> str:
        return f"<KernelServing {'at ' + self.url if self.running else 'stopped'}>"

    def parts(self) -> list[Part]:
        """Return what is shown."""
        if not self.running:
            return [Part.line("This kernel is not served to agents outside any more.")]
        code = " and each program that they run" if "run_code" in self.server.own else ""
        calls = f"their calls{code} are asked about here"
        if not self.asks:
            calls = "a call goes out if a rule allows it: `%mcp allow TOOL --for outside`. A terminal does not ask"
        parts = [
            Part.line(
                "This kernel is a server for agents outside. They see the variables that `%mcp share NAME` names, and "
                f"{calls}. `%mcp serve --stop` cuts them off."
            )
        ]
        for entry in self.entries:
            where = entry.where if " " in entry.where else f"`{entry.where}`"
            parts += [Part.line(f"{entry.host}, {where}:"), Part.pre(entry.text)]
        where = f"`{self.url}`, with the token in `{self.token_file}`"
        parts.append(Part.note(f"The entries have no secret, and stay the same. Programs of your own: {where}"))
        return parts

    _repr_mimebundle_ = show_parts
    __str__ = parts_text


async def serve_kernel(server: KernelServer, *, port: int = 0, notebook: str = "") -> KernelServing:
    """Serve the kernel to agents outside, of this user; port 0 is any free one, "" the notebook that Jupyter names.

    Raises:
        CommandError: The port cannot be had, or the token file cannot be written.
        ConfigError: The folder of the runtime files cannot be used.
    """
    folder = private_folder()
    serving = await serve(NAME, server, folder, port=port, own_thread=True)  # type: ignore[arg-type] # it has an app
    try:
        kernel = announce(
            serving.port,
            folder=working_directory().resolve(),
            notebook=notebook_name(notebook or os.environ.get("JPY_SESSION_NAME", "")),
            kernel=kernel_id(),
            started=datetime.now().isoformat(timespec="milliseconds"),
        )
    except BaseException:
        await serving.stop()
        raise
    atexit.register(withdraw, kernel)
    _leave_out_clients()
    return KernelServing(server, kernel, serving)


def _leave_out_clients() -> None:
    """Keep clients from writing into the notebook: what the libraries log of their requests reaches no handler.

    Where the person has no handler, it would be on stderr, a line or a traceback for each odd message.
    """
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).addFilter(_is_from_elsewhere)


def _is_from_elsewhere(record: logging.LogRecord) -> bool:
    """Whether a record is not from the thread of a kernel that serves, such as one of a server of the person."""
    return threading.current_thread().name != thread_name(NAME)


def notebook_name(path: str) -> str:
    r"""Return the name of a notebook; "" if it is none.

    >>> notebook_name("/home/me/a b.ipynb"), notebook_name(r"C:\a.ipynb"), notebook_name("console-1")
    ('a b.ipynb', 'a.ipynb', '')
    """
    name = re.split(r"[/\\]", path)[-1]
    return name if name.endswith(".ipynb") else ""


def kernel_id() -> str:
    """Return the id of this kernel in Jupyter; "" outside of Jupyter."""
    application = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if application is None or not application.initialized():
        return ""
    try:
        app = application.instance()
    except MultipleInstanceError:  # the application of a terminal, which is initialized as well
        return ""
    match = re.fullmatch(r"kernel-([\w-]+)\.json", Path(str(app.connection_file)).name)
    return match[1] if match else ""
