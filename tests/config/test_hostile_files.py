"""Files that come with a cloned repository: configurations made to keep a parser busy, or to fill the memory."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.parsing import LARGEST, MissingHereError, read_env_file
from mcp_magic.config.project import load_declaration
from mcp_magic.config.servers import discover_servers, load_config
from mcp_magic.consent.rules import parse_rules
from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.ipython.ask import Answers
from mcp_magic.server.docs import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 150_000
SECONDS = 2.0
"""Of computing, for a file of 150 kB; most take a hundredth of it, and took hours before."""


def _servers(inside: str) -> str:
    return f'{{"mcpServers": {{{inside}}}}}'


def _table(lines: str) -> str:
    return f'[servers.a]\ncommand = "x"\nbad = 1\n{lines}'


FILES = {
    "a string without end.json": '{"mcpServers": {"a": "' + '\\"' * (SIZE // 2),
    "comments without end.json": "/*" * (SIZE // 2),
    "comments with gaps.json": "/* x " * (SIZE // 5),
    "commas.json": "[" + "1,]" * (SIZE // 3),
    "spaces.json": "[1" + " " * SIZE + ",]",
    "lists.json": "[" * SIZE,
    "objects.json": '{"a":' * (SIZE // 5),
    "digits.json": _servers('"a": {"command": "x", "timeout": ' + "9" * SIZE + "}"),
    "variable without end.json": _servers('"a": {"command": "${' + ":-" * (SIZE // 2) + '"}'),
    "variables without end.json": _servers('"a": {"command": "' + "${a" * (SIZE // 3) + '"}'),
    "many servers.json": _servers(",".join(f'"s{number}": {{"command": "x"}}' for number in range(SIZE // 25))),
    "many mistakes.json": _servers(",".join(f'"s{number}": {{"comand": "x"}}' for number in range(SIZE // 25))),
    "many names.json": "{" + ",".join(f'"s{number}": 1' for number in range(SIZE // 12)) + "}",
    "dots.toml": ".".join("a" * (SIZE // 2)) + " = 1",
    "quoted dots.toml": ".".join(['"a"'] * (SIZE // 4)) + " = 1",
    "short of too many dots.toml": "\n".join(f"{'a.' * 30}a{number} = 1" for number in range(SIZE // 70)),
    "lists.toml": "a = " + "[" * SIZE,
    "tables.toml": "a = " + "{a=" * (SIZE // 3),
    "digits.toml": "a = " + "1" * SIZE,
    "a long list.toml": _table("args = [\n" + '"a",\n' * (SIZE // 5) + "]\n"),
    "a long text.toml": _table('x = """\n' + "a\n" * (SIZE // 2) + '"""\n'),
}


@pytest.mark.parametrize("name", FILES)
def test_150_kb_configuration_is_handled_within_two_seconds(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    before = time.process_time()
    for read in (load_declaration, load_config)[: 1 if path.suffix == ".toml" else 2]:
        problem = ""
        try:
            read(path)
        except ConfigError as error:
            problem = str(error)
        assert not problem or problem.startswith(str(path))
        assert len(problem) < 1000
    assert time.process_time() - before < SECONDS


def test_hostile_file_does_not_slow_tab_completion(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(FILES["a string without end.json"])
    (tmp_path / ".mcp.json").write_text(FILES["many servers.json"])
    before = time.process_time()
    found = discover_servers(tmp_path, home=tmp_path / "home", environ={})
    assert time.process_time() - before < SECONDS
    assert sum(1 for entry in found if not entry.problem) == SIZE // 25


@pytest.mark.parametrize("name", ["mcp.json", "mcp_magic.toml"])
def test_configuration_above_a_megabyte_is_refused_with_size(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(3_000_000_000)  # no disk is used for it
    with pytest.raises(
        ConfigError, match=r"cannot be read: it has 3,000,000,000 bytes, and at most 1,000,000 are read$"
    ):
        load_declaration(path)


@pytest.mark.parametrize("name", ["mcp.json", "mcp_magic.toml"])
def test_a_pipe_in_place_of_a_configuration_is_refused_at_once(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        load_declaration(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    ["A0=xxxxxxxxxx\n" + "".join(f"A{n + 1}={f'${{A{n}}}' * 10}\n" for n in range(12)), "A=" + "${" * (SIZE // 2)],
    ids=["that repeat each other", "without end"],
)
def test_variables_of_an_env_file_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(text)
    before = time.process_time()
    with pytest.raises(MissingHereError, match="its variables refer to too many others"):
        read_env_file(path)
    assert time.process_time() - before < SECONDS


@pytest.mark.lowest
def test_variables_of_an_env_file_that_use_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("HOST=a.example\nURL=https://${HOST}/${NONE:-x}\n")
    assert read_env_file(path) == {"HOST": "a.example", "URL": "https://a.example/x"}


def test_a_large_env_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n" * LARGEST)
    with pytest.raises(MissingHereError, match="cannot be read: it has 4,000,000 bytes"):
        read_env_file(path)


@pytest.mark.parametrize("text", ["consent = 1", "consent = 'x'", "[consent]\na = 1", "a = " + "[" * 5000])
def test_rules_that_are_none_are_refused_with_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^rules\.toml: "):
        parse_rules(text, source="rules.toml")


@pytest.mark.parametrize("read", [Answers.load, read_snapshot])
def test_data_that_nests_without_end_is_refused(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text("[" * SIZE)
    with pytest.raises((ArgumentsError, ConfigError), match=r"JSON|nested too deeply"):
        read(path)
