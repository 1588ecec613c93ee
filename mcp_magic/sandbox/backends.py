"""Makes the command that runs a server inside its sandbox, by what this system has for it.

Where isolation is asked for and cannot be had, there is an error and nothing runs.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import join_names
from mcp_magic.config.parsing import SERVER_FILES
from mcp_magic.config.sandbox import Sandbox, short_path, split_target, with_preset
from mcp_magic.errors import MissingDependencyError, TargetError
from mcp_magic.sandbox import launch
from mcp_magic.sandbox.presets import Needs, needs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp_magic.config.specs import StdioSpec


@dataclass(frozen=True)
class Program:
    """A command with its absolute path, and the variables that the SDK's own are overridden by."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str

    @property
    def path(self) -> str:
        """The folders in which programs are found."""
        return self.env.get("PATH", os.environ.get("PATH", os.defpath))


@dataclass(frozen=True)
class Step:
    """A program and the rights that it runs with; their paths have no symbolic links."""

    program: Program
    sandbox: Sandbox
    reads: tuple[str, ...]  # what it needs to run, links too
    refuses: tuple[str, ...] = ()  # system calls that it does not need


@dataclass(frozen=True)
class Preparation:
    """What runs before the server, once."""

    step: Step
    package: str
    stamp: Path  # the file that is written after it


class Backend(Protocol):
    """A way to isolate a program."""

    name: str

    def problem(self) -> str:
        """Return why it cannot be used here and what would help, or ""."""

    def wrap(self, server: Step, before: Preparation | None) -> Program:
        """Return the program that runs a server inside; raise TargetError if it cannot do what the sandbox says."""


# What every server needs to run.

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/proc"),
    *("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf"),
    *("/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf"),
    *("/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls", "/etc/pki/ca-trust"),
    *("/etc/crypto-policies", "/etc/mime.types", "/etc/magic", "/etc/os-release", "/etc/locale.alias"),
    *("/etc/fonts", "/etc/debian_version", "/etc/python3", "/etc/npmrc", "/etc/gitconfig"),
)
"""Files and folders that every server may read, if they exist; without those in which keys are, and without disks."""

DEVICES = ("/dev/null",)  # to write to


def needed_by(command: Path, folder: Path, args: Sequence[str], path: str = os.defpath) -> list[Path]:
    """Return what a command needs to run: its file, the libraries beside it, its interpreter and its script."""
    paths: list[Path] = []
    todo = [command]
    while todo:
        file = todo.pop()
        # what a project's files name must be a program: `#!` and `home` could name a key
        if file in paths or not (file.is_file() and os.access(file, os.X_OK)):
            continue
        paths += [file, *_libraries(file)]
        todo += [file.resolve(), *_interpreter(file, path)]
        if home := _home_of_environment(file):
            todo.append(Path(home) / file.name)
    words = [word for word in args if not word.startswith("-")]
    script = Path(os.path.realpath(folder / words[0])) if words and "\0" not in words[0] else folder
    if script.suffix in SERVER_FILES and script.is_file():  # not the name of a link, which may lead to a key
        paths.append(script)
    return paths


def _libraries(file: Path) -> list[Path]:
    """Return the folders of an installation that a program in its `bin` uses."""
    folder, prefix = file.parent, file.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        return [prefix]
    if folder.name != "bin" or prefix == prefix.parent:
        return []
    return [prefix / name for name in ("bin", "lib", "lib64", "libexec")]


def _home_of_environment(file: Path) -> str:
    """Return the folder of the Python that a virtual environment is made from, or ""."""
    try:
        text = (file.parent.parent / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip()
    return ""


def _interpreter(file: Path, path: str) -> list[Path]:
    """Return the program that a script names in its first line."""
    try:
        with file.open("rb") as script:
            line = script.readline(256).decode("utf-8", "replace")
    except OSError:
        return []
    words = line[2:].split() if line.startswith("#!") else []
    if words[:1] == ["/usr/bin/env"]:
        words = [program for word in words[1:2] if (program := shutil.which(word, path=path))]
    return [Path(word) for word in words[:1]]


_MANAGERS = ("pyenv", "nodenv", "rbenv", "asdf", "mise")
"""Managers of versions that put shims on PATH: programs that find out which version is meant, and run that."""


def _behind_shim(command: Path) -> Path:
    """Return the program that a shim on this process's PATH runs in the home; any other command as it is.

    A shim reads the configuration of its manager and the folders above, which the sandbox refuses. The manager runs
    outside of the sandbox: it is not asked in the folder of a project, whose files it would obey.
    """
    root = command.parent.parent
    manager = next((name for name in _MANAGERS if command.parent.name == "shims" and name in root.name), "")
    inside = root / "bin" / manager
    program = str(inside) if inside.is_file() else shutil.which(manager)
    if not manager or program is None:
        return command
    try:
        words = [program, "which", command.name]
        answer = subprocess.run(
            words, cwd=Path.home(), capture_output=True, text=True, timeout=SHIM_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return command
    file = Path(answer.stdout.strip())
    return file if file.is_absolute() and file.is_file() else command


SHIM_SECONDS = 10.0  # a manager answers in a tenth of one


def _extended(sandbox: Sandbox, needs: Sequence[Needs]) -> Sandbox:
    """Return a sandbox with what its presets allow."""
    read, write, net = [*sandbox.read], [*sandbox.write], [*sandbox.net]
    for need in needs:
        read += map(os.path.realpath, need.read)
        write += map(os.path.realpath, need.write)
        net += need.net
    read, write, net = (list(dict.fromkeys(words)) for words in (read, write, net))
    return replace(sandbox, read=tuple(read), write=tuple(write), net=tuple(net), preset=())


def _reads(program: Program, needs: Sequence[Needs]) -> tuple[str, ...]:
    """Return what a program needs to run, with the programs that its presets name."""
    folder = Path(program.cwd)
    paths = needed_by(Path(program.command), folder, program.args, program.path)
    for name in (name for need in needs for name in need.programs):
        if command := shutil.which(name, path=program.path):
            paths += needed_by(Path(command).absolute(), folder, (), program.path)
    return tuple(dict.fromkeys(map(str, paths)))


def _preparation(program: Program, sandbox: Sandbox, needs: Sequence[Needs]) -> Preparation | None:
    """Return how the package of a server is installed, if it is to be."""
    for need in needs:
        if (first := need.installation) is not None:
            installer = replace(program, args=first.args, env={**first.env, **program.env})
            rights = replace(sandbox, read=(), write=(), net=first.net)
            step = Step(installer, _extended(rights, [need]), _reads(installer, needs))
            return Preparation(step, first.package, first.stamp)
    return None


def _check_paths(sandbox: Sandbox) -> None:
    """Raise TargetError for a path that does not exist, or that leads elsewhere than when it was allowed."""
    for key in ("read", "write", "deny"):
        for path in getattr(sandbox, key):
            if (actual := os.path.realpath(path)) != path:
                raise TargetError(
                    f"sandbox: {key}: {short_path(path)} is now a symbolic link to {short_path(actual)}; "
                    f"allow that by its own name if you mean it."
                )
            if not os.path.lexists(path) and key == "read":
                raise TargetError(f"sandbox: read: there is no {short_path(path)}.")


def _make_folders(paths: Iterable[str]) -> None:
    for path in map(Path, paths):
        if not os.path.lexists(path):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TargetError(
                    f"sandbox: write: {short_path(str(path))} cannot be made: {error.strerror}."
                ) from None


# sandlock: Landlock and seccomp of Linux.

NEEDED_ABI = 6  # of Landlock: it keeps signals and abstract sockets inside; Linux 6.12
_CREATE_RULESET = 444  # the number of landlock_create_ruleset on all architectures
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION


def landlock_abi() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none."""
    import ctypes

    libc = ctypes.CDLL(None)
    version: int = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(version, 0)


REFUSED_CALLS = (
    "listen",  # without a bind before, it listens on a port of all addresses
    *("chroot", "syslog", "clock_settime", "settimeofday", "clock_adjtime"),  # of root
    *("setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set"),
)
"""System calls that reach beyond the sandbox and that sandlock lets through."""

OWNING_CALLS = (
    *("chown", "fchown", "lchown", "fchownat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
)
CHANGING_CALLS = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
"""They change what belongs to this user everywhere, because Landlock does not look at them. Installations need all, and
servers that write need to change modes and times."""


NOWHERE = "255.255.255.255:1"
"""What is allowed where nothing is: no connection can be made to it. Without any address sandlock leaves the network to
Landlock, which knows TCP alone: a socket of MPTCP, or a first packet with data, would reach every host."""


class Sandlock:
    """sandlock, in a process of its own that starts the server (`launch.py`)."""

    name = "sandlock"

    def problem(self) -> str:
        """Return why sandlock cannot be used here and what would help, or ""."""
        if not sys.platform.startswith("linux"):
            return "sandlock runs on Linux only"
        if find_spec("sandlock") is None:
            return "sandlock is not installed: pip install 'mcp-magic[sandbox]'"
        abi = landlock_abi()
        if abi < NEEDED_ABI:
            has = f"version {abi} of it" if abi else "no Landlock (is `landlock` in /sys/kernel/security/lsm?)"
            return f"sandlock needs Linux 6.12 with Landlock; Linux {os.uname().release} here has {has}"
        return ""

    def wrap(self, server: Step, before: Preparation | None) -> Program:
        """Return the program that runs a server inside."""
        return _launcher(self._policy, server, before)

    def _policy(self, step: Step) -> dict[str, Any]:
        sandbox = step.sandbox
        package = find_spec("sandlock")
        assert package is not None
        assert package.origin is not None
        limits = {"max_memory": sandbox.memory, "max_processes": sandbox.processes}
        return {
            "path": str(Path(package.origin).parent.parent),
            "sandlock": {
                "fs_readable": _existing((*SYSTEM, *step.reads, *sandbox.read)),
                "fs_writable": _existing((*DEVICES, *sandbox.write)),
                "fs_denied": [*sandbox.deny],
                "net_allow": [*map(_resolvable, sandbox.net)] or [NOWHERE],
                "extra_deny_syscalls": [*REFUSED_CALLS, *step.refuses],
                **{name: value for name, value in limits.items() if value},
            },
        }


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if Path(path).exists()]


def _resolvable(target: str) -> str:
    host, port = split_target(target)
    if host.startswith("*."):
        raise TargetError(
            f"sandbox: net: sandlock resolves hosts when the server starts, so it cannot allow {target}; name each "
            "host, or add backend=srt."
        )
    return f"{host}:{port}"


def _launcher(policy: Callable[[Step], dict[str, Any]], server: Step, before: Preparation | None) -> Program:
    """Return `launch.py` with the policies of a server and of what runs before it."""
    values = {**policy(server), "env": dict(server.program.env)}
    if before is not None:
        program = before.step.program
        values["before"] = {
            **policy(before.step),
            "env": dict(program.env),
            "command": [program.command, *program.args],
            "package": before.package,
            "stamp": str(before.stamp),
        }
    args = ("-I", "-S", launch.__file__, "--", server.program.command, *server.program.args)
    return Program(sys.executable, args, {launch.VARIABLE: json.dumps(values)}, server.program.cwd)


# srt, Anthropic's sandbox runtime: bubblewrap of Linux, or Seatbelt of macOS, and proxies for the network.


class Srt:
    """srt, started by the same program; its settings allow to read only what is named."""

    name = "srt"
    tools = ("bwrap", "socat", "rg")

    def problem(self) -> str:
        """Return why srt cannot be used here and what would help, or ""."""
        if sys.platform not in ("linux", "darwin"):
            return "srt is used on Linux and macOS only"
        if shutil.which("srt") is None:
            return "srt is not installed: npm install -g @anthropic-ai/sandbox-runtime"
        missing = [tool for tool in self.tools if shutil.which(tool) is None] if sys.platform == "linux" else []
        if missing:
            return f"srt needs {join_names(missing)}: apt-get install bubblewrap socat ripgrep"
        return ""

    def wrap(self, server: Step, before: Preparation | None) -> Program:
        """Return the program that runs a server inside."""
        return _launcher(self._policy, server, before)

    def _policy(self, step: Step) -> dict[str, Any]:
        sandbox = step.sandbox
        for key in ("memory", "processes"):
            if getattr(sandbox, key) is not None:
                raise TargetError(f"sandbox: {key}: srt has no such limit; leave it out, or use sandlock.")
        command = shutil.which("srt")
        assert command is not None
        own = Path(command).resolve().parent.parent  # it runs a program of its own inside
        reads = _existing((*SYSTEM, *step.reads, *sandbox.read, str(own)))
        kernel = ("/proc", "/dev", "/sys")  # it makes its own
        write, deny = ([*map(_literal, paths)] for paths in (sandbox.write, sandbox.deny))
        return {
            "srt": command,
            "settings": {
                "network": {"allowedDomains": [*map(_matchable, sandbox.net)], "deniedDomains": []},
                "filesystem": {
                    "denyRead": ["/", *write, *deny],  # a folder that is denied and allowed again can be written
                    "allowRead": [_literal(path) for path in reads if not path.startswith(kernel)],
                    "allowWrite": write,
                    "denyWrite": deny,
                },
            },
        }


def _literal(path: str) -> Any:
    """Return a path as srt takes it: one with characters of a pattern is marked."""
    return {"path": path, "literal": True} if any(c in path for c in "*?[]") else path


def _matchable(target: str) -> str:
    host, port = split_target(target)
    if host == "*" or "/" in host:
        raise TargetError(f"sandbox: net: srt cannot allow {target}; name the hosts.")
    return host if port == "*" else f"{host}:{port}"


BACKENDS: tuple[Backend, ...] = (Sandlock(), Srt())
"""The first that can be used isolates the servers, unless a sandbox names one."""


def find_backend(name: str = "") -> Backend:
    """Return the way to isolate servers here, or that of a name. Raises MissingDependencyError if there is none."""
    problems = []
    for backend in BACKENDS:
        if name in ("", backend.name):
            if not (problem := backend.problem()):
                return backend
            problems.append(problem)
    raise MissingDependencyError(
        f"this server is to run in a sandbox, and there is none here, so it was not started: {'; '.join(problems)}."
    )


def isolated(spec: StdioSpec) -> StdioSpec:
    """Return the spec that starts a server inside its sandbox; one without a sandbox stays as it is.

    Raises MissingDependencyError if this system cannot isolate, TargetError if it cannot do what the sandbox says,
    FileNotFoundError if there is no such command.
    """
    if spec.sandbox is None:
        return spec
    backend = find_backend(spec.sandbox.backend)
    cwd = Path(spec.cwd or os.curdir).resolve()
    path = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
    command = shutil.which(cwd / spec.command if os.sep in spec.command else spec.command, path=path)
    if command is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spec.command)
    _check_paths(spec.sandbox)
    _make_folders(spec.sandbox.write)
    presets = with_preset(spec.sandbox, spec.command, spec.args).preset
    program = str(Path(command).absolute()) if os.sep in spec.command else ""
    needs = [needs_of(preset, spec.args, spec.env, cwd, program) for preset in presets]
    own = dict(spec.env)
    file = Path(command).absolute()
    is_of_path = os.sep not in spec.command and "PATH" not in spec.env  # a project's file could name any program
    if is_of_path and (behind := _behind_shim(file)) != file:
        file = behind  # and what it starts by name is to be no shim either
        own["PATH"] = os.pathsep.join((str(file.parent), path))
    env = {**{name: value for need in needs for name, value in need.env.items()}, **own}
    server = Program(str(file), spec.args, env, str(cwd))
    before = _preparation(replace(server, env=own), spec.sandbox, needs)
    refuses = (*OWNING_CALLS, *(() if spec.sandbox.write else CHANGING_CALLS))
    step = Step(server, _extended(spec.sandbox, needs), _reads(server, needs), refuses)
    launcher = backend.wrap(step, before)
    changes: dict[str, Any] = {"command": launcher.command, "args": launcher.args, "env": launcher.env}
    return replace(spec, sandbox=None, **changes)
