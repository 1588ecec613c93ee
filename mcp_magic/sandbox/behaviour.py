"""What a server did, by call: files read and written, hosts, programs; saved as a policy, and compared with one.

A policy is a TOML file. Its table `sandbox` allows all of it together, for `--sandbox FILE`. `start`, `background` and
`tools.NAME` say when it was done, for `--check`. What differs from run to run and says nothing is left out: where the
server's own program is, the libraries of Python and Node, compiled files, devices such as /dev/null.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import clean, join_names, plural
from mcp_magic.config.parsing import kind_of, parse_toml, read_text, write_text
from mcp_magic.config.sandbox import is_below
from mcp_magic.display.document import parts_text, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line, visible
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pandas as pd

    from mcp_magic.display.document import Part

KINDS = {"read": "reads", "write": "writes", "host": "contacts", "program": "runs"}
"""The kinds of a use, and their verbs."""

START, BACKGROUND, LATER = "start", "background", "later"
"""What is no call: before the first, between calls, and after so many that they are no longer told apart."""

CROWD = 8  # most files of a folder that are listed one by one

_UNRECORDED = re.compile(r"kind (?:write|host|program)\b")
"""A remark on uses of a kind that the log does not have: no check can pass then. Many files are read harmlessly."""

MAX_SHOWN = 300  # characters of a path or a host


@dataclass(frozen=True, slots=True)
class Use:
    """Something that was used while one call ran, or none.

    Attributes:
        call: The number of the call, from 1, or `START`, `BACKGROUND`, `LATER`.
        tools: The tools of all calls that ran; empty for no call.
        kind: A key of `KINDS`.
        target: An absolute path; `HOST:PORT`, or a name that was looked up.
        count: How often.
        certain: Whether no other call ran at the time.
    """

    call: int | str
    tools: tuple[str, ...]
    kind: str
    target: str
    count: int = 1
    certain: bool = True

    @property
    def time(self) -> Time:
        """When it was used."""
        return Time(bool(self.tools), tuple(dict.fromkeys(self.tools)) or (str(self.call),))


class Time(NamedTuple):
    """The different tools that may have done something, or a phase: a tool can be called `start`, too."""

    is_call: bool
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        """The names, for a table."""
        return " or ".join(map(_shown, self.names))


# Paths, and what they have in common.

_LIBRARY = re.compile(r"(/.*?)/(?:lib(?:32|64)?/(?:python3|[^/]+\.so\b)|(?:site|dist)-packages(?:/|$))")
_NODE = re.compile(r"(/.*?/node_modules)(?:/|$)")
_SYSTEM = re.compile(r"(/(?:usr|lib\w*|bin|sbin|nix|snap|opt/[^/]+))(?:/|$)")
_SETTINGS = re.compile(
    r"/etc/(?:ld\.so\.\w+|locale\.alias|localtime|timezone|nsswitch\.conf|host\.conf|resolv\.conf|hosts|gai\.conf|"
    r"services|protocols|passwd|group|mime\.types|os-release|\w+_version|(?:ssl|pki|ca-certificates)/(?!(?:.*/)?private(?:/|$)).*)"
)
_DEVICE = re.compile(
    r"/dev/(?:null|zero|full|u?random|tty|ptmx|pts/.*|fd/.*|std\w+)|/proc/(?!\d).*|/sys/.*|/(?:proc|sys)"
)
_COMPILED = re.compile(r"/__pycache__(?:/[^/]+\.pyc(?:\.\d+)?)?/?$")
_CACHES = (".npm", ".cache/uv", ".cache/pip", ".local/share/uv", ".cache/node", ".cache/npm")
_OWN_PLACES = re.compile(r"~(?:/\.[^/]+)?|/|/etc|/root|/home(?:/[^/]+)?|/var|/tmp|\.")


class Place(NamedTuple):
    """A path as it is shown and saved."""

    target: str
    group: str = ""  # "libraries" of Python, Node or the system, "caches" of installers, "" for what says something


class Places:
    """Knows the folders that paths are relative to: that of the server, the home, and that of temporary files."""

    def __init__(self, folder: str, home: str | None = None, temporary: str | None = None) -> None:
        self.folder = folder
        self.home = os.path.realpath(home or os.path.expanduser("~"))
        self.temporary = os.path.realpath(temporary or tempfile.gettempdir())

    def place(self, kind: str, path: str) -> Place | None:
        """Return how a path is shown; None for one that says nothing.

        >>> places = Places("/srv/app", "/home/me", "/tmp")
        >>> places.place("read", "/home/me/.ssh/id_rsa"), places.place("write", "/srv/app/out/a.csv")
        (Place(target='~/.ssh/id_rsa', group=''), Place(target='./out/a.csv', group=''))
        >>> places.place("read", "/usr/lib/node_modules/npm/cli.js"), places.place("write", "/tmp/x1/a")
        (Place(target='/usr', group='libraries'), Place(target='/tmp', group=''))
        """
        if kind != "program" and (_COMPILED.search(path) or _DEVICE.fullmatch(path)):
            return None
        if kind == "read":
            if root := self.library(path):
                return Place(root, "libraries")
            if _SETTINGS.fullmatch(path):
                return Place(path, "libraries")
        for cache in _CACHES:
            if is_below(path, root := f"{self.home}/{cache}"):
                return Place(self.short(root), "caches")
        if is_below(path, self.temporary) and not is_below(path, self.folder):
            return Place(self.temporary)  # the names in it differ from run to run
        return Place(self.short(path))

    @staticmethod
    def library(path: str) -> str:
        """Return the folder of the installation that a file of a library belongs to, or ""."""
        if match := _SYSTEM.match(path) or _NODE.match(path) or _LIBRARY.match(path):
            return match[1]
        return os.path.dirname(path) if path.endswith("/pyvenv.cfg") else ""

    def short(self, path: str) -> str:
        """Return a path relative to the folder of the server or to the home, if it is below one of them."""
        for folder, name in ((self.folder, "."), (self.home, "~")):
            if folder != "/" and is_below(path, folder):
                return name + path[len(folder) :]
        return path


def source_of(path: str) -> str:
    """Return the file that a compiled one is made from; another path as it is.

    >>> source_of("/srv/app/__pycache__/tools.cpython-312.pyc"), source_of("/srv/app/a.pyc")
    ('/srv/app/tools.py', '/srv/app/a.pyc')
    """
    return re.sub(r"/__pycache__/([^/.]+)\.[^/]*\.pyc$", r"/\1.py", path)


def _crowded(paths: Iterable[str], short: Callable[[str], str] = str) -> dict[str, str]:
    """Return path -> itself, or its folder if that has so many of them; `short` makes a path relative."""
    unique = [*dict.fromkeys(paths)]
    folders = Counter(path.rpartition("/")[0] for path in unique if not path.endswith("/"))
    crowds = {folder for folder, count in folders.items() if count > CROWD and not _OWN_PLACES.fullmatch(short(folder))}
    return {path: folder if (folder := path.rpartition("/")[0]) in crowds else path for path in unique}


# Policies.

_KEYS = {"read": "read", "write": "write", "host": "net", "program": "programs"}
LISTS = ("read", "write", "net", "programs", "names")
"""The keys of a table of a policy. `names` were looked up and not contacted."""


@dataclass(frozen=True)
class Policy:
    """What calls may do: the tables of a file, with absolute paths.

    Attributes:
        path: The file.
        phases: `START` and `BACKGROUND`, or "sandbox" of a file that has no other table -> key -> values.
        tools: The same of each tool.
    """

    path: Path
    phases: Mapping[str, Mapping[str, frozenset[str]]]
    tools: Mapping[str, Mapping[str, frozenset[str]]]

    def allows(self, tools: Iterable[str], kind: str, target: str) -> bool:
        """Whether one of the tools may do it, or the server at any time."""
        tables = [*self.phases.values(), *(self.tools[tool] for tool in tools if tool in self.tools)]
        if kind == "host":
            hosts = {host for table in tables for host in table["net"]}
            if ":" not in target:  # to look up a name is less than to contact it
                hosts |= {host.rpartition(":")[0] for host in hosts}
                hosts |= {name for table in tables for name in table["names"]}
            return bool({target, "*"} & hosts) or target.rpartition(":")[0] in {h for h in hosts if ":" not in h}
        keys = ("read", "write", "programs") if kind == "read" else (_KEYS[kind],)
        paths = [path for table in tables for key in keys for path in table[key]]
        return any(target == path or (not path.endswith("/") and is_below(target, path)) for path in paths)


def read_policy(path: Path) -> Policy:
    """Read a policy. Raises ConfigError if the file is none."""
    try:
        data = parse_toml(read_text(path))
    except TOMLDecodeError as error:
        problem = f"{path}: not TOML: {error}"
    else:
        base = str(path.parent.resolve())
        tools = data.get("tools", {})
        tables = {name: data[name] for name in (START, BACKGROUND) if name in data}
        if not (isinstance(tools, dict) and (tables or tools or "sandbox" in data)):
            raise ConfigError(f"{path} is no behaviour; `%mcp behaviour SERVER --save {path.name}` writes one.")
        if not (tables or tools):
            tables = {"sandbox": data["sandbox"]}
        phases = {name: _table(path, base, name, table) for name, table in tables.items()}
        return Policy(path, phases, {name: _table(path, base, f"tools.{name}", table) for name, table in tools.items()})
    raise ConfigError(problem)


def _table(path: Path, base: str, name: str, table: Any) -> dict[str, frozenset[str]]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name}: expected a table, got {kind_of(table)}.")
    values = {}
    for key in LISTS:
        words = table.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigError(f"{path}: {name}.{key}: expected a list of text, got {kind_of(words)}.")
        is_path = key in ("read", "write", "programs")
        values[key] = frozenset(_absolute(word, base) if is_path else word for word in words)
    return values


def _absolute(word: str, base: str) -> str:
    path = os.path.realpath(os.path.join(base, os.path.expanduser(word.replace("\0", "\\x00"))))
    return path + "/" if word.endswith("/") and path != "/" else path


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(clean(text), ensure_ascii=False)


def _toml(words: Iterable[str]) -> str:
    """Return a list of text as TOML, a line each if there are several."""
    texts = [_quoted(word) for word in words]
    return f"[{', '.join(texts)}]" if len(texts) < 2 else "".join(["[\n", *(f"    {text},\n" for text in texts), "]"])


# The behaviour.


@dataclass(repr=False)
class Behaviour:
    """What a server did while it was observed.

    Attributes:
        server: Its name.
        where: Its command line.
        uses: What it used.
        calls: The tools that were called, in the order of the calls.
        places: Its folder, and what paths are relative to.
        remarks: What could not be observed.
        program: The file that its command runs, which differs from machine to machine.
        note: What to do next, or "".
    """

    server: str
    where: str
    uses: Sequence[Use]
    calls: Sequence[str]
    places: Places
    remarks: Sequence[str] = ()
    program: str = ""
    note: str = field(default="", compare=False)

    @property
    def df(self) -> pd.DataFrame:
        """All that was used, a row each: call, tool, kind, target, count, certain."""
        import pandas as pd

        rows = []
        for use in self.uses:
            tool = self.calls[use.call - 1] if isinstance(use.call, int) else ""
            rows.append((use.call, tool, use.kind, use.target, use.count, use.certain))
        return pd.DataFrame(rows, columns=["call", "tool", "kind", "target", "count", "certain"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table: what each tool used, libraries and full folders as one row."""
        counts = Counter(self.calls)
        rows: list[dict[str, Any]] = []
        for time, uses in self._by_time().items():
            number = counts[time.names[0]] if time.is_call and len(time.names) == 1 else 0
            label = f"{time.label} ({number} calls)" if number > 1 else time.label
            rows += [{"call": label, **row} for row in self._rows_of(uses)]
        return rows

    def _by_time(self) -> dict[Time, list[Use]]:
        """Return what was used by the tools that may have done it, or by phase: in the order of the first use."""
        times: dict[Time, list[Use]] = {}
        for use in self.uses:
            times.setdefault(use.time, []).append(use)
        return times

    def _rows_of(self, uses: Sequence[Use]) -> list[dict[str, Any]]:
        rows = []
        for kind in KINDS:
            selection = [use for use in _telling(uses) if use.kind == kind]
            counts: Mapping[str, int] = self._hosts(selection) if kind == "host" else self._paths(kind, selection)
            rows += [{"kind": kind, "target": _shown(target), "times": times} for target, times in counts.items()]
        return rows

    @staticmethod
    def _hosts(uses: Sequence[Use]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for use in uses:
            counts[use.target] += use.count
        return counts

    def _paths(self, kind: str, uses: Sequence[Use]) -> dict[str, int]:
        """Return target -> how often, with one entry for libraries and one for a folder with many files."""
        groups: dict[str, set[str]] = {}
        own: Counter[str] = Counter()
        for use in uses:
            if (place := self.places.place(kind, use.target)) is not None:
                if place.group:
                    groups.setdefault(place.group, set()).add(use.target)
                else:
                    own[place.target] += use.count
        folders = _crowded(own)
        members = Counter(folders.values())
        counts: Counter[str] = Counter()
        for target, count in own.items():
            folder = folders[target]
            counts[f"{folder}/ ({members[folder]} files)" if folder != target else target] += count
        words = {"libraries": "interpreter and libraries", "caches": "caches of installers"}
        totals = {f"{words[group]} ({plural(len(files), 'files')})": len(files) for group, files in groups.items()}
        return {**totals, **counts}

    # The policy

    def policy(self, base: Path | None = None) -> str:
        """Return what was done as the text of a policy, in which paths below `base` are relative to it."""
        lines = [
            f"# What {self.server} did: {_shown(self.where)}",
            "# `%mcp behaviour SERVER --check FILE` fails where a call does more,",
            "# `%mcp connect --sandbox FILE ...` allows no more; a folder that was listed, with all that is in it.",
            "",
            "[sandbox]",
            *self._lines(self._allowed(), base),
        ]
        tables: dict[str, list[Use]] = {}
        for time, uses in self._by_time().items():
            for name in time.names:
                tables.setdefault(f"tools.{_key(name)}" if time.is_call else name, []).extend(uses)
        for tool in self.calls:
            tables.setdefault(f"tools.{_key(tool)}", [])
        for title, uses in tables.items():
            overlaps = dict.fromkeys(use.time for use in uses if len(use.time.names) > 1)
            lines += ["", *(f"# also what was done during {_during(time)}" for time in overlaps)]
            lines += [f"[{title}]", *self._lines(self._done(uses), base)]
        return "\n".join(lines) + "\n"

    def _exact(self, use: Use) -> str:
        """Return the target of a use as a policy has it by time; "" for what says nothing about another run."""
        if use.kind == "host":
            return use.target
        if (use.call, use.kind, use.target) == (START, "program", self.program):
            return ""
        place = self.places.place(use.kind, use.target)
        if place is None or place.group:
            return ""
        return place.target if place.target == self.places.temporary else use.target

    def _done(self, uses: Sequence[Use]) -> dict[str, list[str]]:
        """Return the values of a table that says when something was done."""
        values: dict[str, list[str]] = {key: [] for key in LISTS}
        for use in _telling(uses):
            if target := self._exact(use):
                is_name = use.kind == "host" and ":" not in target
                values["names" if is_name else _KEYS[use.kind]].append(target)
        for key in ("read", "write", "programs"):
            values[key] = [*_crowded(values[key], self.places.short).values()]
        return {key: [*dict.fromkeys(words)] for key, words in values.items()}

    def _allowed(self) -> dict[str, list[str]]:
        """Return the values of the table `sandbox`."""
        values: dict[str, list[str]] = {key: [] for key in ("read", "write", "net")}
        own = {use.target.rstrip("/") for use in self.uses if use.kind == "write"}
        for use in self.uses:
            if use.kind == "host":
                if ":" in use.target and not use.target.startswith(("unix:", "listens:")):
                    values["net"].append(use.target)
                continue
            place = self.places.place(use.kind, use.target)
            if place is None:
                continue
            if place.target == self.places.temporary and not self._is_of_others(use, own):
                continue
            target = self.places.library(use.target) if use.kind == "program" else ""
            if place.group:
                target = place.target if place.group == "libraries" else os.path.expanduser(place.target)
            target = target or use.target.rstrip("/")
            is_broad = use.target.endswith("/") and _OWN_PLACES.fullmatch(self.places.short(target))
            if not is_broad or target == self.places.folder:
                values["write" if use.kind == "write" else "read"].append(target)
        for key in ("read", "write"):
            paths = [
                path
                for path in _crowded(values[key], self.places.short).values()
                if key == "write" or os.path.lexists(path)
            ]
            inner = {path for path in paths if any(path != folder and is_below(path, folder) for folder in paths)}
            values[key] = [path for path in paths if path not in inner]
        return {key: [*dict.fromkeys(words)] for key, words in values.items()}

    def _is_of_others(self, use: Use, own: Collection[str]) -> bool:
        """Whether a temporary file was there before: a sandbox has temporary files of its own, and not those."""
        path = use.target.rstrip("/")
        return use.kind == "read" and path not in {self.places.temporary, *own} and os.path.exists(path)

    def _relative(self, base: Path | None) -> Places:
        """Return what paths in a policy are relative to."""
        return Places(str(base) if base is not None else "/", self.places.home, self.places.temporary)

    def _lines(self, values: Mapping[str, Sequence[str]], base: Path | None) -> list[str]:
        places = self._relative(base)
        lines = []
        for key, words in values.items():
            is_path = key in ("read", "write", "programs")
            if words:
                lines.append(f"{key} = {_toml(sorted(places.short(word) if is_path else word for word in words))}")
        return lines

    def save(self, path: Path | str) -> Behaviour:
        """Write what was done as a policy; return the behaviour."""
        path = Path(path)
        write_text(path, self.policy(path.parent.resolve()))
        return self

    def differences(self, path: Path | str) -> list[str]:
        """Return what was done and is not in a policy, as lines such as `send now contacts api.example.com:443`."""
        return [line for lines in self.differences_by_time(path).values() for line in lines]

    def differences_by_time(self, path: Path | str) -> dict[str, list[str]]:
        """Return the same by tool, `start` and `background`, also those without a difference."""
        policy = read_policy(Path(path))
        differences: dict[str, list[str]] = {}
        for time, uses in self._by_time().items():
            tools = time.names if time.is_call else ()
            subject = time.label if time.is_call else self.server
            after = "" if time.is_call else {START: " at its start", BACKGROUND: " between calls"}.get(time.label, "")
            lines: dict[str, None] = {}
            for use in _telling(uses):
                target = self._exact(use)
                if target and not policy.allows(tools, use.kind, target):
                    place = target if use.kind == "host" else self.places.short(target)
                    lines[f"{subject} now {_does(use.kind, _shown(place))}{after}"] = None
            differences.setdefault(time.label, []).extend(lines)  # a tool may be called `start`, too
        if missing := [remark for remark in self.remarks if _UNRECORDED.search(remark)]:
            differences["record"] = [f"{self.server} did more than could be recorded: {remark}" for remark in missing]
        return differences

    def check(self, path: Path | str) -> None:
        """Raise CheckFailedError where something was done that a policy does not have."""
        from mcp_magic.results.results import CheckFailedError

        name = Path(path).name
        if lines := self.differences(path):
            text = f"{lines[0]}, which {name} does not have"
            if len(lines) > 1:
                text = "\n  ".join([f"{len(lines)} things that {name} does not have:", *lines])
            raise CheckFailedError(f"{self.server}: {text}", self)

    # Display

    def __repr__(self) -> str:
        return f"<Behaviour of {self.server!r}: {plural(len(self.calls), 'calls')}, {plural(len(self.uses), 'uses')}>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: the table."""
        doubtful = [_during(time) for time in self._by_time() if len(time.names) > 1]
        notes = [*self.remarks]
        if doubtful:
            notes.append(
                f"during {join_names(doubtful)}: calls that overlapped, so it is not certain which of them did it"
            )
        listing = Listing(
            self.rows(),
            title=f"Behaviour of {self.server}, {plural(len(self.calls), 'calls')}",
            columns=("call", "kind", "target", "times"),
            empty=f"{self.server} used nothing that says something",
            note="\n".join([*notes, *([self.note] if self.note else [])]),
            kind="entries",
        )
        return listing.parts()


def _shown(text: str) -> str:
    return one_line(visible(text), MAX_SHOWN)


def _during(time: Time) -> str:
    return " and ".join(map(_shown, time.names))


def _does(kind: str, target: str) -> str:
    if kind == "host" and target.startswith("listens:"):
        return f"listens on port {target.removeprefix('listens:')}"
    return f"{'looks up' if kind == 'host' and ':' not in target else KINDS[kind]} {target}"


def _telling(uses: Sequence[Use]) -> list[Use]:
    """Return the uses without the names that were looked up and then contacted."""
    contacted = {use.target.rpartition(":")[0] for use in uses if use.kind == "host" and ":" in use.target}
    return [use for use in uses if use.kind != "host" or use.target not in contacted]
