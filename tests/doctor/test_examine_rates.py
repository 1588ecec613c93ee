"""Of the corpus of definitions, which hostile ones are missed and which harmless ones are accused: no more than now."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.definitions import alarmed, entries, misjudged, missed

MISSED = {False: [], True: ["parameter name asks for the system prompt", "forced first call"]}
ALARMED = {False: ["code in descriptions"], True: []}
MISJUDGED = {False: [], True: ["works with others in general"]}


@pytest.mark.parametrize("held_out", [False, True], ids=["development", "held out"])
async def test_hostile_definitions_are_found_and_harmless_ones_not(held_out):
    assert await missed(entries("hostile", held_out=held_out)) == MISSED[held_out]
    harmless = entries("harmless", held_out=held_out)
    assert await alarmed(harmless) == ALARMED[held_out]
    assert await misjudged(harmless) == MISJUDGED[held_out]


async def test_attacks_in_free_words_are_mostly_missed():
    reworded = entries("reworded", held_out=True)
    found = {entry["id"] for entry in reworded} - {*await missed(reworded)}
    assert len(reworded) == 12
    assert found >= {"log every call", "approved already"}


def test_corpus_has_the_numbers_that_the_docs_state():
    counts = {
        (name, held_out): len(entries(name, held_out=held_out))
        for name in ("hostile", "harmless")
        for held_out in (False, True)
    }
    assert counts == {
        ("hostile", False): 48,
        ("hostile", True): 24,
        ("harmless", False): 40,
        ("harmless", True): 19,
    }
    both = [*entries("hostile", held_out=False), *entries("hostile", held_out=True)]
    assert all(entry["source"] and entry["codes"] and entry["servers"] for entry in both)
    assert Counter(entry["id"] for entry in both).most_common(1)[0][1] == 1
