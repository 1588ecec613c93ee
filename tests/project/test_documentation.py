"""What the documentation shows can be typed: its programs run, its lines parse, its links lead somewhere."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from importlib.util import find_spec
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from IPython.core.interactiveshell import InteractiveShell
from mcp.server.subscriptions import ResourceUpdated

from mcp_magic import Host, host
from mcp_magic.config.project import parse_declaration
from mcp_magic.errors import CommandError
from mcp_magic.ipython import execution
from mcp_magic.ipython.extension import load, unload
from mcp_magic.ipython.settings import Settings
from tests.documentation import PAGES, ROOT, Block, Line, blocks, check_line, lines
from tests.support.bundled import load as bundled
from tests.support.changing_server import Changing
from tests.support.registry_server import entry, npm, registry
from tests.support.skills_server import SkillServer, entry_of

AWAY = "nobody is there in a test"
LEFT_OUT: dict[str, dict[str, str]] = {
    "README.md": {
        "connect -- npx": "needs npm; tests/kernel/test_everything.py runs it",
        "everything:get-sum": "the same",
    },
    "docs/adding.md": {
        "%mcp secret set": "asks the person; tests/ipython/commands/test_secret.py",
        "%mcp secret forget": "the same",
        "${keyring:mcp-magic/github}": "the same",
        "config.toml": "no such files; tests/ipython/commands/test_connect.py has them",
        "connect github": "the same",
        "up .vscode/mcp.json": "the same",
        "mcp add": "needs a yes, and packages; tests/test_addition.py has them",
        "mcp remove": "removes what was added",
    },
    "docs/agent.md": {"postgresql://": AWAY, "openai:gpt-5": "needs a key", "Where is it warmer": "needs a key"},
    "docs/contracts.md": {"shop=shop_next": "no such servers; tests/server/test_verification.py"},
    "docs/debugging.md": {"%mcp replay 12": "the number depends on what went before"},
    "docs/doctor.md": {"https://example.com": AWAY, "npx -y": "needs npm", "--config mcp.json": "as the line before"},
    "docs/guide.md": {"store:insert": "no such server; tests/kernel/test_scope.py has all kinds of arguments"},
    "docs/jobs.md": {
        "ci:build": "no such server; tests/test_jobs.py has one",
        "%mcp connect ci": AWAY,
        "%mcp jobs": "the same",
    },
    "docs/map.md": {
        "--journal": "writes into the folder; tests/map/test_journal.py",
        "--under": "a bound of time; tests/map/test_bench.py",
    },
    "docs/programs.md": {"openai:gpt-5": "needs a key", "Which of London": "needs a key"},
    "docs/sandbox.md": {
        "--sandbox read=servers": "needs Python itself; tests/sandbox/test_launch.py",
        "npx -y": "needs npm; tests/sandbox/test_presets.py has a registry",
        "--name db": "no such server; tests/ipython/commands/test_behaviour.py",
        "db:query": "the same",
        "behaviour db": "the same",
    },
    "docs/sessions.md": {"127.0.0.1:8000": AWAY},
    "docs/telemetry.md": {"telemetry = 'otlp'": AWAY},
    "docs/views.md": {"npx -y": "needs npm", "budget_allocator": "the same"},
    "docs/watching.md": {
        "%mcp watch log://": "until Interrupt; tests/kernel/test_watch.py",
        "%mcp watch status": AWAY,
        "%mcp watch --stop": AWAY,
    },
}
"""Page -> part of a line that is not run -> why. All of them are read by the parser or compiled."""


def runnable(block: Block) -> bool:
    """Whether a block is a cell for a notebook of ours."""
    return block.language == "python" or (
        not block.language and re.match(r"%%?(mcp|config|load_ext)", block.text) is not None
    )


def cell(block: Block) -> str:
    """Return what is run of a block."""
    left = LEFT_OUT.get(block.page, {})
    kept = [line for line in block.text.splitlines() if not any(part in line for part in left)]
    # what stands three blanks behind a magic explains it, where the block is no Python
    return "\n".join(line if block.language else re.split(r" {3,}(?=\S)", line)[0] or line for line in kept)


PROGRAMS = {page: [block for block in blocks(page) if runnable(block)] for page in PAGES}


async def _servers(page: str, names: dict[str, Any]) -> None:
    """Connect what a page takes for granted."""
    for name in ("math", "weather"):
        if not page.startswith(("docs/agent", "docs/coming_from")):  # which connect by themselves
            await host.connect(bundled(f"{name}_server").server, name=name)
    names |= {"prices": {"pear": 1.5, "fig": 0.5}}
    if page == "docs/watching.md":
        changing = Changing()
        await host.connect(changing.server, name="notes")
        changing.task = asyncio.create_task(_announcing(changing))  # type: ignore[attr-defined]
    if page == "docs/skills.md":
        skills = SkillServer()
        texts = {"SKILL.md": "---\nname: refunds\ndescription: About refunds\nreleased: 2026-07-28\n---\n\nBe kind.\n"}
        texts |= {"examples/email.md": "Dear friend\n"}
        skills.entries.append(entry_of("skill://acme/refunds", texts))
        skills.files |= {f"skill://acme/refunds/{path}": text for path, text in texts.items()}
        await host.connect(skills.server(), name="acme")


async def _announcing(changing: Changing) -> None:
    """Announce changes to whoever listens, as long as the session is open."""
    while True:
        await changing.bus.publish(ResourceUpdated("note://today"))
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def searched():
    """The registry that pages search."""
    with registry(entry("io.github.acme/postgres", packages=[npm("@acme/postgres")])) as searched:
        yield searched


@pytest.fixture
async def run(monkeypatch, tmp_path, searched):
    """Run a cell in a shell of its own, beside the bundled servers."""
    (tmp_path / "servers").symlink_to(ROOT / "notebooks" / "servers")  # a page begins there, README one folder above
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"math": {"command": "python", "args": ["servers/math_server.py"]}}}'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where another environment is activated
    monkeypatch.setattr(execution, "_home", None)  # a kernel has one loop as long as it lives, a test has its own
    monkeypatch.setattr(execution, "_wake_on_signals", lambda loop: None)
    monkeypatch.setenv("MCP_MAGIC_REGISTRY", searched.url)
    shell = InteractiveShell()
    load(shell)
    opened: list[Host] = []

    async def run_cell(text: str, page: str) -> None:
        if not opened:
            opened.append(host)
            await _servers(page, shell.user_ns)
        # the number of a message depends on what went before
        text = re.sub(r"(?<=%mcp trace )\d+", lambda _: str(host.trace.entries()[-1].number), text)
        done = await shell.run_cell_async(text, transformed_cell=shell.transform_cell(text), store_history=True)
        opened.extend(value for value in shell.user_ns.values() if isinstance(value, Host))
        error = done.error_before_exec or done.error_in_exec
        if error is not None:
            raise AssertionError(f"{page}: {type(error).__name__}: {error}\n\n{text}") from error

    yield run_cell
    for one in opened:
        await one.close()
    host.elicitor = host.sampler = host.authorizer = None
    host.consent.rules.clear()
    host.consent.audit.records.clear()
    unload(shell)
    host.consent.policy = "ask"


@pytest.mark.parametrize("page", [page for page, programs in PROGRAMS.items() if programs])
async def test_the_programs_of_a_page_run_one_after_the_other(run, page):
    for block in PROGRAMS[page]:
        text = cell(block)
        if text.strip():
            await run(text, page)


def test_the_pages_have_programs_and_lines_to_check():
    assert sum(map(len, PROGRAMS.values())) >= 25
    assert sum(1 for page in PAGES for _ in lines(page)) >= 200


@pytest.mark.parametrize("page", LEFT_OUT)
def test_what_is_left_out_is_still_there(page):
    programs = "\n".join(block.text for block in PROGRAMS[page])
    assert [part for part in LEFT_OUT[page] if part not in programs] == []


@pytest.mark.parametrize("page", PAGES)
def test_mcp_lines_of_a_page_fit_their_subcommands(page):
    wrong = []
    for line in lines(page):
        try:
            check_line(line)
        except CommandError as error:
            wrong.append(f"{line}\n    {error}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "%mcp no-such-command",
        "%mcp call math:add --no-such-option",
        "%mcp tools [SERVER] [--serach TEXT]",
        "%mcp connect a b --transport pigeon",
        "%%mcp_agent --modle offline",
    ],
)
def test_a_line_that_nobody_could_type_is_found(text):
    with pytest.raises(CommandError):
        check_line(Line("here", 1, text, typed=True))


@pytest.mark.parametrize("page", PAGES)
def test_declarations_and_shell_lines_of_a_page_are_true(page, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "nightly.pem").write_bytes(_private_key())
    for block in blocks(page):
        if block.language == "toml":
            kinds = dict.fromkeys(Settings.class_trait_names(config=True), object)
            environ = dict.fromkeys(("NOTES_SECRET", "WEATHER_TOKEN"), "x")
            parse_declaration(block.text, source="mcp_magic.toml", environ=environ, base=tmp_path, settings=kinds)
        elif block.language == "sh":
            for line in block.text.splitlines():
                _check_shell(line.split("  #")[0].strip())


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def _private_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _check_shell(line: str) -> None:
    """Look whether what a shell line names is there."""
    match line.split():
        case ["make", *words]:
            variables = {word.partition("=")[0] for word in words if "=" in word}
            assert {word for word in words if "=" not in word} <= TARGETS, f"{line}: the Makefile has no such target"
            assert all(re.search(rf"^{name} \?=", MAKEFILE, re.MULTILINE) for name in variables), (
                f"{line}: no such variable"
            )
        case ["pip", "install", *what]:
            for extras in re.findall(r"mcp-magic\[([\w,]+)\]", " ".join(what)):
                assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), f"{line}: no such extra"
        case [python, "-m", module, *_] if python.endswith("python"):
            assert find_spec(module) is not None, f"{line}: there is no module {module}"
        case ["python" | "npx" | "cd", *_]:
            pass
        case _:
            raise AssertionError(f"{line}: is that a command? This test does not know it")


@pytest.mark.parametrize(
    "line", ["make nothing", "make fuzz HOURS=1", "pip install 'mcp-magic[wings]'", "python -m mcp_magic.nothing", "ls"]
)
def test_a_shell_line_that_is_wrong_is_found(line):
    with pytest.raises(AssertionError):
        _check_shell(line)


def test_extras_in_the_text_exist():
    for page, path in PAGES.items():
        for extra in re.findall(r"mcp-magic\[([\w,]+)\]", path.read_text("utf-8")):
            assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"]), f"{page}: mcp-magic[{extra}]"


def test_make_targets_in_the_text_exist():
    for page, path in PAGES.items():
        for target in re.findall(r"`make ([a-z-]+)`", path.read_text("utf-8")):
            assert target in TARGETS, f"{page}: make {target}"


TEXTS = PAGES | {f"notebooks/{path.name}": path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
UNPLAIN = re.compile(
    r"\b(?:ha(?:s|ve) the rest|as of every|go(?:es)? by (?:its|their) names?|asks? otherwise|would do now|all else|"
    r"not so sick|says? of (?:itself|themselves)|lists? that keep)\b",
    re.IGNORECASE,
)
"""Words that stand in sentences without a subject, without a verb, or in which a thing acts like a person."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_has_no_unplain_phrase(name):
    text = TEXTS[name].read_text("utf-8")
    if name.endswith(".ipynb"):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    assert UNPLAIN.findall(text) == []
