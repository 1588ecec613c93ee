"""Masking a million characters takes less than a second, however they are made."""

from __future__ import annotations

import pytest

from mcp_magic.config.masking import Masker, mask_text
from tests.support.clocks import cpu_time

SECONDS = 1.0
MILLION = 1_000_000

TEXTS = {
    "one word, and a URL": "a" * MILLION + " ://@?",
    "dots and hyphens, and a URL": "a.b-" * (MILLION // 4) + " x://@?",
    "digits": "token " + "1" * MILLION,
    "spaces": "token=" + " " * MILLION,
    "brackets": "token" + "[" * MILLION,
    "quotes": "token" + '"' * MILLION,
    "backslashes": "token" + "\\" * MILLION,
    "pairs": "a=b " * (MILLION // 4),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_million_characters_are_masked_within_a_second(name: str) -> None:
    for mask in (Masker(()).text, mask_text):
        with cpu_time() as cost:
            mask(TEXTS[name])
        assert cost.seconds < SECONDS


def test_a_secret_is_masked_behind_a_word_that_runs_into_its_url() -> None:
    text = "a" * 100 + "https://me:sesame@x.org/"
    assert "sesame" not in Masker(()).text(text)
    assert "sesame" not in mask_text(text)
