"""Secrets that come back: what is masked in what servers send and write, however it is spelled."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from mcp_magic.config.masking import Masker, mask_arguments, mask_text, mask_url, to_json
from mcp_magic.config.specs import HttpSpec, WebSocketSpec
from tests.support.clocks import assert_linear, sixteenth

SECRET = 's3same/+ "ö\\4711'
PLAIN = "s3same-4711"
PASSWORD = "0pen-sesame"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()


def in_base64(secret: str) -> list[str]:
    return [base64.b64encode(f"{'x' * before}{secret}yz".encode()).decode() for before in range(3)]


def spellings(secret: str) -> dict[str, str]:
    """Return a secret as servers and libraries write it."""
    in_json = json.dumps(secret)[1:-1]
    return {
        "as it is": secret,
        "in a URL": f"https://x.example/{quote(secret, '')}",
        "in a URL, in small letters": quote(secret, "").lower() if secret.islower() else secret,
        "in a query": quote_plus(secret),
        "as a path": quote(secret, "/"),
        "as httpx writes paths": quote(secret, "!$&'()*+,;=:@/"),
        "in JSON": in_json,
        "in JSON, not ASCII": json.dumps(secret, ensure_ascii=False)[1:-1],
        "in JSON of PHP": secret.replace("/", "\\/"),
        "in JSON in JSON": json.dumps(in_json)[1:-1],
        "in HTML": html.escape(secret),
        "in base64": base64.b64encode(secret.encode()).decode(),
        "in base64 of URLs": base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
        **{f"in base64 behind {before}": text for before, text in enumerate(in_base64(secret))},
    }


def masked(masker: Masker, message: dict[str, Any]) -> str:
    return masker.mask(to_json(message)).decode()


def answer(text: str) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": text}]}}


@pytest.mark.parametrize("secret", [SECRET, PLAIN])
def test_a_secret_is_masked_however_it_is_written(secret):
    spec = HttpSpec(url="https://x.example/", headers={"X-API-Key": secret})
    masker = Masker(spec.secrets)
    for name, written in spellings(secret).items():
        for shown in (spec.masked(f"it says {written}!"), masker.text(f"it says {written}!")):
            assert shown.count("***") == 1, f"{name}: {shown}"
        assert "***" in masked(masker, answer(f"it says {written}!")), name


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ({"Authorization": f"Basic {BASIC}"}, [BASIC, f"me:{PASSWORD}", PASSWORD]),
        ({"Proxy-Authorization": f"basic {BASIC}"}, [BASIC, PASSWORD]),
        ({"Cookie": f"theme=dark; sid={PASSWORD}"}, [PASSWORD]),
        ({"Sec-WebSocket-Protocol": "mcp, bearer.a1b2c3, a1b2c3d4e5f6a7b8c9"}, ["a1b2c3d4e5f6a7b8c9"]),
    ],
)
def test_what_a_header_stands_for_is_a_secret_too(headers, secrets):
    spec = WebSocketSpec(url="ws://x.example/", headers=headers)
    for secret in secrets:
        assert secret not in spec.masked(f"I was sent {secret} just now")


def test_url_credentials_are_masked_like_their_header():
    spec = HttpSpec(url=f"https://me:{quote(PASSWORD)}%21@x.example/")
    sent = base64.b64encode(f"me:{PASSWORD}!".encode()).decode()
    for written in (sent, sent.rstrip("="), f"me:{PASSWORD}!", f"{PASSWORD}!"):
        assert PASSWORD not in spec.masked(f"got {written}")
        assert written not in spec.masked(f"got {written}")


@pytest.mark.parametrize(
    "message",
    [
        {"params": {"headers": {"Authorization": f"Basic {BASIC}"}}},
        {"params": {"text": f"curl -H 'Authorization: Basic {BASIC}' https://x.example"}},
        {"params": {"text": f"authorization: I sent basic {BASIC.rstrip('=')}"}},
    ],
)
def test_base64_credentials_are_masked_everywhere(message):
    masker = Masker(())
    assert BASIC.rstrip("=") not in masked(masker, message)
    for secret in (BASIC, BASIC.rstrip("="), f"me:{PASSWORD}", PASSWORD, *in_base64(PASSWORD)):
        assert "***" in masked(masker, answer(f"got {secret}")), secret
    masker.text("no authorization for basic arithmetic")
    assert masker.text("arithmetic") == "arithmetic", "a word of prose is not learned"
    masked(masker, {"params": {"arguments": {"password": PLAIN}}})  # a secret by its name
    for written in [base64.b64encode(PLAIN.encode()).decode(), *in_base64(PLAIN)]:
        assert "***" in masked(masker, answer(f"it says {written}!")), written


@pytest.mark.parametrize(
    "text",
    [
        *(f"Set-Cookie: sid={PASSWORD}; Path=/; HttpOnly", f"Set-Cookie: s={PASSWORD}"),
        *(f"Cookie: theme=dark; sid={PASSWORD}", f"{{'set-cookie': 'sid={PASSWORD}; Path=/'}}"),
        json.dumps({"headers": [["x", "y"], ["set-cookie", f"sid={PASSWORD}"]]}),
        json.dumps({"text": json.dumps({"Cookie": f"a=b; sid={PASSWORD}"})}),
    ],
)
def test_cookies_in_text_are_masked_everywhere(text):
    masker = Masker(())
    for message in (text, f"got {PASSWORD} and {in_base64(PASSWORD)}"):
        shown = masked(masker, answer(message))
        assert PASSWORD not in shown
        assert "***" in shown
    assert masker.text("the theme is dark") == "the theme is dark"


@pytest.mark.parametrize("args", [("--author", "Ann"), ("--path=/tmp/x",), ("--port", "80"), ("a=b",), ("time: 10",)])
def test_arguments_that_are_no_secrets_stay(args):
    assert mask_arguments(args) == args
    assert mask_arguments(("--auth", "--port", "80")) == ("--auth", "--port", "80")  # an option is no value


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        *((url, url) for url in ("sqlite:///tmp/x.db", "file:/tmp/x", "jdbc:sqlite:///tmp/x.db")),
        *((url, url) for url in ("HTTP://Example.com/A", "https://a.example/#/page")),
        *((url, url) for url in ("https://a.example/?q=a,b%20c&n=1+2", "http://127.0.0.1:8000/mcp?page=2")),
        ("postgres://h/db?password=pw&a=b,c", "postgres://h/db?password=***&a=b,c"),
        ("postgres://me:pw@h:5/db", "postgres://***@h:5/db"),
        ("https://a.example/#access_token=pw&a=1", "https://a.example/#access_token=***&a=1"),
        ("postgres://me:p#w@h/db", "postgres://***@h/db"),
    ],
)
def test_a_url_is_shown_as_it_is_without_its_secrets(url, shown):
    assert mask_arguments(("--db", url)) == ("--db", shown)
    if "#" not in url:
        assert mask_url(url) == shown


@pytest.mark.parametrize("password", ["secret#part", "secret?part", "secret/part", "12#secret"])
def test_password_with_an_unescaped_mark_is_masked_whole(password):
    spec = HttpSpec(url=f"https://me:{password}@api.example/mcp?page=2")
    assert "secret" not in repr(spec) + spec.where + spec.masked(f"refused: {password}, me:{password}")
    assert "***@api.example/mcp" in spec.where


@pytest.mark.parametrize("url", ["https://h/p@x", "https://h:80/a@b", "https://[::1]:80/a@b", "https://h?mail=a@b"])
def test_an_at_sign_after_the_host_hides_nothing(url):
    assert mask_url(url) == url


MANY = 300_000
TEXTS = {
    "one word, and a URL": "a" * MANY + " ://@?",
    "dots and hyphens, and a URL": "a.b-" * (MANY // 4) + " x://@?",
    "digits": "token " + "1" * MANY,
    "spaces": "token=" + " " * MANY,
    "brackets": "token" + "[" * MANY,
    "quotes": "token" + '"' * MANY,
    "backslashes": "token" + "\\" * MANY,
    "pairs": "a=b " * (MANY // 4),
}


@pytest.mark.parametrize("name", TEXTS)
def test_long_texts_are_masked_in_linear_time(name):
    for mask in (Masker(()).text, mask_text):
        assert_linear(mask, sixteenth(TEXTS[name]), TEXTS[name])


def test_a_secret_is_masked_behind_a_word_that_runs_into_its_url():
    text = "a" * 100 + "https://me:sesame@x.org/"
    assert "sesame" not in Masker(()).text(text)
    assert "sesame" not in mask_text(text)
