"""Bundles (`.mcpb`, earlier `.dxt`): a server in a zip with a `manifest.json`, checked before anything is unpacked.

Source: modelcontextprotocol/mcpb, MANIFEST.md (0.1 to 0.4). A bundle is a stranger's: names that lead out of its
folder, links, names that differ only in case, and sizes beyond the limits are refused, whatever else is in it. It is
unpacked into a folder that is named by its digest, so that what was shown is what runs. Its signature is not checked.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names, plural
from mcp_magic.config.parsing import is_variable, parse_json
from mcp_magic.display.text import one_line
from mcp_magic.errors import ConfigError
from mcp_magic.registry.entry import MAX_ITEMS, UNPRINTABLE, Input
from mcp_magic.registry.recipe import Recipe, SlotMaker, Word
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BUNDLE = 256_000_000  # bytes of a bundle
MAX_UNPACKED = 1_000_000_000  # bytes of all its files
MAX_FILES = 50_000
MAX_DIRECTORY = 10_000_000  # bytes of the directory of a zip, which the standard library reads as a whole
MAX_PATH = 240  # characters of a path in it
MAX_MANIFEST = 1_000_000  # bytes
TAIL = 70_000  # bytes at the end of a zip, within which its directory is named
SERVER_TYPES = ("node", "python", "binary", "uv")

_DRIVE = re.compile(r"[A-Za-z]:")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_FORMATS = {"number": "number", "boolean": "boolean", "directory": "filepath", "file": "filepath"}


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and checked."""

    source: str  # the file or URL
    data: bytes = field(repr=False)
    sha256: str
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """What the bundle calls itself."""
        return one_line(str(self.manifest.get("name") or "bundle"), 100)

    @property
    def claims(self) -> tuple[str, ...]:
        """What the bundle says of itself."""
        author = object_of(self.manifest.get("author")).get("name")
        texts = [self.manifest.get(key) for key in ("display_name", "description")]
        texts.append(f"by {author}" if isinstance(author, str) and author else None)
        return tuple(one_line(text, 300) for text in texts if isinstance(text, str) and text)

    @property
    def folder(self) -> Path:
        """The folder into which it is unpacked."""
        return bundles_folder() / self.sha256


def bundles_folder() -> Path:
    """Return the folder of the unpacked bundles, below Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "bundles"


def read_bundle(data: bytes, source: str, sha256: str = "") -> Bundle:
    """Read a bundle and check it; nothing is written.

    Args:
        data: The file.
        source: Its path or URL, for messages.
        sha256: The digest that it must have; "" if there is none.

    Raises:
        ConfigError: It is no bundle, or not the one that its publisher names, or not safe to unpack.
    """
    digest = hashlib.sha256(data).hexdigest()
    if sha256 and digest != sha256:
        raise ConfigError(f"{source} is not what its publisher names: its SHA-256 is {digest}, and should be {sha256}.")
    _check_directory(data, source)
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = _checked(archive.infolist(), source)
            if "manifest.json" not in members:
                raise ConfigError(f"{source} has no manifest.json, so it is no bundle of a server.")
            text = _content(archive, members["manifest.json"], MAX_MANIFEST, source)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, ValueError) as error:
        problem = f"{source} is no zip that can be read: {one_line(str(error), 100)}"
    else:
        manifest = parse_json(text.decode("utf-8-sig", "replace"), source=f"{source}: manifest.json")
        if not isinstance(manifest, dict) or not isinstance(manifest.get("server"), dict):
            raise ConfigError(f"{source}: manifest.json does not describe a server.")
        return Bundle(source, data, digest, manifest)
    raise ConfigError(problem)


def _check_directory(data: bytes, source: str) -> None:
    """Raise ConfigError if a zip may have too long a directory, before it is read; any of its ends may be the right."""
    tail = data[-TAIL:]
    for match in re.finditer(rb"PK\x05\x06", tail):
        at = match.start()
        size = int.from_bytes(tail[at + 12 : at + 16], "little")
        if size > MAX_DIRECTORY or tail[max(at - 20, 0) : max(at - 16, 0)] == b"PK\x06\x07":
            raise ConfigError(
                f"{source} has too many files: its directory may have {MAX_DIRECTORY:,} bytes, and no zip64."
            )


def _checked(infos: list[zipfile.ZipInfo], source: str) -> dict[str, zipfile.ZipInfo]:
    """Return the files by path. Raises ConfigError if one is not safe to unpack."""
    if len(infos) > MAX_FILES:
        raise ConfigError(f"{source} has {len(infos):,} files; at most {MAX_FILES:,} are unpacked.")
    total = sum(info.file_size for info in infos)
    if total > MAX_UNPACKED:
        raise ConfigError(f"{source} would unpack to {total:,} bytes; at most {MAX_UNPACKED:,} are.")
    members: dict[str, zipfile.ZipInfo] = {}
    spellings: dict[str, str] = {}
    for info in infos:
        path = info.orig_filename.rstrip("/")
        same = unicodedata.normalize("NFC", path).casefold()
        why = _why_not(info.orig_filename) or _why_no_file(info)
        if not why and same in spellings:
            other = spellings[same]
            why = "it is there twice" if other == path else f"on some systems it is the same as {one_line(other, 60)}"
        if why:
            raise ConfigError(f"{source} is not unpacked because of {one_line(info.orig_filename, 80)!r}: {why}.")
        spellings[same] = path
        if not info.is_dir():
            members[path] = info
    folders = {str(folder) for path in members for folder in PurePosixPath(path).parents}
    if both := sorted(folders & members.keys()):
        raise ConfigError(f"{source} is not unpacked: {one_line(both[0], 80)!r} is a file and a folder.")
    return members


def _why_no_file(info: zipfile.ZipInfo) -> str:
    """Return why a member is no file or folder that can be unpacked, or ""."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 1:
        return "it is encrypted"
    if kind in (0, stat.S_IFREG, stat.S_IFDIR):
        return ""
    return "it is a link" if kind == stat.S_IFLNK else "it is neither a file nor a folder"


def _why_not(path: str) -> str:
    """Return why a path cannot be unpacked, or ""."""
    if len(path) > MAX_PATH:
        return f"it has {len(path)} characters"
    if UNPRINTABLE.search(path) or "\\" in path:
        return "it has characters that no path should have"
    if path.startswith("/") or _DRIVE.match(path):
        return "it leads to a place of its own"
    parts = path.rstrip("/").split("/")
    return "it leads out of its folder" if any(part in ("", ".", "..") for part in parts) else ""


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, source: str) -> bytes:
    if info.file_size > limit:
        raise ConfigError(f"{source}: {one_line(info.filename, 80)} has {info.file_size:,} bytes; at most {limit:,}.")
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise ConfigError(f"{source}: {one_line(info.filename, 80)} is larger than it says.")
    return data


def unpack(bundle: Bundle) -> Path:
    """Unpack a bundle into its folder, unless that is there; return the folder.

    Raises:
        ConfigError: It cannot be written.
    """
    if bundle.folder.is_dir():
        return bundle.folder
    fresh = bundle.folder.with_name(f".{bundle.sha256[:16]}.{secrets.token_hex(6)}")
    try:
        bundles_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.mkdir(mode=0o700)
        _write_files(bundle, fresh)
        try:
            fresh.rename(bundle.folder)
        except OSError:
            if not bundle.folder.is_dir():  # another kernel has unpacked the same
                raise
        return bundle.folder
    except OSError as error:
        problem = f"{bundle.source} cannot be unpacked into {bundle.folder}: {error.strerror or error}"
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError) as error:
        problem = f"{bundle.source} cannot be unpacked: {one_line(str(error), 100)}"
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    raise ConfigError(problem)


def _write_files(bundle: Bundle, folder: Path) -> None:
    entry = str(object_of(bundle.manifest.get("server")).get("entry_point") or "")
    is_binary = object_of(bundle.manifest.get("server")).get("type") == "binary"
    left = MAX_UNPACKED
    with zipfile.ZipFile(BytesIO(bundle.data)) as archive:
        for path, info in _checked(archive.infolist(), bundle.source).items():
            data = _content(archive, info, left, bundle.source)
            left -= len(data)
            place = folder / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            runs = bool((info.external_attr >> 16) & 0o111) or (is_binary and path == entry.removeprefix("./"))
            with os.fdopen(
                os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if runs else 0o600), "wb"
            ) as file:
                file.write(data)


# The manifest


def bundle_recipe(bundle: Bundle) -> Recipe:
    """Return how the server of a bundle runs, in its folder.

    Raises:
        ConfigError: Its manifest does not say it, or it is made for other systems.
    """
    server = object_of(bundle.manifest.get("server"))
    kind = str(server.get("type") or "")
    if kind not in SERVER_TYPES:
        shown = one_line(kind, 40) or "none"
        raise ConfigError(f"{bundle.source}: the type of its server is {shown}, and can be {join_names(SERVER_TYPES)}.")
    platforms = object_of(bundle.manifest.get("compatibility")).get("platforms")
    if isinstance(platforms, list) and platforms and sys.platform not in platforms:
        names = join_names(one_line(str(name), 20) for name in platforms[:5])
        raise ConfigError(f"{bundle.source} is made for {names}, and this is {sys.platform}.")
    reader = _ManifestReader(bundle)
    command, words, env = reader.launch(kind, server)
    notes = list(reader.maker.notes)
    if kind == "uv":
        notes.append("uv installs what its pyproject.toml names, which is not in the bundle")
    tools = bundle.manifest.get("tools")
    if isinstance(tools, list) and tools:
        notes.append(f"it says that it has {plural(len(tools), 'tools')}")
    return Recipe(
        f"bundle {bundle.name} ({kind})",
        command=command,
        words=tuple(words),
        env=env,
        cwd=str(bundle.folder),
        digest=f"sha256:{bundle.sha256}",
        version=one_line(str(bundle.manifest.get("version") or ""), 60),
        notes=tuple(notes),
    )


class _ManifestReader:
    """Reads the launch of a server from a manifest; `${...}` in it become texts and slots."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.maker = SlotMaker()
        home = Path.home()
        self._texts = {
            "__dirname": str(bundle.folder),
            "HOME": str(home),
            **{name.upper(): str(home / name) for name in ("Desktop", "Documents", "Downloads")},
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        table = object_of(bundle.manifest.get("user_config"))
        self._options = {
            key: self._input(key, object_of(option))
            for key, option in [*table.items()][:MAX_ITEMS]
            if isinstance(key, str)
        }

    def _input(self, key: str, option: dict[str, Any]) -> Input:
        title, about = (str(option.get(name) or "") for name in ("title", "description"))
        limits = [f"{name} {option[name]}" for name in ("min", "max") if isinstance(option.get(name), int | float)]
        default = option.get("default")
        default = default[0] if isinstance(default, list) and len(default) == 1 else default
        if isinstance(default, bool):
            default = str(default).lower()
        elif isinstance(default, int | float):
            default = str(default)
        if isinstance(default, str):
            default = _REFERENCE.sub(lambda match: self._texts.get(match[1], match[0]), default)
        return Input(
            key,
            description="; ".join(filter(None, (title, about if about != title else "", *limits)))[:2_000],
            default=default if isinstance(default, str) and default else None,
            format=_FORMATS.get(str(option.get("type")), "string"),
            required=option.get("required") is True,
            secret=option.get("sensitive") is True,
            repeated=option.get("multiple") is True,
        )

    def launch(self, kind: str, server: dict[str, Any]) -> tuple[str, list[Word], dict[str, Word]]:
        """Return the program, its arguments and its variables."""
        config = object_of(server.get("mcp_config"))
        if not config and kind == "uv":
            entry = self._entry(server)
            return "uv", [Word((word,)) for word in ("run", "--directory", str(self._bundle.folder), entry)], {}
        override = object_of(object_of(config.get("platform_overrides")).get(sys.platform))
        config = {**config, **{key: value for key, value in override.items() if value}}
        command, args, env = config.get("command"), config.get("args") or [], config.get("env") or {}
        if not isinstance(command, str) or not command.strip():
            raise ConfigError(f"{self._bundle.source}: manifest.json has no command for its server.")
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args) or not isinstance(env, dict):
            raise ConfigError(f"{self._bundle.source}: args are not a list of texts, or env is no object.")
        variables = {
            name: Word(self._parts(value if isinstance(value, str) else str(value).lower()))
            for name, value in env.items()
        }
        for name in variables:
            if not is_variable(name):
                raise ConfigError(f"{self._bundle.source}: {one_line(name, 60)!r} is not the name of a variable.")
        return self._program(command), self._words(args), variables

    def _entry(self, server: dict[str, Any]) -> str:
        entry = server.get("entry_point")
        if not isinstance(entry, str) or not entry or _why_not(entry):
            raise ConfigError(f"{self._bundle.source}: manifest.json has no entry_point in the bundle.")
        return entry

    def _program(self, command: str) -> str:
        """Return the program: one of the bundle by its whole path, another by its name."""
        parts = self._parts(command)
        if not all(isinstance(part, str) for part in parts):
            raise ConfigError(f"{self._bundle.source}: its command depends on what you fill in, and is not run.")
        text = "".join(part for part in parts if isinstance(part, str))
        if "/" in text and not Path(text).is_absolute():
            return str(self._bundle.folder / text)
        if text in ("python", "python3") and shutil.which(text) is None:
            return sys.executable
        return text

    def _words(self, args: list[str]) -> list[Word]:
        words: list[Word] = []
        for arg in args:
            word = Word(self._parts(arg))
            if word.slots and words and not words[-1].slots and not words[-1].flag:
                flag = "".join(str(part) for part in words[-1].parts)
                if re.fullmatch(r"--?[A-Za-z][\w-]*", flag):  # both are left out if there is no value
                    words[-1] = Word(word.parts, flag)
                    continue
            words.append(word)
        return words

    def _parts(self, text: str) -> tuple[Any, ...]:
        parts: list[Any] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            name = match[1]
            parts.append(text[end : match.start()])
            end = match.end()
            option = self._options.get(name.removeprefix("user_config."))
            if name.startswith("user_config.") and option is not None:
                parts.append(self.maker.slot(option))
            elif name in self._texts:
                parts.append(self._texts[name])
            else:
                shown = one_line(match[0], 60)
                raise ConfigError(f"{self._bundle.source}: manifest.json refers to {shown}, which no bundle has.")
        parts.append(text[end:])
        return tuple(part for part in parts if part != "") or ("",)
