"""Runtime files of kernels that serve: what is trusted, what is deleted, and what an attacker cannot bring about."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from contextlib import closing
from dataclasses import asdict, replace

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.loopback import listen
from mcp_magic.outside import runtime
from mcp_magic.outside.runtime import announce, is_current, running_kernels, token_of, withdraw
from tests.support.processes import PYTHON

TOKEN = "t" * 43
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file another user's")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the runtime files."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime" / "mcp_magic"


@pytest.fixture
def port():
    with closing(listen()) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def kernel(port, folder, tmp_path):
    """This process, as if it were a kernel that serves."""
    running = announced(port, tmp_path)
    secret = folder / f"kernel-{port}.token"
    secret.touch(0o600)
    secret.write_text(TOKEN)
    return running


def announced(port, place):
    return announce(port, folder=place, notebook="a.ipynb", kernel="k-1", started="2026-01-02T03:04:05.678")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_kernel_is_there_until_it_withdraws(kernel, port, folder):
    assert running_kernels() == [kernel]
    assert is_current(kernel)
    assert token_of(kernel) == TOKEN
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600, 0o600]
    assert names(folder) == [f"kernel-{port}.json", f"kernel-{port}.token"]
    assert TOKEN not in (folder / f"kernel-{port}.json").read_text()
    withdraw(kernel)
    withdraw(kernel)
    assert names(folder) == []
    assert (running_kernels(), is_current(kernel), token_of(kernel)) == ([], False, None)


def test_kernel_that_serves_anew_is_another(kernel, port, tmp_path):
    again = announce(port, folder=tmp_path, notebook="a.ipynb", kernel="k-1", started="2026-01-02T03:04:06.000")
    assert running_kernels() == [again]
    assert not is_current(kernel)


def test_words_name_a_kernel(kernel, port, tmp_path):
    named = ("a.ipynb", "a", str(tmp_path / "a.ipynb"), str(port))
    assert [kernel.matches(word) for word in named] == [True] * 4
    assert [kernel.matches(word) for word in ("", "b", "k-1", ".ipynb", "A", "..")] == [False] * 6
    assert replace(kernel, kernel="12345678-90").matches("123456")
    assert not replace(kernel, notebook="").matches("")


def rewrite(kernel, files, **changes):
    (files / f"kernel-{kernel.port}.json").write_text(json.dumps(asdict(kernel) | changes))


@pytest.mark.parametrize("case", ["ended", "reused", "closed"])
def test_what_an_ended_kernel_has_left_is_deleted(kernel, port, folder, case):
    if case == "ended":
        with subprocess.Popen([PYTHON, "-c", ""]) as program:
            pass
        rewrite(kernel, folder, pid=program.pid)
    elif case == "reused":
        rewrite(kernel, folder, began="1")
    else:
        socket.create_connection(("127.0.0.1", port)).close()
        with closing(socket.socket()) as other:
            other.bind(("127.0.0.1", 0))
            free = other.getsockname()[1]
        folder.joinpath(f"kernel-{port}.json").rename(folder / f"kernel-{free}.json")
        folder.joinpath(f"kernel-{port}.token").rename(folder / f"kernel-{free}.token")
        rewrite(replace(kernel, port=free), folder)
    assert running_kernels() == []
    assert names(folder) == []


def test_kernel_too_busy_to_accept_a_connection_is_left_alone(kernel, folder, monkeypatch):
    def late(*args, **options):
        raise TimeoutError

    before = names(folder)
    monkeypatch.setattr(socket, "create_connection", late)
    assert running_kernels() == [kernel]
    assert names(folder) == before


def test_folder_that_is_deleted_meanwhile_has_no_kernels(kernel, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda folder: (_ for _ in ()).throw(FileNotFoundError(folder)))
    assert running_kernels() == []


def test_file_of_another_machine_is_left_alone(kernel, folder):
    rewrite(kernel, folder, machine="other", pid=4_000_000)
    before = names(folder)
    assert running_kernels() == []
    assert names(folder) == before


def test_files_of_a_parent_stay_when_its_child_withdraws(kernel, folder):
    before = names(folder)
    withdraw(replace(kernel, pid=os.getppid()))
    assert names(folder) == before


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "{", "[" * 100_000, '"' + "x" * 100_000 + '"', "\x00", "NaN"),
        *({"port": 1}, {"port": "1"}, {"port": True}, {"pid": "1"}, {"pid": -1}, {"pid": 0}, {"pid": 2**70}),
        *({"folder": None}, {"folder": {}}, {"began": 1}, {"machine": []}),
    ],
    ids=lambda text: str(text)[:30],
)
def test_file_that_says_something_else_does_not_count(kernel, port, folder, text):
    if isinstance(text, dict):
        rewrite(kernel, folder, **text)
    else:
        (folder / f"kernel-{port}.json").write_text(text)
    assert running_kernels() == []
    assert not is_current(kernel)


@pytest.mark.parametrize(
    "name", ["kernel-0.json", "kernel-99999.json", "kernel-1.json.bak", "kernel-.json", "kernel-..json", "x.json"]
)
def test_name_leads_to_no_other_file(kernel, port, folder, name):
    folder.joinpath(f"kernel-{port}.json").rename(folder / name)
    assert running_kernels() == []


def open_to_others(path):
    path.chmod(0o644)


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def folder_instead(path):
    path.unlink()
    path.mkdir(0o700)


def another_users(path):
    os.chown(path, 12345, -1)


ATTACKS = [open_to_others, link, pipe, folder_instead, pytest.param(another_users, marks=as_root)]


@pytest.mark.parametrize("attack", ATTACKS)
def test_only_a_private_file_of_this_user_counts(kernel, port, folder, attack):
    attack(folder / f"kernel-{port}.json")
    assert running_kernels() == []
    assert not is_current(kernel)


@pytest.mark.parametrize("attack", ATTACKS)
def test_only_a_private_token_of_this_user_counts(kernel, port, folder, attack):
    attack(folder / f"kernel-{port}.token")
    assert token_of(kernel) is None


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc tells the file descriptors")  # noqa: PTH112
def test_folder_among_the_files_hides_no_kernel(kernel, folder):
    (folder / "kernel-1.json").mkdir(0o700)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert [running_kernels() for _ in range(3)] == [[kernel]] * 3
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert "kernel-1.json" in names(folder)


@pytest.mark.parametrize("attack", [*ATTACKS[:2], ATTACKS[-1]])
def test_folder_of_another_or_open_to_others_does_not_count(kernel, folder, attack):
    attack(folder)
    assert (running_kernels(), token_of(kernel)) == ([], None)


@pytest.mark.parametrize("attack", [link, pytest.param(another_users, marks=as_root)])
def test_nothing_is_written_into_a_folder_of_another(kernel, folder, tmp_path, attack):
    attack(folder)
    with pytest.raises(ConfigError, match="JUPYTER_RUNTIME_DIR in the environment names another place"):
        announced(1, tmp_path)


def test_own_folder_is_closed_before_it_is_used(kernel, port, folder, tmp_path):
    folder.chmod(0o755)
    announced(port, tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_link_in_the_place_of_a_file_is_replaced(folder, port, tmp_path):
    runtime.private_folder()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (folder / f"kernel-{port}.json").symlink_to(mine)
    announced(port, tmp_path)
    assert mine.read_text() == "mine"
    assert len(running_kernels()) == 1


@as_root
def test_process_of_another_user_is_no_kernel():
    command = [PYTHON, "-c", "import os, sys; os.setuid(12345); print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        assert runtime.began_at(program.pid) is None
        assert program.stdin is not None
        program.stdin.close()
    assert runtime.began_at(os.getpid())
