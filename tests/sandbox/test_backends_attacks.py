"""A server that tries to get out of its sandbox: what is refused, and what no sandbox here stops."""

from __future__ import annotations

import json
import os
import platform
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import PYTHON
from tests.support.sandboxes import REPOSITORY, needs_sandlock

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTACKING = [PYTHON, str(REPOSITORY / "tests" / "support" / "attacking_server.py")]

pytestmark = [
    needs_sandlock,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the attacks have the system calls of x86-64"),
]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A home with a key, folders inside and outside of the sandbox, and sockets of others."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory()))  # short: a socket has 108 characters for its path
        at = SimpleNamespace(kernel=os.getpid(), secret="s3cr3t-of-the-kernel", abstract=f"attack-{os.getpid()}")
        monkeypatch.setenv("SECRET_OF_THE_KERNEL", at.secret)
        for name in ("home", "inside", "outside", "readable"):
            (root / name).mkdir()
            setattr(at, name, str(root / name))
        key = root / "home" / ".ssh" / "id"
        key.parent.mkdir()
        key.write_text("the key")
        key.chmod(0o600)
        at.key = str(key)
        (root / "readable" / "data").write_text("data")
        (root / "inside" / "planted").symlink_to(key)
        monkeypatch.setenv("HOME", at.home)
        monkeypatch.chdir(root)
        at.memory = f"attack-{os.getpid()}"
        shared = Path("/dev/shm", at.memory)
        shared.write_text("shared")
        stack.callback(shared.unlink)
        at.port, at.allowed = (stack.enter_context(_tcp()) for _ in range(2))
        at.socket = stack.enter_context(_unix(f"{at.outside}/docker.sock"))
        at.readable_socket = stack.enter_context(_unix(f"{at.readable}/agent.sock"))
        at.friend = stack.enter_context(_unix(f"{at.inside}/friend.sock", key))
        stack.enter_context(_unix(f"\0{at.abstract}"))
        yield at


@contextmanager
def _tcp() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def _unix(address: str, gift: Path | None = None) -> Iterator[str]:
    """Listen on a socket of this machine; with a gift, hand it open to whoever connects first."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        if gift is not None:
            threading.Thread(target=_hand_over, args=(listener, gift), daemon=True).start()
        yield address


def _hand_over(listener: socket.socket, gift: Path) -> None:
    with suppress(OSError):  # nobody came, and the listener is closed
        connection, _ = listener.accept()
        with connection, gift.open() as file:
            socket.send_fds(connection, [b"x"], [file.fileno()])


async def attacker(host: Any, at: Any, *more: str) -> Any:
    """Connect the server with the rights that its attacks go beyond."""
    words = (f"read={REPOSITORY}", f"read={at.readable}", f"write={at.inside}", f"net=127.0.0.1:{at.allowed}")
    return await host.connect(ATTACKING, name="attacker", sandbox=",".join((*words, *more)))


async def outcomes(connection: Any, at: Any, *attacks: str) -> dict[str, str]:
    """Return what each attack achieved."""
    places = json.dumps(vars(at))
    return {name: (await connection.call("attempt", attack=name, places=places)).text for name in attacks}


def successes(outcomes: dict[str, str]) -> dict[str, str]:
    """Return the attacks that were not refused."""
    return {name: text for name, text in outcomes.items() if not text.startswith("refused: E")}


FILES = (
    *("read_a_key", "list_the_home", "read_through_a_link_made_inside", "read_through_a_link_that_was_there"),
    *("write_through_a_link", "read_below_an_open_folder", "open_a_path_again_as_a_file", "write_outside"),
    *("read_through_its_own_root", "write_what_it_may_read", "write_to_the_shared_folder", "remove_the_key"),
    *("write_through_a_hard_link", "read_through_a_hard_link", "link_to_the_outside", "move_to_the_outside"),
    *("move_the_key_inside", "empty_the_key", "read_shared_memory", "write_shared_memory", "mark_a_file"),
    *("make_memory_of_system_v", "give_a_key_to_another"),
)
PROCESSES = (
    *("count_foreign_files_that_are_open", "find_a_secret_in_its_variables"),
    *("read_the_variables_of_the_kernel", "read_the_variables_of_the_launcher", "read_the_command_of_the_kernel"),
    *("read_the_command_through_a_link", "read_the_command_from_a_folder", "read_the_memory_of_the_kernel"),
    *("read_a_key_through_the_root_of_the_kernel", "list_what_the_kernel_has_open", "trace_the_kernel"),
    *("read_from_the_process_of_the_kernel", "signal_the_kernel", "signal_the_launcher", "slow_the_kernel"),
    *("take_a_file_of_the_kernel", "bind_the_kernel_to_a_processor"),
)
NETWORK = (
    *("connect_to_another_port", "connect_by_another_name_of_the_machine", "connect_by_a_mapped_address"),
    *("connect_to_another_host", "connect_by_another_protocol", "connect_with_the_first_bytes", "send_a_datagram"),
    *("ask_for_a_name", "open_a_raw_socket", "open_a_packet_socket", "watch_the_audit", "listen_on_a_port"),
    *("listen_without_a_port", "connect_to_a_socket_outside", "connect_to_a_socket_that_it_may_read"),
    *("connect_to_a_socket_through_a_link", "connect_to_an_abstract_socket"),
)
SYSTEM = (
    *("type_into_the_terminal", "type_into_stdin", "set_up_a_ring", "make_a_namespace", "mount", "change_the_root"),
    *("load_a_program_into_the_system", "read_the_keyring", "open_a_file_by_its_handle", "fault_in_user_space"),
    *("set_the_clock", "read_the_log_of_the_system", "raise_its_worth_for_the_system"),
)
CHILDREN = ("read_a_key_by_a_child", "read_the_command_by_a_child", "connect_by_a_child")


async def test_a_server_does_not_get_out_of_its_sandbox(host, places):
    connection = await attacker(host, places)
    achieved = await outcomes(connection, places, *PROCESSES, *FILES, *NETWORK, *SYSTEM)
    assert successes(achieved) == {}
    achieved = await outcomes(connection, places, *CHILDREN)
    assert set(achieved.values()) == {"refused: CalledProcessError"}
    achieved = await outcomes(connection, places, "connect_where_it_may")  # the attacks themselves work
    assert achieved == {"connect_where_it_may": "did it: 'connected to 127.0.0.1'"}
    assert Path(places.key).read_text() == "the key"
    assert {path.name for path in Path(places.outside).iterdir()} == {"docker.sock"}


async def test_a_server_without_hosts_reaches_none(host, places):
    connection = await host.connect(ATTACKING, name="attacker", sandbox=f"read={REPOSITORY},write={places.inside}")
    achieved = await outcomes(connection, places, *NETWORK, "connect_where_it_may")
    assert successes(achieved) == {}
    assert await outcomes(connection, places, "connect_by_a_child") == {
        "connect_by_a_child": "refused: CalledProcessError"
    }


async def test_without_a_sandbox_the_attacks_succeed(host, places):
    connection = await host.connect(ATTACKING, name="attacker")
    attacks = ("read_a_key", "read_through_a_link_made_inside", "connect_to_another_port", "listen_on_a_port")
    attacks += ("read_the_command_of_the_kernel", "connect_to_an_abstract_socket", "change_the_rights_of_a_key")
    achieved = await outcomes(connection, places, *attacks)
    assert successes(achieved) == achieved


async def test_bombs_hit_the_limits_of_the_sandbox(host, places):
    connection = await attacker(host, places, "processes=10")
    for bomb in ("fork_much", "fork_much_by_number"):
        assert await outcomes(connection, places, bomb) == {bomb: "refused: EAGAIN"}


async def test_a_server_that_writes_nothing_changes_no_rights(host, places):
    sandbox = f"read={REPOSITORY},read={places.readable}"
    connection = await host.connect(ATTACKING, name="attacker", sandbox=sandbox)
    achieved = await outcomes(connection, places, "change_the_rights_of_a_key", "change_the_time_of_a_key")
    assert successes(achieved) == {}
    assert Path(places.key).stat().st_mode & 0o777 == 0o600


async def test_what_the_sandbox_does_not_stop(host, places):
    """docs/sandbox.md names them: metadata, and a friend outside who shares a folder."""
    connection = await attacker(host, places)
    attacks = ("see_the_size_of_a_key", "change_the_rights_of_a_key", "watch_the_home")
    achieved = await outcomes(connection, places, *attacks, "take_a_file_that_a_friend_hands_over")
    assert successes(achieved) == achieved
    assert achieved["take_a_file_that_a_friend_hands_over"] == "did it: b'the key'"
