"""Literals of Python and TypeScript: any value comes back as it was, and nothing in it becomes code."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from mcp_magic.server.literals import (
    PYTHON,
    TYPESCRIPT,
    Joined,
    NoLiteralError,
    Variable,
    call_arguments,
    literal,
    quoted,
    variable_name,
    variables_in,
    with_variables,
)
from tests.environments import needs_node
from tests.support.hostile_texts import WORST, hidden_in, hostile_texts

VALUE = {"a b": [1, 2.5, -0.0, 1e300, True, None, "x" * 200, {}, []], "__proto__": {"polluted": 1}, "class": "it's"}


@hostile_texts
def test_text_comes_back_and_hides_nothing(text):
    value = {text: [text, {"x": text}]}
    for language in (PYTHON, TYPESCRIPT):
        assert hidden_in(literal(value, language).replace("\n", "")) == []
    assert eval(literal(value, PYTHON)) == value


@needs_node
def test_typescript_has_the_same_values():
    texts = [text for name, text in WORST.items() if name != "surrogate"]
    value = {**VALUE, "texts": texts, "${x}`": "${process.exit(3)}` */ </script>"}
    program = f"process.stdout.write(JSON.stringify({literal(value, TYPESCRIPT)}))"
    node = shutil.which("node") or "node"
    ran = subprocess.run([node, "-"], input=program.encode(), capture_output=True, check=True)
    assert json.loads(ran.stdout) == value


def test_number_without_a_literal_is_an_error():
    for value, language in ((float("nan"), PYTHON), (float("inf"), TYPESCRIPT), (2**53, TYPESCRIPT), (9**9999, PYTHON)):
        with pytest.raises(NoLiteralError):
            literal([value], language)
    assert literal(2**53, PYTHON) == "9007199254740992"


def test_masks_become_variables_of_the_environment(monkeypatch):
    value = with_variables(
        {"password": "***", "url": "https://a.example/?key=***&q=1", "n": 1, "l": ["***"]}, "my shop"
    )
    assert value["password"] == Variable("MY_SHOP_PASSWORD")
    assert value["url"] == Joined(("https://a.example/?key=", Variable("MY_SHOP_KEY"), "&q=1"))
    assert variables_in(value) == {"MY_SHOP_PASSWORD", "MY_SHOP_KEY", "MY_SHOP_L"}
    assert literal(value["url"], TYPESCRIPT) == '"https://a.example/?key=" + environment("MY_SHOP_KEY") + "&q=1"'
    for name in variables_in(value):
        monkeypatch.setenv(name, "s")
    code = f"import os\nvalue = {literal(value, PYTHON)}"
    namespace: dict[str, object] = {}
    exec(code, namespace)
    assert namespace["value"] == {"password": "s", "url": "https://a.example/?key=s&q=1", "n": 1, "l": ["s"]}
    assert variable_name("9 lives", '"""\n') == "_9_LIVES_SECRET"


def test_arguments_of_a_call_are_keywords_where_they_can_be():
    assert call_arguments({"text": "x", "n": 1}, 8) == 'text="x", n=1'
    for name in ("class", "__debug__", "a b", "ﬁ", ""):
        assert call_arguments({name: 1}, 8).startswith("{")
    assert eval(f"dict({call_arguments({'text': 'x' * 80, 'n': [1] * 50}, 0)})") == {"text": "x" * 80, "n": [1] * 50}


@hostile_texts
def test_name_in_a_comment_cannot_end_it(text):
    assert set(quoted(text)[1:-1]) & set("\n\r\\\"'*`${};") == set()
