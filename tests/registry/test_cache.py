"""The answers of a registry on disk."""

import stat
import time

import pytest

from mcp_magic.registry import cache
from mcp_magic.registry.cache import AnswerCache, StoredAnswer, names_in


@pytest.fixture
def answers(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    return AnswerCache("https://me:sesame@registry.example.com")


def test_cache_keeps_answers_in_private_files(answers, tmp_path):
    answers.save("servers?search=a", StoredAnswer({"servers": []}, time.time(), '"1"'))
    stored = answers.load("servers?search=a")
    assert (stored.value, stored.etag, stored.is_list) == ({"servers": []}, '"1"', True)
    assert answers.load("servers?search=b") is None
    [path] = answers.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(answers.folder.stat().st_mode) == 0o700
    assert "sesame" not in str(path)
    assert "sesame" not in path.read_text()
    assert AnswerCache("https://registry.example.com").load("servers?search=a") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "not JSON", "\x00", '{"time": 1, "etag": ""}'),
        *('{"time": "now", "etag": "", "text": "1"}', '{"time": 1, "etag": "", "text": "x"}'),
    ],
)
def test_cache_ignores_a_damaged_file(answers, text):
    answers.save("servers?", StoredAnswer({"servers": []}, time.time()))
    [path] = answers.folder.iterdir()
    path.write_text(text)
    assert answers.load("servers?") is None
    assert list(answers.pages()) == []


def test_cache_keeps_only_the_newest_answers(answers, monkeypatch):
    monkeypatch.setattr(cache, "MAX_FILES", 3)
    for number in range(6):
        answers.save(f"servers?cursor={number}", StoredAnswer(number, time.time()))
    assert len(list(answers.folder.iterdir())) == 3
    assert answers.load("servers?cursor=5") is not None


def test_cache_keeps_only_so_many_bytes(answers, monkeypatch):
    monkeypatch.setattr(cache, "MAX_SIZE", 5_000)
    for number in range(4):
        answers.save(f"servers?cursor={number}", StoredAnswer("x" * 3_000, time.time()))
    assert len(list(answers.folder.iterdir())) == 1
    answers.save("servers?", StoredAnswer("x" * 9_000, time.time()))
    assert answers.load("servers?") is not None


def test_cache_offers_pages_of_lists_only(answers):
    answers.save("servers/a/versions/latest", StoredAnswer({"name": "a"}, time.time(), is_list=False))
    answers.save("servers?", StoredAnswer({"servers": [{"name": "b"}]}, time.time()))
    assert [names_in(answer.value) for answer in answers.pages()] == [["b"]]


@pytest.mark.parametrize("value", [None, [], {}, {"servers": 1}, {"servers": [None, {"server": 1}, {"name": 5}]}])
def test_names_are_read_from_any_shape(value):
    assert names_in(value) == []
