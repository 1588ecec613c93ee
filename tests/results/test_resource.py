from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import BlobResourceContents, ReadResourceResult, TextResourceContents

from mcp_magic.errors import NoTableError
from mcp_magic.results import ResourceResult
from tests.support.showcase import b64, bundle, png

if TYPE_CHECKING:
    from pathlib import Path


def resource(*contents: TextResourceContents | BlobResourceContents, uri: str = "demo://x") -> ResourceResult:
    return ResourceResult(ReadResourceResult(contents=list(contents)), uri=uri)


def text(mime_type: str | None, content: str, uri: str = "demo://x") -> TextResourceContents:
    return TextResourceContents(uri=uri, mime_type=mime_type, text=content)


def blob(mime_type: str | None, content: bytes, uri: str = "demo://x") -> BlobResourceContents:
    return BlobResourceContents(uri=uri, mime_type=mime_type, blob=b64(content))


async def test_csv_is_a_table(read: Any) -> None:
    result = await read("demo://table")
    assert result.mime_type == "text/csv"
    assert result.df["degrees"].tolist() == [21]
    assert bundle(result)["text/plain"] == "city   degrees\nParis  21\n1 row x 2 columns"


@pytest.mark.parametrize("mime_type", ["text/csv", "text/plain"])
def test_csv_with_semicolons_has_the_columns_that_it_names(mime_type: str) -> None:
    result = resource(text(mime_type, "id;name;price\n1;tea;3,5\n2;coffee;4,5\n"))
    assert result.df.to_dict("list") == {"id": [1, 2], "name": ["tea", "coffee"], "price": ["3,5", "4,5"]}
    assert bundle(result)["text/plain"].splitlines()[1].split() == ["1", "tea", "3,5"]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("year;2020;2021\nIceland;1,5;2\n", {"year": ["Iceland"], "2020": ["1,5"], "2021": [2]}),
        ("a,b\n1\n2,3\n", {"a": [1, 2], "b": [None, 3]}),
        ('a,b\n"x; ""y""\nz",1\n', {"a": ['x; "y"\nz'], "b": [1]}),
        ("\ufeffname;n\nÅse;1\n", {"name": ["Åse"], "n": [1]}),
        ("a,b,\n1,2,\n", {"a": [1], "b": [2], "Unnamed: 2": [None]}),
        ("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
        ("a,b\n1,2,3\n4,5,6\n", {"a": [1, 4], "b": [2, 5], "Unnamed: 2": [3, 6]}),
        ("notes\nred; blue\n", {"notes": ["red; blue"]}),
    ],
    ids=["years", "ragged", "quotes", "mark", "empty name", "trailing comma", "unnamed column", "one column"],
)
def test_all_columns_of_csv_are_read_and_shown(content: str, columns: dict[str, list[object]]) -> None:
    result = resource(text("text/csv", content))
    frame = result.df.astype(object)
    assert frame.where(frame.notna(), None).to_dict("list") == columns
    assert list(result.df.index) == list(range(len(result.df)))
    assert f"x {len(columns)} column" in bundle(result)["text/plain"]


@pytest.mark.parametrize("mime_type", ["application/x-ndjson", "application/jsonl", "text/plain"])
def test_json_lines_are_a_table(mime_type: str) -> None:
    result = resource(text(mime_type, '{"a": 1, "b": "x, y"}\n{"a": 2, "b": null}\n'))
    assert result.df["a"].tolist() == [1, 2]
    assert bundle(result)["text/plain"].splitlines()[-1] == "2 rows x 2 columns"


async def test_json_is_a_tree(read: Any) -> None:
    result = await read("demo://settings")
    assert result.data == {"depth": {"max": 3}}
    assert "<details open><summary>" in bundle(result)["text/html"]


async def test_markdown_is_markdown_and_its_table_a_frame(read: Any) -> None:
    result = await read("demo://readme")
    assert set(bundle(result)) == {"text/plain", "text/markdown"}
    assert bundle(result)["text/markdown"].startswith("# Read &lt;b>me&lt;/b>")
    assert result.df.to_dict("list") == {"a": [1], "b": [2]}


async def test_an_image_is_an_image(read: Any, tmp_path: Path) -> None:
    result = await read("demo://pixel.png")
    assert result.bytes == png()
    assert result.images[0].bytes == png()
    assert set(bundle(result)) == {"text/plain", "image/png"}
    assert result.save(tmp_path / "x.png") == tmp_path / "x.png"
    assert (tmp_path / "x.png").read_bytes() == png()


def test_a_pdf_is_left_to_the_frontend() -> None:
    shown = bundle(resource(blob("application/pdf", b"%PDF-1.7")))
    assert set(shown) == {"text/plain", "application/pdf"}


def test_one_of_several_contents_that_is_a_pdf_is_a_link() -> None:
    shown = bundle(resource(text("text/plain", "hi"), blob("application/pdf", b"%PDF-1.7")))
    assert '<a download="document.pdf" href="data:application/pdf;base64,' in shown["text/html"]


def test_audio_is_a_player() -> None:
    result = resource(blob("audio/wav", b"RIFF"))
    assert '<audio controls src="data:audio/wav;base64,UklGRg=="></audio>' in bundle(result)["text/html"]
    assert result.audio[0].bytes == b"RIFF"


@pytest.mark.parametrize("kind", ["image/x-foo", "application/zip", None])
def test_what_nobody_can_show_is_a_line(kind: str | None) -> None:
    shown = bundle(resource(blob(kind, b"x" * 1234)))
    assert shown["text/plain"] == f"[{kind or 'application/octet-stream'}, 1.2 kB: .bytes]"


def test_text_is_text() -> None:
    result = resource(text("text/plain", "hello"))
    assert (result.text, result.bytes) == ("hello", b"hello")
    assert bundle(result)["text/plain"] == "hello"


def test_html_is_shown_as_its_source() -> None:
    assert "&lt;h1&gt;" in bundle(resource(text("text/html", "<h1>")))["text/html"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        *(("text/tab-separated-values", "a\tb\n1\t2\n"), ("application/json", '[{"a": 1, "b": 2}]')),
        *(("application/vnd.x+json", '{"rows": [{"a": 1, "b": 2}]}'), ("text/plain", "a,b\n1,2\n")),
        (None, '[{"a": 1, "b": 2}]'),
    ],
)
def test_rows_are_read_as_the_mime_type_says(kind: str | None, content: str) -> None:
    assert resource(text(kind, content)).df.to_dict("list") == {"a": [1], "b": [2]}


def test_no_table_says_what_was_found() -> None:
    with pytest.raises(NoTableError, match=r"^no table in this resource: found text \(2 characters\)$"):
        resource(text("text/plain", "hi")).df
    with pytest.raises(NoTableError, match=r"^no table in this resource: found image/png, 3 bytes$"):
        resource(blob("image/png", b"abc")).df


def test_csv_that_cannot_be_read_is_no_table() -> None:
    with pytest.raises(NoTableError, match=r"^no table in this result: "):
        resource(text("text/csv", 'a,b\n1,2\n3,4,5,6\n"')).df


def test_several_contents_are_shown_under_their_uris() -> None:
    result = resource(text("text/plain", "one", "demo://1"), text("text/plain", "two", "demo://2"))
    assert result.text == ["one", "two"]
    assert result.bytes == [b"one", b"two"]
    assert bundle(result)["text/plain"] == "demo://1\none\n\ndemo://2\ntwo"


def test_contents_are_saved_into_a_folder_never_outside(tmp_path: Path) -> None:
    result = resource(
        text(None, "1", "file:///a/notes.txt"),
        text(None, "2", "file:///b/notes.txt"),
        text("text/csv", "3", "demo://x/%2e%2e%2f%2e%2e%2fetc"),
        blob("image/png", b"4", "demo://.."),
    )
    written = result.save(tmp_path / "all")
    assert isinstance(written, list)
    assert [path.name for path in written] == ["notes.txt", "notes-2.txt", "etc.csv", "resource.png"]
    assert all(path.parent == tmp_path / "all" for path in written)
    assert [path.read_bytes() for path in written] == [b"1", b"2", b"3", b"4"]


def test_an_empty_resource_says_so() -> None:
    result = resource()
    assert bundle(result)["text/plain"] == "The resource is empty."
    assert (result.text, result.bytes, result.mime_type) == ("", b"", "")


def test_resources_are_equal_to_their_copies() -> None:
    result = resource(text("text/plain", "hi"))
    assert copy.deepcopy(result) == result
    assert repr(result) == "<ResourceResult demo://x: hi>"
