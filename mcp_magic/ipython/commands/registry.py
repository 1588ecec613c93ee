"""`%mcp find`, `add` and `remove`: servers of a registry, and of configuration files."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import CommandError, ConfigError, MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab, seconds_typed, variable_typed
from mcp_magic.registry.client import OFFICIAL_REGISTRY
from mcp_magic.registry.entry import PACKAGE_TYPES
from mcp_magic.registry.search import LIMIT, MAX_LIMIT, TRANSPORT_TYPES, cached_names
from mcp_magic.schema.commandline import REFERENCE, as_word
from mcp_magic.schema.secrets import is_declared_secret

if TYPE_CHECKING:
    from mcp_magic.addition import NewServer
    from mcp_magic.display.listing import Listing

_NAMES = 5_000  # most names of a cache that Tab looks at
_PAGES = 50


async def _find(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    listing: Listing = await invocation.host.search_registry(
        *(str(invocation.value(word)) for word in arguments.words),
        registry=invocation.text(arguments.registry) if arguments.registry else None,
        refresh=arguments.refresh,
        timeout=arguments.timeout,
        transport=arguments.transport or "",
        package=arguments.package or "",
        every=arguments.all,
        limit=arguments.limit,
    )
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = listing
    return listing


def registry_names(tab: Tab) -> list[str]:
    """Return the names of servers that searches of the registry have brought into the cache."""
    registry = str(tab.settings.registry) if tab.settings is not None else ""
    names: list[str] = []
    with suppress(MCPMagicError, OSError):  # Tab shows no errors
        names = [*islice(cached_names(registry or OFFICIAL_REGISTRY, _PAGES), _NAMES)]
    return completion.starting(tab, names)


def _count(word: str) -> int:
    """Read a number of rows. Raises ArgumentTypeError if there cannot be so many."""
    if word.isdecimal() and 1 <= int(word[:9]) <= MAX_LIMIT:
        return int(word)
    raise argparse.ArgumentTypeError(f"expected 1 to {MAX_LIMIT:,}, got {word[:40]!r}")


FIND = Implementation(
    _find,
    (
        Argument(
            "words",
            nargs="*",
            metavar="WORDS",
            complete=registry_names,
            help="all of them must be in name, title or description",
        ),
        Argument("--registry", metavar="URL", help="another registry than that of the setting `registry`"),
        Argument("--transport", choices=[*TRANSPORT_TYPES], help="only servers that can be reached so"),
        Argument("--package", choices=PACKAGE_TYPES, help="only servers that have such a package"),
        Argument("--all", action="store_true", help="also deleted servers and older versions"),
        Argument("--limit", type=_count, default=LIMIT, metavar="N", help=f"matches at most (default: {LIMIT})"),
        Argument("--refresh", action="store_true", help="ask the registry also where the cache has an answer"),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds for each answer (default: 20)"),
        Argument("-o", "--out", type=variable_typed, metavar="NAME", help="also keep the table in this variable"),
    ),
    examples=(
        '%mcp find "postgres"',
        "%mcp find postgres read --package pypi",
        "%mcp find --registry https://registry.example.com --limit 20",
        "servers = %mcp find weather --transport http",
    ),
    details="Nothing is started. A registry checks who may publish under a name, and not what the program does: read "
    "what `%mcp add NAME` shows before you say yes.\n\n"
    "Answers are cached below Jupyter's data directory: for ten minutes the registry is not asked again, and where it "
    "cannot be reached, the cache is searched. `.df` is the table as a DataFrame.",
)


# Servers, added to a file and removed from it.

_FILES = (".json", ".mcpb", ".dxt")  # of files that describe a server
_TARGETS = (".toml", ".json")  # of files that a server is written into
_SET = re.compile(r"[\w.-]+=.*", re.DOTALL)
_WRITTEN = re.compile(r"\$\{[^{}]+\}")  # a reference for the file, which is not evaluated here


async def _add(invocation: Invocation, arguments: argparse.Namespace) -> NewServer:
    new: NewServer = await invocation.host.add(
        str(invocation.value(arguments.what)),
        values=_values(invocation, arguments.set),
        yes=invocation.text(arguments.yes),
        keep=arguments.keep,
        folder=invocation.directory,
        name=arguments.name,
        version=arguments.version or "",
        package=arguments.package or "",
        to=arguments.to and invocation.text(arguments.to),
        registry=invocation.text(arguments.registry) if arguments.registry else "",
        sandbox=arguments.sandbox and invocation.text(arguments.sandbox),
    )
    return new


def _values(invocation: Invocation, words: list[str]) -> dict[str, Any]:
    """Return the values of `--set KEY=VALUE`; one that is there several times is a list."""
    values: dict[str, list[Any]] = {}
    for word in words:
        key, _, text = word.partition("=")
        if not _SET.fullmatch(word):
            raise CommandError(f"%mcp add: --set takes KEY=VALUE, not {key[:40]!r}")
        if _WRITTEN.fullmatch(text):
            value: Any = text
        elif is_declared_secret(key) and not REFERENCE.fullmatch(text):
            raise CommandError(
                f"%mcp add: {key} is a secret, and the notebook keeps the line: --set {key}=$VARIABLE takes its value "
                f"from a variable, --set {key}='${{{key}}}' from the environment each time"
            )
        else:
            value = str(invocation.value(text)) if REFERENCE.fullmatch(text) else invocation.text(text)
        values.setdefault(key, []).append(value)
    return {key: several if len(several) > 1 else several[0] for key, several in values.items()}


ADD = Implementation(
    _add,
    (
        Argument(
            "what",
            metavar="WHAT",
            complete=lambda tab: [*registry_names(tab), *completion.paths(tab, _FILES)],
            help="a name in the registry, a server.json, an .mcpb, npm:NAME, pypi:NAME, oci:IMAGE, or a URL",
        ),
        Argument("--name", help="its name (default: made from that in the registry)"),
        Argument("--version", metavar="V", help="another version than the latest"),
        Argument("--package", choices=(*PACKAGE_TYPES, "remote"), help="the kind to take (default: what works here)"),
        Argument(
            "--to",
            metavar="FILE",
            complete=lambda tab: completion.paths(tab, _TARGETS),
            help="mcp_magic.toml (default), pyproject.toml, mcp.json or .vscode/mcp.json",
        ),
        Argument("--set", action="append", default=[], metavar="K=V", help="a value that it takes; can be repeated"),
        Argument("--registry", metavar="URL", help="another registry than that of the setting `registry`"),
        Argument(
            "--sandbox",
            metavar="read=DIR,...",
            complete=completion.sandbox_words,
            help="what its program may reach: read, write, net=HOST:PORT, memory, processes, or npx, uvx, python",
        ),
        Argument("--yes", default="", metavar="CODE", help="approve what was shown before, by the code that it had"),
        Argument("--keep", action="store_true", help="write it even if it does not work"),
    ),
    examples=(
        "%mcp add io.github.acme/postgres --name db",
        "%mcp add ./tool.mcpb",
        "%mcp add npm:@modelcontextprotocol/server-everything --to .vscode/mcp.json",
        "%mcp add server.json --set folder=data --set API_KEY=$key",
        "%mcp add https://mcp.example.com/mcp --name notes",
        "%mcp add npm:@acme/server --sandbox read=.,write=out,net=api.example.com:443",
    ),
    details="It shows what will run, with its version, its digest and all that it takes, and asks once; a form takes "
    "what is to be filled in. Then it starts the server, lets the doctor examine it, opens a session and writes the "
    "entry: other entries and comments of the file stay. Nothing is written if the server does not work, except with "
    "--keep. A secret is never written: the file refers to it.\n\n"
    "Where nobody can be asked, it shows the same and a code; the line with `--yes CODE` then approves exactly that.",
)


async def _remove(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    file = arguments.file and invocation.text(arguments.file)
    return await invocation.host.remove(str(invocation.value(arguments.name)), file=file, folder=invocation.directory)


def _removable(tab: Tab) -> list[str]:
    from mcp_magic.addition import REMOVABLE
    from mcp_magic.config.parsing import working_directory
    from mcp_magic.config.writing import read_file

    names: list[str] = []
    for file in REMOVABLE:
        with suppress(ConfigError):
            names += read_file(working_directory() / file).servers
    return completion.starting(tab, filter(None, map(as_word, dict.fromkeys(names))))


REMOVE = Implementation(
    _remove,
    (
        Argument("name", metavar="NAME", complete=_removable, help="a server of a file of this folder"),
        Argument(
            "--file",
            metavar="FILE",
            complete=lambda tab: completion.paths(tab, _TARGETS),
            help="the file (default: the first of this folder that has it)",
        ),
    ),
    examples=("%mcp remove db", "%mcp remove db --file .vscode/mcp.json"),
    details="The other entries and the comments of the file stay. Nothing that was installed is deleted.",
)
