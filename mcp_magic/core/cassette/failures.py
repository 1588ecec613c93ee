"""Errors as a line of a cassette has them: `{"failed": "ServerExitedError", "message": "..."}`.

Errors of others, below HTTP, are `{"lost": "..."}`, with `"refused": true` where nothing was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import errors

if TYPE_CHECKING:
    from mcp_magic.core.trace.mask import Masker

__all__ = ["error_of", "failure_of", "told"]


def told(error: BaseException, masker: Masker) -> dict[str, Any]:
    """Return an error's class and message, secrets masked, and what else it is made of."""
    if not isinstance(error, errors.MCPMagicError):
        return {"lost": masker.text(str(error).strip() or type(error).__name__)}
    found: dict[str, Any] = {"failed": type(error).__name__, "message": masker.text(str(error))}
    if isinstance(error, errors.HTTPStatusError):
        found["status"] = error.status
    if isinstance(error, errors.ProtocolError):
        found["code"] = error.code
    return found


def failure_of(entry: dict[str, Any], stderr: str = "") -> errors.MCPMagicError:
    """Return the error that was recorded; a class that this version does not have is a `ConnectError`.

    Args:
        entry: What was recorded.
        stderr: What the server of a session that could not be opened wrote to its stderr.
    """
    kind = getattr(errors, str(entry["failed"]), None)
    text = str(entry.get("message", ""))
    if kind is errors.HTTPStatusError:
        return errors.HTTPStatusError(text, int(entry.get("status") or 0))
    if kind is errors.ProtocolError:
        return errors.ProtocolError(text, int(entry.get("code") or 0))
    if isinstance(kind, type) and issubclass(kind, errors.ConnectError):
        return kind(text, stderr=stderr)
    if isinstance(kind, type) and issubclass(kind, errors.MCPMagicError):
        return kind(text)
    return errors.ConnectError(text, stderr=stderr)


def error_of(http: dict[str, Any]) -> Exception | None:
    """Return the error with which a request over HTTP failed, if it did so below HTTP or at the log-in."""
    if "failed" in http:
        return failure_of(http)
    if "lost" in http:
        kind = ConnectionError if http.get("refused") else EOFError
        return kind(str(http["lost"]))
    return None
