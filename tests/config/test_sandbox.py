"""What `--sandbox`, tables and the settings of srt and VS Code allow; what is wrong in them is said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.parsing import FieldError
from mcp_magic.config.sandbox import Sandbox, make_sandbox, with_preset
from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import StdioSpec
from tests.support.raising import said

if TYPE_CHECKING:
    from pathlib import Path

X = {"command": "x"}


def sandbox_of(fields: dict[str, Any], folder: Path) -> Sandbox | None:
    (entry,) = parse_servers({"servers": {"x": fields}}, source="mcp.json", environ={"HOME": "/h"}, base=folder)
    if entry.problem is not None:
        raise entry.problem
    assert isinstance(entry.spec, StdioSpec)
    return entry.spec.sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


LINES = [
    ("read=.", {"read": ("",)}),
    ("read=a,write=b , read=c", {"read": ("a", "c"), "write": ("b",)}),
    ("read=a:b,deny=a/x", {"read": ("a", "b"), "deny": ("a/x",)}),
    ("read=a,read=a", {"read": ("a",)}),
    ("npx,net=API.example.com:443", {"preset": ("npx",), "net": ("api.example.com:443",)}),
    ("net=localhost,net=127.0.0.1:8000,net=[::1]:8080", {"net": ("localhost", "127.0.0.1:8000", "[::1]:8080")}),
    ("net=*,net=*.example.com:443,net=*:80", {"net": ("*", "*.example.com:443", "*:80")}),
    ("net=10.0.0.0/8:443,net=h:*", {"net": ("10.0.0.0/8:443", "h")}),
    ("memory=2G,processes=64", {"memory": 2**31, "processes": 64}),
    ("memory=1.5gib", {"memory": 3 * 2**29}),
]


@pytest.mark.parametrize(("line", "values"), LINES)
def test_a_line_names_what_is_allowed(line, values, folder):
    paths = {
        key: tuple(str(folder / path) for path in values[key]) for key in ("read", "write", "deny") if key in values
    }
    assert make_sandbox(line, folder) == Sandbox(**{**values, **paths})


WRONG = [
    ("", "sandbox: expected a line such as read=.,write=out,net=api.example.com:443, got nothing."),
    ("npm", "sandbox: 'npm' is no preset. Did you mean 'npx'? Presets: npx, uvx, python; a list repeats its key: "),
    ("reed=.", "sandbox.reed: unknown key. Did you mean 'read'?"),
    ("read=", "sandbox.read: expected a file or folder, for example read=. for the current one."),
    ("read=**/.env", "sandbox.read: '**/.env' is a pattern; name a file or a folder, which counts with all in it."),
    ("net=", "sandbox.net: '' is no host, for example"),
    ("net=https://a.b/c", "sandbox.net: 'https://a.b/c' is a URL; name its host and port, for example"),
    ("net=a.b/c", "sandbox.net: 'a.b/c' is a URL; name its host and port, for example"),
    ("net=::1", "sandbox.net: an IPv6 address is in brackets, for example [::1]:443."),
    ("net=a.b:99999", "sandbox.net: 'a.b:99999' has no port from 1 to 65535"),
    ("net=a.b:x", "sandbox.net: 'a.b:x' has no port from 1 to 65535"),
    ("net=a b", "sandbox.net: 'a b' is no host"),
    ("net=300.1.1.1", "sandbox.net: '300.1.1.1' is no host"),
    ("net=0x7f000001", "sandbox.net: '0x7f000001' is no host"),
    ("net=127.0.0x1.:80", "sandbox.net: '127.0.0x1.:80' is no host"),
    ("read,write=out", "sandbox: read needs a value, for example read=.,write=out,net=api.example.com:443."),
    ("memory=lots", "sandbox.memory: expected a size, for example 512M or 2G."),
    ("memory=1G,memory=2G", "sandbox.memory: is there twice."),
    ("processes=0", "sandbox.processes: expected a number above 0, for example 64."),
    ("nosuch.toml", "nosuch.toml"),
    ({"read": 1}, "sandbox.read: expected a list of text, got a number."),
    ({"read": [1]}, "sandbox.read: expected a list of text, got a list."),
    ({"preset": "npm"}, "sandbox.preset: there is no preset 'npm'. Did you mean 'npx'?"),
    ({"backend": "srtt"}, "sandbox.backend: there is no backend 'srtt'. Did you mean 'srt'?"),
    ({"backend": 1}, "sandbox.backend: there is no backend 1. Valid: sandlock, srt."),
    ({"memory": True}, "sandbox.memory: expected a size, for example 512M or 2G."),
    (3, "sandbox: expected a table or a line such as read=.,write=out,net=api.example.com:443, got a number."),
    ({"filesystem": {"allowWrit": ["a"]}}, "sandbox.filesystem.allowWrit: unknown key. Did you mean 'allowWrite'?"),
    (
        {"filesystem": {"allowWrite": ["."], "denyWrite": ["a/b"]}},
        "sandbox.filesystem.denyWrite: 'a/b' is below a fold",
    ),
    ({"filesystem": {"allowRead": ["."], "denyRead": ["~"]}}, "sandbox.filesystem.allowRead: is not supported; write"),
    (
        {"network": {"allowedDomains": ["*"], "deniedDomains": ["a.b"]}},
        "sandbox.network.deniedDomains: 'a.b' cannot be",
    ),
    ({"network": {"allowUnixSockets": ["/s"]}}, "sandbox.network.allowUnixSockets: unknown key."),
    ({"network": []}, None),
    ({"network": ["a"]}, "sandbox.network: expected an object, got a list."),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_a_mistake_says_what_is_valid(value, message, folder):
    if message is None:
        assert make_sandbox(value, folder) == Sandbox(read=("/",))
    else:
        assert message in said(FieldError, make_sandbox, value, folder)


def test_paths_are_absolute_and_without_links(folder, monkeypatch):
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    sandbox = make_sandbox("read=link/x,write=~/out,read=/usr")
    assert sandbox == Sandbox(read=(f"{folder}/real/x", "/usr"), write=(f"{folder}/home/out",))
    assert sandbox.line == "read=real/x,read=/usr,write=home/out"
    monkeypatch.chdir("/")
    assert sandbox.describe() == f"isolated: read {folder}/real/x /usr, write ~/out, net nothing"


def test_a_sandbox_goes_through_its_line_and_its_table(folder, monkeypatch):
    monkeypatch.chdir(folder)
    sandbox = make_sandbox("uvx,read=.,deny=.env,net=a.b:443,net=*,memory=1536K,processes=3")
    assert sandbox is not None
    assert make_sandbox(sandbox.line) == make_sandbox(sandbox.table) == make_sandbox(sandbox) == sandbox
    said_of_it = "isolated: read ., write nothing, not .env, net a.b:443 *, memory 1536K, processes 3, preset uvx"
    assert (sandbox.describe(), repr(sandbox)) == (said_of_it, f"Sandbox({sandbox.line!r})")
    assert (StdioSpec(command="x").isolation, make_sandbox(True).describe()) == (
        "not isolated",
        "isolated: read nothing, write nothing, net nothing",
    )
    assert make_sandbox(False) is None


def test_a_file_has_paths_relative_to_itself(folder):
    (folder / "a").mkdir()
    (folder / "a" / "box.toml").write_text('[sandbox]\nread = ["."]\nnet = ["h:1"]\n')
    (folder / "a" / "srt.json").write_text(json.dumps({"filesystem": {"denyRead": ["k"], "allowWrite": ["."]}}))
    assert make_sandbox("a/box.toml", folder) == Sandbox(read=(f"{folder}/a",), net=("h:1",))
    srt = Sandbox(read=("/",), write=(f"{folder}/a",), deny=(f"{folder}/a/k",))
    assert make_sandbox("a/srt.json", folder) == srt


def test_the_sandbox_of_vscode_is_read(folder, monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    files = {"allowWrite": ["${workspaceFolder}/out"], "denyRead": ["${userHome}/.ssh"], "denyWrite": ["/etc"]}
    net = {"allowedDomains": ["api.example.com", "x.y:1"], "deniedDomains": ["x.y:1"]}
    sandbox = sandbox_of({**X, "sandboxEnabled": True, "sandbox": {"filesystem": files, "network": net}}, folder)
    assert sandbox == Sandbox(
        read=("/",),
        write=(f"{folder}/out", "/h/.npm", str(folder)),
        deny=("/h/.ssh",),
        net=("api.example.com", "registry.npmjs.org"),
    )
    bare = sandbox_of({**X, "sandboxEnabled": True}, folder)
    assert bare == Sandbox(read=("/",), write=("/h/.npm", str(folder)), net=("registry.npmjs.org",))
    document = {"servers": {"x": {**X, "sandboxEnabled": True}, "y": X}, "sandbox": {"network": net}}
    x, y = parse_servers(document, source="mcp.json", environ={"HOME": "/h"}, base=folder)
    assert x.spec.sandbox.net == ("api.example.com", "registry.npmjs.org")
    assert y.spec.sandbox is None
    assert sandbox_of({**X, "sandboxEnabled": False, "sandbox": {"filesystem": files}}, folder) is None
    assert sandbox_of({**X, "sandbox": {"read": ["."]}}, folder) == Sandbox(read=(str(folder),))


def test_a_server_with_other_rights_is_another_server(folder):
    plain, boxed = StdioSpec(command="x"), StdioSpec(command="x", sandbox=Sandbox(net=("h:1",)))
    more = StdioSpec(command="x", sandbox=Sandbox(net=("h:1", "i:1")))
    assert len({plain.identity, boxed.identity, more.identity}) == 3
    assert boxed.isolation == "isolated: read nothing, write nothing, net h:1"


@pytest.mark.parametrize(
    ("line", "preset"),
    [
        ("npx -y a", "npx"),
        (r"C:\node\npx.CMD a", "npx"),
        ("npm exec a", "npx"),
        ("npm start", ""),
        ("/opt/bin/uvx a", "uvx"),
        ("uv tool run a", "uvx"),
        ("uv run a.py", "uvx"),
        ("uv pip list", ""),
        ("python3.12 a.py", "python"),
        ("pypy3 a.py", "python"),
        ("pythonic", ""),
        ("node a.js", ""),
    ],
    ids=str,
)
def test_a_command_has_its_preset_by_itself(line, preset):
    command, *args = line.split()
    assert with_preset(Sandbox(), command, args).preset == ((preset,) if preset else ())
    assert with_preset(Sandbox(preset=("python",)), command, args).preset == ("python",)


def test_a_backend_is_kept_and_told():
    box = make_sandbox("read=/srv,backend=srt")
    assert box is not None
    assert (box.line, box.table) == ("read=/srv,backend=srt", {"read": ["/srv"], "backend": "srt"})
    assert box.describe() == "isolated: read /srv, write nothing, net nothing, by srt"


def test_the_folder_that_the_preset_of_python_reads_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "math.py").touch()
    spec = StdioSpec(command="python", args=("servers/math.py",), sandbox=Sandbox())
    assert spec.isolation == "isolated: read nothing, write nothing, net nothing, preset python (reads servers)"
    assert replace(spec, args=("-m", "servers")).isolation.endswith(", preset python")
    inside = replace(spec, sandbox=Sandbox(read=(str(tmp_path / "servers"),)))
    assert inside.isolation == "isolated: read servers, write nothing, net nothing, preset python"


def test_a_declaration_has_paths_relative_to_its_file(tmp_path):
    sandbox = make_sandbox(f"npx,read={tmp_path},read=/usr,write={tmp_path}/out,net=h:1,memory=2G,processes=4")
    table = sandbox.declaration(tmp_path)
    assert table == {
        "read": [".", "/usr"],
        "write": ["out"],
        "net": ["h:1"],
        "preset": ["npx"],
        "memory": "2G",
        "processes": 4,
    }
    assert make_sandbox(table, tmp_path) == sandbox


def test_the_home_is_called_so_where_it_is_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    sandbox = make_sandbox("read=.,write=out")
    assert sandbox is not None
    assert sandbox.line == "read=~,write=out"
