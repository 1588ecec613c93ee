"""Messages are masked and cut before a trace keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_magic.config.masking import KEPT_BYTES, Masker
from mcp_magic.schema.secrets import MASK

VALUE = "s3cr3t-v4lue"


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 100_000, 'a line with "quotes"\n' * 5000, "x\x00" * 50_000])
def test_a_long_text_keeps_its_size_and_the_names_after_it(text):
    message = {"result": {"content": [{"type": "text", "text": text}], "isError": False}, "id": 7}
    written, size, whole = Masker(()).write(message)
    assert size == pytest.approx(len(json.dumps(message, ensure_ascii=False).encode()), rel=0.01)
    assert not whole
    kept = json.loads(written)
    assert (kept["id"], kept["result"]["isError"]) == (7, False)
    assert len(kept["result"]["content"][0]["text"]) < KEPT_BYTES


def test_a_secret_that_is_cut_in_two_is_hidden():
    masker = Masker(["correct-horse-battery"])
    for start in range(KEPT_BYTES - 400, KEPT_BYTES):
        text = "." * start + "correct-horse-battery" + "." * 1000
        written, _, whole = masker.write({"params": {"text": text}})
        assert b"corr" not in masker.mask(written)
        assert not whole


@pytest.mark.parametrize(
    "message",
    [
        {"arguments": {"login": {"apiKey": VALUE}}},
        {"arguments": {"accessKey": VALUE}},
        {"arguments": {"pwd": VALUE}},
        {"arguments": {"githubPat": VALUE}},
        {"text": f"mysql --host h MYSQL_PWD={VALUE}"},
        {"text": f'He said {{"githubPat": "{VALUE}"}}'},
        {"arguments": {"list": [{"client_secret": [VALUE]}]}},
        {"arguments": {"headers": {"Authorization": VALUE}}},
        {"arguments": {"headers": {"Cookie": VALUE}}},
        {"text": f'He said {{"access_token": "{VALUE}"}}'},
        {"text": f"export GITHUB_TOKEN={VALUE}"},
        {"text": f"Authorization: Bearer {VALUE}"},
        {"text": f"password: {VALUE}"},
        {"uri": f"https://x.org/?token={VALUE}"},
        {"before": VALUE, "password": VALUE, VALUE: 1},
        {"passwords": {"deep": {"deeper": VALUE}}, "after": f"it is {VALUE}."},
        {"text": f"API_KEY={VALUE}", "progressToken": 7},
    ],
)
def test_a_secret_by_its_name_is_masked_before_it_is_kept(message):
    masker = Masker(())
    whole = {"jsonrpc": "2.0", "id": 1, "result": message}
    written, size, _ = masker.write(whole)
    kept = masker.mask(written)
    assert b"v4lue" not in kept
    assert size == len(json.dumps(whole, separators=(",", ":")))
    assert json.loads(kept)["id"] == 1


@pytest.mark.parametrize("text", [f"日本 API_KEY={VALUE}", f"\ud800 API_KEY={VALUE}"])
def test_a_secret_is_masked_among_other_letters(text):
    masker = Masker(())
    assert b"v4lue" not in masker.mask(masker.write({"text": text})[0])
    assert "v4lue" not in masker.text(text)


@pytest.mark.parametrize("kept", [{"pass": 123_456}, {"total_tokens": 123_456}])
@pytest.mark.parametrize("write", [json.dumps, repr])
def test_a_number_in_a_text_is_masked_as_in_structured_content(write, kept):
    masker = Masker(())
    data = {"password": 987_654, "token": -1.5e3, **kept}
    assert masker.mask_value(data) == {"password": MASK, "token": MASK, **kept}
    assert masker.text(write(data)) == write({"password": MASK, "token": MASK, **kept})


@pytest.mark.parametrize(
    "message",
    [
        {"progressToken": "p-12345", "maxTokens": 100},
        {"text": "the author keys in the passage of tokens"},
        {"text": "PASS: tests/test_sum.py; pwd: /home/ada/notebooks", "tokenCount": 12, "pass": 3, "path": "pat/h"},
        {"text": "naïve 日本 \U0001f600"},
    ],
)
def test_a_text_that_only_looks_like_a_secret_is_kept(message):
    masker = Masker(["nothing"])
    written, _, whole = masker.write(message)
    assert json.loads(written) == message
    assert masker.mask(written) is written
    assert whole


def test_a_message_that_cannot_be_written_is_kept_in_part():
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    kept, _, whole = Masker(()).write({"deep": deep})
    assert json.loads(kept)["deep"]
    assert not whole
    assert json.loads(Masker(()).write({"lone": "\ud800"})[0]) == {"lone": "\ud800"}
