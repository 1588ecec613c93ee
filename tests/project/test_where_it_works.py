"""The table in docs/where_it_works.md names a test for whatever it says is tested."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where_it_works.md").read_text()
KEYS = {
    "B1": "tests/browser/test_forms.py",
    "B2": "tests/browser/test_explorer.py",
    "B3": "tests/browser/test_approval.py",
    "B4": "tests/browser/test_elicitation.py",
    "B5": "tests/browser/test_agent.py",
    "B6": "tests/browser/test_progress.py",
    "B7": "tests/browser/test_watch.py",
    "B8": "tests/browser/test_authorization.py",
    "B9": "tests/browser/test_views.py",
    "B10": "tests/browser/test_view_page.py",
    "C": "tests/terminal/test_console.py",
    "H1": "tests/kernel/test_errors.py",
    "H2": "tests/kernel/test_headless.py",
    "H3": "tests/kernel/test_agent.py",
    "K1": "tests/kernel/test_awaited.py",
    "K2": "tests/kernel/test_blocking.py",
    "K3": "tests/kernel/test_approval.py",
    "K4": "tests/kernel/test_elicitation.py",
    "K6": "tests/kernel/test_progress.py",
    "K7": "tests/kernel/test_watch.py",
    "K8": "tests/kernel/test_authorization.py",
    "K9": "tests/kernel/test_views.py",
    "L": "tests/pyodide/test_pyodide.py",
    "N": "tests/browser/test_notebook7.py",
    "T1": "tests/terminal/test_terminal.py",
    "T2": "tests/terminal/test_approval.py",
    "T3": "tests/terminal/test_elicitation.py",
    "T4": "tests/terminal/test_agent.py",
    "T5": "tests/terminal/test_progress.py",
    "T6": "tests/terminal/test_watch.py",
    "T7": "tests/terminal/test_authorization.py",
    "T8": "tests/terminal/test_view.py",
    "V": "tests/kernel/test_frontends.py",
    "Y": "tests/browser/test_voila.py",
}


def test_each_key_is_a_file_of_tests():
    assert len(KEYS) > 20
    assert [path for path in KEYS.values() if not (ROOT / path).is_file()] == []


def test_table_keys_are_explained_and_explained_keys_used():
    table = PAGE.partition("## Servers of each SDK")[0]

    assert set(re.findall(r"\b[BCHKLNTVY]\d*\b(?!\w)", table)) == set(KEYS)


def test_what_works_in_firefox_is_tested_there():
    [row] = re.findall(r"^\| JupyterLab 4 in Firefox .*", PAGE, re.MULTILINE)
    marked = {key for key, path in KEYS.items() if "@pytest.mark.firefox\n" in (ROOT / path).read_text()}

    assert {*re.findall(r"\bB\d+", row)} == marked
