"""What a tool's answer and a prompt are in Python: value, table, text, error, and messages."""

from __future__ import annotations

import copy
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from mcp_magic.errors import NoTableError, ToolError
from mcp_magic.results import PromptResult, ToolResult
from tests.support.raising import said
from tests.support.showcase import b64, bundle, called, png, prompted, text_result

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(*texts: str, **more: Any) -> str:
    """What a terminal shows of texts."""
    return bundle(text_result(*texts, **more))["text/plain"]


async def test_values_of_real_answers_are_shown():
    number = await called("add", a=2, b=3)
    assert (number.data, number.text, number.raw.structured_content) == (5, "5", {"result": 5})
    assert bundle(number)["text/plain"] == "5"
    assert number.raise_for_error() is number
    cities = await called("cities")
    assert cities.df.to_dict("list")["city"] == ["Paris", "Oslo"]
    assert cities.df["degrees"].isna().tolist() == [False, True]
    assert isinstance(cities.text, list)
    assert bundle(cities)["text/plain"] == "city   degrees\nParis     21.5\nOslo\n2 rows x 2 columns"
    assert bundle(cities)["text/html"].count("Paris") == 1
    nothing = await called("no_cities")
    assert nothing.df.empty
    assert bundle(nothing)["text/plain"] == "The value is an empty list."
    csv = await called("csv")
    assert csv.df["degrees"].tolist() == [21, 7]
    assert bundle(csv)["text/plain"] == "city   degrees\nParis  21\nOslo   7\n2 rows x 2 columns"


async def test_a_lone_image_is_shown_natively():
    result = await called("pixel")
    assert set(bundle(result)) == {"text/plain", "image/png"}
    assert (result.images[0].bytes, result.images[0].mime_type) == (png(), "image/png")
    assert bundle(result.images[0])["image/png"] == bundle(result)["image/png"]


async def test_mixed_content_is_split_and_shown_block_by_block():
    result = await called("mixed")
    assert result.text == "a text"
    assert result.artifacts is not None
    assert [block.type for block in result.artifacts] == ["image", "audio", "resource_link", "resource", "resource"]
    assert [len(result.images), len(result.audio), len(result.links), len(result.resources)] == [2, 1, 1, 2]
    assert result.audio[0].bytes == b"RIFF"
    assert result.resources[0].df.to_dict("list") == result.df.to_dict("list") == {"a": [1], "b": ["x"]}
    assert text_result("only text").artifacts is None
    shown = bundle(result)
    assert shown["text/plain"] == (
        "a text\n\n"
        f"[image/png, {len(png())} bytes: .images]\n\n"
        "[audio/wav, 4 bytes: .audio]\n\n"
        "notes (text/plain, 1.2 kB)\n    %mcp read 'file:///a b.txt' --server showcase\n\n"
        "demo://table.csv\na  b\n1  x\n1 row x 2 columns\n\n"
        f"demo://blob\n[image/png, {len(png())} bytes: .resources]"
    )
    assert "<audio controls src=" in shown["text/html"]


PAGE = "# A page\n\nIts *second* line.\n"
OVER = {"kind": "code.execute", "result": ["over", {"type": "image", "data": "[see the block]"}], "count": 2}
ONCE: dict[str, tuple[list[str], Any, str]] = {
    "objects": (['{\n  "city": "Paris"\n}'], {"result": [{"city": "Paris"}]}, "Paris"),
    "texts": (["Paris"], {"result": ["Paris"]}, "Paris"),
    "lists": (["Paris", "1", "Oslo", "2"], {"result": [["Paris", 1], ["Oslo", 2]]}, "Paris"),
    "page": ([PAGE], {"content": PAGE}, "second"),
    "items of a member": (["over"], OVER, "over"),
    "nan": (
        ['{"a": NaN, "b": 1}', '{"a": 2, "b": null}'],
        {"result": [{"a": None, "b": 1}, {"a": 2, "b": None}]},
        "rows",
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_value_sent_twice_is_shown_once(name):
    texts, structured, word = ONCE[name]
    shown = bundle(text_result(*texts, structured_content=structured))
    assert shown["text/plain"].count(word) == shown["text/html"].count(word) == 1


def test_text_missing_from_structured_content_is_shown():
    assert plain(PAGE, structured_content={"content": PAGE}).strip() == PAGE.strip()
    assert "other" in plain(PAGE, structured_content={"content": "other"})
    assert "well" in plain("all is well", structured_content={"result": ["Paris"]})
    shown = plain("all well", structured_content={"state": {"code": 1}})
    assert "all well" in shown
    assert "code" in shown
    text = "Showing 1 file\n\nPath\tType\nn.ipynb\tnotebook"  # as jupyter-mcp-server lists files
    result = text_result(text, structured_content={"kind": "files.list", "result": text})
    assert bundle(result)["text/plain"].count("n.ipynb") == 1
    assert bundle(result)["text/plain"].endswith("\n\nkind: files.list")
    assert result.df.to_dict("list") == {"Path": ["n.ipynb"], "Type": ["notebook"]}
    fenced = plain('Found two:\n```json\n[{"a": 1}, {"a": 2}]\n```\nThat is all.')
    assert fenced == "Found two:\n\na\n1\n2\n2 rows x 1 column\n\nThat is all."


async def test_an_error_is_marked_and_raised_with_its_words():
    result = await called("fails")
    with pytest.raises(ToolError) as caught:
        result.raise_for_error()
    assert str(caught.value) == "showcase:fails failed: no such city: <Atlantis>"
    assert caught.value.result is result
    shown = bundle(result)
    assert shown["text/plain"] == "error from showcase:fails\n\nno such city: <Atlantis>"
    assert re.search('<span class="mcp-error"[^>]*>error from showcase:fails</span>', shown["text/html"])


REST = "… (`%mcp last` shows all of it; in Python it is `error.result`)"
LETTERS = '{\n  "a": 1,\n  "b": 2,\n  "c": 3,\n  "d": 4,\n  "e": 5,\n'
ERRORS: dict[str, tuple[str, str]] = {
    "six lines": ("1\n2\n3\n4\n5\n6", "1\n2\n3\n4\n5\n6"),
    "seven lines": ("1\n2\n3\n4\n5\n6\n7", f"1\n2\n3\n4\n5\n6\n{REST}"),
    "one long line": ("x" * 1000, f"{'x' * 299}…\n{REST}"),
    "indented": ("SELECT 1 FORM x\n              ^", "SELECT 1 FORM x\n              ^"),
    "error": ('{\n  "success": false,\n  "error": "no such table"\n}', "no such table"),
    "message": ('{"status": "error", "message": "not found"}', "not found"),
    "detail": ('{"detail": [{"loc": ["a"], "msg": "Field required"}]}', "a: Field required"),
    "object": ('{"error": {"code": -1, "message": "no such table"}}', "no such table"),
    "name and message": ('{"error": "NotFound", "message": "no page 3"}', "NotFound: no page 3"),
    "more": ('{"error": "no such table", "trace": ["a", "b"]}', f"no such table\n{REST}"),
    "sentence": ('HTTP 404: {"message": "no such page"}', "HTTP 404: no such page"),
    "no words": (LETTERS + '  "f": 6\n}', LETTERS + REST),
    "in itself": ('{"error": ' * 300 + "1" + "}" * 300, '{"error": ' * 29 + '{"error":…' + f"\n{REST}"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_shows_six_lines_and_where_the_rest_is(name):
    text, words = ERRORS[name]
    assert said(ToolError, text_result(text, is_error=True).raise_for_error) == f"the tool failed: {words}"
    assert said(ToolError, text_result(is_error=True).raise_for_error) == "the tool failed and did not say why"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(None, 1, id="no schema"),
        pytest.param({"properties": {"result": {"type": "integer"}}}, 1, id="only the box"),
        pytest.param({"properties": {"result": {}, "page": {}}, "x-fastmcp-wrap-result": True}, 1, id="FastMCP"),
        pytest.param({"properties": {"result": {}, "page": {}}}, {"result": 1}, id="more"),
    ],
)
def test_the_box_is_opened_unless_the_schema_declares_more(schema, expected):
    raw = CallToolResult(content=[], structured_content={"result": 1})
    assert ToolResult(raw, output_schema=schema).data == expected
    assert text_result(structured_content={"result": 1, "page": 2}).data == {"result": 1, "page": 2}


def test_json_in_one_text_is_the_data():
    assert text_result('{"a": 1}').data == {"a": 1}
    for texts in (["hello"], ["NaN"], ["[" * 100_000], ["1", "2"], []):
        assert text_result(*texts).data is None
    assert text_result(str(2**200)).data == 2**200
    assert text_result('{"a": 1}', '{"a": 2}').df["a"].tolist() == [1, 2]


MARKDOWN = "| a | b |\n|---|---|\n| 1 | 2 |\n\nand\n\n| c | d |\n|---|---|\n| 3 | 4 |\n"
NO_TABLE: dict[str, tuple[ToolResult, str]] = {
    "text": (text_result("hello"), "found text (5 characters)"),
    "number": (text_result("3"), "found a number"),
    "texts": (text_result("a b", "c"), "found 2 texts (4 characters)"),
    "nothing": (text_result(), "found nothing"),
    "object": (text_result(structured_content={"a": {"b": 1}, "c": [1, {}]}), "found an object with a, c"),
    "list": (text_result(structured_content=[1, {}]), "found a list of 2 values of different kinds"),
}
SEVERAL: dict[str, tuple[ToolResult, str]] = {
    "members": (text_result(structured_content={"a": [{"x": 1}], "b": [{"y": 2}]}), '["a"], .frames["b"]'),
    "inner": (text_result('{"found": {"a": [{"x": 1}], "b": [{"y": 2}]}}'), '["found.a"], .frames["found.b"]'),
    "Markdown": (text_result(MARKDOWN), '["text"], .frames["text 2"]'),
    "texts": (text_result("a,b\n1,2\n", "c,d\n3,4\n"), '["text"], .frames["text 2"]'),
    "odd names": (
        text_result(structured_content={"a\"]; x['": [{"x": 1}], "\x1b[2J\n": [{"y": 2}]}),
        '["a\\"]; x[\'"], .frames["\\\\x1b[2J"]',
    ),
}


@pytest.mark.parametrize("name", NO_TABLE)
def test_no_table_says_what_there_is(name):
    result, message = NO_TABLE[name]
    assert said(NoTableError, lambda: result.df) == f"no table in this result: {message}"


@pytest.mark.parametrize("name", SEVERAL)
def test_several_tables_are_named_as_they_are_typed(name):
    result, names = SEVERAL[name]
    assert said(NoTableError, lambda: result.df) == f"2 tables in this result: .frames{names}"
    assert [frame.shape for frame in result.frames.values()] in ([(1, 1), (1, 1)], [(1, 2), (1, 2)])


def test_frames_has_what_df_has_and_more():
    result = text_result(structured_content={"items": [{"a": 1}], "facets": {"x": [{"b": 2}, {"b": 3}]}})
    assert result.df.equals(result.frames["items"])
    assert len(result.frames["facets.x"]) == 2
    assert text_result("hello").frames == {}
    assert text_result('{"a": 1}').frames["data"].to_dict("list") == {"a": [1]}
    frame = result.df
    frame["a"] = 5  # the result stays as it is
    assert result.df["a"].tolist() == [1]


async def test_results_are_equal_and_survive_pickle_and_deepcopy():
    result = await called("cities")
    result.df  # fills the cache, which must not travel
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert twin == result
        assert twin.df.equals(result.df)
    assert result != await called("add", a=1, b=2)
    assert result != "text"


USES: dict[str, Callable[[ToolResult], object]] = {
    "length": len,
    "items": list,
    "item": lambda result: result[0],  # type: ignore[index]
    "membership": lambda result: "x" in result,  # type: ignore[operator]
    "frame": pd.DataFrame,
}


@pytest.mark.parametrize("use", USES)
def test_a_result_used_as_a_list_says_where_its_value_is(use):
    neither = "a ToolResult is neither a list nor a dict; its value is .data, its table .df, its text .text"
    assert said(TypeError, USES[use], text_result('[{"a": 1}]')) == neither


def test_a_result_is_true_and_one_cell_of_a_table():
    results = [text_result("0"), text_result("")]
    assert all(results)
    frame = pd.DataFrame({"result": results})
    assert frame["result"].tolist() == results
    assert repr(frame).splitlines()[1].split() == ["0", "0"]


def test_repr_and_help_name_the_values():
    result = ToolResult(CallToolResult(content=[TextContent(text="a\nb" * 100)]), server="s", tool="t")
    assert repr(result).startswith("<ToolResult s:t: a ba ba b")
    assert repr(result).endswith("(.data, .df, .text, .images)>")
    assert len(repr(result)) < 100
    assert "\n" not in repr(result)
    assert all(f"result.{name}" in (ToolResult.__doc__ or "") for name in ("data", "df", "frames", "text", "images"))
    assert str(text_result("hello")) == "hello"
    noted = text_result(meta={"a": 1})
    noted.meta["a"] = 2  # a copy
    assert noted.meta == {"a": 1}


@pytest.mark.parametrize(("text", "shown"), [("null", "null"), ("[]", "an empty list"), ("{}", "an empty object")])
def test_a_value_with_nothing_in_it_is_a_sentence(text, shown):
    for result in (text_result(text), text_result(structured_content={"result": json.loads(text)})):
        assert bundle(result)["text/plain"] == f"The value is {shown}."
        assert f"The value is {shown}." in bundle(result)["text/html"]
    assert plain() == "The result is empty."
    assert plain("") == plain("", structured_content={"result": ""}) == "The text is empty."


def test_an_answer_of_one_line_is_little_and_as_asked_for():
    result = text_result("It is sunny in Oslo.")
    assert len(bundle(result)["text/html"].encode()) < 1_500
    assert set(result._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert set(result._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}
    embedded = EmbeddedResource(resource=TextResourceContents(uri="x://a", mime_type="text/markdown", text="*hi*"))
    assert bundle(ToolResult(CallToolResult(content=[embedded])))["text/markdown"] == "*hi*"


IMAGE = ImageContent(data=b64(png()), mime_type="image/png")
BLOCK = {"type": "image", "data": b64(png()), "mimeType": "image/png"}
REPEATED: dict[str, Any] = {
    "list": {"result": [BLOCK]},
    "block": {"result": BLOCK},
    "mixed": {"result": ["Here:", BLOCK]},
    "member": {"image": b64(png())},
    "url": {"images": [{"url": f"data:image/png;base64,{b64(png())}", "format": "png"}]},
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_image_is_shown_once_as_image(name):
    texts = [TextContent(text="Here:")] if name == "mixed" else []
    result = ToolResult(CallToolResult(content=[*texts, IMAGE], structured_content=REPEATED[name]))
    shown = bundle(result)["text/plain"]
    assert (shown.count("image/png"), shown.count("Here:")) == (1, len(texts))
    assert b64(png())[:20] not in shown
    assert list(result.frames) == (["data"] if name == "mixed" else [])


def test_data_beside_a_repeated_image_is_shown():
    structured = {"plot": BLOCK, "rows": [{"a": 1}, {"a": 2}]}
    result = ToolResult(CallToolResult(content=[IMAGE], structured_content=structured))
    assert result.df["a"].tolist() == [1, 2]
    assert "iVBOR" not in bundle(result)["text/plain"]
    assert result.data == structured


def test_nothing_of_an_answer_is_read_before_it_is_wanted():
    class Unread:
        def __getattr__(self, name: str) -> None:
            raise AssertionError(name)

    raw: Any = Unread()
    ToolResult(raw, server="s", tool="t", seconds=0.1)


async def test_a_prompt_becomes_messages_and_a_transcript():
    prompt = await prompted(code="x = 1 < 2")
    assert prompt.messages == [HumanMessage("Review this:\nx = 1 < 2")]
    assert prompt.text == "Review this:\nx = 1 < 2"
    assert prompt.description == "Asks for a review"
    assert len(prompt) == 1
    shown = bundle(prompt)
    assert shown["text/plain"] == "Asks for a review\n\nuser:\n    Review this:\n    x = 1 < 2"
    turn = '<b>user</b></div><div class="mcp-turn"[^>]*><pre>Review this:\nx = 1 &lt; 2</pre></div>'
    assert re.search(turn, shown["text/html"])
    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert repr(prompt) == "<PromptResult showcase:review: 1 message, Review this: x = 1 < 2>"


def test_images_files_and_links_become_blocks_in_order():
    blocks = [
        ("user", ImageContent(data=b64(png()), mime_type="image/png")),
        ("assistant", TextContent(text="a pixel")),
        ("user", EmbeddedResource(resource=TextResourceContents(uri="a:b", text="a file"))),
        ("user", ResourceLink(name="notes", uri="a:notes")),
    ]
    messages = [PromptMessage(role=role, content=block) for role, block in blocks]  # type: ignore[arg-type]
    prompt = PromptResult(GetPromptResult(messages=messages), server="s", prompt="p")
    image, answer, file, link = prompt.messages
    assert image.content == [{"type": "image", "base64": b64(png()), "mime_type": "image/png"}]
    assert answer == AIMessage("a pixel")
    assert file.content == [{"type": "text", "text": "a file"}]
    assert link.content == [{"type": "text", "text": "notes: a:notes"}]
    assert image.content_blocks[0]["type"] == "image"
    shown = bundle(prompt)
    roles = [line for line in shown["text/plain"].split("\n") if line.endswith(":")]
    assert roles == ["user:", "assistant:", "user:", "user:"]
    assert '<img src="data:image/png;base64,' in shown["text/html"]
    assert "%mcp read a:notes --server s" in shown["text/plain"]
    assert bundle(PromptResult(GetPromptResult(messages=[])))["text/plain"] == "The prompt has no messages."
