"""What reading a resource returned."""

from __future__ import annotations

import mimetypes
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .answers import argument_value
from .content import resource_media, resource_part
from .frames import all_frames, found_texts, in_contents, one_frame
from .html import joined, tag
from .jsontree import NOT_JSON, loads
from .limits import Budget
from .media import Media
from .parts import Faceted, Part, fitting
from .safe import mime, one_line

if TYPE_CHECKING:
    import pandas as pd
    from mcp_types import BlobResourceContents, ReadResourceResult, TextResourceContents

__all__ = ["ResourceResult"]


class ResourceResult(Faceted):
    """The contents of a resource as a value; a resource may have several.

    Attributes:
        raw: The SDK's result, nothing left out.
        server: The server's name.
        uri: What was read.
        seconds: How long it took.
    """

    __slots__ = ("raw", "seconds", "server", "uri")
    _fields = ("raw", "server", "uri", "seconds")
    _facets = "its contents are .text, .data, .df or .bytes"

    def __init__(self, raw: ReadResourceResult, *, server: str = "", uri: str = "", seconds: float = 0.0) -> None:
        self.raw = raw
        self.server = server
        self.uri = uri
        self.seconds = seconds
        self._cache = None

    @property
    def contents(self) -> list[TextResourceContents | BlobResourceContents]:
        """The contents as the SDK has them."""
        return self.raw.contents

    @property
    def texts(self) -> list[str]:
        """The texts of the contents that are text."""
        return [text for text in (getattr(c, "text", None) for c in self.contents) if text is not None]

    @property
    def text(self) -> str | list[str]:
        """The text: a string, a list of strings if several contents are text, "" if none is."""
        texts = self.texts
        return texts if len(texts) > 1 else "".join(texts)

    @property
    def bytes(self) -> bytes | list[bytes]:
        """The data of blobs, text as UTF-8; a list if there are several contents.

        Raises:
            InvalidResponseError: The server's data is not base64.
        """
        found = [_bytes(c) for c in self.contents]
        return found if len(found) > 1 else b"".join(found)

    @property
    def mime_type(self) -> str:
        """The MIME type of the first content, "" if the server does not say it."""
        said = self.contents[0].mime_type if self.contents else None
        return mime(said) if said else ""

    @property
    def meta(self) -> dict[str, Any]:
        """The result's `_meta`."""
        return dict(self.raw.meta or {})

    @property
    def data(self) -> Any:
        """The value of a single text that is JSON, else None."""
        return self._once("data", self._find_data)

    def _find_data(self) -> Any:
        texts = self.texts
        value = loads(texts[0]) if len(texts) == 1 else NOT_JSON
        return None if value is NOT_JSON else value

    @property
    def df(self) -> pd.DataFrame:
        """A DataFrame of CSV, TSV, JSON or a Markdown table, as the MIME type says.

        Every access returns one of its own.

        Raises:
            NoTableError: There is no table, or there are several; the message says what there is.
        """
        made: pd.DataFrame = self._once("df", self._make_frame)
        return made.copy()

    def _make_frame(self) -> pd.DataFrame:
        return one_frame(list(map(in_contents, self.contents)), "resource", self._found)

    def _found(self) -> list[str]:
        return found_texts(self.texts) + [media.summary for media in self._blobs()]

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables as DataFrames, by the names of their members or by their URI; {} if there are none."""
        return all_frames(list(map(in_contents, self.contents)))

    def _blobs(self) -> list[Media]:
        found = (resource_media(c) for c in self.contents)
        return [media for media in found if media is not None]

    @property
    def images(self) -> list[Media]:
        """The images; each displays itself."""
        return [media for media in self._blobs() if media.mime_type.startswith("image/")]

    @property
    def audio(self) -> list[Media]:
        """The sounds."""
        return [media for media in self._blobs() if media.mime_type.startswith("audio/")]

    def save(self, path: str | Path) -> Path | list[Path]:
        """Write the contents to files and say where.

        Args:
            path: The file; a folder if it is one, or if there are several contents. In a folder files
                are named after their URI.

        Returns:
            The file, or the files if there are several contents.
        """
        target = Path(path)
        if len(self.contents) == 1 and not target.is_dir():
            target.write_bytes(_bytes(self.contents[0]))
            return target
        target.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for content in self.contents:
            file = _unused(target / _file_name(str(content.uri), content.mime_type))
            file.write_bytes(_bytes(content))
            written.append(file)
        return written if len(written) != 1 else written[0]

    def __mcp_argument__(self, wanted: str) -> Any:
        """Return what stands for it as an argument: bytes, its text, or its data."""
        if wanted == "bytes" or not self.texts:
            return self.bytes
        return argument_value(self.data, self.texts, wanted)

    def __repr__(self) -> str:
        what = ", ".join(one_line(t, 60) for t in self.texts[:2]) or ", ".join(m.summary for m in self._blobs()[:3])
        return f"<ResourceResult {one_line(self.uri, 80)}: {what or 'empty'}>"

    def parts(self, budget: Budget | None = None) -> list[Part]:
        """Return what is displayed.

        Args:
            budget: What may be shown, for a display that holds more than this result; None for a display of its own.
        """
        show = _titled if len(self.contents) > 1 else resource_part
        parts = fitting(self.contents, show, budget or Budget.full(), ".contents")
        return parts or [Part("(empty resource)", tag("p", "(empty resource)"))]


def _titled(content: Any, budget: Budget) -> Part:
    """Return one of several contents, under its own URI."""
    part = resource_part(content, budget)
    title = one_line(str(content.uri), 200)
    return Part(f"{title}\n{part.plain}", joined([tag("b", title), part.html]), media=part.media)


def _bytes(content: Any) -> bytes:
    blob = getattr(content, "blob", None)
    if blob is None:
        text: str = content.text
        return text.encode()
    return Media(blob, content.mime_type).bytes


def _file_name(uri: str, mime_type: str | None) -> str:
    """Return a file name for a URI that cannot lead out of its folder.

    >>> _file_name("demo://a/b/report.csv", None), _file_name("x://..", "text/plain")
    ('report.csv', 'resource.txt')
    """
    parts = urlsplit(uri)
    name = PurePosixPath(unquote(parts.path or parts.netloc)).name
    name = re.sub(r"[^\w.-]+", "_", name).strip("._")[-100:] or "resource"
    return name if "." in name else name + (mimetypes.guess_extension(mime(mime_type)) or "")


def _unused(path: Path) -> Path:
    """Return `path`, numbered if it exists: two contents may end in the same name."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
