"""`observe.py FOLDER -- COMMAND...`: runs a command on our own stdio, and logs the files, hosts and programs it uses.

Nothing is restricted. Linux stops the command at each system call of a table (seccomp's user notifications, 5.6 and
newer, without root) until this process has read its arguments and lets it go on. Each line of `FOLDER/log` is
`[moment, kind, target, count]` as JSON, of the kinds `read`, `write`, `host`, `program` and `remark`. The moment is a
number in `FOLDER/moment`, which the host counts up when a call begins and when it ends. Since the command waits
meanwhile, it is exact. A target has one line in a moment, with a second one if it was used again, and their number has
limits.

sandlock is not used for this: its supervisor makes connections on behalf of the command, so that its handlers are not
told of them; `run_with_handlers` keeps the output of the command; and it always replaces /etc/hosts and refuses a list
of system calls. A server that is observed should run as it otherwise does.

It is no guard: a program with several threads can change an argument after it was read. io_uring, by which a program
opens and connects without system calls, is answered as by a kernel that does not have it.

The host starts this file as a program (`python -I -S`), and it imports nothing of the package, so that a server starts
some 40 ms later, and not a second.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import json
import mmap
import os
import re
import select
import signal
import socket
import struct
import sys
import warnings
from collections import OrderedDict

TYPE_CHECKING = False  # `typing` takes 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    Handle = Callable[["Observer", int, Sequence[int]], None]

# What Linux calls things: <linux/seccomp.h>, <linux/audit.h>, <linux/prctl.h>

CONVENTIONS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine -> the number of the convention of its system calls. Those of another convention are not seen."""

_SECCOMP = {"x86_64": 317, "aarch64": 277}  # it has no function in the C library
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104  # ioctls of the listener
_NOTIFICATION = struct.Struct("<QII iIQ 6Q")  # id, pid, flags; number, convention, instruction pointer, arguments
_ANSWER = struct.Struct("<QqiI")  # id, value, error, flags
_CONTINUE, _NEW_LISTENER, _FULL_SPEED, _SET_FILTER = 1, 8, 4, 1
_ALLOW, _NOTIFY, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.ENOSYS
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _SUBREAPER = 1, 38, 36  # of prctl
_GET_FD = 438  # pidfd_getfd

_HERE = -100  # AT_FDCWD
_PATH_ONLY = 0o10000000  # O_PATH: a place that other calls begin at
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Limits

PATH_BYTES = 4096
ENTRIES = 5_000  # different targets of a kind in one moment
LOG_BYTES = 4_000_000  # of one kind: a server that opens a million files must not hide where it connects
NAMES = 10_000  # addresses whose name is remembered
PACKET = 4096  # most bytes of a DNS message
MESSAGES = 8  # most messages of one `sendmmsg`
IDLE = 50  # milliseconds after which counts are written

FAILED = 126  # exit status where the command cannot be observed

NAME_PORTS = (53, 5353)

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Log:
    """Writes what was used in the file of the host."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        shared = os.open(f"{folder}/moment", os.O_RDONLY | os.O_CLOEXEC)
        self._shared = mmap.mmap(shared, 8, prot=mmap.PROT_READ)
        os.close(shared)
        self._moment = -1
        self._counts: dict[tuple[str, bytes], int] = {}
        self._shown: dict[tuple[str, bytes], bytes] = {}
        self._again: set[tuple[str, bytes]] = set()  # used since their last line
        self._entries: dict[str, int] = {}  # kind -> number of entries
        self._sizes: dict[str, int] = {}  # kind -> bytes in the file

    @property
    def is_behind(self) -> bool:
        """Whether the file lacks counts."""
        return bool(self._again)

    def begin(self) -> None:
        """Take notice of the moment."""
        moment = int.from_bytes(self._shared[:8], "little")
        if moment != self._moment:
            self.flush()
            self._moment, self._counts, self._shown, self._entries = moment, {}, {}, {}

    def has(self, kind: str, key: bytes) -> bool:
        """Count a use of something that is in the log, or left out of it; return whether it is."""
        if (kind, key) not in self._counts:
            return False
        self._counts[kind, key] += 1
        if (kind, key) in self._shown:
            self._again.add((kind, key))
        return True

    def add(self, kind: str, key: bytes, shown: bytes | None) -> None:
        """Add something that is shown as `shown`; None leaves it out, and whatever has this key."""
        number = self._entries[kind] = self._entries.get(kind, 0) + 1
        if number > ENTRIES:
            if number == ENTRIES + 1:
                self.remark(f"it used more than {ENTRIES:,} different ones of the kind {kind} at once")
            return
        self._counts[kind, key] = 1
        if shown is not None:
            self._shown[kind, key] = shown
            self._write(kind, key)

    def use(self, kind: str, target: str) -> None:
        """Add or count a target that is shown as it is."""
        key = target.encode()
        if not self.has(kind, key):
            self.add(kind, key, key)

    def remark(self, text: str) -> None:
        """Add a remark."""
        self.use("remark", text)

    def flush(self) -> None:
        """Write the counts that the file lacks."""
        again, self._again = self._again, set()
        for kind, key in again:
            self._write(kind, key)

    def _write(self, kind: str, key: bytes) -> None:
        line = json.dumps([self._moment, kind, os.fsdecode(self._shown[kind, key]), self._counts[kind, key]])
        size = self._sizes[kind] = self._sizes.get(kind, 0) + len(line) + 1
        if size > LOG_BYTES:
            if size - len(line) - 1 <= LOG_BYTES and kind != "remark":
                self.remark(f"the log of the kind {kind} is full: it lacks what comes after")
            return
        with contextlib.suppress(OSError):  # the host has gone, or the disk is full
            os.write(self._file, line.encode() + b"\n")


# Names of addresses: a connect has an address only.


def read_names(packet: bytes) -> tuple[list[str], list[str]]:
    """Return the names that a DNS message asks for, and the addresses in its answers.

    >>> read_names(bytes.fromhex("0001818000010001000000000161026d650000010001c00c000100010000000a00047f000009"))
    (['a.me'], ['127.0.0.9'])
    """
    _, _, questions, answers = struct.unpack_from(">HHHH", packet)
    names, addresses, place = [], [], 12
    for _ in range(min(questions, MESSAGES)):
        name, place = _name(packet, place)
        names.append(name)
        place += 4
    for _ in range(min(answers, PACKET)):
        _, place = _name(packet, place)
        kind, _, _, length = struct.unpack_from(">HHIH", packet, place)
        data = packet[place + 10 : place + 10 + length]
        if (kind, length) in ((1, 4), (28, 16)) and len(data) == length:
            addresses.append(str(ipaddress.ip_address(data)))
        place += 10 + length
    return names, addresses


def _name(packet: bytes, place: int) -> tuple[str, int]:
    """Return a name in a message, in lower case, and the place after it; one that is abbreviated ends there."""
    labels: list[str] = []
    while (length := packet[place]) != 0:
        if length >= 0xC0:
            return ".".join(labels).lower(), place + 2
        labels.append(packet[place + 1 : place + 1 + length].decode("ascii", "backslashreplace"))
        place += 1 + length
    return ".".join(labels).lower(), place + 1


def _lines(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.partition("#")[0].split() for line in file.read(1_000_000).splitlines()]
    except OSError:
        return []


class Names:
    """The names of addresses, by the answers of name servers and by /etc/hosts, and the name servers."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        self.servers = {words[1] for words in _lines("/etc/resolv.conf") if words[:1] == ["nameserver"] and words[1:]}
        for words in _lines("/etc/hosts"):
            with contextlib.suppress(ValueError):
                if len(words) > 1 and not ipaddress.ip_address(words[0]).is_loopback:
                    self.learn([words[1]], [words[0]])

    def learn(self, names: list[str], addresses: list[str]) -> None:
        """Remember the name that was asked for as that of the addresses."""
        for address in addresses if names else ():
            self._names[address] = names[0]
            self._names.move_to_end(address)
            if len(self._names) > NAMES:
                self._names.popitem(last=False)

    def show(self, address: str, port: int) -> str:
        """Return the name, or else the address, with the port."""
        host = self._names.get(address, address)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# The observer: what each system call means.


class Observer:
    """Reads the arguments of system calls, and logs what they are about."""

    def __init__(self, log: Log, names: Names) -> None:
        self.log = log
        self.names = names
        self._waiting: dict[int, tuple[int, int]] = {}  # a thread -> where it receives a packet, and its size
        self._home = os.fsencode(os.path.expanduser("~")) + b"/."

    def memory(self, pid: int, address: int, size: int) -> bytes:
        """Return bytes of the memory of a process: fewer where it has no more."""
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, address)
        finally:
            os.close(file)

    def path(self, pid: int, folder: int, address: int) -> bytes:
        """Return the absolute path that an argument names, relative to the folder with a number; b"" for none."""
        text = self.memory(pid, address, PATH_BYTES) if address else b""
        raw = text.partition(b"\0")[0]
        if not raw or raw.startswith(b"/"):
            return raw
        number = ctypes.c_int(folder & 0xFFFFFFFF).value
        start = os.readlink(f"/proc/{pid}/cwd" if number == _HERE else f"/proc/{pid}/fd/{number}")
        return os.fsencode(start) + b"/" + raw

    def use(self, pid: int, kind: str, path: bytes, *, follows: bool = True, end: bytes = b"") -> None:
        """Log the use of a path; `follows` says whether that is of the target of a link.

        A folder whose files are listed has the `end` "/", because that does not read them.
        """
        if not path or self.log.has(kind, path + end):
            return
        if path.startswith((b"/proc/", b"/dev/fd/", b"/dev/std")):  # a link there leads elsewhere for this process
            own = b"|".join((b"self", b"thread-self", *(str(number).encode() for number in (pid, _leader(pid)))))
            shown = re.sub(rb"^/proc/(%s)(?=/|$)(/task/\d+)?" % own, b"/proc/self", path)
        elif follows:
            shown = os.path.realpath(path)
        else:
            parent, _, name = path.rstrip(b"/").rpartition(b"/")
            shown = os.path.join(os.path.realpath(parent or b"/"), name)
        is_missing = kind in ("read", "program") and not path.startswith(b"/proc/") and not os.path.lexists(path)
        is_left_out = is_missing and not self._is_telling(kind, shown)
        self.log.add(kind, path + end, None if is_left_out else shown.rstrip(b"/") + end)

    def _is_telling(self, kind: str, path: bytes) -> bool:
        """Whether it tells something that a file was tried that does not exist: keys and settings of the user."""
        places = (b"/lib", b"/bin/", b"/site-packages/", b"/node_modules/")
        return kind == "read" and path.startswith(self._home) and not any(place in path for place in places)

    def open(self, pid: int, path: bytes, flags: int) -> None:
        """Log that a path is opened."""
        if flags & _PATH_ONLY:
            return
        kind = "write" if flags & _WRITES else "read"
        is_listed = kind == "read" and flags & os.O_DIRECTORY
        self.use(pid, kind, path, follows=not flags & os.O_NOFOLLOW, end=b"/" if is_listed else b"")

    def reach(self, pid: int, number: int, raw: bytes, *, sends: bytes | None = None) -> None:
        """Log that a socket is connected to an address, or that a packet (`sends`) goes there."""
        family = struct.unpack_from("<H", raw)[0]
        if family == socket.AF_UNIX:
            self._reach_local(pid, raw[2:])
            return
        if family not in (socket.AF_INET, socket.AF_INET6):
            return
        port = struct.unpack_from(">H", raw, 2)[0]
        address = ipaddress.ip_address(raw[4:8] if family == socket.AF_INET else raw[8:24])
        plain = str(getattr(address, "ipv4_mapped", None) or address)
        if port in NAME_PORTS and self._asks(pid, number, plain, sends):
            return
        if port:  # glibc connects to port 0 to find out which of its addresses goes first, and sends nothing
            self.log.use("host", self.names.show(plain, port))

    def _asks(self, pid: int, number: int, address: str, sends: bytes | None) -> bool:
        """Whether this is a question to a name server of this machine; logs the names."""
        if sends:
            with contextlib.suppress(IndexError, struct.error):
                for name in read_names(sends)[0]:
                    self.log.use("host", name)
        return address in self.names.servers

    def _reach_local(self, pid: int, raw: bytes) -> None:
        if raw.startswith(b"\0") and raw.strip(b"\0"):
            self.log.use("host", "unix:@" + raw[1:].rstrip(b"\0").decode("utf-8", "backslashreplace"))
        path = raw.partition(b"\0")[0]
        if path and not path.startswith(b"/"):
            path = os.fsencode(os.readlink(f"/proc/{pid}/cwd")) + b"/" + path
        if not path.startswith((b"/var/run/nscd/", b"/run/nscd/", b"/run/systemd/resolve/")):
            self.use(pid, "write", path)  # where sandboxes allow it, too

    def packets(self, pid: int, number: int, address: int) -> None:
        """Log where a message (`struct msghdr`) goes, and which names it asks for."""
        name, name_size, parts, count = struct.unpack("<QI4xQQ", self.memory(pid, address, 32))
        sends = b""
        if parts and count:
            start, size = struct.unpack("<QQ", self.memory(pid, parts, 16))
            sends = self.memory(pid, start, min(size, PACKET)) if start else b""
        if name:
            self.reach(pid, number, self.memory(pid, name, min(name_size, 128)), sends=sends)
        elif sends and (peer := self.peer(pid, number)) and peer[1] in NAME_PORTS:
            self._asks(pid, number, peer[0], sends)

    def peer(self, pid: int, number: int) -> tuple[str, int] | None:
        """Return where a socket of datagrams of a process is connected to, or None."""
        with contextlib.suppress(OSError), _borrowed(pid, number) as own:
            if own.type == socket.SOCK_DGRAM and own.family in (socket.AF_INET, socket.AF_INET6):
                host, port, *_ = own.getpeername()
                return host, port
        return None

    def answer(self, pid: int, number: int, buffer: int, size: int) -> None:
        """Learn names from the packet that a socket is about to receive, which stays there.

        A program that waits for it has it when it makes its next call, most likely still in the same place.
        """
        with contextlib.suppress(OSError, IndexError, struct.error), _borrowed(pid, number) as own:
            if own.type != socket.SOCK_DGRAM or own.family not in (socket.AF_INET, socket.AF_INET6):
                return
            try:
                packet, sender = own.recvfrom(PACKET, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                if len(self._waiting) < NAMES:
                    self._waiting[pid] = buffer, min(size, PACKET)
                return
            if sender[1] in NAME_PORTS:
                self.names.learn(*read_names(packet))

    def came_back(self, pid: int) -> None:
        """Learn names from the packet that a thread has waited for."""
        if (place := self._waiting.pop(pid, None)) is not None:
            with contextlib.suppress(OSError, IndexError, struct.error, OverflowError):
                packet = self.memory(pid, *place)
                if packet[2] & 0x80 and packet[4:6] == b"\0\1":  # an answer to one question
                    self.names.learn(*read_names(packet))


@contextlib.contextmanager
def _borrowed(pid, number):  # type: ignore[no-untyped-def] # `Iterator` takes `typing`
    """Have the socket of a process with a number."""
    process = os.pidfd_open(_leader(pid))
    try:
        own = socket.socket(fileno=_checked(_libc.syscall(_GET_FD, process, ctypes.c_int(number & 0xFFFFFFFF), 0)))
    finally:
        os.close(process)
    with own:
        yield own


def _leader(pid: int) -> int:
    """Return the process of a thread."""
    with open(f"/proc/{pid}/status", "rb") as file:
        return int(file.read(4096).partition(b"\nTgid:")[2].split()[0])


def _open(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.open(pid, observer.path(pid, _HERE, a[0]), a[1])


def _openat(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.open(pid, observer.path(pid, a[0], a[1]), a[2])


def _openat2(observer: Observer, pid: int, a: Sequence[int]) -> None:
    flags = int.from_bytes(observer.memory(pid, a[2], 8), "little")
    observer.open(pid, observer.path(pid, a[0], a[1]), flags)


def _write(*places: tuple[int | None, int], follows: bool = False) -> Handle:
    """Return what logs arguments as written: pairs of the number of the folder's and of the path's."""

    def handle(observer: Observer, pid: int, a: Sequence[int]) -> None:
        for folder, path in places:
            observer.use(
                pid, "write", observer.path(pid, _HERE if folder is None else a[folder], a[path]), follows=follows
            )

    return handle


def _execve(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.use(pid, "program", observer.path(pid, _HERE, a[0]))


def _execveat(observer: Observer, pid: int, a: Sequence[int]) -> None:
    path = observer.path(pid, a[0], a[1]) or os.fsencode(os.readlink(f"/proc/{pid}/fd/{a[0] & 0xFFFFFFFF}"))
    observer.use(pid, "program", path)


def _connect(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.reach(pid, a[0], observer.memory(pid, a[1], min(a[2], 128)))


def _bind(observer: Observer, pid: int, a: Sequence[int]) -> None:
    raw = observer.memory(pid, a[1], min(a[2], 128))
    family, port = struct.unpack_from("<H", raw)[0], struct.unpack_from(">H", raw, 2)[0]
    if family == socket.AF_UNIX:
        observer.reach(pid, a[0], raw)
    elif family in (socket.AF_INET, socket.AF_INET6) and port:
        observer.log.use("host", f"listens:{port}")


def _sendto(observer: Observer, pid: int, a: Sequence[int]) -> None:
    raw = observer.memory(pid, a[4], min(a[5], 128))
    observer.reach(pid, a[0], raw, sends=observer.memory(pid, a[1], min(a[2], PACKET)))


def _sendmsg(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.packets(pid, a[0], a[1])


def _sendmmsg(observer: Observer, pid: int, a: Sequence[int]) -> None:
    for index in range(min(a[2], MESSAGES)):
        observer.packets(pid, a[0], a[1] + 64 * index)  # the size of `struct mmsghdr`


def _recvfrom(observer: Observer, pid: int, a: Sequence[int]) -> None:
    observer.answer(pid, a[0], a[1], a[2])


_MACHINES = (*CONVENTIONS,)

CALLS: tuple[tuple[str, tuple[int | None, int | None], Handle], ...] = (
    ("open", (2, None), _open),
    ("creat", (85, None), _write((None, 0), follows=True)),
    ("openat", (257, 56), _openat),
    ("openat2", (437, 437), _openat2),
    ("truncate", (76, 45), _write((None, 0), follows=True)),
    ("unlink", (87, None), _write((None, 0))),
    ("unlinkat", (263, 35), _write((0, 1))),
    ("rmdir", (84, None), _write((None, 0))),
    ("mkdir", (83, None), _write((None, 0))),
    ("mkdirat", (258, 34), _write((0, 1))),
    ("mknod", (133, None), _write((None, 0))),
    ("mknodat", (259, 33), _write((0, 1))),
    ("rename", (82, None), _write((None, 0), (None, 1))),
    ("renameat", (264, 38), _write((0, 1), (2, 3))),
    ("renameat2", (316, 276), _write((0, 1), (2, 3))),
    ("link", (86, None), _write((None, 1))),
    ("linkat", (265, 37), _write((2, 3))),
    ("symlink", (88, None), _write((None, 1))),
    ("symlinkat", (266, 36), _write((1, 2))),
    ("execve", (59, 221), _execve),
    ("execveat", (322, 281), _execveat),
    ("connect", (42, 203), _connect),
    ("bind", (49, 200), _bind),
    ("sendto", (44, 206), _sendto),
    ("sendmsg", (46, 211), _sendmsg),
    ("sendmmsg", (307, 269), _sendmmsg),
    ("recvfrom", (45, 207), _recvfrom),
)
"""System call -> its numbers on the machines of `_MACHINES`, and what reads its arguments."""

_WITH_ADDRESS = ("sendto", "recvfrom")  # seen only with their fifth argument; others belong to a connection
_IO_URING = 425


# The filter that stops the command, and its start.


def make_filter(machine: str) -> bytes:
    """Return the program of the filter (BPF) for a machine."""
    column = _MACHINES.index(machine)
    numbers = {name: places[column] for name, places, _ in CALLS if places[column] is not None}
    plain = [number for name, number in numbers.items() if name not in _WITH_ADDRESS]
    special = [numbers[name] for name in _WITH_ADDRESS]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    body: list[tuple[int, int, str, str]] = [  # operation, operand, and where to go on if it is true, or not
        (load, 4, "", ""),
        (equal, CONVENTIONS[machine], "", "allow"),
        (load, 0, "", ""),
        (at_least, 0x40000000, "refuse", ""),  # x32, another convention of the same number
        (equal, _IO_URING, "refuse", ""),
        *((equal, number, "notify", "") for number in plain if number is not None),
        *((equal, number, "address", "") for number in special if number is not None),
        (give, _ALLOW, "", ""),
    ]
    end = len(body)
    labels = {"address": end, "notify": end + 4, "allow": end + 5, "refuse": end + 6}
    body += [(load, 48, "", ""), (equal, 0, "", "notify"), (load, 52, "", ""), (equal, 0, "allow", "notify")]
    body += [(give, _NOTIFY, "", ""), (give, _ALLOW, "", ""), (give, _REFUSE, "", "")]
    steps = []
    for index, (operation, operand, true, false) in enumerate(body):
        jumps = (labels[label] - index - 1 if label else 0 for label in (true, false))
        steps.append(struct.pack("<HBBI", operation, *jumps, operand))
    return b"".join(steps)


def install_filter(machine: str) -> int:
    """Put this process, and all that it starts, under the filter; return the number of the listener."""
    program = make_filter(machine)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(buffer)), 16)
    arguments = (_SECCOMP[machine], _SET_FILTER, _NEW_LISTENER | _FULL_SPEED, header)
    listener = _libc.syscall(*arguments)
    if listener < 0 and ctypes.get_errno() == errno.EACCES:  # without root, programs get no further rights
        _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        listener = _libc.syscall(*arguments)
    return _checked(listener)


def start(command: list[str], machine: str) -> tuple[int, int]:
    """Start a command under the filter; return its process and the listener, which it waits for.

    A filter is for a thread and what it starts, so a thread of its own makes both. It never ends: the command is killed
    with it, and nobody would answer what its own end opens.
    """
    results: list[int] = []
    errors: list[OSError] = []
    ready, tell = os.pipe()
    parent = os.getpid()
    endless = _thread.allocate_lock()
    endless.acquire()

    def begin() -> None:
        try:
            results.append(install_filter(machine))
            process = os.fork()
        except OSError as error:
            errors.append(error)
            os.write(tell, b"-")
            return
        if process == 0:
            try:
                _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == parent:
                    _become(command)
            finally:
                os._exit(FAILED)
        results.append(process)
        os.write(tell, b"+")
        with endless:
            pass

    warnings.simplefilter("ignore")  # of Python 3.12, about a fork beside another thread
    _thread.start_new_thread(begin, ())
    os.read(ready, 1)
    os.close(ready)
    os.close(tell)
    if errors:
        raise errors[0]
    listener, process = results
    return process, listener


def _become(command: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {os.strerror(error.errno or 0)}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if error.errno == errno.ENOENT else FAILED)


def watch(process: int, listener: int, observer: Observer, machine: str) -> None:
    """Log what a command does until its process has ended."""
    column = _MACHINES.index(machine)
    handles = {places[column]: (name, handle) for name, places, handle in CALLS}
    with contextlib.suppress(OSError):  # Linux 6.6: the answer wakes the command on the same processor
        fcntl.ioctl(listener, _SET_FLAGS, 1)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    end = os.pidfd_open(process)
    poll.register(end, select.POLLIN)
    while True:
        events = poll.poll(IDLE if observer.log.is_behind else None)
        if not events:
            observer.log.flush()
        if any(number == end or event & select.POLLHUP for number, event in events):
            return
        for _ in events:
            _take(listener, observer, handles)


def _take(listener: int, observer: Observer, handles: dict[int | None, tuple[str, Handle]]) -> None:
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError:  # its process was killed meanwhile
        return
    number, pid, _, call, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    name, handle = handles[call]
    try:
        observer.log.begin()
        observer.came_back(pid)
        handle(observer, pid, arguments)
    except ProcessLookupError:  # it was killed
        pass
    except Exception as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        observer.log.remark(f"a call of {name} could not be read: {why}")
    with contextlib.suppress(OSError):  # it was killed, or interrupted by a signal
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))


def _end_rest() -> None:
    """Kill what the command has left running, which is ours since its parent has ended."""
    me = os.getpid()
    while True:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read(4096).rpartition(b")")[2].split()[1]) == me:
                    os.kill(int(name), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(words: list[str]) -> int:
    """Run a command, and return its exit status; a signal that ended it ends this process, too."""
    folder, _, *command = words
    machine = os.uname().machine
    try:
        if machine not in CONVENTIONS or not hasattr(os, "pidfd_open"):
            raise OSError(errno.ENOSYS, f"there is no table of system calls for {machine}")
        observer = Observer(Log(folder), Names())
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        process, listener = start(command, machine)
    except OSError as error:
        sys.stderr.write(f"OSError: this machine does not let a program be observed: {error.strerror}\n")
        return FAILED
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # sent to the group, so that the command has them
        signal.signal(ignored, signal.SIG_IGN)
    for number in (0, 1):  # the command alone has them, so that its end is seen
        os.close(number)
    try:
        watch(process, listener, observer, machine)
    finally:
        observer.log.flush()
        _, status = os.waitpid(process, 0)
        os.close(listener)
        _end_rest()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # the end of the interpreter would end the thread of the filter
