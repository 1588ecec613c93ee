from __future__ import annotations

import copy
import json
import pickle
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from mcp_magic.errors import NoTableError, ToolError
from mcp_magic.results import ToolResult
from tests.support.showcase import bundle, png, text_result

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_a_number_is_unboxed_from_the_structured_content(call: Any) -> None:
    result = await call("add", a=2, b=3)
    assert result.data == 5
    assert result.text == "5"
    assert result.raw.structured_content == {"result": 5}
    assert bundle(result)["text/plain"] == "5"


async def test_list_of_objects_becomes_frame_of_declared_rows(call: Any) -> None:
    result = await call("cities")
    assert result.df.to_dict("list")["city"] == ["Paris", "Oslo"]
    assert result.df["degrees"].isna().tolist() == [False, True]
    assert isinstance(result.text, list)


async def test_structured_content_repeated_by_text_is_shown_once(call: Any) -> None:
    result = await call("cities")
    expected = "city   degrees\nParis     21.5\nOslo\n2 rows x 2 columns"
    assert bundle(result)["text/plain"] == expected
    assert bundle(result)["text/html"].count("Paris") == 1


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ([{"city": "Paris"}], ['{\n  "city": "Paris"\n}']),
        (["Paris"], ["Paris"]),
        ([["Paris", 1], ["Oslo", 2]], ["Paris", "1", "Oslo", "2"]),
    ],
)
def test_a_list_is_shown_once_however_its_items_are_sent(data: list[object], texts: list[str]) -> None:
    result = text_result(*texts, structured_content={"result": data})
    assert bundle(result)["text/plain"].count("Paris") == 1


def test_a_text_that_is_not_the_only_item_is_shown() -> None:
    assert "well" in bundle(text_result("all is well", structured_content={"result": ["Paris"]}))["text/plain"]


async def test_text_beyond_structured_content_is_shown_too() -> None:
    result = text_result("all well", structured_content={"state": {"code": 1}})
    assert "all well" in bundle(result)["text/plain"]
    assert "code" in bundle(result)["text/plain"]


async def test_an_empty_list_is_an_empty_frame_and_shown_as_such(call: Any) -> None:
    result = await call("no_cities")
    assert result.df.empty
    assert bundle(result)["text/plain"] == "The value is an empty list."


async def test_a_string_that_holds_csv_becomes_a_frame_and_a_table(call: Any) -> None:
    result = await call("csv")
    assert result.df["degrees"].tolist() == [21, 7]
    assert bundle(result)["text/plain"] == "city   degrees\nParis  21\nOslo   7\n2 rows x 2 columns"


async def test_a_lone_image_is_shown_natively(call: Any) -> None:
    result = await call("pixel")
    assert set(bundle(result)) == {"text/plain", "image/png"}
    assert result.images[0].bytes == png()
    assert result.images[0].mime_type == "image/png"
    assert bundle(result.images[0])["image/png"] == bundle(result)["image/png"]


async def test_content_is_split_into_text_and_artifacts(call: Any) -> None:
    result = await call("mixed")
    assert result.text == "a text"
    assert result.artifacts is not None
    assert [block.type for block in result.artifacts] == ["image", "audio", "resource_link", "resource", "resource"]
    assert [len(result.images), len(result.audio), len(result.links), len(result.resources)] == [2, 1, 1, 2]
    assert result.audio[0].bytes == b"RIFF"
    assert result.resources[0].df.to_dict("list") == {"a": [1], "b": ["x"]}
    assert text_result("only text").artifacts is None


async def test_embedded_table_is_used_if_text_has_none(call: Any) -> None:
    assert (await call("mixed")).df.to_dict("list") == {"a": [1], "b": ["x"]}


async def test_mixed_content_is_shown_block_by_block(call: Any) -> None:
    shown = bundle(await call("mixed"))
    assert shown["text/plain"] == (
        "a text\n\n"
        f"[image/png, {len(png())} bytes: .images]\n\n"
        "[audio/wav, 4 bytes: .audio]\n\n"
        "notes (text/plain, 1.2 kB)\n    %mcp read 'file:///a b.txt' --server showcase\n\n"
        "demo://table.csv\na  b\n1  x\n1 row x 2 columns\n\n"
        f"demo://blob\n[image/png, {len(png())} bytes: .resources]"
    )
    assert "<audio controls src=" in shown["text/html"]


def test_text_wrapped_in_structured_content_is_shown_once() -> None:
    page = "# A page\n\nIts *second* line.\n"
    raw = CallToolResult(content=[TextContent(type="text", text=page)], structured_content={"content": page})
    result = ToolResult(raw, server="files", tool="read_text_file")
    shown = bundle(result)
    assert shown["text/plain"].count("second") == shown["text/html"].count("second") == 1
    assert shown["text/plain"].strip() == page.strip()
    assert result.data == {"content": page}
    assert (
        "other" in bundle(ToolResult(raw.model_copy(update={"structured_content": {"content": "other"}})))["text/plain"]
    )


async def test_error_names_server_and_tool_and_carries_result(call: Any) -> None:
    result = await call("fails")
    with pytest.raises(ToolError) as caught:
        result.raise_for_error()
    assert str(caught.value) == "showcase:fails failed: no such city: <Atlantis>"
    assert caught.value.result is result


async def test_an_error_is_marked_by_a_word(call: Any) -> None:
    shown = bundle(await call("fails"))
    assert shown["text/plain"] == "error from showcase:fails\n\nno such city: <Atlantis>"
    assert re.search('<span class="mcp-error"[^>]*>error from showcase:fails</span>', shown["text/html"])


REST = "… (`%mcp last` shows all of it; in Python it is `error.result`)"

ERRORS: dict[str, tuple[str, str]] = {
    "six lines": ("1\n2\n3\n4\n5\n6", "1\n2\n3\n4\n5\n6"),
    "seven lines": ("1\n2\n3\n4\n5\n6\n7", f"1\n2\n3\n4\n5\n6\n{REST}"),
    "one long line": ("x" * 1000, f"{'x' * 299}…\n{REST}"),
    "lines that are indented": ("SELECT 1 FORM x\n              ^", "SELECT 1 FORM x\n              ^"),
    "JSON with an error": ('{\n  "success": false,\n  "error": "no such table"\n}', "no such table"),
    "JSON with a message": ('{"status": "error", "message": "not found"}', "not found"),
    "JSON with a detail": ('{"detail": [{"loc": ["a"], "msg": "Field required"}]}', "a: Field required"),
    "JSON with an object": ('{"error": {"code": -1, "message": "no such table"}}', "no such table"),
    "JSON with a name and a message": ('{"error": "NotFound", "message": "no page 3"}', "NotFound: no page 3"),
    "JSON with more": ('{"error": "no such table", "trace": ["a", "b"]}', f"no such table\n{REST}"),
    "JSON after a sentence": ('HTTP 404: {"message": "no such page"}', "HTTP 404: no such page"),
    "JSON without words": (
        '{\n  "a": 1,\n  "b": 2,\n  "c": 3,\n  "d": 4,\n  "e": 5,\n  "f": 6\n}',
        f'{{\n  "a": 1,\n  "b": 2,\n  "c": 3,\n  "d": 4,\n  "e": 5,\n{REST}',
    ),
    "JSON that contains itself": ('{"error": ' * 300 + "1" + "}" * 300, '{"error": ' * 29 + '{"error":…' + f"\n{REST}"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_shows_six_lines_and_where_the_rest_is(name: str) -> None:
    text, said = ERRORS[name]
    with pytest.raises(ToolError) as caught:
        text_result(text, is_error=True).raise_for_error()
    assert str(caught.value) == f"the tool failed: {said}"


def test_an_error_without_text_says_so() -> None:
    with pytest.raises(ToolError, match=r"^the tool failed and did not say why$"):
        text_result(is_error=True).raise_for_error()


async def test_a_result_without_error_passes_through(call: Any) -> None:
    result = await call("add", a=1, b=1)
    assert result.raise_for_error() is result


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, 1),
        ({"properties": {"result": {"type": "integer"}}}, 1),
        ({"properties": {"result": {}, "page": {}}, "x-fastmcp-wrap-result": True}, 1),
        ({"properties": {"result": {}, "page": {}}}, {"result": 1}),
    ],
    ids=["no schema", "only the box", "FastMCP says so", "more than the box"],
)
def test_the_box_is_opened_unless_the_schema_declares_more(schema: dict[str, object] | None, expected: object) -> None:
    raw = CallToolResult(content=[], structured_content={"result": 1})
    assert ToolResult(raw, output_schema=schema).data == expected


def test_an_object_with_more_than_the_box_is_left_alone() -> None:
    assert text_result(structured_content={"result": 1, "page": 2}).data == {"result": 1, "page": 2}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        *((['{"a": 1}'], {"a": 1}), (["hello"], None), (["NaN"], None), (["[" * 100_000], None), (["1", "2"], None)),
        ([], None),
    ],
    ids=["JSON", "prose", "NaN", "a nesting bomb", "two texts", "nothing"],
)
def test_data_of_text(texts: list[str], expected: object) -> None:
    assert text_result(*texts).data == expected


def test_integers_are_exact_at_any_size() -> None:
    assert text_result(str(2**200)).data == 2**200


def test_one_json_object_a_block_makes_rows() -> None:
    assert text_result('{"a": 1}', '{"a": 2}').df["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (text_result("hello"), "no table in this result: found text (5 characters)"),
        (text_result("3"), "no table in this result: found a number"),
        (text_result("a b", "c"), "no table in this result: found 2 texts (4 characters)"),
        (text_result(), "no table in this result: found nothing"),
        (
            text_result(structured_content={"a": {"b": 1}, "c": [1, {}]}),
            "no table in this result: found an object with a, c",
        ),
        (
            text_result(structured_content=[1, {}]),
            "no table in this result: found a list of 2 values of different kinds",
        ),
    ],
    ids=["text", "number", "texts", "nothing", "object", "list"],
)
def test_no_table_says_what_was_found(result: ToolResult, message: str) -> None:
    with pytest.raises(NoTableError) as caught:
        result.df
    assert str(caught.value) == message


SEVERAL: dict[str, tuple[ToolResult, str]] = {
    "members": (
        text_result(structured_content={"a": [{"x": 1}], "b": [{"y": 2}]}),
        '2 tables in this result: .frames["a"], .frames["b"]',
    ),
    "members of a member": (
        text_result('{"found": {"a": [{"x": 1}], "b": [{"y": 2}]}}'),
        '2 tables in this result: .frames["found.a"], .frames["found.b"]',
    ),
    "Markdown": (
        text_result("| a | b |\n|---|---|\n| 1 | 2 |\n\nand\n\n| c | d |\n|---|---|\n| 3 | 4 |\n"),
        '2 tables in this result: .frames["text"], .frames["text 2"]',
    ),
    "texts": (text_result("a,b\n1,2\n", "c,d\n3,4\n"), '2 tables in this result: .frames["text"], .frames["text 2"]'),
    "names that could be anything": (
        text_result(structured_content={"a\"]; x['": [{"x": 1}], "\x1b[2J\n": [{"y": 2}]}),
        '2 tables in this result: .frames["a\\"]; x[\'"], .frames["\\\\x1b[2J"]',
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_table_error_names_several_tables_as_typed(name: str) -> None:
    result, message = SEVERAL[name]
    with pytest.raises(NoTableError) as caught:
        result.df
    assert str(caught.value) == message
    assert [frame.shape for frame in result.frames.values()] in ([(1, 1), (1, 1)], [(1, 2), (1, 2)])


def test_frames_has_what_df_has_and_more() -> None:
    result = text_result(structured_content={"items": [{"a": 1}], "facets": {"x": [{"b": 2}, {"b": 3}]}})
    assert result.df.equals(result.frames["items"])
    assert len(result.frames["facets.x"]) == 2
    assert text_result("hello").frames == {}
    assert text_result('{"a": 1}').frames["data"].to_dict("list") == {"a": [1]}


def test_json_beside_a_sentence_shows_table_and_sentence() -> None:
    shown = bundle(text_result('Found two:\n```json\n[{"a": 1}, {"a": 2}]\n```\nThat is all.'))["text/plain"]
    assert shown == "Found two:\n\na\n1\n2\n2 rows x 1 column\n\nThat is all."


def test_document_in_structured_content_shows_with_its_words() -> None:
    text = "Showing 1 file\n\nPath\tType\nn.ipynb\tnotebook"  # as jupyter-mcp-server lists files
    result = text_result(text, structured_content={"kind": "files.list", "result": text})
    assert bundle(result)["text/plain"].count("n.ipynb") == 1
    assert bundle(result)["text/plain"].endswith("\n\nkind: files.list")
    assert result.df.to_dict("list") == {"Path": ["n.ipynb"], "Type": ["notebook"]}


def test_texts_that_are_the_items_of_a_member_are_shown_once() -> None:
    structured = {"kind": "code.execute", "result": ["over", {"type": "image", "data": "[see the block]"}], "count": 2}
    assert bundle(text_result("over", structured_content=structured))["text/plain"].count("over") == 1


HOSTILE: dict[str, str] = {
    "blanks": " " * 100_000 + "|" + " " * 100_000 + "\n-" + " |" * 50_000,
    "a rule": "a|b\n" + "-" * 200_000 + "|",
    "rules": "a|b\n-|-\n" * 20_000,
    "beginnings of JSON": "[\n" * 100_000,
    "beginnings of JSON in a line": 'x: {"a": [' * 20_000,
    "objects that end too early": '{"a": 1,\n' * 20_000,
    "fences": "```\n" * 50_000,
    "paragraphs of rows": "a,b\n1,2\nc;d\n1;2\n\n" * 10_000,
    "one paragraph": "a,b\n1,2\nx\n" * 20_000,
    "quotation marks": 'a,"b\n' * 50_000,
    "a cell of blanks": "a,b\n" + " " * 200_000 + "x,1\n",
    "members": json.dumps({f"m{n}": [n] for n in range(20_000)}),
    "empty lists and counts": json.dumps(
        {f"{kind}{n}": value for n in range(9_000) for kind, value in (("count", 0), ("m", []))}
    ),
    "objects by name": json.dumps({f"m{n}": {"key" + "_" * (n % 50): n, "x": 1} for n in range(9_000)}),
    "objects in objects": '{"a": ' * 500 + "[1]" + "}" * 500,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_table_search_takes_linear_time(name: str) -> None:
    result = text_result(HOSTILE[name])
    started = time.thread_time()
    bundle(result)
    with suppress(NoTableError):
        result.df
    result.frames
    assert time.thread_time() - started < 3


def test_changing_a_frame_does_not_change_the_result() -> None:
    result = text_result('[{"a": 1}]')
    frame = result.df
    frame["a"] = 5
    assert result.df["a"].tolist() == [1]


async def test_results_are_equal_and_survive_pickle_and_deepcopy(call: Any) -> None:
    result = await call("cities")
    result.df  # fills the cache, which must not travel
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert twin == result
        assert twin.df.equals(result.df)
    assert result != await call("add", a=1, b=2)
    assert result != "text"


USES: dict[str, Callable[[ToolResult], object]] = {
    "length": len,
    "items": list,
    "item": lambda result: result[0],
    "membership": lambda result: "x" in result,
    "frame": pd.DataFrame,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_result_that_is_used_as_a_list_says_where_its_value_is(use: Callable[[ToolResult], object]) -> None:
    with pytest.raises(TypeError) as raised:
        use(text_result('[{"a": 1}]'))
    assert str(raised.value) == (
        "a ToolResult is neither a list nor a dict; its value is .data, its table .df, its text .text"
    )


def test_a_result_is_true_and_one_cell_of_a_table() -> None:
    results = [text_result("0"), text_result("")]
    assert all(results)
    frame = pd.DataFrame({"result": results})
    assert frame["result"].tolist() == results
    assert repr(frame).splitlines()[1].split() == ["0", "0"]


def test_repr_is_one_short_line_that_names_the_values() -> None:
    result = ToolResult(CallToolResult(content=[TextContent(text="a\nb" * 100)]), server="s", tool="t")
    assert repr(result).startswith("<ToolResult s:t: a ba ba b")
    assert repr(result).endswith("(.data, .df, .text, .images)>")
    assert len(repr(result)) < 100
    assert "\n" not in repr(result)


def test_the_help_of_a_result_names_its_values() -> None:
    assert [name for name in ("data", "df", "frames", "text", "images") if f"result.{name}" in ToolResult.__doc__] == [
        "data",
        "df",
        "frames",
        "text",
        "images",
    ]


def test_str_is_what_a_terminal_shows() -> None:
    assert str(text_result("hello")) == "hello"


@pytest.mark.parametrize(("text", "shown"), [("null", "null"), ("[]", "an empty list"), ("{}", "an empty object")])
def test_a_value_with_nothing_in_it_is_a_sentence(text: str, shown: str) -> None:
    sent = CallToolResult(content=[], structured_content={"result": json.loads(text)})
    for result in (text_result(text), ToolResult(sent)):
        assert bundle(result)["text/plain"] == f"The value is {shown}."
        assert f"The value is {shown}." in bundle(result)["text/html"]


def test_an_answer_of_one_line_is_little_html() -> None:
    assert len(bundle(text_result("It is sunny in Oslo."))["text/html"].encode()) < 1_500


def test_an_empty_result_says_so() -> None:
    assert bundle(text_result())["text/plain"] == "The result is empty."


def test_a_lone_embedded_markdown_is_rendered_as_markdown() -> None:
    embedded = EmbeddedResource(resource=TextResourceContents(uri="x://a", mime_type="text/markdown", text="*hi*"))
    assert bundle(ToolResult(CallToolResult(content=[embedded])))["text/markdown"] == "*hi*"


def test_only_the_mime_types_asked_for_are_returned() -> None:
    result = text_result("hello")
    assert set(result._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert set(result._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}


def test_meta_is_a_copy() -> None:
    result = ToolResult(CallToolResult(content=[], meta={"a": 1}))
    result.meta["a"] = 2
    assert result.meta == {"a": 1}
