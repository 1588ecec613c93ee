"""The server that searches a PDF, over stdio, and the PDF that the repository makes."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from base64 import b64decode
from io import BytesIO

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

HANDBOOK = bundled.FOLDER / "handbook.pdf"
LARGEST_PDF, LARGEST_IMAGE = 60_000, 30_000
"""Bytes; the repository, the saved notebook and its cassette hold them."""

PAGES, MOST_MEMORY = 20, 150_000
"""Pages of a long document, and bytes that a page may take: eight passages, each with a vector of 2,048 numbers."""

module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def documents():
    """The server over stdio, one for all tests of this module."""
    program, *words = bundled.command("documents_server")
    async with kept_open(Client(stdio_client(StdioServerParameters(command=program, args=words)))) as client:
        yield client


async def passages(client, question, **options):
    result = await client.call_tool("search", {"question": question, **options})
    assert not result.is_error, result.content
    return result.structured_content["result"]


def texts(pdf):
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
async def test_search_has_the_right_page_first(documents, question, page, words):
    first, *_ = await passages(documents, question)
    assert first["page"] == page
    assert words in first["text"].replace("\n", " ")


@module_loop
async def test_search_has_the_nearest_passages_and_declares_them(documents):
    scores = [passage["score"] for passage in await passages(documents, "How do I clean the machine?", k=10)]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    assert 1 > scores[0] > scores[-1] >= 0
    [first] = await passages(documents, "generator petrol", k=1)
    assert await passages(documents, first["text"], k=1) == [{**first, "score": 1.0}]
    for question in ("Who is he?", "tea", "价格", "  "):
        assert len(await passages(documents, question, k=3)) == 3, question
    for k in (0, 11):
        refused = await documents.call_tool("search", {"question": "machine", "k": k})
        assert refused.is_error
        assert "than or equal to" in refused.content[0].text
    [search, _] = (await documents.list_tools()).tools
    assert search.input_schema["properties"]["k"]["maximum"] == 10
    passage = search.output_schema["$defs"]["Passage"]["properties"]
    kinds = {"page": "integer", "score": "number", "text": "string"}
    assert {name: field["type"] for name, field in passage.items()} == kinds


@module_loop
async def test_a_page_is_a_small_image(documents):
    [block] = (await documents.call_tool("show_page", {"page": 2})).content
    assert (block.type, block.mime_type) == ("image", "image/png")
    data = b64decode(block.data)
    assert len(data) < LARGEST_IMAGE
    drawn = PIL.Image.open(BytesIO(data))
    assert drawn.size == (540, 767)
    darkest, lightest = drawn.convert("L").getextrema()
    assert (darkest < 64, lightest) == (True, 255)
    for number in (-1, 0, 5):
        result = await documents.call_tool("show_page", {"page": number})
        assert result.is_error
        wanted = f"There is no page {number}: Handbook of the ice cream parlours has the pages 1 to 4."
        assert result.content[0].text.endswith(wanted)


@module_loop
async def test_the_resource_is_the_pdf_and_the_prompt_wants_pages(documents):
    [resource] = (await documents.list_resources()).resources
    assert (str(resource.uri), resource.mime_type) == ("documents://handbook.pdf", "application/pdf")
    [content] = (await documents.read_resource(resource.uri)).contents
    assert b64decode(content.blob) == HANDBOOK.read_bytes()
    with pytest.raises(MCPError, match=r"other\.pdf"):
        await documents.read_resource("documents://other.pdf")
    [message] = (await documents.get_prompt("cite_pages")).messages
    assert "'Handbook of the ice cream parlours' alone" in message.content.text
    [asked] = (await documents.get_prompt("cite_pages", {"question": "Who is Ms Okafor?"})).messages
    assert asked.content.text == f"{message.content.text}\n\nWho is Ms Okafor?"


async def test_embeddings_decide_what_is_near(monkeypatch):
    module = bundled.load("documents_server")
    book = module.Book(HANDBOOK, DeterministicFakeEmbedding(size=16))
    async with Client(module.documents_server(book)) as client:
        [first, *_] = await passages(client, "pistachio", k=10)
        [same] = await passages(client, first["text"], k=1)
    assert same["score"] == 1.0
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    chosen = module.embeddings("openai:text-embedding-3-small")
    assert (type(chosen).__name__, chosen.model) == ("OpenAIEmbeddings", "text-embedding-3-small")


def test_a_long_document_takes_little_memory(tmp_path):
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


def ends(*options, **env):
    """Start the server, which ends at once; return what it says."""
    command = bundled.command("documents_server", *options)
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    return ran.stderr


def test_an_unfit_file_or_environment_ends_the_server(tmp_path):
    path = tmp_path / "report.pdf"
    assert ends(str(path)) == f"There is no file {path}.\n"
    (tmp_path / "pypdfium2.py").write_text("raise ModuleNotFoundError(\"No module named 'pypdfium2'\")")
    wanted = "No module named 'pypdfium2'. `pip install 'mcp-magic[documents]'` installs what this server needs.\n"
    assert ends(PYTHONPATH=str(tmp_path)) == wanted


@pytest.mark.parametrize(
    ("content", "message"), [(b"no PDF", "Failed to load document"), (b"", "it has no text")], ids=["format", "text"]
)
def test_a_file_without_text_ends_the_server(tmp_path, content, message):
    path = tmp_path / "report.pdf"
    path.write_bytes(content)
    if not content:
        empty = PdfDocument.new()
        empty.new_page(100, 100)
        empty.save(path)
    assert ends(str(path)).startswith(f"{path} cannot be searched: {message}")


def test_the_script_writes_the_committed_pdf(tmp_path):
    written = [tmp_path / name for name in ("a.pdf", "b.pdf")]
    for path in written:
        subprocess.run([sys.executable, str(bundled.FOLDER / "handbook.py"), str(path)], check=True)
    assert written[0].read_bytes() == written[1].read_bytes()
    assert texts(written[0].read_bytes()) == texts(HANDBOOK.read_bytes())
    assert len(texts(HANDBOOK.read_bytes())) == 4
    assert HANDBOOK.stat().st_size < LARGEST_PDF


def test_the_tutorial_and_the_handbook_agree_with_the_parlours():
    prices = {name: f"{euros:.2f}" for name, euros in bundled.load("parlour_server").FLAVOURS}
    rows = bundled.load("handbook").TABLE[1:]
    assert {row[0]: row[1] for row in rows} == prices
    notebook = json.loads((bundled.FOLDER.parent / "documents.ipynb").read_text("utf-8"))
    sources = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    allergens = re.split(", | and ", re.findall(r"A guest .* allergy to (.+?)\.", sources)[0])
    suited = [row[0] for row in rows if not {*row[2].split(", ")} & {*allergens}]
    assert re.findall(r"The guest can eat (\w+)", sources) == suited
