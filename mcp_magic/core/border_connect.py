"""What an error means while a session is opened."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from mcp_magic import errors
from mcp_magic.browser import IN_BROWSER
from mcp_magic.config.specs import InProcessSpec, StdioSpec
from mcp_magic.core.endpoints import ListensError, named_url
from mcp_magic.core.faults import of_status, who
from mcp_magic.core.foreign import (
    chain_text,
    has_ended,
    is_mcp_error,
    is_transport_error,
    is_unreachable,
    leaf,
    named,
    waited_in_vain,
)
from mcp_magic.core.outcome import retry_after
from mcp_magic.core.place import not_recorded, text_of
from mcp_magic.core.repeating import BUSY
from mcp_magic.wording import did_you_mean, sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.outcome import Outcome
    from mcp_magic.core.place import Place

__all__ = ["NO_SERVER", "connect_error"]

NO_SERVER = "Is it a server? One that is made with MCPServer has to call run()."
"""What is asked of a program that ends at once, as if all were well."""


def connect_error(error: BaseException, place: Place) -> Exception:
    """Say why no session could be opened.

    Returns:
        One of the `ConnectError`s, or the error itself if it is one of ours already.
    """
    found = leaf(error)
    if isinstance(found, errors.MCPMagicError):
        return found
    if not_recorded(found, place):
        return errors.CassetteError(str(found))
    if waited_in_vain(found):
        return _handshake_timeout(place)
    for matches, explain in _CONNECT:
        if matches(found, place):
            return _with_protocol(explain(found, place), place)
    return errors.ConnectError(f"{place.name}: cannot connect to {place.spec.where}: {text_of(found, place)}")


def _with_protocol(error: Exception, place: Place) -> Exception:
    """Add which way the session was to begin, where you chose it."""
    if place.spec.protocol != "auto" and isinstance(error, errors.ServerExitedError | errors.NotAnMCPServerError):
        asked = "initialize" if place.spec.protocol == "handshake" else "server/discover"
        chosen = f"--protocol {place.spec.protocol} asks for {asked} only; --protocol auto tries both."
        return type(error)(f"{error}\n  {chosen}", stderr=error.stderr)
    return error


def _handshake_timeout(place: Place) -> Exception:
    where, seconds = place.spec.where, place.spec.timeout
    if garbage := place.garbage():
        text = f"{place.name}: {where} writes {garbage!r}, which is no MCP message, and did not answer in {seconds:g} s"
        return errors.NotAnMCPServerError(f"{text}.{place.said()}", stderr=place.stderr())
    text = f"{place.name}: {where} did not answer the handshake within {seconds:g} s (--timeout S waits longer)."
    stray = f"\n  {place.wire.stray} (fault: the server)." if place.wire and place.wire.stray else ""
    said = place.said()
    url = named_url(place.heard()) if isinstance(place.spec, StdioSpec) else ""
    text += f" If it listens at a URL instead: `%mcp connect {url}`." if url else ""
    return errors.ConnectTimeoutError(text + stray + said, stderr=place.stderr())


def _listens(found: BaseException, place: Place) -> Exception:
    assert isinstance(found, ListensError)
    text = f"{place.name}: {place.spec.where} speaks HTTP, not over its input and output, and was ended."
    text = f"{text} Start it in a terminal, then type:\n  %mcp connect {place.spec.masked(found.url)}"
    return errors.ConnectError(text, stderr=place.stderr())


def _no_command(found: BaseException, place: Place) -> Exception:
    spec = place.spec
    assert isinstance(spec, StdioSpec)
    if spec.cwd is not None and not os.path.isdir(spec.cwd):  # noqa: PTH112
        return errors.CommandNotFoundError(f"{place.name}: the working directory {str(spec.cwd)!r} does not exist.")
    if isinstance(found, FileNotFoundError):
        near = did_you_mean(spec.command, (c for c in ("python", "python3", "node", "npx", "uvx", "uv", "deno")))
        near = near if near and shutil.which(near.split("'")[1]) else ""
        return errors.CommandNotFoundError(
            f"{place.name}: the command {spec.masked(spec.command)!r} is not found; is it installed and on PATH?{near}"
        )
    reason = getattr(found, "strerror", None) or str(found)
    return errors.CommandNotFoundError(
        sentence(f"{place.name}: the command {spec.masked(spec.command)!r} cannot be started", reason)
    )


def _exited(found: BaseException, place: Place) -> Exception:
    if isinstance(place.spec, StdioSpec):
        said = place.said()
        wrote = f" It wrote {garbage!r}, which is no MCP message." if (garbage := place.garbage()) else ""
        if place.ended() == " (exit code 0)" and not said and not wrote:
            wrote = f" {NO_SERVER}"
        text = f"{place.name}: {place.spec.where} ended before it answered{place.ended()}.{wrote}{said}"
        return errors.ServerExitedError(text, stderr=place.stderr())
    return errors.NotAnMCPServerError(f"{place.name}: {place.spec.where} closed the connection before it answered.")


def _unreachable(found: BaseException, place: Place) -> Exception:
    where, text = place.spec.where, chain_text(found)
    if f"[Errno {errno.EMFILE}]" in text:
        return errors.UnreachableError(
            f"{place.name}: no connection to {where}: this process has as many files open as it may (`ulimit -n`). "
            "Close some, or make fewer calls at once."
        )
    late = "imeout" in type(found).__name__
    if not late and ("CERTIFICATE_VERIFY_FAILED" in text or "SSL" in text):
        reason = text.partition("failed: ")[2].split(" (_ssl")[0] or text
        return errors.UnreachableError(
            f"{place.name}: TLS to {where} failed: {reason} (--ca FILE names the authority to trust)."
        )
    if "Name or service not known" in text or "getaddrinfo" in text or "No address" in text:
        return errors.UnreachableError(f"{place.name}: no such host: {where}")
    if late:
        return errors.UnreachableError(f"{place.name}: no connection to {where} in time; is a firewall between?")
    if IN_BROWSER:  # which says no more than that it failed
        return errors.UnreachableError(
            f"{place.name}: the browser got nothing from {where}. "
            "Is the server running, and does it allow pages of other sites (CORS) to call it?"
        )
    return errors.UnreachableError(f"{place.name}: nobody listens at {where}; is the server running?")


def _http_status(found: BaseException, place: Place) -> Exception:
    opening = _opening(place)
    if opening is not None and isinstance(opening.error, errors.AuthorizationError):
        return opening.error
    status, wait = 0, None
    if (response := getattr(found, "response", None)) is not None:
        status, wait = response.status_code, retry_after(response.headers.get("retry-after"))
    elif opening is not None:
        status, wait = opening.status or 0, opening.retry_after
    fault = of_status(status)
    said = f"{place.name}: {place.spec.where} answered HTTP {status} ({fault.meaning}; fault: {who(fault)})"
    asks = f" It asks to wait {wait:.0f} s." if status in BUSY and wait is not None else ""
    return errors.HTTPStatusError(f"{sentence(said, fault.help)}{asks}", status, wait)


def _no_mcp(found: BaseException, place: Place) -> Exception:
    opening = _opening(place)
    kind = opening.content_type.partition(";")[0] if opening is not None else ""
    said = f" with {kind}" if kind and "json" not in kind and "event-stream" not in kind else ""
    text = f"{place.name}: {place.spec.where} answered{said}, but not as an MCP server: {text_of(found, place)}"
    return errors.NotAnMCPServerError(f"{text}{place.said()}", stderr=place.stderr())


def _bad_url(found: BaseException, place: Place) -> Exception:
    return errors.TargetError(f"{place.name}: {place.spec.where!r} is no usable URL: {text_of(found, place)}")


def _opening(place: Place) -> Outcome | None:
    return place.wire.opening if place.wire is not None else None


def _in_process(found: BaseException, place: Place) -> Exception:
    return errors.ConnectError(f"{place.name}: {place.spec.where} failed to start: {text_of(found, place)}")


def _refused(error: BaseException, place: Place) -> bool:
    if is_unreachable(error):
        return True
    return isinstance(error, OSError) and not isinstance(place.spec, StdioSpec)


def _answered_status(error: BaseException, place: Place) -> bool:
    if named(error, "httpx2", "HTTPStatusError"):
        return True
    opening = _opening(place)
    return opening is not None and (opening.status or 0) >= 400 and is_mcp_error(error)


_CONNECT: list[tuple[Callable[[BaseException, Place], bool], Callable[[BaseException, Place], Exception]]] = [
    (lambda e, p: isinstance(e, ListensError), _listens),
    (lambda e, p: isinstance(e, OSError) and isinstance(p.spec, StdioSpec), _no_command),
    (lambda e, p: isinstance(p.spec, InProcessSpec), _in_process),
    (_answered_status, _http_status),
    (_refused, _unreachable),
    (lambda e, p: has_ended(e), _exited),
    (lambda e, p: named(e, "httpx2", "UnsupportedProtocol", "InvalidURL"), _bad_url),
    (lambda e, p: named(e, "websockets", "InvalidURI"), _bad_url),
    (lambda e, p: named(e, "websockets", "InvalidStatus"), _http_status),
    (lambda e, p: named(e, "websockets", "WebSocketException"), _no_mcp),
    (lambda e, p: is_transport_error(e), _exited),
    (lambda e, p: is_mcp_error(e) or isinstance(e, RuntimeError | ValueError), _no_mcp),
]
"""What an error means while a session is opened; the first row that matches explains it."""
