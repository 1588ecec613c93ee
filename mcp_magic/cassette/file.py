"""The file of a cassette: JSON Lines after a header, written as messages come.

    {"cassette": 1, "by": "mcp_magic 0.1.0"}
    {"session": 1, "server": "math", "transport": "stdio", "where": "python math_server.py"}
    {"session": 1, "to": "server", "id": 2, "method": "tools/call", "params": {"name": "add", ...}}
    {"session": 1, "to": "client", "id": 2, "result": {...}, "pause": 0.2}
    {"session": 1, "stderr": "..."}
    {"session": 1, "garbage": "a line that is no message"}
    {"session": 1, "ended": true}
    {"session": 1, "exited": "exit code 3"}
    {"session": 2, "failed": "ServerExitedError", "message": "..."}
    {"title": "math", "target": "math_server.py", "call": null, "steps": [...], "findings": [...]}
    {"again": "math", "method": "tools/call", "params": {"name": "now"}, "result": {...}}
    {"mask": "math", "method": "tools/call", "name": "now", "path": "result.structuredContent.at", "types": ["string"]}
    {"blob": "3f2a…", "base64": "iVBORw0KGgo…"}
    {"turn": 1, "model": "openai:gpt-5", "digest": "…", "messages": [...], "tools": [...]}
    {"turn": 1, "chunk": {...}}
    {"turn": 1, "done": true}
    {"cut": 64000000}

`cut` is the last line of a recording that reached its bound in bytes. `again` is a later answer to a recorded request,
`mask` what varies between the answers; replays do not use them.

`pause` is the time since the previous line of the same session or turn, in seconds rounded to a tenth. Zero is not
written, so that a new recording differs only where something has changed. Long base64 is written once. The kernel's
working folder is written as `«here»` and read as the current one, so that a cassette plays in other folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import weakref
from typing import TYPE_CHECKING, Any

from mcp_magic.config.parsing import read_bytes, working_directory
from mcp_magic.errors import CassetteError
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = 1  # the format version that is written, and the newest that can be read

BLOB, PLAIN = "$blob", "$plain"

BLOB_CHARACTERS = 1000  # minimum length of base64 that gets a line of its own

LARGEST = 64_000_000  # maximum number of bytes of a cassette, unless a setting says otherwise: a recording ends there

UNPACKED = 4  # characters that unpacking blobs and folders may produce, for each byte that the file may have
RESERVED = 100  # bytes that are left for the line that says that the recording ended
DEEPEST = 250  # maximum depth of nesting; the SDK reads about 200 levels of a message
HERE = "«here»"  # stands for the folder in texts

_BASE64 = re.compile(rf"(?P<prefix>data:[^,]{{1,200}};base64,)?(?P<body>[A-Za-z0-9+/_-]{{{BLOB_CHARACTERS},}}={{0,2}})")


class CassetteFile:
    """Reads and writes one cassette file of limited size; `here` is the folder that is written as `«here»`."""

    def __init__(self, path: Path, here: Path | None = None, largest: int = LARGEST) -> None:
        self.path = path
        self.largest = largest
        folder = (here or working_directory()).absolute()
        self._here = str(folder)
        # The folder's path, also at the beginning of a path or in a `file://` URI. The root folder would gain nothing.
        here_path = rf"(?:(?<=file://)|(?<![\w./~-])){re.escape(self._here)}(?![\w.-])"
        self._place = re.compile(here_path) if folder.name else None
        self._blobs: set[str] = set()
        self._unpacked = 0
        self.begun = False
        self._size = path.stat().st_size if path.exists() else 0
        self._unlock: weakref.finalize[Any, Any] | None = None

    def read(self, odd: list[str] | None = None) -> list[dict[str, Any]]:
        """Return its lines after the header, unpacked; CassetteError if they are wrong or would fill the memory.

        If there is a list `odd`, wrong lines after the header are left out, and their errors are added to it.
        """
        lines = self._lines(odd)
        self._check_header(next(lines, (0, {}))[1])
        self.begun = True
        blobs: dict[str, str] = {}
        unpacking = _Unpacking(blobs, self._here, UNPACKED * self.largest)
        entries: list[dict[str, Any]] = []
        for number, packed in lines:
            try:
                entry = self._checked(number, packed, unpacking)
            except CassetteError as error:
                if odd is None:
                    raise
                odd.append(str(error))
                continue
            if "blob" in entry:
                blobs[entry["blob"]] = entry["base64"]
            else:
                entries.append(entry)
        self._blobs, self._unpacked = set(blobs), unpacking.characters
        return entries

    def _check_header(self, header: dict[str, Any]) -> None:
        version = header.get("cassette")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise CassetteError(f'{self.path} is not a cassette: its first line does not say {{"cassette": 1, ...}}.')
        if version > FORMAT:
            newer = f"{self.path} is a cassette of format {version}; this mcp_magic reads up to {FORMAT}"
            raise CassetteError(f"{newer}: update mcp_magic, or record it again with `--mode record`.")

    def _checked(self, number: int, packed: dict[str, Any], unpacking: _Unpacking) -> dict[str, Any]:
        from mcp_magic.cassette.format import problem_of

        try:
            entry = unpacking.unpack(packed)
            problem = problem_of(entry)
        except _TooMuchError as error:
            problem = str(error)
        if problem:
            raise self.damaged(f"line {number}", problem)
        return entry

    def damaged(self, place: str, problem: str) -> CassetteError:
        """Return an error with a problem, its place, and the command to record the cassette again."""
        is_ours = self.path.suffix == ".jsonl"  # nobody shall overwrite a program
        file = (as_word(str(self.path)) if is_ours else None) or "FILE"
        return CassetteError(f"{self.path}, {place}: {problem}. `%mcp record {file} --mode record` records it again.")

    def _lines(self, odd: list[str] | None) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            text = read_bytes(self.path, self.largest).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "no UTF-8"
            raise CassetteError(f"the cassette {self.path} cannot be read: {why}") from None
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            entry = _object(line)
            if isinstance(entry, str) and number >= len(lines) and not text.endswith("\n"):
                return  # the kernel died while writing this line
            if isinstance(entry, str):
                problem = self.damaged(f"line {number}", entry)
                if odd is None or number == 1:
                    raise problem
                odd.append(str(problem))
                continue
            yield number, entry

    def begin(self, by: str) -> None:
        """Start a new file, with a header."""
        self.begun, self._blobs, self._unpacked = True, set(), 0
        self._write(_line({"cassette": FORMAT, "by": by}), "wb")

    def append(self, entry: dict[str, Any]) -> bool:
        """Write a line, at once; return False if the file would become too large to be read, and write nothing."""
        packing = _Packing(self._here, self._place)
        packed = {name: packing.packed(value) for name, value in entry.items()}
        new = [{"blob": name, "base64": body} for name, body in packing.blobs.items() if name not in self._blobs]
        data = b"".join(map(_line, [*new, packed]))
        unpacked = self._unpacked + packing.characters
        # half of what reading allows: the folder may have a longer name where the cassette is played
        if self._size + len(data) > self.largest - RESERVED or unpacked > UNPACKED * self.largest // 2:
            return False
        self._write(data, "ab")
        self._blobs |= packing.blobs.keys()
        self._unpacked = unpacked
        return True

    def cut(self) -> None:
        """Write that the recording ended because the file would become too large."""
        line = _line({"cut": self.largest})
        if self._size + len(line) <= self.largest:
            self._write(line, "ab")

    def _write(self, data: bytes, mode: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._unlock is None:
                self._lock()
                if mode == "ab":
                    _without_half_a_line(self.path)
            with self.path.open(mode) as file:
                file.write(data)
                self._size = file.tell()
        except OSError as error:
            raise CassetteError(f"the cassette {self.path} cannot be written: {error.strerror}") from None

    def _lock(self) -> None:
        """Lock the file against other kernels, whose sessions would have the same numbers."""
        from mcp_magic.auth.store import try_lock

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        unlock = weakref.finalize(self, os.close, descriptor)
        problem = "" if try_lock(descriptor) else "another kernel is recording on it"
        if not problem and os.fstat(descriptor).st_size != self._size:
            problem = "another program changed it during the recording"
        if problem:
            unlock()
            raise CassetteError(f"the cassette {self.path} cannot be written: {problem}; record on another file.")
        self._unlock = unlock

    def close(self) -> None:
        """Unlock the file. Idempotent."""
        if self._unlock is not None:
            self._unlock()
            self._unlock = None


class _TooMuchError(Exception):
    """A line cannot be unpacked: it exceeds a limit, or names an unknown blob."""


class _Unpacking:
    """Replaces blob references and folders by their values, within a limit: a blob may be used thousands of times."""

    def __init__(self, blobs: dict[str, str], here: str, most: int) -> None:
        self._blobs = blobs
        self._here = here
        self._most = most
        self.characters = 0

    def unpack(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {name: self._unpacked(inner, 1) for name, inner in entry.items()}

    def _unpacked(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if depth > DEEPEST:
            raise _TooMuchError(f"nested deeper than {DEEPEST} levels")
        if isinstance(value, list):
            return [self._unpacked(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        if BLOB in value:
            return self._blob(value)
        if isinstance(value.get(PLAIN), dict):
            value = value[PLAIN]
        return {name: self._unpacked(inner, depth + 1) for name, inner in value.items()}

    def _text(self, text: str) -> str:
        if HERE not in text:
            return text
        self._takes(len(text) + text.count(HERE) * len(self._here))
        return text.replace(HERE, self._here)

    def _blob(self, value: dict[str, Any]) -> str:
        name, prefix = value[BLOB], value.get("prefix", "")
        body = self._blobs.get(name) if isinstance(name, str) else None
        if body is None or not isinstance(prefix, str):
            raise _TooMuchError(f'{{"{BLOB}": ...}} names no line {{"blob": ..., "base64": ...}}')
        self._takes(len(prefix) + len(body))
        return prefix + body

    def _takes(self, characters: int) -> None:
        self.characters += characters
        if self.characters > self._most:
            raise _TooMuchError(f"unpacked it has more than {self._most:,} characters")


def _object(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return "not a JSON object (is it a cassette?)"
    except ValueError:
        return f"a number has more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        return f"nested deeper than {DEEPEST} levels"
    return value if isinstance(value, dict) else "not a JSON object (is it a cassette?)"


class _Packing:
    """Replaces long base64 by references to blobs, and counts the characters that `_Unpacking` will make of a line."""

    def __init__(self, here: str, place: re.Pattern[str] | None) -> None:
        self._here = here
        self._place = place
        self.blobs: dict[str, str] = {}
        self.characters = 0

    def packed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list | tuple):
            return [self.packed(item) for item in value]
        if isinstance(value, dict):
            inner = {str(name): self.packed(item) for name, item in value.items()}
            return {PLAIN: inner} if BLOB in inner or PLAIN in inner else inner
        return value

    def _text(self, text: str) -> Any:
        match = _BASE64.fullmatch(text) if len(text) >= BLOB_CHARACTERS else None
        if match is None:
            if self._place is not None and self._here in text:
                text = self._place.sub(HERE, text)
            if HERE in text:
                self.characters += len(text) + text.count(HERE) * len(self._here)
            return text
        self.characters += len(text)
        name = hashlib.sha256(match["body"].encode()).hexdigest()[:16]
        self.blobs[name] = match["body"]
        return {BLOB: name, **({"prefix": match["prefix"]} if match["prefix"] else {})}


def _line(entry: dict[str, Any]) -> bytes:
    # Half of a surrogate pair, which UTF-8 cannot encode, becomes its escape sequence, as the server sent it.
    return f"{json.dumps(entry, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")


def _without_half_a_line(path: Path) -> None:
    """Remove an unfinished last line, left by a kernel that died."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
