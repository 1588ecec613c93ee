"""Ask a PDF, over stdio: finds passages with their pages, shows a page as an image, and gives the file.

Run `python documents_server.py`, or `python documents_server.py your.pdf`. The embeddings are the small ones below,
without weights and network; `--embeddings openai:text-embedding-3-small` takes a provider's (and needs its key).
What is imported here comes with `pip install 'mcp-magic[documents]'`.
"""

import io
import math
import re
import sys
import zlib
from array import array
from collections import Counter
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FileResource
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field
from serving import parser, serve

try:
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from PIL import ImageDraw
    from pypdfium2 import PdfDocument, PdfiumError
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}. `pip install 'mcp-magic[documents]'` installs what this server needs.")

HANDBOOK = Path(__file__).with_name("handbook.pdf")
"""The document if no other is named: four pages, which handbook.py writes."""

SPLITTER = RecursiveCharacterTextSplitter(
    chunk_size=300, chunk_overlap=60, separators=["\n\n", ".\n", ". ", "\n", " "], keep_separator="end"
)
"""Makes passages of at most 300 characters, which end with a sentence where possible."""

MOST_PASSAGES = 10
"""Passages that one call of `search` returns at most."""

BATCH = 256
"""Passages whose vectors are computed together."""

WIDTH, HEIGHT, COLOURS = 540, 1600, 16
"""Most pixels, and colours, of the image of a page: enough to read it, and for A5 about 12 kB."""

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class LetterEmbeddings(Embeddings):
    """Vectors that count parts of words: two texts are near each other if they are spelled alike.

    They know no meaning: they do not find `price` for `cost`, nor a text in another language.
    """

    SIZE = 2048

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return a vector of length 1: each place counts the runs of four letters that a checksum puts there."""
        words = re.findall(r"\w+", text.lower())
        runs = Counter(f"{word} "[at : at + 4] for word in words if len(word) > 3 for at in range(len(word) - 2))
        runs = runs or Counter(words or [text])  # a question of short words, or of none
        vector = [0.0] * self.SIZE
        for run, count in runs.items():
            vector[zlib.crc32(run.encode()) % self.SIZE] += math.sqrt(count)
        length = math.hypot(*vector) or 1.0
        return [number / length for number in vector]


def embeddings(name: str | None) -> Embeddings:
    """Return a provider's embeddings, as `openai:text-embedding-3-small`, or the small ones."""
    if name is None:
        return LetterEmbeddings()
    from langchain.embeddings import init_embeddings  # of mcp-magic[models], like the agents' models

    return init_embeddings(name)


class Passage(BaseModel):
    """A part of a page that was found."""

    page: Annotated[int, Field(description="The page, from 1 on")]
    score: Annotated[float, Field(description="How near it is to the question: 1 is nearest, 0 is not at all")]
    text: str


class Book:
    """A PDF whose passages can be searched.

    PDFium may be used by one thread at a time. The methods that use it are called from the event loop alone.
    """

    def __init__(self, path: Path, embeddings: Embeddings) -> None:
        self.path = path
        self._pdf = PdfDocument(path)
        self.title = self._pdf.get_metadata_value("Title").strip() or path.stem
        texts = [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in self._pdf]
        self.pages = len(texts)
        passages = SPLITTER.create_documents(texts, [{"page": number} for number in range(1, self.pages + 1)])
        if not passages:
            raise ValueError("it has no text; a scan needs a text layer (OCR) first")
        self._store = InMemoryVectorStore(embeddings)
        for start in range(0, len(passages), BATCH):
            for key in self._store.add_documents(passages[start : start + BATCH]):
                kept = self._store.store[key]
                kept["vector"] = array("f", kept["vector"])  # a list of floats takes up to ten times as much memory

    async def search(self, question: str, k: int) -> list[Passage]:
        """Return the k passages that are nearest to a question, the nearest first."""
        vector = array("f", await self._store.embeddings.aembed_query(question))
        nearest = self._store.similarity_search_with_score_by_vector(vector, k)
        return [Passage(page=at.metadata["page"], score=round(score, 3), text=at.page_content) for at, score in nearest]

    def image(self, number: int) -> bytes:
        """Return a page as PNG."""
        if not 1 <= number <= self.pages:
            raise ToolError(f"There is no page {number}: {self.title} has the pages 1 to {self.pages}.")
        page = self._pdf[number - 1]
        drawn = page.render(scale=min(WIDTH / page.get_width(), HEIGHT / page.get_height())).to_pil()
        corner = drawn.width - 1, drawn.height - 1
        ImageDraw.Draw(drawn).rectangle((0, 0, *corner), outline="silver")  # paper ends where a white notebook goes on
        file = io.BytesIO()
        drawn.quantize(COLOURS).save(file, "PNG", optimize=True)
        return file.getvalue()


def documents_server(book: Book) -> MCPServer:
    """Return a server for one PDF."""
    server = MCPServer(
        "documents",
        title="Documents",
        instructions=f"Searches {book.title}, a PDF with {book.pages} pages.",
        log_level="ERROR",
    )

    @server.tool(title="Search", annotations=READS)
    async def search(
        question: Annotated[str, Field(description="A question, or words of the text", min_length=1, max_length=1000)],
        k: Annotated[int, Field(description="How many passages", ge=1, le=MOST_PASSAGES)] = 3,
    ) -> list[Passage]:
        """Search the document for a question: the nearest passages with their pages, the nearest first."""
        return await book.search(question, k)

    @server.tool(title="Show a page", annotations=READS)
    async def show_page(page: Annotated[int, Field(description="The page, from 1 on")]) -> Image:
        """Show a page of the document as an image (PNG), with its tables and pictures."""
        return Image(data=book.image(page), format="png")

    @server.prompt(title="Cite pages")
    def cite_pages(question: Annotated[str, Field(description="What to answer; may be missing")] = "") -> str:
        """Ask for an answer from the document alone, with the page of each statement."""
        rules = (
            f"Answer from the document '{book.title}' alone. Search it first. "
            "Write the page after each statement, as (page 2). If the passages do not answer the question, say so."
        )
        return f"{rules}\n\n{question}".strip()

    name = book.path.name
    server.add_resource(
        FileResource(
            uri=f"documents://{quote(name)}",
            name=name,
            title=book.title,
            description="The whole document, as PDF.",
            mime_type="application/pdf",
            path=book.path.resolve(),
        )
    )
    return server


if __name__ == "__main__":
    options = parser(__doc__ or "")
    options.add_argument("pdf", type=Path, nargs="?", default=HANDBOOK, help="default: the handbook of the parlours")
    options.add_argument("--embeddings", metavar="PROVIDER:NAME", help="default: small ones without weights")
    chosen = options.parse_args()
    if not chosen.pdf.is_file():
        sys.exit(f"There is no file {chosen.pdf}.")
    try:
        opened = Book(chosen.pdf, embeddings(chosen.embeddings))
    except (OSError, PdfiumError, ValueError) as error:
        sys.exit(f"{chosen.pdf} cannot be searched: {error}")
    serve(documents_server(opened), chosen)
