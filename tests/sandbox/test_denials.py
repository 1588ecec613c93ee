"""What a sandbox refused, by what servers say in their own words, and the line that would allow it."""

from __future__ import annotations

import pytest

from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import ServerExitedError, ToolError
from mcp_magic.sandbox.denials import refusal
from tests.support.listening import listening
from tests.support.processes import PYTHON
from tests.support.sandboxes import BOXED, REPOSITORY, boxed, needs_sandlock


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with `in/file`, `other/file` and `out`; the sandbox reads `in` and writes `out`."""
    for name in ("in", "other", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path.resolve()


def told(text: str, line: str = "read=in,write=out,net=a.example.com:443") -> str:
    return refusal(text, StdioSpec(command="x", sandbox=make_sandbox(line)), "box")


LINE = "read=in,write=out,net=a.example.com:443"
PATHS = [
    ("PermissionError: [Errno 13] Permission denied: 'other/file'", "read other/file"),
    ("Error: EACCES: permission denied, open '{folder}/other/file'", "read other/file"),
    ("Error: EPERM: operation not permitted, mkdir '{folder}/other/new'", "write other"),
    ("PermissionError: [Errno 13] Permission denied: 'new'", "write ."),
    ("PermissionError: [Errno 13] Permission denied: 'in/file'", "write in/file"),
    ("open {folder}/other/file: permission denied", "read other/file"),
    ("cat: {folder}/other/file: Permission denied", "read other/file"),
    ("ls: cannot open directory '{folder}/other': Permission denied", "read other"),
    ("touch: cannot touch '/usr/x': Permission denied", "write /usr"),
]


@pytest.mark.parametrize(("text", "words"), PATHS)
def test_a_refused_path_is_told_with_the_line_that_allows_it(text, words, folder):
    key, path = words.split()
    box = make_sandbox(LINE)
    assert box is not None
    paths = {"read": ["in"], "write": ["out"]}
    paths[key].append(path)
    line = ",".join([f"{k}={p}" for k, values in paths.items() for p in values] + ["net=a.example.com:443"])
    assert told(text.format(folder=folder)) == (
        f"its sandbox does not allow: {words}. `--sandbox {line}` does, or {key} in [servers.box.sandbox]"
    )


HOSTS = [
    ("FetchError: getaddrinfo ENOTFOUND api.b.com", "api.b.com:443"),
    ("getaddrinfo EAI_AGAIN api.b.com:8080", "api.b.com:8080"),
    ("HTTPSConnectionPool(host='api.b.com', port=443): Failed to resolve 'api.b.com'", "api.b.com:443"),
    ("curl: (6) Could not resolve host: api.b.com", "api.b.com:443"),
    ("Cannot connect to host api.b.com:443 ssl:default [Temporary failure in name resolution]", "api.b.com:443"),
    ("dial tcp: lookup api.b.com: no such host", "api.b.com:443"),
    ("Error: connect ECONNREFUSED 127.0.0.1:5432", "127.0.0.1:5432"),
    ("error sending request for url (http://api.b.com:81/x): dns error", "api.b.com:81"),
]


@pytest.mark.parametrize(("text", "target"), HOSTS)
def test_a_refused_host_is_told_with_the_line_that_allows_it(text, target, folder):
    assert told(text) == (
        f"its sandbox does not allow: net {target}. `--sandbox {LINE},net={target}` does, "
        "or net in [servers.box.sandbox]"
    )


UNNAMED = "its sandbox allows net a.example.com:443; if the server wants another host, `net=HOST:PORT` in its --sandbox"


@pytest.mark.parametrize(
    "text", ["[Errno -3] Temporary failure in name resolution", "[Errno 13] Permission denied", "fetch failed"]
)
def test_a_refusal_without_a_name_is_told_all_the_same(text, folder):
    assert told(text).startswith(UNNAMED)
    assert told(text, "net=*") == ""


OTHERS = [
    "ValueError: no such table: x",
    "PermissionError: [Errno 13] Permission denied: 'out/file'",  # the sandbox allows it
    "getaddrinfo ENOTFOUND a.example.com",
    "",
]


@pytest.mark.parametrize("text", OTHERS)
def test_what_the_sandbox_allows_is_not_laid_on_it(text, folder):
    assert told(text, f"{LINE},net=*") == ""
    assert refusal(text, StdioSpec(command="x"), "box") == ""


def test_a_module_that_is_not_found_is_no_host():
    spec = StdioSpec(command="x", sandbox=make_sandbox("write=out"))
    assert refusal("ModuleNotFoundError: No module named 'mcp'", spec, "box") == ""
    assert "net" in refusal("getaddrinfo ENOTFOUND api.example.com", spec, "box")


def test_a_text_of_a_stranger_is_bounded(folder):
    many = "\n".join(f"Permission denied: '{folder}/other/{n}'" for n in range(10_000))
    assert told(many).count("write other") == 1
    odd = "Permission denied: '/x`y\nz' '/a,b' 'a b'"
    assert "x`y" not in told(odd)


@needs_sandlock
async def test_a_call_that_was_refused_says_what_would_allow_it(host, folder):
    connection = await host.connect(BOXED, name="box", sandbox=boxed("read=in"))
    with pytest.raises(ToolError) as raised:
        await connection.call("read", path="other/file")
    assert str(raised.value).splitlines() == [
        "box:read failed: [Errno 13] Permission denied: 'other/file'",
        f"  its sandbox does not allow: read other/file. `--sandbox read={REPOSITORY},read=in,read=other/file` does, "
        "or read in [servers.box.sandbox]",
    ]
    with (
        listening() as listener,
        pytest.raises(ToolError, match=r"its sandbox allows net nothing; if the server wants"),
    ):
        await connection.call("connect", host="127.0.0.1", port=int(listener.url.rpartition(":")[2]))


@needs_sandlock
async def test_a_start_that_was_refused_says_what_would_allow_it(host, folder):
    with pytest.raises(ServerExitedError) as raised:
        await host.connect([PYTHON, "-c", "open('other/file')"], name="box", sandbox="read=in")
    assert "its sandbox does not allow: read other/file. `--sandbox read=in,read=other/file` does" in str(raised.value)


@pytest.mark.parametrize("word", ["{folder}/other,net=*,write=~", "{folder}/other:/root"])
def test_a_server_adds_no_words_to_the_line(word, folder):
    text = f"PermissionError: [Errno 13] Permission denied: '{word.format(folder=folder)}'"
    assert "net=*" not in told(text)
    assert "/root" not in told(text)
