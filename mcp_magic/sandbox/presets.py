"""What a kind of command needs beyond its own program, and how its package is installed.

`npx` and `uvx` fetch a package and run it. Both halves are isolated: first the package is installed with nothing but
its registry reachable, then the server runs offline. A registry is a way out: whoever has a key can publish there what
the server read, and its addresses serve other sites too.

The packages are in a folder of their own for each package, below Jupyter's data directory. A server that could write
to the caches of npm and uv in the home could change what they run later, outside of a sandbox.
"""

from __future__ import annotations

import os
import re
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic.config.parsing import slug
from mcp_magic.config.sandbox import script_folder
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FRESH_SECONDS = 24 * 3600.0
"""How long a package without a version stays as it is, before the registry is asked for a newer one."""

NPM_REGISTRY = "registry.npmjs.org:443"
PYPI = ("pypi.org:443", "files.pythonhosted.org:443")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The arguments with which the command installs its package and ends."""

    args: tuple[str, ...]
    package: str  # as it was named, for messages
    env: Mapping[str, str]
    net: tuple[str, ...]
    stamp: Path  # the file that is written after it


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a command may do by its preset, as the attributes of `Sandbox`, and what it is started with."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    net: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ()  # which the command starts, by their names
    installation: Installation | None = None


def needs_of(preset: str, args: Sequence[str], env: Mapping[str, str], cwd: Path, program: str = "") -> Needs:
    """Return what a preset allows a command with these arguments and variables. Makes the folder of its package.

    `program` is the file that runs, if it was not found on the kernel's own PATH.
    """
    return _PRESETS[preset](tuple(args), env, cwd, program)


_STEERING = re.compile(r"npm_|node_|uv_|pip_|python|ld_|(path|home)$|xdg_", re.IGNORECASE)
"""Variables that decide what is installed, or what the installed package runs."""


def _own(env: Mapping[str, str], program: str) -> tuple[str, ...]:
    """Return words that tell a package's folder from those of servers with another installer, registry or library.

    Such a server could otherwise put a package of its own in place of the one that another server runs.
    """
    return (*([program] if program else []), *sorted(f"{k}={v}" for k, v in env.items() if _STEERING.match(k)))


# Commands that install: the folder of their package.


@dataclass(frozen=True)
class _Request:
    """The package that a command line names.

    Attributes:
        args: The arguments that install it.
        packages: The packages, as they were named.
        options: All before the arguments of the server.
    """

    args: tuple[str, ...]
    packages: tuple[str, ...]
    options: tuple[str, ...]


def packages_folder() -> Path:
    """Return the folder with the packages of isolated servers. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "sandbox"


def _folder(words: Sequence[str], name: str) -> Path:
    """Return the folder for a package, which only this user can enter."""
    key = sha256("\0".join(words).encode()).hexdigest()[:12]
    folder = packages_folder() / f"{slug(name)[:40]}-{key}"
    try:
        (folder / "cache").mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise TargetError(f"sandbox: the folder {folder} for the package cannot be made: {error.strerror}.") from None
    return folder


def _is_due(stamp: Path, packages: Sequence[str]) -> bool:
    """Whether the packages are to be installed: those with a version once, others once a day."""
    try:
        age = time.time() - stamp.stat().st_mtime
    except OSError:
        return True
    return age > FRESH_SECONDS and not all(_PINNED.search(package) for package in packages)


_PINNED = re.compile(r"(?<=.)(@|==)\d+\.\d+[\w.+-]*$")


def _first_word(args: Sequence[str], valued: frozenset[str]) -> int:
    """Return the index of the first argument that is no option and no value of one."""
    index = 0
    while index < len(args) and args[index].startswith("-"):
        if args[index] == "--":
            return index
        index += 2 if args[index] in valued else 1
    return index


def _values(args: Sequence[str], *names: str) -> tuple[str, ...]:
    """Return the values of an option."""
    pairs = [(word, after) for word, after in zip(args, (*args, "")[1:], strict=True) if word in names]
    joined = [word.partition("=")[2] for word in args if word.partition("=")[0] in names and "=" in word]
    return (*(after for _, after in pairs), *joined)


def _local(packages: Sequence[str], cwd: Path) -> list[str]:
    """Return the files and folders that are named as packages and are some: others may be anything of the user's."""
    paths = (Path(os.path.realpath(cwd / package.removeprefix("file:"))) for package in packages)
    return [str(path) for path in paths if _is_package(path)]


def _is_package(path: Path) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in ("package.json", "pyproject.toml", "setup.py", "setup.cfg"))
    return path.is_file() and path.name.endswith((".tgz", ".tar.gz", ".whl", ".zip"))


def _needs(
    request: _Request | None,
    name: str,
    cwd: Path,
    net: _Hosts,
    env: Callable[[Path], dict[str, str]],
    own: Sequence[str],
) -> Needs:
    """Return the needs of a command that installs; where its line names no package, it reaches the registry always."""
    local = _local(request.packages, cwd) if request else []
    words = (*request.options, *local) if request else (name,)
    folder = _folder((*words, *own), request.packages[0] if request and request.packages else name)
    cache = folder / "cache"
    variables = env(cache)
    read = (str(folder), *local)
    if request is None:
        return Needs(read=read, write=(str(cache),), net=net.own, env=variables)
    stamp = folder / "installed"
    installation = None
    if _is_due(stamp, request.packages):
        package = " ".join(request.packages)
        installation = Installation(args=request.args, package=package, env=variables, net=net.all, stamp=stamp)
    offline = {**variables, **_OFFLINE}
    return Needs(read=read, write=(str(cache),), env=offline, installation=installation)


_OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}


def _host(url: str) -> str | None:
    """Return `HOST:PORT` of a URL, or None."""
    with suppress(ValueError):
        parts = urlsplit(url.strip().strip("\"'"))
        if parts.hostname and parts.scheme in ("http", "https"):
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    return None


@dataclass(frozen=True)
class _Hosts:
    """The hosts of registries.

    Attributes:
        own: Those in the user's own settings, and the public ones.
        all: Also those that the command names. An installation reads nothing, so it may contact them; a server may not.
    """

    own: tuple[str, ...]
    all: tuple[str, ...]


def _hosts(own: Sequence[str], command: Sequence[str], default: Sequence[str]) -> _Hosts:
    """Return the hosts of URLs of the user's own, of URLs that a command names, and the default ones."""
    hosts = [*filter(None, map(_host, own)), *default]
    return _Hosts(tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys([*filter(None, map(_host, command)), *hosts])))


# npx, and `npm exec`.

_NPX_VALUED = frozenset(
    re.findall(
        r"\S+",
        "-p --package -w --workspace --registry --cache --userconfig --prefix --node-options --loglevel "
        "--script-shell --before --tag --omit --include",
    )
)
_PRIVATE_NPM = re.compile(r"(^|:)(_[a-z]+|username|password|email|key|keyfile|certfile)$", re.IGNORECASE)


def _npx(args: tuple[str, ...], env: Mapping[str, str], cwd: Path, program: str) -> Needs:
    # not those that `env` names: the `cafile` of a project's settings may be any file
    lines = _npm_lines(Path.home() / ".npmrc")
    urls = [value for key, value in lines if key == "registry" or key.endswith((":registry", "proxy"))]
    command_urls = [*_values(args, "--registry"), env.get("npm_config_registry", "")]
    cafile = [value for key, value in lines if key == "cafile" and Path(value).is_file()]

    def variables(cache: Path) -> dict[str, str]:
        settings = cache.parent / "npmrc"
        settings.write_text("".join(f"{key}={value}\n" for key, value in lines), encoding="utf-8")
        return {
            "npm_config_cache": str(cache / "npm"),
            "npm_config_userconfig": str(settings),
            "npm_config_update_notifier": "false",
        }

    own = _own(env, program)
    needs = _needs(_npx_request(args), "npx", cwd, _hosts(urls, command_urls, (NPM_REGISTRY,)), variables, own)
    return Needs(**{**vars(needs), "read": (*needs.read, *cafile), "programs": ("node", "npm")})


def _npm_lines(file: Path) -> list[tuple[str, str]]:
    """Return the settings of npm without keys, and without URLs that have one."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = []
    for line in text.splitlines():
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and key[:1] not in ("#", ";", "[") and not _PRIVATE_NPM.search(key) and "@" not in _authority(value):
            lines.append((key, value.strip("\"'")))
    return lines


def _authority(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _npx_request(args: tuple[str, ...]) -> _Request | None:
    start = args[:1] if args[:1] in (("exec",), ("x",)) else ()
    rest = args[len(start) :]
    index = _first_word(rest, _NPX_VALUED)
    options = rest[:index]
    packages = _values(options, "-p", "--package")
    word = rest[index + 1 : index + 2] if rest[index : index + 1] == ("--",) else rest[index : index + 1]
    if any(option in ("-c", "--call") or option.startswith("--call=") for option in rest) or not (packages or word):
        return None
    install = (*start, *options, *(() if packages else ("--package", *word)), "-c", "true")
    return _Request(install, packages or word, (*start, *options, *word))


# uvx, and `uv tool run`.

_UVX_VALUED = frozenset(
    re.findall(
        r"\S+",
        "--from -w --with --with-editable --with-requirements -c --constraints -b --build-constraints --overrides "
        "--env-file --python-platform --torch-backend --index --default-index -i --index-url --extra-index-url -f "
        "--find-links --index-strategy --keyring-provider -P --upgrade-package --upgrade-group --resolution "
        "--prerelease --prerelease-package --fork-strategy --exclude-newer --exclude-newer-package "
        "--no-sources-package --reinstall-package --link-mode -C --config-setting --config-settings-package "
        "--no-build-isolation-package --no-build-package --no-binary-package --cache-dir --refresh-package -p "
        "--python --color --allow-insecure-host --directory --project --config-file",
    )
)
_PYTHON_WORD = re.compile(r"python[\d.]*(@.*)?")
_UV_URLS = ("--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links")
_UV_URL_VARIABLES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")


def _uvx(args: tuple[str, ...], env: Mapping[str, str], cwd: Path, program: str) -> Needs:
    settings = Path.home() / ".config" / "uv" / "uv.toml"
    text = ""
    with suppress(OSError, UnicodeError, tomllib.TOMLDecodeError):
        text = settings.read_text(encoding="utf-8")
        tomllib.loads(text)
    urls = re.findall(r"https?://[^\s\"',\]]+", text)
    readable = bool(text) and not any("@" in _authority(url) for url in urls)  # not one with a password
    command_urls: list[str] = []
    for value in (*_values(args, *_UV_URLS), *(env.get(name, "") for name in _UV_URL_VARIABLES)):
        command_urls += [
            word.rpartition("=")[2] if word.partition("=")[0].isidentifier() else word for word in value.split()
        ]

    def variables(cache: Path) -> dict[str, str]:
        places = {"UV_CACHE_DIR": str(cache / "uv"), "UV_TOOL_DIR": str(cache / "tools")}
        return places if readable or not settings.exists() else {**places, "UV_NO_CONFIG": "1"}

    needs = _needs(_uvx_request(args), "uvx", cwd, _hosts(urls, command_urls, PYPI), variables, _own(env, program))
    pythons = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    read = (
        *needs.read,
        *(str(path) for path in (pythons, settings) if path.exists() and (path != settings or readable)),
    )
    return Needs(**{**vars(needs), "read": read, "programs": ("uv", "python3", "python")})


def _uvx_request(args: tuple[str, ...]) -> _Request | None:
    start = args[:2] if args[:2] == ("tool", "run") else ()
    if args[:1] in (("run",), ("tool",)) and not start:
        return None
    rest = args[len(start) :]
    index = _first_word(rest, _UVX_VALUED)
    options = rest[:index]
    word = rest[index + 1 : index + 2] if rest[index : index + 1] == ("--",) else rest[index : index + 1]
    sources = _values(options, "--from")
    if not word:
        return None
    packages = sources or (() if _PYTHON_WORD.fullmatch(word[0]) else word)
    install = (*start, *options, *(() if sources or not packages else ("--from", *word)), "python", "-c", "pass")
    return _Request(install, (*packages, *_values(options, "-w", "--with")), (*start, *options, *word))


# python.


def _python(args: tuple[str, ...], env: Mapping[str, str], cwd: Path, program: str) -> Needs:
    folder = script_folder(args, cwd)
    return Needs(read=(folder,)) if folder else Needs()


_PRESETS: dict[str, Callable[[tuple[str, ...], Mapping[str, str], Path, str], Needs]] = {
    "npx": _npx,
    "uvx": _uvx,
    "python": _python,
}
