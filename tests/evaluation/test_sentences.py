"""Where the sentences of a description end, and the text without one of them."""

from __future__ import annotations

import pytest

from mcp_magic.evaluation.sentences import sentence_spans, without

DOCSTRING = """\
Get the weather for a city.

Args:
    location: The city, e.g. London. In English.
    days: How many (default 3. At most 10).

Returns:
    JSON"""
LIST = "Usage:\n- one. Two here.\n- two\n1. First.\n```\na. B\n\nC. D\n```\nThe end. Done."
WRAPPED = "It says how the weather is in a city of the world\nand how it will be. Give its\nname in English"


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("In a city, e.g. Oslo, i.e. Norway vs. Mr. Smith.", ["In a city, e.g. Oslo, i.e. Norway vs. Mr. Smith."]),
        (
            "It costs 3.5 EUR. See https://a.org/b.c?d=e! f. Now",
            ["It costs 3.5 EUR.", "See https://a.org/b.c?d=e! f. Now"],
        ),
        ("Max. 5, default 10. More is No. 7.", ["Max. 5, default 10.", "More is No. 7."]),
        ('Say "Stop. Now." Then `a. B` (see c. D.) works.', ['Say "Stop. Now."', "Then `a. B` (see c. D.) works."]),
        ('Such as {"a": "x. Y",\n  "b": 1}. Good', ['Such as {"a": "x. Y",\n  "b": 1}.', "Good"]),
        ("Given in C. By J. Doe. It ends", ["Given in C.", "By J. Doe.", "It ends"]),
        ("Wetter, z. B. in Oslo, bzw. d.h. heute. Ja.", ["Wetter, z. B. in Oslo, bzw. d.h. heute.", "Ja."]),
        ("天気を返す。「はい。」と言う。東京も可", ["天気を返す。", "「はい。」と言う。", "東京も可"]),
        ("मौसम बताता है। शहर का नाम दें।", ["मौसम बताता है।", "शहर का नाम दें।"]),
        ("هل تمطر؟ نعم!", ["هل تمطر؟", "نعم!"]),
        ("Get it\nReturns JSON", ["Get it", "Returns JSON"]),
        (WRAPPED, [WRAPPED[:69], WRAPPED[70:]]),
        (
            DOCSTRING,
            [
                "Get the weather for a city.",
                "Args:",
                "The city, e.g. London.",
                "In English.",
                "days: How many (default 3. At most 10).",
                "Returns:",
                "JSON",
            ],
        ),
        (
            LIST,
            ["Usage:", "one.", "Two here.", "- two", "1. First.", "```\na. B\n\nC. D\n```", "The end.", "Done."],
        ),
        ("", []),
        (" \n--- ... ", []),
        ("``` open. Fence", ["``` open. Fence"]),
    ],
    ids=len,
)
def test_text_is_divided_where_a_sentence_ends(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "number", "rest"),
    [
        ("One. Two. Three.", 0, "Two. Three."),
        ("One. Two. Three.", 1, "One. Three."),
        ("One. Two.\n\nThree.", 1, "One.\n\nThree."),
        ("One.\n\nTwo.\nThree.", 1, "One.\n\nThree."),
        ("One.", 0, ""),
        (DOCSTRING, 2, DOCSTRING.replace("The city, e.g. London. ", "")),
        (DOCSTRING, 3, DOCSTRING.replace(" In English.", "")),
        (DOCSTRING, 4, DOCSTRING.replace("    days: How many (default 3. At most 10).\n", "")),
        (LIST, 3, LIST.replace("- two\n", "")),
        (LIST, 1, LIST.replace("one. ", "")),
    ],
)
def test_paragraphs_and_marks_stay_when_a_sentence_goes(text, number, rest):
    assert without(text, sentence_spans(text)[number]) == rest


@pytest.mark.parametrize("text", ["." * 100_000 + "a", "(" * 50_000 + ")" * 50_000, 'x. "Y" ' * 20_000], ids=len)
def test_long_text_of_a_stranger_takes_no_square_of_its_length(text):
    assert len(sentence_spans(text)) < 2
