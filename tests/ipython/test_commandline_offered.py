"""What servers say, in the lines that are offered: it reads back as the same text, on one line, and nothing is run."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from mcp_magic.consent.consent import Consent, Decision, Request
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import NotOfferedError
from mcp_magic.ipython.commandline import Invocation, State, parse
from mcp_magic.ipython.commands import COMMANDS
from mcp_magic.ipython.completion import argument_name, assigned, candidates, unquoted, valued
from mcp_magic.results.content import read_line
from mcp_magic.schema import as_word, call_line, parse_arguments, prompt_line
from mcp_magic.schema.words import split_line
from mcp_magic.session.subscriptions import check_announces
from mcp_magic.ui.request_form import as_variables

TYPED = [
    *("{open('PWNED', 'w')}", "{open('PWNED','w')and(1)}", "{{1}}", "{}", "{x", '{"a": 1}'),
    *("{'a': open('PWNED','w')}", "$SECRET", "$SECRET.x", "${SECRET}", "$5", r"\{1 + 1}", r"\$SECRET", r"\\$SECRET"),
    *("\\", "a\\", "@secret.txt", r"\@secret.txt", "!touch PWNED", "x=!touch PWNED", "%mcp disconnect --all"),
    *("# no comment", "#", "a # b", "a;", "what?", "what??", "a b", " a ", "it's", "'", '"', "'''", '"""'),
    *('\\\'""" {1}', "'\"'\"'", "a=b", "a:=[1]", "a.b", "~/x", "*", "[0]", "`ls`", "$(ls)", "note://x?a=1&b={2}"),
    *("Zürich 日本",),
]
"""Texts that can be typed; some of them are written with care."""

NOT_TYPED = [
    *("note://today\n!touch PWNED\n#", "a\rb", "a\r\n%mcp x", "a\x0bb", "a\x0cb", "a\x1cb", "a\x85b", "a\u2028b"),
    *("a\u2029!touch PWNED", "a\x00b", "a\x1b[2Jb", "a\tb", "a\u202eb", "a\u2066b", "a\u200bb", "a\U000e0041b"),
    *("a\ud800b",),
]
"""Texts that no line can have as they are."""

OPTIONS = ["--server=x", "-h", "--help", "--", "-"]


def words_of(line: str) -> list[str]:
    """Return the words of a cell with one line, read as IPython and `%mcp` read it."""
    code = TransformerManager().transform_cell(line)
    call = ast.parse(code).body
    assert len(call) == 1, code
    assert isinstance(call[0], ast.Expr)
    assert isinstance(call[0].value, ast.Call)
    assert ast.unparse(call[0].value.func) == "get_ipython().run_line_magic"
    name, rest = (ast.literal_eval(word) for word in call[0].value.args)
    assert name == "mcp"
    return split_line(rest.rstrip().removesuffix(";"))


def evaluated_nothing(source: str) -> Any:
    pytest.fail(f"evaluated: {source}")


NOBODY: Any = None
INVOCATION = Invocation(NOBODY, NOBODY, NOBODY, NOBODY, State())


def uri_of(line: str, server: str) -> str:
    words = words_of(line)
    arguments, _ = parse(COMMANDS[words[0]], words[1:])
    assert arguments.server == server
    return str(INVOCATION.value(arguments.uri))


def is_comment(line: str) -> bool:
    return line.startswith("# cannot be typed: ") and line.isprintable()


ANY = [*TYPED, *OPTIONS]


def arguments_of(line: str, folder: Path | None = None, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments of a line that calls `srv:tool`."""
    words = words_of(line)
    assert words[:2] == ["call", "srv:tool"]
    return parse_arguments(words[2:], schema or {}, evaluate=evaluated_nothing, directory=folder)


# Texts that can be typed


def test_line_that_reads_a_resource_reads_its_uri():
    for text in TYPED:
        assert uri_of(read_line(text, "srv"), "srv") == text


@pytest.mark.parametrize("schema", [None, {"additionalProperties": {"type": "string"}}], ids=["no schema", "texts"])
def test_line_of_a_call_has_names_and_texts_as_they_are(schema, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    for text in ANY:
        words = words_of(call_line(f"srv:{text}", {text: text, "b": text}, schema=schema))
        arguments, _ = parse(COMMANDS["call"], words[1:])
        assert arguments.tool == f"srv:{text}"
        read = parse_arguments(arguments.arguments, schema or {}, evaluate=evaluated_nothing, directory=tmp_path)
        assert read == {text: text, "b": text}
    for name, value in (("{open('PWNED','w')}", "=1}"), ("{open('PWNED','w'", ")}"), ("$SECRET", "x"), ("{'a'", "1}")):
        read = arguments_of(call_line("srv:tool", {name: value}))
        assert read == {name: value}, "together they make no expression"


def test_variable_stands_for_an_argument_of_any_name():
    for text in ANY:
        words = words_of(call_line("srv:tool", {}) + as_variables([text]))
        assert parse_arguments(words[2:], {}, evaluate=lambda name: "its value") == {text: "its value"}


def test_line_that_a_denial_offers_allows_that_tool_alone():
    for text in (*ANY, "*", "weather[a]", "a?"):
        error = Consent(magics=True).refusal(Request("srv", text, {}), Decision.deny(by="approval = 'deny'"))
        words = words_of(str(error).partition(" `")[2].removesuffix("` would allow it."))
        arguments, _ = parse(COMMANDS[words[0]], words[1:])
        assert not arguments.first, "no rule comes before it"
        rule = Rule(words[0], arguments.tool)
        assert rule.names(f"srv:{text}")
        assert not rule.names("srv:other")


def test_line_that_polls_reads_the_same_uri():
    client: Any = SimpleNamespace(server_capabilities=SimpleNamespace(resources=None))
    for text in TYPED:
        with pytest.raises(NotOfferedError) as caught:
            check_announces(client, "srv", text)
        words = words_of(str(caught.value).rpartition("; `")[2].partition("` reads it every")[0])
        arguments, _ = parse(COMMANDS[words[0]], words[1:])
        assert INVOCATION.value(arguments.uri) == text


def test_values_and_names_that_tab_offers_read_back(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    schema = {"properties": {"kind": {"type": "string"}}}
    for text in ANY:
        for name in ("kind", "kind:", "'kind", "'kind'"):
            (word,) = valued(name, [text])
            assert arguments_of(f"%mcp call srv:tool {word}", tmp_path, schema) == {"kind": text}
            assert name.endswith(":") or assigned(word) == ("kind", text)
        (word,) = words_of(f"%mcp call srv:tool {argument_name(text)}=x")[2:]
        assert parse_arguments([word], {}, evaluate=evaluated_nothing) == {text: "x"}
        assert unquoted(f"{argument_name(text)}=x") == word


@pytest.mark.parametrize("command", ["connect", "record", "up", "roots srv"])
def test_file_that_tab_offers_is_itself(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in (*TYPED, *NOT_TYPED[:-1], *OPTIONS):
        if "/" not in text and "\0" not in text:
            for suffix in (".py", ".toml"):
                Path(f"{text}{suffix}").touch()
            Path(text).mkdir()
    offered = candidates(f"{command} ", {}).texts
    assert len(offered) > 10
    for word in offered:
        (typed,) = words_of(f"%mcp {command} {word}")[len(command.split()) :]
        assert Path(str(INVOCATION.value(typed))).exists()
        assert Path(INVOCATION.text(typed)).exists()


@pytest.mark.parametrize(
    ("line", "value"),
    [(r"read \{x}", "{x}"), (r"read '\$x'", "$x"), (r"read \\$x", r"\$x"), (r"read '\x'", r"\x"), ("read a$x", "a$x")],
)
def test_backslash_keeps_a_word_as_it_is(line, value):
    assert INVOCATION.value(split_line(line)[1]) == value


# Texts that cannot


def test_untypable_names_make_a_comment_of_the_line():
    for text in NOT_TYPED:
        for line in (
            *(read_line(text, "srv"), call_line(f"srv:{text}", {}), prompt_line(f"srv:{text}", {"a": "x"})),
            str(Rule("deny", f"srv:{text}")),
        ):
            assert is_comment(line)
        said = str(Consent(magics=True).refusal(Request("srv", text, {}), Decision.deny(by="approval = 'deny'")))
        assert said.endswith("denied by approval = 'deny'. No rule can be typed for a tool with such a name.")
        assert said.isprintable()
    for text in (*NOT_TYPED, *OPTIONS):
        assert is_comment(read_line(text, "srv"))
        assert as_word(text) is None


def test_untypable_arguments_are_written_as_json():
    for text in NOT_TYPED:
        assert arguments_of(call_line("srv:tool", {"a": text})) == {"a": text}
        nested = {"a": "$x", text: {text: "{1}"}}
        assert arguments_of(call_line("srv:tool", nested)) == nested
