"""The table in docs/where_it_works.md names a test for whatever it says is tested."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where_it_works.md").read_text()
KEYS = dict(re.findall(r"^\| (\w+) \| `(tests/\S+)` \|$", PAGE, re.MULTILINE))


def test_each_key_is_a_file_of_tests():
    assert len(KEYS) > 20
    assert [path for path in KEYS.values() if not (ROOT / path).is_file()] == []


def test_table_keys_are_explained_and_explained_keys_used():
    table = PAGE.partition("## The tests")[0]

    assert set(re.findall(r"\b[BCHKLNTVY]\d*\b(?!\w)", table)) == set(KEYS)


def test_what_works_in_firefox_is_tested_there():
    [row] = re.findall(r"^\| JupyterLab 4 in Firefox .*", PAGE, re.MULTILINE)
    marked = {key for key, path in KEYS.items() if "@pytest.mark.firefox\n" in (ROOT / path).read_text()}

    assert {*re.findall(r"\bB\d+", row)} == marked
