"""A stdio server that tries to get out of its sandbox, each way as a tool; it answers `refused` or with what it did."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Callable

server = Plain("attacking")
libc = ctypes.CDLL(None, use_errno=True)
ATTACKS: dict[str, Callable[..., Any]] = {}

CONNECT_SECONDS = 5


class Places:
    """Where things are, as attributes: `home`, `inside`, `outside`, `readable`, `kernel`, `port` and others."""

    def __init__(self, places: dict[str, Any]) -> None:
        self.__dict__ |= places

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def attack(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Offer a function as an attack."""
    ATTACKS[function.__name__] = function
    return function


@server.tool
def attempt(attack: str, places: str) -> str:
    """Make an attack; answer `refused`, or with what it did."""
    try:
        return f"did it: {ATTACKS[attack](Places(json.loads(places)))!r}"[:200]
    except (OSError, MemoryError, subprocess.CalledProcessError) as error:
        number = getattr(error, "errno", None)
        return f"refused: {errno.errorcode.get(number or 0, type(error).__name__)}"


def system_call(number: int, *arguments: Any) -> int:
    """Call the kernel, on x86-64, by number."""
    result: int = libc.syscall(number, *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def child(*command: str) -> str:
    """Run a command as a child; return what it prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Files.


@attack
def read_a_key(at: Any) -> str:
    return Path(at.key).read_text()


@attack
def read_a_key_by_a_child(at: Any) -> str:
    return child("cat", at.key)


@attack
def list_the_home(at: Any) -> list[str]:
    return [path.name for path in Path(at.home).iterdir()]


@attack
def read_through_a_link_made_inside(at: Any) -> str:
    link = Path(at.inside, "to_key")
    link.symlink_to(at.key)
    return link.read_text()


@attack
def read_through_a_link_that_was_there(at: Any) -> str:
    return Path(at.inside, "planted").read_text()


@attack
def write_through_a_link(at: Any) -> int:
    link = Path(at.inside, "to_new")
    link.symlink_to(Path(at.outside, "new"))
    return link.write_text("x")


@attack
def read_below_an_open_folder(at: Any) -> bytes:
    home = os.open(at.home, os.O_PATH)
    return os.read(os.open(os.path.relpath(at.key, at.home), os.O_RDONLY, dir_fd=home), 100)


@attack
def open_a_path_again_as_a_file(at: Any) -> str:
    return Path(f"/proc/self/fd/{os.open(at.key, os.O_PATH)}").read_text()


@attack
def read_through_its_own_root(at: Any) -> str:
    return Path(f"/proc/self/root{at.key}").read_text()


@attack
def write_outside(at: Any) -> int:
    return Path(at.outside, "new").write_text("x")


@attack
def write_what_it_may_read(at: Any) -> int:
    return Path(at.readable, "data").write_text("x")


@attack
def write_to_the_shared_folder(at: Any) -> int:
    return Path("/tmp/mcp_magic_attack").write_text("x")


@attack
def write_through_a_hard_link(at: Any) -> int:
    link = Path(at.inside, "hard")
    link.hardlink_to(Path(at.readable, "data"))
    return link.write_text("x")


@attack
def read_through_a_hard_link(at: Any) -> str:
    link = Path(at.inside, "hard_key")
    link.hardlink_to(at.key)
    return link.read_text()


@attack
def link_to_the_outside(at: Any) -> None:
    Path(at.inside, "mine").write_text("x")
    Path(at.outside, "hard").hardlink_to(Path(at.inside, "mine"))


@attack
def move_to_the_outside(at: Any) -> None:
    Path(at.inside, "moved").write_text("x")
    Path(at.inside, "moved").rename(Path(at.outside, "moved"))


@attack
def move_the_key_inside(at: Any) -> None:
    Path(at.key).parent.rename(Path(at.inside, "keys"))


@attack
def remove_the_key(at: Any) -> None:
    Path(at.key).unlink()


@attack
def empty_the_key(at: Any) -> None:
    os.truncate(at.key, 0)


@attack
def read_shared_memory(at: Any) -> str:
    return Path("/dev/shm", at.memory).read_text()


@attack
def write_shared_memory(at: Any) -> int:
    return Path(f"/dev/shm/attack{os.getpid()}").write_text("x")


@attack
def make_memory_of_system_v(at: Any) -> int:
    return system_call(29, 4711, 4096, 0o1666)


@attack
def change_the_rights_of_a_key(at: Any) -> None:
    Path(at.key).chmod(0o777)


@attack
def give_a_key_to_another(at: Any) -> None:
    os.chown(at.key, os.getuid(), os.getgid())


@attack
def mark_a_file(at: Any) -> None:
    os.setxattr(at.key, "user.attack", b"x")


@attack
def see_the_size_of_a_key(at: Any) -> int:
    return Path(at.key).stat().st_size


@attack
def change_the_time_of_a_key(at: Any) -> None:
    os.utime(at.key, (1, 1))


# Processes.


@attack
def read_the_variables_of_the_kernel(at: Any) -> bytes:
    return Path(f"/proc/{at.kernel}/environ").read_bytes()


@attack
def read_the_variables_of_the_launcher(at: Any) -> bytes:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


@attack
def read_the_command_of_the_kernel(at: Any) -> bytes:
    return Path(f"/proc/{at.kernel}/cmdline").read_bytes()


@attack
def read_the_command_through_a_link(at: Any) -> bytes:
    link = Path(at.inside, "to_command")
    link.symlink_to(f"/proc/{at.kernel}/cmdline")
    return link.read_bytes()


@attack
def read_the_command_from_a_folder(at: Any) -> bytes:
    folder = os.open("/proc", os.O_PATH)
    return os.read(os.open(f"{at.kernel}/cmdline", os.O_RDONLY, dir_fd=folder), 100)


@attack
def read_the_command_by_a_child(at: Any) -> str:
    return child("cat", f"/proc/{at.kernel}/cmdline")


@attack
def read_the_memory_of_the_kernel(at: Any) -> int:
    return len(Path(f"/proc/{at.kernel}/mem").read_bytes())


@attack
def read_a_key_through_the_root_of_the_kernel(at: Any) -> str:
    return Path(f"/proc/{at.kernel}/root{at.key}").read_text()


@attack
def list_what_the_kernel_has_open(at: Any) -> list[str]:
    return [path.name for path in Path(f"/proc/{at.kernel}/fd").iterdir()]


@attack
def trace_the_kernel(at: Any) -> int:
    return system_call(101, 16, at.kernel, 0, 0)


@attack
def read_from_the_process_of_the_kernel(at: Any) -> int:
    target = ctypes.create_string_buffer(8)
    place = (ctypes.c_void_p * 2)(ctypes.cast(target, ctypes.c_void_p), 8)
    return system_call(310, at.kernel, place, 1, place, 1, 0)


@attack
def signal_the_kernel(at: Any) -> None:
    os.kill(at.kernel, 0)


@attack
def signal_the_launcher(at: Any) -> None:
    os.kill(os.getppid(), 0)


@attack
def take_a_file_of_the_kernel(at: Any) -> int:
    return system_call(438, os.pidfd_open(at.kernel), 0, 0)


@attack
def slow_the_kernel(at: Any) -> None:
    os.setpriority(os.PRIO_PROCESS, at.kernel, os.getpriority(os.PRIO_PROCESS, at.kernel))


@attack
def bind_the_kernel_to_a_processor(at: Any) -> None:
    os.sched_setaffinity(at.kernel, os.sched_getaffinity(0))


@attack
def count_foreign_files_that_are_open(at: Any) -> int:
    """Raises PermissionError if nothing but stdin, stdout and stderr came with the start."""
    numbers = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    foreign = [number for number in numbers - {0, 1, 2} if Path(f"/proc/self/fd/{number}").exists()]
    if not foreign:
        raise PermissionError(errno.EPERM, "none")
    return len(foreign)


@attack
def find_a_secret_in_its_variables(at: Any) -> list[str]:
    secrets = [name for name, value in os.environ.items() if at.secret in value]
    if not secrets:
        raise PermissionError(errno.EPERM, "none")
    return secrets


# The network.


def _connect(host: str, port: int, family: int = socket.AF_INET, protocol: int = 0) -> str:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as opened:
        opened.settimeout(CONNECT_SECONDS)
        opened.connect((host, port))
    return f"connected to {host}"


@attack
def connect_where_it_may(at: Any) -> str:
    return _connect("127.0.0.1", at.allowed)


@attack
def connect_to_another_port(at: Any) -> str:
    return _connect("127.0.0.1", at.port)


@attack
def connect_by_another_name_of_the_machine(at: Any) -> str:
    return _connect("0.0.0.0", at.port)


@attack
def connect_by_a_mapped_address(at: Any) -> str:
    return _connect("::ffff:127.0.0.1", at.port, socket.AF_INET6)


@attack
def connect_to_another_host(at: Any) -> str:
    return _connect("192.0.2.1", 443)


@attack
def connect_by_a_child(at: Any) -> str:
    return child("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{at.port} && echo connected")


@attack
def connect_by_another_protocol(at: Any) -> str:
    return _connect("127.0.0.1", at.port, protocol=262)  # multipath TCP


@attack
def connect_with_the_first_bytes(at: Any) -> int:
    with socket.socket() as opened:
        return opened.sendto(b"x", 0x20000000, ("127.0.0.1", at.port))  # MSG_FASTOPEN


@attack
def send_a_datagram(at: Any) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        return opened.sendto(b"x", ("127.0.0.1", at.port))


@attack
def ask_for_a_name(at: Any) -> Any:
    try:
        return socket.getaddrinfo("the-key-is-4711.example.com", 443)
    except socket.gaierror as error:
        raise PermissionError(errno.EPERM, str(error)) from None


@attack
def open_a_raw_socket(at: Any) -> str:
    return str(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))


@attack
def open_a_packet_socket(at: Any) -> str:
    return str(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))


@attack
def watch_the_audit(at: Any) -> str:
    return str(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))


@attack
def listen_on_a_port(at: Any) -> str:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        return str(opened.getsockname())


@attack
def listen_without_a_port(at: Any) -> str:
    with socket.socket() as opened:
        opened.listen()  # the system chooses a port, on all addresses
        return str(opened.getsockname())


# Sockets of the machine.


def _meet(address: str, kind: int = socket.SOCK_STREAM) -> str:
    with socket.socket(socket.AF_UNIX, kind) as opened:
        opened.settimeout(CONNECT_SECONDS)
        opened.connect(address)
    return "connected"


@attack
def connect_to_a_socket_outside(at: Any) -> str:
    return _meet(at.socket)


@attack
def connect_to_a_socket_that_it_may_read(at: Any) -> str:
    return _meet(at.readable_socket)


@attack
def connect_to_a_socket_through_a_link(at: Any) -> str:
    link = Path(at.inside, "to_socket")
    link.symlink_to(at.socket)
    return _meet(str(link))


@attack
def connect_to_an_abstract_socket(at: Any) -> str:
    return _meet(f"\0{at.abstract}")


@attack
def take_a_file_that_a_friend_hands_over(at: Any) -> bytes:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.settimeout(CONNECT_SECONDS)
        opened.connect(at.friend)
        _, files, _, _ = socket.recv_fds(opened, 1, 1)
    return os.read(files[0], 100)


# Doors of the system, by their numbers on x86-64.


@attack
def type_into_the_terminal(at: Any) -> None:
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCSTI, b"x")


@attack
def type_into_stdin(at: Any) -> None:
    fcntl.ioctl(0, termios.TIOCSTI, b"x")


@attack
def set_up_a_ring(at: Any) -> int:
    return system_call(425, 2, ctypes.create_string_buffer(200))


@attack
def make_a_namespace(at: Any) -> int:
    return system_call(272, 0x10000000)


@attack
def mount(at: Any) -> int:
    return system_call(165, b"none", at.inside.encode(), b"tmpfs", 0, None)


@attack
def change_the_root(at: Any) -> None:
    os.chroot(at.inside)


@attack
def load_a_program_into_the_system(at: Any) -> int:
    return system_call(321, 0, 0, 0)


@attack
def read_the_keyring(at: Any) -> int:
    return system_call(250, 0, -3, 0, 0, 0)


@attack
def open_a_file_by_its_handle(at: Any) -> int:
    return system_call(304, -100, 0, 0)


@attack
def fault_in_user_space(at: Any) -> int:
    return system_call(323, 0)


@attack
def set_the_clock(at: Any) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time())


@attack
def read_the_log_of_the_system(at: Any) -> int:
    return system_call(103, 3, ctypes.create_string_buffer(100), 100)


@attack
def raise_its_worth_for_the_system(at: Any) -> int:
    return Path("/proc/self/oom_score_adj").write_text("-1000")


@attack
def watch_the_home(at: Any) -> int:
    return system_call(254, system_call(294, 0), at.home.encode(), 0xFFF)


# Bombs.


@attack
def fork_much(at: Any) -> int:
    return _fork(os.fork)


@attack
def fork_much_by_number(at: Any) -> int:
    return _fork(lambda: system_call(57))


def _fork(fork: Callable[[], int]) -> int:
    children: list[int] = []
    try:
        while len(children) < 50:
            process = fork()
            if process == 0:
                threading.Event().wait(60)
                os._exit(0)
            children.append(process)
        return len(children)
    finally:
        for process in children:
            os.kill(process, 9)
            os.waitpid(process, 0)


if __name__ == "__main__":
    server.run()
