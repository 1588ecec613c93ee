"""The server that searches a PDF, over stdio, and the PDF that the repository makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from base64 import b64decode
from io import BytesIO
from typing import TYPE_CHECKING, Any

import PIL.Image
import pytest
import pytest_asyncio
from fpdf import FPDF
from langchain_core.embeddings import DeterministicFakeEmbedding
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from pypdfium2 import PdfDocument

from tests.support import bundled
from tests.support.processes import kept_open

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HANDBOOK = bundled.FOLDER / "handbook.pdf"
LARGEST_PDF, LARGEST_IMAGE = 60_000, 30_000
"""Bytes; the repository, the saved notebook and its cassette hold them."""

PAGES, MOST_MEMORY = 20, 150_000
"""Pages of a long document, and bytes that a page may take: eight passages, each with a vector of 2,048 numbers."""

module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def documents() -> AsyncIterator[Client]:
    """The server over stdio, one for all tests of this module."""
    program, *words = bundled.command("documents_server")
    async with kept_open(Client(stdio_client(StdioServerParameters(command=program, args=words)))) as client:
        yield client


async def passages(client: Client, question: str, **options: int) -> list[dict[str, Any]]:
    result = await client.call_tool("search", {"question": question, **options})
    assert not result.is_error, result.content
    return result.structured_content["result"]


def texts(pdf: bytes) -> list[str]:
    return [page.get_textpage().get_text_range() for page in PdfDocument(pdf)]


@module_loop
@pytest.mark.lowest
@pytest.mark.parametrize(
    ("question", "page", "words"),
    [
        pytest.param("When do the parlours close in summer?", 1, "June to August", id="text"),
        pytest.param("What does a scoop of pistachio cost?", 2, "pistachio 3.90 milk, nuts 5 weeks", id="table"),
        pytest.param("What does the red lamp mean?", 3, "motor is too hot", id="middle"),
        pytest.param("When may the jingle be played?", 4, "10:00 and 19:00", id="last page"),
    ],
)
async def test_search_has_the_right_page_first(documents: Client, question: str, page: int, words: str) -> None:
    first, *_ = await passages(documents, question)
    assert first["page"] == page
    assert words in first["text"].replace("\n", " ")


@module_loop
async def test_search_has_the_nearest_passage_first(documents: Client) -> None:
    scores = [passage["score"] for passage in await passages(documents, "How do I clean the machine?", k=10)]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    assert 1 > scores[0] > scores[-1] >= 0


@module_loop
async def test_search_takes_the_same_words_as_nearest(documents: Client) -> None:
    [known] = await passages(documents, "generator petrol", k=1)
    [same] = await passages(documents, known["text"], k=1)
    assert same == {**known, "score": 1.0}


@module_loop
@pytest.mark.parametrize("k", [0, 11])
async def test_search_refuses_too_few_or_many(documents: Client, k: int) -> None:
    result = await documents.call_tool("search", {"question": "machine", "k": k})
    assert result.is_error
    assert "than or equal to" in result.content[0].text


@module_loop
async def test_search_declares_its_passages(documents: Client) -> None:
    [search, _] = (await documents.list_tools()).tools
    assert search.input_schema["properties"]["k"]["maximum"] == 10
    passage = search.output_schema["$defs"]["Passage"]["properties"]
    assert {name: field["type"] for name, field in passage.items()} == {
        "page": "integer",
        "score": "number",
        "text": "string",
    }


@module_loop
async def test_a_page_is_a_small_image(documents: Client) -> None:
    result = await documents.call_tool("show_page", {"page": 2})
    [block] = result.content
    assert (block.type, block.mime_type) == ("image", "image/png")
    data = b64decode(block.data)
    assert len(data) < LARGEST_IMAGE
    drawn = PIL.Image.open(BytesIO(data))
    assert drawn.size == (540, 767)
    darkest, lightest = drawn.convert("L").getextrema()
    assert (darkest < 64, lightest) == (True, 255)


@module_loop
@pytest.mark.parametrize("number", [-1, 0, 5])
async def test_a_missing_page_says_what_there_is(documents: Client, number: int) -> None:
    result = await documents.call_tool("show_page", {"page": number})
    assert result.is_error
    wanted = f"There is no page {number}: Handbook of the ice cream parlours has the pages 1 to 4."
    assert result.content[0].text.endswith(wanted)


@module_loop
async def test_the_resource_is_the_pdf(documents: Client) -> None:
    [resource] = (await documents.list_resources()).resources
    assert (str(resource.uri), resource.mime_type) == ("documents://handbook.pdf", "application/pdf")
    [content] = (await documents.read_resource(resource.uri)).contents
    assert b64decode(content.blob) == HANDBOOK.read_bytes()


@module_loop
async def test_another_resource_is_an_error(documents: Client) -> None:
    with pytest.raises(MCPError, match=r"other\.pdf"):
        await documents.read_resource("documents://other.pdf")


@module_loop
async def test_the_prompt_wants_pages(documents: Client) -> None:
    [message] = (await documents.get_prompt("cite_pages")).messages
    assert "'Handbook of the ice cream parlours' alone" in message.content.text
    [asked] = (await documents.get_prompt("cite_pages", {"question": "Who is Ms Okafor?"})).messages
    assert asked.content.text == f"{message.content.text}\n\nWho is Ms Okafor?"


async def test_other_embeddings_decide_what_is_near() -> None:
    module = bundled.load("documents_server")
    book = module.Book(HANDBOOK, DeterministicFakeEmbedding(size=16))
    async with Client(module.documents_server(book)) as client:
        [known, *_] = await passages(client, "pistachio", k=10)
        [same] = await passages(client, known["text"], k=1)
    assert same["score"] == 1.0


def test_a_long_document_takes_little_memory(tmp_path: Path) -> None:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=10)
    for page in range(PAGES):
        pdf.add_page()
        pdf.multi_cell(0, 5, " ".join(f"word{number}" for number in range(page, page + 300)))
    pdf.output(str(tmp_path / "long.pdf"))
    module = bundled.load("documents_server")
    tracemalloc.start()
    try:
        book = module.Book(tmp_path / "long.pdf", module.embeddings(None))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert book.pages == PAGES
    assert taken < MOST_MEMORY * PAGES


def test_embeddings_of_a_provider_go_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    chosen = bundled.load("documents_server").embeddings("openai:text-embedding-3-small")
    assert (type(chosen).__name__, chosen.model) == ("OpenAIEmbeddings", "text-embedding-3-small")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "There is no file {path}.", id="missing"),
        pytest.param(b"no PDF", "{path} cannot be searched: Failed to load document", id="other format"),
        pytest.param("empty", "{path} cannot be searched: it has no text", id="without text"),
    ],
)
def test_an_unfit_file_ends_the_server(tmp_path: Path, content: bytes | str | None, message: str) -> None:
    path = tmp_path / "report.pdf"
    if content == "empty":
        empty = PdfDocument.new()
        empty.new_page(100, 100)
        empty.save(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    ran = subprocess.run(
        bundled.command("documents_server", str(path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(message.format(path=path))
    assert ran.stderr.count("\n") == 1


def test_missing_packages_are_told(tmp_path: Path) -> None:
    (tmp_path / "pypdfium2.py").write_text("raise ModuleNotFoundError(\"No module named 'pypdfium2'\")")
    ran = subprocess.run(
        bundled.command("documents_server"),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wanted = "No module named 'pypdfium2'. `pip install 'mcp-magic[documents]'` installs what this server needs.\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", wanted)


def test_the_script_writes_the_committed_pdf(tmp_path: Path) -> None:
    written = tmp_path / "handbook.pdf"
    for _ in range(2):
        before = written.read_bytes() if written.exists() else None
        subprocess.run([sys.executable, str(bundled.FOLDER / "handbook.py"), str(written)], check=True)
        assert before in (None, written.read_bytes())
    assert texts(written.read_bytes()) == texts(HANDBOOK.read_bytes())
    assert len(texts(HANDBOOK.read_bytes())) == 4
    assert HANDBOOK.stat().st_size < LARGEST_PDF


def test_the_handbook_has_the_prices_of_the_parlours() -> None:
    prices = {name: f"{euros:.2f}" for name, euros in bundled.load("parlour_server").FLAVOURS}
    assert {row[0]: row[1] for row in bundled.load("handbook").TABLE[1:]} == prices


def test_the_tutorial_names_the_only_flavour_for_the_allergy() -> None:
    notebook = json.loads((bundled.FOLDER.parent / "documents.ipynb").read_text("utf-8"))
    sources = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    allergens = re.split(", | and ", re.findall(r"A guest .* allergy to (.+?)\.", sources)[0])
    flavours = {row[0]: row[2].split(", ") for row in bundled.load("handbook").TABLE[1:]}
    suited = [flavour for flavour, contents in flavours.items() if not {*contents} & {*allergens}]
    assert re.findall(r"The guest can eat (\w+)", sources) == suited


@pytest.mark.parametrize("question", ["Who is he?", "tea", "价格", "  "], ids=["short", "one", "Chinese", "blank"])
async def test_a_question_without_long_words_has_passages(question: str) -> None:
    module = bundled.load("documents_server")
    async with Client(module.documents_server(module.Book(HANDBOOK, module.embeddings(None)))) as client:
        assert len(await passages(client, question, k=3)) == 3
