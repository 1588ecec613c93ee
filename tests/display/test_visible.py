"""Nothing of a text hides behind white space, in marks, or in letters like others."""
# ruff: noqa: RUF001 - letters that look like others are what it is about

from __future__ import annotations

import pytest

from mcp_magic.ask.approval import approval_part
from mcp_magic.consent.consent import Request
from mcp_magic.display.visible import outline, visible
from tests.support.clocks import assert_linear, sixteenth

HIDING = {
    " " * 8: "⟨␣×8⟩",
    "\n" * 300: "⟨↵×300⟩",
    "\t" * 40: "⟨⇥×40⟩",
    "\u3000" * 100: "⟨\\u3000×100⟩",
    "\u2800" * 100: "⟨\\u2800×100⟩",
    " \t" * 100: "⟨white space ×200⟩",
    " " * 9 + "\n" * 9: "⟨␣×9 ↵×9⟩",
    "\n" + " " * 2000: "⟨↵×1 ␣×2,000⟩",
}
SPACES = ("a       b", "def f():\n            return 1\n\n\nx", "    indented", "a\n\tb", "10\xa0000\xa0€")
JOINED = ("👩‍👩‍👧 ❤️ 1️⃣", "می‌خواهم", "क्‍ष")
LETTERS = {
    "pаypal.com": "p⟨Cyrillic а⟩ypal.com",
    "fаcebοοk": "f⟨Cyrillic а⟩ceb⟨Greek οο⟩k",
    "https://аррӏе.com/x": "https://⟨Cyrillic аррӏе⟩.com/x",
    "сору a b": "⟨Cyrillic сору⟩ a b",
    "ɡithub.com": "⟨phonetic ɡ⟩ithub.com",
    "𝚛𝚖 x": "⟨mathematical 𝚛𝚖⟩ x",
    "ｒm x": "⟨full-width ｒ⟩m x",
    "Ꮯurl": "⟨Cherokee Ꮯ⟩url",
    "pӓypal": "p⟨Cyrillic ӓ⟩ypal",
    "p\u200bаypal": "p\\u200b⟨Cyrillic а⟩ypal",
    "C:\\nаme": "C:\\n⟨Cyrillic а⟩me",
}
HONEST = (
    "Привет, мир. Он ест сахар у нас, а я нет",
    "Python с Django, IT-отдел, файл.txt",
    "Καλημέρα και όχι, ναι",
    "Δx = 5 μm, 3 kΩ",
    "naïve Straße, résumé, İstanbul, ıssız",
    "日本語 Tシャツ ＮＨＫ iPhoneケース",
    "한국어 שלום עולם مرحبا",
    "текст\\nа потом",
    "Москва",
)


def test_runs_of_white_space_are_counted():
    assert {hiding: visible(f"ls{hiding}; rm") for hiding in HIDING} == {
        hiding: f"ls{shown}; rm" for hiding, shown in HIDING.items()
    }


@pytest.mark.parametrize("texts", [SPACES, JOINED, HONEST], ids=["white space", "joiners", "other scripts"])
def test_visible_text_is_left_unchanged(texts):
    assert [visible(text) for text in texts] == list(texts)


@pytest.mark.parametrize("hidden", "\u202e\u200b\u200d\x1b\x00\xad\u2066\ufeff\u3164\U000e0041\ud800\x85", ids=ascii)
def test_invisible_characters_are_escaped(hidden):
    code = hidden.encode("unicode_escape", "surrogatepass").decode()
    command = f"rm{hidden}x"
    assert visible(command) == f"rm{code}x"
    asked = Request("shell", "run", {"command": command}, "agent")
    assert code in approval_part(asked, asked.arguments).html


def test_colours_and_marks_are_shown_not_obeyed():
    assert visible("\x1b[31mred") == "\\x1b[31mred"
    assert visible("a" + "\u0336" * 500 + "b e\u0301\u0323") == "a⟨marks ×500⟩b e\u0301\u0323"


def test_letters_that_look_like_latin_ones_are_marked():
    assert {text: visible(text) for text in LETTERS} == LETTERS


WORST = (" \t", "a" + " " * 9, "\u200b", "p\u0430 ", "\u043e\u0441\u0430 ", "\u0430", "\u2800", "\r\n", "\U0001d5ba")


@pytest.mark.parametrize("worst", WORST)
def test_megabytes_are_shown_in_linear_time(worst):
    text = worst * (1_000_000 // len(worst))
    assert_linear(lambda part: outline(part, 1_000), sixteenth(text), text)
    assert_linear(visible, sixteenth(text[:100_000]), text[:100_000])
