"""Arguments as they are shown, hidden, written down to be edited, and read back."""

from __future__ import annotations

import json

import pytest
from mcp_types import Tool

from mcp_magic.display.arguments import hidden_arguments, read_arguments, restored, written_arguments
from mcp_magic.display.visible import escaped_json, visible
from mcp_magic.errors import ArgumentsError


def test_the_schema_says_what_is_secret_too():
    password = {"type": "string", "format": "password"}
    properties = {
        "pin": password,
        "keys": {"type": "array", "items": {"type": "string", "writeOnly": True}},
        "login": {"type": "object", "properties": {"code": password}},
    }
    tool = Tool(name="write", input_schema={"type": "object", "properties": properties})
    sent = {"pin": "1", "keys": ["a"], "login": {"code": "2", "user": "me"}}
    assert hidden_arguments(sent, tool) == {"pin": "***", "keys": ["***"], "login": {"code": "***", "user": "me"}}


def test_hidden_values_come_back_only_where_they_were():
    original = {"users": [{"token": "a"}, {"token": "b"}], "n": 1}
    shown = hidden_arguments(original, None)
    assert restored(shown, shown, original) == original
    edited = {"users": [{"token": "c"}, {"token": "***"}]}
    assert restored(edited, shown, original) == {"users": [{"token": "c"}, {"token": "b"}]}
    with pytest.raises(ArgumentsError, match="a hidden value was moved"):
        read_arguments('{"users": [{"token": "***"}]}', original, None)


def test_arguments_are_read_as_they_were_written():
    arguments = {"n": 2**70, "text": "ü\u2028", "password": "pw", "nested": {"a": [None, 1.5]}}
    written = written_arguments(arguments, None)
    assert read_arguments(written, arguments, None) == arguments
    assert "pw" not in written
    for text, problem in (("[1]", "a JSON object, not list"), ("{", "not JSON")):
        with pytest.raises(ArgumentsError, match=problem):
            read_arguments(text, {}, None)


@pytest.mark.parametrize(
    "command",
    ["ls" + " " * 1200, "p\u0430ypal", "a\u202eb\u200b\U000e0041", "\ud800", 'q"\\\n' + " " * 60],
    ids=["spaces", "look-alike", "hidden", "surrogate", "quotes"],
)
def test_what_is_edited_is_written_out_and_reads_back_as_it_is(command):
    arguments = {"command": command}
    written = written_arguments(arguments, None)
    assert read_arguments(written, arguments, None) == arguments
    assert visible(written) == written
    assert json.loads(escaped_json({command: [command]})) == {command: [command]}
