"""What a resource is in Python and on a page, by its type."""

from __future__ import annotations

import copy

import pytest
from mcp_types import BlobResourceContents, ReadResourceResult, TextResourceContents

from mcp_magic.errors import NoTableError
from mcp_magic.results import ResourceResult
from tests.support.showcase import b64, bundle, png, read


def resource(*contents: TextResourceContents | BlobResourceContents, uri: str = "demo://x") -> ResourceResult:
    return ResourceResult(ReadResourceResult(contents=list(contents)), uri=uri)


def text(mime_type: str | None, content: str, uri: str = "demo://x") -> TextResourceContents:
    return TextResourceContents(uri=uri, mime_type=mime_type, text=content)


def blob(mime_type: str | None, content: bytes, uri: str = "demo://x") -> BlobResourceContents:
    return BlobResourceContents(uri=uri, mime_type=mime_type, blob=b64(content))


async def test_resources_of_a_server_are_shown_by_their_type(tmp_path):
    table = await read("demo://table")
    assert table.mime_type == "text/csv"
    assert table.df["degrees"].tolist() == [21]
    assert bundle(table)["text/plain"] == "city   degrees\nParis  21\n1 row x 2 columns"
    settings = await read("demo://settings")
    assert settings.data == {"depth": {"max": 3}}
    assert "<details open><summary>" in bundle(settings)["text/html"]
    readme = await read("demo://readme")
    assert set(bundle(readme)) == {"text/plain", "text/markdown"}
    assert bundle(readme)["text/markdown"].startswith("# Read &lt;b>me&lt;/b>")
    assert readme.df.to_dict("list") == {"a": [1], "b": [2]}
    pixel = await read("demo://pixel.png")
    assert pixel.bytes == pixel.images[0].bytes == png()
    assert set(bundle(pixel)) == {"text/plain", "image/png"}
    assert pixel.save(tmp_path / "x.png") == tmp_path / "x.png"
    assert (tmp_path / "x.png").read_bytes() == png()


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        pytest.param("year;2020;2021\nOslo;1,5;2\n", {"year": ["Oslo"], "2020": ["1,5"], "2021": [2]}, id="years"),
        pytest.param("a,b\n1\n2,3\n", {"a": [1, 2], "b": [None, 3]}, id="ragged"),
        pytest.param('a,b\n"x; ""y""\nz",1\n', {"a": ['x; "y"\nz'], "b": [1]}, id="quotes"),
        pytest.param("\ufeffname;n\nÅse;1\n", {"name": ["Åse"], "n": [1]}, id="mark"),
        pytest.param("a,b,\n1,2,\n", {"a": [1], "b": [2], "Unnamed: 2": [None]}, id="no name"),
        pytest.param("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}, id="trailing comma"),
        pytest.param("a,b\n1,2,3\n4,5,6\n", {"a": [1, 4], "b": [2, 5], "Unnamed: 2": [3, 6]}, id="unnamed"),
        pytest.param("notes\nred; blue\n", {"notes": ["red; blue"]}, id="one column"),
    ],
)
def test_all_columns_of_csv_are_read_and_shown(content, columns):
    result = resource(text("text/csv", content))
    frame = result.df.astype(object)
    assert frame.where(frame.notna(), None).to_dict("list") == columns
    assert list(result.df.index) == list(range(len(result.df)))
    assert f"x {len(columns)} column" in bundle(result)["text/plain"]


@pytest.mark.parametrize(
    ("kind", "content", "columns"),
    [
        *(
            (kind, "id;name\n1;3,5\n2;4,5\n", {"id": [1, 2], "name": ["3,5", "4,5"]})
            for kind in ("text/csv", "text/plain")
        ),
        *((f"application/{kind}", '{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}) for kind in ("x-ndjson", "jsonl")),
        ("text/plain", '{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}),
        ("text/tab-separated-values", "a\tb\n1\t2\n", {"a": [1], "b": [2]}),
        ("application/json", '[{"a": 1, "b": 2}]', {"a": [1], "b": [2]}),
        ("application/vnd.x+json", '{"rows": [{"a": 1, "b": 2}]}', {"a": [1], "b": [2]}),
        ("text/plain", "a,b\n1,2\n", {"a": [1], "b": [2]}),
        (None, '[{"a": 1, "b": 2}]', {"a": [1], "b": [2]}),
    ],
)
def test_rows_are_read_as_the_mime_type_says(kind, content, columns):
    result = resource(text(kind, content))
    assert result.df.to_dict("list") == columns
    assert f"x {len(columns)} column" in bundle(result)["text/plain"].splitlines()[-1]


def test_media_are_shown_by_what_a_frontend_can():
    pdf = blob("application/pdf", b"%PDF-1.7")
    assert set(bundle(resource(pdf))) == {"text/plain", "application/pdf"}
    several = bundle(resource(text("text/plain", "hi"), pdf))["text/html"]
    assert '<a download="document.pdf" href="data:application/pdf;base64,' in several
    audio = resource(blob("audio/wav", b"RIFF"))
    assert '<audio controls src="data:audio/wav;base64,UklGRg=="></audio>' in bundle(audio)["text/html"]
    assert audio.audio[0].bytes == b"RIFF"
    for kind in ("image/x-foo", "application/zip", None):
        shown = bundle(resource(blob(kind, b"x" * 1234)))["text/plain"]
        assert shown == f"[{kind or 'application/octet-stream'}, 1.2 kB: .bytes]"
    assert "&lt;h1&gt;" in bundle(resource(text("text/html", "<h1>")))["text/html"]


def test_no_table_says_what_there_is():
    with pytest.raises(NoTableError, match=r"^no table in this resource: found text \(2 characters\)$"):
        resource(text("text/plain", "hi")).df
    with pytest.raises(NoTableError, match=r"^no table in this resource: found image/png, 3 bytes$"):
        resource(blob("image/png", b"abc")).df
    with pytest.raises(NoTableError, match=r"^no table in this result: "):
        resource(text("text/csv", 'a,b\n1,2\n3,4,5,6\n"')).df


def test_text_contents_are_shown_under_their_uris():
    one = resource(text("text/plain", "hello"))
    assert (one.text, one.bytes, bundle(one)["text/plain"]) == ("hello", b"hello", "hello")
    two = resource(text("text/plain", "one", "demo://1"), text("text/plain", "two", "demo://2"))
    assert (two.text, two.bytes) == (["one", "two"], [b"one", b"two"])
    assert bundle(two)["text/plain"] == "demo://1\none\n\ndemo://2\ntwo"
    none = resource()
    assert bundle(none)["text/plain"] == "The resource is empty."
    assert (none.text, none.bytes, none.mime_type) == ("", b"", "")
    assert copy.deepcopy(one) == one
    assert repr(one) == "<ResourceResult demo://x: hello>"


def test_contents_are_saved_into_a_folder_never_outside(tmp_path):
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
