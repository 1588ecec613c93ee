"""How a log-in to a server is done: the `auth` of a declaration, `--auth` and its companions on a line."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from mcp_magic.config.fields import FieldError, kind_of, path_of, reject_unknown
from mcp_magic.config.jsonfile import read_bytes
from mcp_magic.config.masking import long_enough
from mcp_magic.errors import did_you_mean
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["AuthOptions", "foreign_auth", "make_auth"]

_SECRETS = ("client_secret", "private_key", "assertion")
_MODES = ("auto", "none", "oauth")
_GRANTS = ("authorization_code", "client_credentials", "jwt_bearer")
_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
_WORDS = {"client-credentials": {"grant": "client_credentials"}, "jwt-bearer": {"grant": "jwt_bearer"}}


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthOptions:
    """How to come by a token.

    Attributes:
        mode: `"auto"` (log in if the server asks for it and no Authorization header is given), `"oauth"` (whenever
            it answers 401), `"none"` (never).
        grant: `"authorization_code"` (a person logs in), `"client_credentials"` (this program is known to the
            authorization server by itself), or `"jwt_bearer"` (`assertion` is exchanged for a token, RFC 7523).
        client_id: As registered with the authorization server; None to register, or to use `client_metadata_url`.
        client_secret: The client's password.
        scopes: What to ask for; empty for what the server names.
        redirect_port: The loopback port of the redirect URI, where it was registered with one.
        client_metadata_url: An https URL whose document describes this client (client-id metadata document).
        private_key: PEM text of the key that signs client assertions (`private_key_jwt`).
        assertion: A JWT that somebody else has signed: in place of `private_key`, or of the grant `jwt_bearer`.
        token_endpoint_auth_method: How the client shows who it is; None for what the authorization server wants.
        issuer: The authorization server that the client's credentials belong to; they go nowhere else.
        dpop: Whether tokens are bound to a key of this kernel (RFC 9449); None where the server asks for it.
    """

    mode: Literal["auto", "none", "oauth"] = "auto"
    grant: Literal["authorization_code", "client_credentials", "jwt_bearer"] = "authorization_code"
    client_id: str | None = None
    client_secret: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_port: int | None = None
    client_metadata_url: str | None = None
    private_key: str | None = None
    assertion: str | None = None
    token_endpoint_auth_method: str | None = None
    issuer: str | None = None
    dpop: bool | None = None

    def __repr__(self) -> str:
        said = [f for f in fields(self) if getattr(self, f.name) != f.default]
        shown = (f"{f.name}={MASK if f.name in _SECRETS else repr(getattr(self, f.name))}" for f in said)
        return f"AuthOptions({', '.join(shown)})"

    @property
    def interactive(self) -> bool:
        """Whether it takes a person."""
        return self.grant == "authorization_code"

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be shown."""
        return long_enough(value for name in _SECRETS if (value := getattr(self, name)))


def make_auth(value: Any, base: Path | None = None, onto: AuthOptions | None = None) -> AuthOptions:
    """Read what a declaration or a line says.

    Args:
        value: `"none"`, `"oauth"`, `"client-credentials"`, or a table with the attributes of `AuthOptions`; there
            `private_key` may be the path of a PEM file.
        base: What that path is relative to.
        onto: What holds where nothing is said.

    Raises:
        FieldError: naming the key; its value is not repeated where it may be a secret.

    >>> make_auth({"client_id": "abc", "client_secret": "sesame"})
    AuthOptions(mode='oauth', client_id='abc', client_secret=***)
    """
    onto = onto or AuthOptions()
    if isinstance(value, AuthOptions):
        return value
    if isinstance(value, str):
        value = {"mode": value} if value in _MODES else _WORDS.get(value, value)
    if isinstance(value, str):
        valid = [*_MODES, *_WORDS]
        raise FieldError(f"unknown value {value!r}.{did_you_mean(value, valid)} Valid: {', '.join(valid)}.", "auth")
    if not isinstance(value, dict):
        raise FieldError(f"expected 'oauth', 'none' or a table, got {kind_of(value)}.", "auth")
    reject_unknown(value, [f.name for f in fields(AuthOptions)], "auth")
    said = {name: _READ[name](name, found, base) for name, found in value.items() if found is not None}
    if said and "mode" not in said:
        said["mode"] = "oauth"
    made = replace(onto, **said)
    _check(made)
    return made


def foreign_auth(value: Any) -> AuthOptions:
    """Read the `auth` of another host's file, as far as it is known here; Cursor writes `CLIENT_ID`.

    >>> foreign_auth({"CLIENT_ID": "abc", "scopes": ["read"], "other": 1})
    AuthOptions(mode='oauth', client_id='abc', scopes=('read',))
    """
    known = {f.name for f in fields(AuthOptions)}
    said = {key.lower(): found for key, found in value.items()} if isinstance(value, dict) else {}
    try:
        return make_auth({key: found for key, found in said.items() if key in known})
    except FieldError:
        return AuthOptions()


def _text(name: str, value: Any, base: Path | None) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"expected text, got {kind_of(value)}.", "auth", name)
    return value


def _choice(valid: tuple[str, ...]) -> Any:
    def read(name: str, value: Any, base: Path | None) -> str:
        text = _text(name, value, base).replace("-", "_") if name == "grant" else _text(name, value, base)
        if text not in valid:
            raise FieldError(
                f"unknown value {text!r}.{did_you_mean(text, valid)} Valid: {', '.join(valid)}.", "auth", name
            )
        return text

    return read


def _scopes(name: str, value: Any, base: Path | None) -> tuple[str, ...]:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word for word in words):
        raise FieldError(f"expected a list of scopes, got {kind_of(value)}.", "auth", name)
    return tuple(part for word in words for part in word.split())


def _port(name: str, value: Any, base: Path | None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65536:
        raise FieldError("expected a port from 1 to 65535.", "auth", name)
    return value


def _metadata_url(name: str, value: Any, base: Path | None) -> str:
    parts = urlsplit(_text(name, value, base))
    if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
        raise FieldError("expected an https URL with a path, for example https://me.example/client.json.", "auth", name)
    return str(value)


def _issuer(name: str, value: Any, base: Path | None) -> str:
    if urlsplit(_text(name, value, base)).scheme not in ("http", "https"):
        raise FieldError("expected the http(s) URL of the authorization server.", "auth", name)
    return str(value)


def _key(name: str, value: Any, base: Path | None) -> str:
    text = _text(name, value, base)
    if "-----BEGIN" in text:
        return text
    path = path_of(text, base)
    try:
        found = read_bytes(path).decode("ascii")
    except (OSError, ValueError):
        found = ""
    if "PRIVATE KEY-----" not in found:
        raise FieldError("expected a private key in PEM form, or the path of a file that holds one.", "auth", name)
    return found


def _flag(name: str, value: Any, base: Path | None) -> bool:
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false, got {kind_of(value)}.", "auth", name)
    return value


_READ: Mapping[str, Any] = {
    "mode": _choice(_MODES),
    "grant": _choice(_GRANTS),
    "client_id": _text,
    "client_secret": _text,
    "scopes": _scopes,
    "redirect_port": _port,
    "client_metadata_url": _metadata_url,
    "private_key": _key,
    "assertion": _text,
    "token_endpoint_auth_method": _choice(_METHODS),
    "issuer": _issuer,
    "dpop": _flag,
}


def _check(made: AuthOptions) -> None:
    """Raise FieldError for what does not go together."""
    if made.grant == "client_credentials":
        if made.client_id is None:
            raise FieldError("client credentials need a client_id.", "auth", "client_id")
        if made.client_secret is None and made.private_key is None and made.assertion is None:
            raise FieldError("client credentials need a client_secret, or a private_key.", "auth", "client_secret")
    elif made.private_key is not None:
        raise FieldError("is for the grant client_credentials.", "auth", "private_key")
    if made.grant == "jwt_bearer" and made.assertion is None:
        raise FieldError("the grant jwt_bearer needs an assertion.", "auth", "assertion")
    if made.client_secret is not None and made.client_id is None:
        raise FieldError("a client_secret needs the client_id that it belongs to.", "auth", "client_id")
