"""JUnit XML: the outcomes of cases, any text in them, and the file."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.junit import Case, Suite, junit_xml, write_junit

CASES = [
    Case("add(a=1)", "shop", seconds=0.25),
    Case("now()", failure="changed value: 1 -> 2\n  at the end", seconds=0.5),
    Case("buy()", "shop", skipped="not read-only"),
]


def test_outcomes_of_cases_are_counted_and_explained():
    root = ElementTree.fromstring(junit_xml([Suite("verify", CASES), Suite("doctor", [])]).encode())
    suite, empty = root
    counts = {"name": "verify", "tests": "3", "failures": "1", "errors": "0", "skipped": "1", "time": "0.750"}
    assert suite.attrib == counts
    assert empty.attrib == {**counts, "name": "doctor", "tests": "0", "failures": "0", "skipped": "0", "time": "0.000"}
    passed, failed, skipped = suite
    assert passed.attrib == {"name": "add(a=1)", "classname": "shop", "time": "0.250"}
    assert list(passed) == []
    assert failed.attrib["classname"] == "verify"
    assert [(child.tag, child.attrib, child.text) for child in failed] == [
        ("failure", {"message": "changed value: 1 -> 2"}, "changed value: 1 -> 2\n  at the end")
    ]
    assert [(child.tag, child.attrib) for child in skipped] == [("skipped", {"message": "not read-only"})]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        pytest.param("a\x00b\x1b[31m", "a\ufffdb\ufffd[31m", id="controls"),
        pytest.param("\ud800 \ufffe", "\ufffd \ufffd", id="no characters"),
        pytest.param('<b>&amp;"\n\t]]>', '<b>&amp;"\n\t]]>', id="markup"),
        pytest.param("Tromsø 🌦", "Tromsø 🌦", id="unicode"),
    ],
)
def test_any_text_is_written_as_xml_allows(text, reads, tmp_path):
    path = tmp_path / "junit.xml"
    write_junit(path, [Suite(text, [Case(text, text, failure=text), Case(text, skipped=text)])])
    [suite] = ElementTree.parse(path).getroot()
    assert suite.attrib["name"] == suite[0].attrib["name"] == suite[0].attrib["classname"] == reads
    assert suite[0][0].text == reads
    assert suite[1][0].attrib["message"] == reads


def test_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        write_junit(tmp_path / "nowhere" / "junit.xml", [Suite("verify", CASES)])
