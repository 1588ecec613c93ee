"""A registry of npm and of PyPI on this machine: one package, `boxed`, which is a stdio server of one file each."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORT = Path(__file__).parent

NODE_SERVER = """\
#!/usr/bin/env node
const fs = require('fs'), net = require('net');
const text = (value) => ({content: [{type: 'text', text: String(value)}]});
const failed = (error) => ({...text(error.code), isError: true});
const tools = {
  read: ({path}) => text(fs.readFileSync(path, 'utf8')),
  write: ({path}) => (fs.writeFileSync(path, 'x'), text('written')),
  variable: ({name}) => text(process.env[name] || ''),
  connect: ({host, port}) => new Promise((done) => {
    const socket = net.connect(Number(port), host);
    socket.on('connect', () => (socket.end(), done(text(port))));
    socket.on('error', (error) => done(failed(error)));
  }),
};
const schema = {type: 'object'};
require('readline').createInterface({input: process.stdin}).on('line', async (line) => {
  const {id, method, params} = JSON.parse(line);
  let result;
  if (method === 'initialize') result = {
    protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'boxed', version: '1'},
  };
  else if (method === 'tools/list') result = {
    tools: Object.keys(tools).map((name) => ({name, inputSchema: schema})),
  };
  else if (method === 'tools/call') {
    try { result = await tools[params.name](params.arguments || {}); } catch (error) { result = failed(error); }
  }
  if (id === undefined) return;
  const error = {code: -32601, message: 'Method not found'};
  process.stdout.write(JSON.stringify({jsonrpc: '2.0', id, ...(result ? {result} : {error})}) + '\\n');
});
"""


class Registry:
    """A registry that is served.

    Attributes:
        url: Where it is.
        requests: The paths that were asked for.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[str] = []

    @property
    def port(self) -> int:
        """The port of its URL."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def package_registry(folder: Path) -> Iterator[Registry]:
    """Serve the package as `boxed` of npm, and of PyPI below `/simple`; its files are written to a folder."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    registry = Registry(f"http://127.0.0.1:{server.server_address[1]}")
    _write_npm(folder, registry.url)
    _write_pypi(folder)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def _write_npm(folder: Path, url: str) -> None:
    about = {"name": "boxed", "version": "1.0.0", "bin": {"boxed": "server.js"}}
    with tarfile.open(folder / "boxed.tgz", "w:gz") as archive:
        for name, text in (("package.json", json.dumps(about)), ("server.js", NODE_SERVER)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    version = {**about, "dist": {"tarball": f"{url}/boxed.tgz"}}
    entry = {"name": "boxed", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (folder / "boxed").write_text(json.dumps(entry))


def _write_pypi(folder: Path) -> None:
    name = "boxed-1.0.0-py3-none-any.whl"
    server = (SUPPORT / "boxed_server.py").read_text().replace("tests.support.plain", "boxed_plain")
    about = "boxed-1.0.0.dist-info"
    files = {
        "boxed_server.py": server,
        "boxed_plain.py": (SUPPORT / "plain.py").read_text(),
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: boxed\nVersion: 1.0.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\nboxed = boxed_server:server.run\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    page = folder / "simple" / "boxed" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{name}">{name}</a>')
    with zipfile.ZipFile(page.parent / name, "w") as wheel:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            wheel.writestr(path, text)
