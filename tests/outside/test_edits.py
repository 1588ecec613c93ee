"""What an outside agent is told about the arguments that the person has changed."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent

from mcp_magic.outside.edits import MAX_NAMES, edited_names, with_edit


def test_names_are_those_that_differ_in_json():
    assert edited_names({"a": {"x": 1, "y": 2}, "b": 1}, {"b": 1.0, "a": {"y": 2, "x": 1}}) == []
    assert edited_names({"a": 1, "b": 2, "c": 0}, {"a": True, "c": 0, "d": 3}) == ["a", "b", "d"]
    many = edited_names({}, {f"name {number}\n": number for number in range(500)})
    assert (len(many), many[0], many[-1]) == (MAX_NAMES + 1, "name 0", "others")


def test_an_error_of_the_server_says_it_as_well():
    error = CallToolResult(content=[TextContent(text="no such place")], is_error=True)
    told = with_edit(error, ["place"], is_open=True)
    assert [block.text for block in told.content] == [
        "[the person changed the arguments before the call: place]",
        "no such place",
    ]
    assert (told.is_error, told.structured_content, with_edit(error, [], is_open=True)) == (True, None, error)
