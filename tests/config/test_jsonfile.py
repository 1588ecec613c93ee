from __future__ import annotations

import pytest

from mcp_magic.config.parsing import parse_json
from mcp_magic.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
        ('/* x\n "y" */ ["//", "/* */", ",]", "\\",}"]', ["//", "/* */", ",]", '",}']),
        ('{"url": "http://h"} // end', {"url": "http://h"}),
        ("[1, /* last */ ]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_read(text, value):
    assert parse_json(text, source="x") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "a": 1 // one\n  "b": 2\n}', "x:3:3: not JSON: Expecting ',' delimiter"),
        *(('{"a": /* c */ oops}', "x:1:15: not JSON: Expecting value"), ("[,]", "x:1:2: not JSON: Expecting value")),
        *(("", "x:1:1: not JSON: Expecting value"), ("[" * 100_000, "x: nested too deeply")),
    ],
    ids=["missing comma", "after a comment", "only a comma", "empty", "deep"],
)
def test_a_mistake_in_json_has_its_line_and_column(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_json(text, source="x")
    assert str(caught.value) == message
