"""Reading answers over HTTP that may be larger than they seem: a megabyte of gzip can hold gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from mcp_magic.core import stdio_lines

if TYPE_CHECKING:
    from httpx2 import Response

__all__ = ["TooLargeError", "read_whole"]

_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


class TooLargeError(httpx2.RequestError):
    """An answer has more than `MAX_MESSAGE` bytes; the rest of it was not read."""


async def read_whole(response: Response) -> Response:
    """Read an answer, part by part where it could be larger than it seems.

    Returns:
        An answer whose content is there: the same, or one like it.

    Raises:
        TooLargeError: It is too large.
    """
    limit, headers = stdio_lines.MAX_MESSAGE, response.headers
    size = headers.get("content-length", "")
    if "content-encoding" not in headers and size.isascii() and size.isdigit() and int(size) <= limit:
        await response.aread()
        return response
    parts, length = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        length += len(part)
        if length > limit:
            await response.aclose()
            raise TooLargeError(f"the answer has more than {limit:,} bytes, and was not read to its end")
    kept = [(name, value) for name, value in headers.multi_items() if name.lower() not in _OF_THE_BODY]
    return httpx2.Response(
        response.status_code,
        headers=kept,
        content=b"".join(parts),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )
