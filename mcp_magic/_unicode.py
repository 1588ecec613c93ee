r"""Characters that a person does not see, or takes for others: their kinds, as parts of a regular expression's `[...]`.

Sources: Unicode Technical Report 36 (security) and Standard Annex 9 (bidirectional text); CVE-2021-42574; the
confusables of Technical Standard 39.
"""
# ruff: noqa: RUF001 - this module is about letters that look alike

from __future__ import annotations

import re
import unicodedata

CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff"
"""C0 and C1 controls, separators, and lone surrogates, which UTF-8 cannot encode; not tabs and line feeds."""

DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks and controls

JOINERS = "\u200c\u200d"  # of zero width; emoji and Persian need them

ZERO_WIDTH = "\u200b\u2060-\u2065\u206a-\u206f\ufeff"  # other formatting of zero width

SHAPELESS = "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # hyphens, letters and marks without a shape

TAGS = "\U000e0000-\U000e007f"  # invisible ASCII; flags are written with it

SELECTORS = "\U000e0100-\U000e01ef"  # variation selectors for ideographs

PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"

RARE = (
    "\u2800\ufe00-\ufe0d\ufff0-\ufff8\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0080-\U000e00ff\U000e01f0-\U000effff"
)
"""The empty Braille pattern, other selectors, controls of hieroglyphs, shorthand and music, unassigned characters."""

INVISIBLE = f"{CONTROLS}{DIRECTIONS}{ZERO_WIDTH}{SHAPELESS}{TAGS}{SELECTORS}{PRIVATE}{RARE}"  # all but joiners

HIDDEN = re.compile(f"[{CONTROLS}{DIRECTIONS}{ZERO_WIDTH}{TAGS}]+")
"""What messages write out, whatever is beside it."""

_ASCII = {
    # Cyrillic, Greek, Armenian, Cherokee, Coptic, Lisu, and Latin letters of phonetics
    "аеорсухіјѕԁһӏԛԝѵѡүҽАВЕНІЈКМОРСТУХЅԌԜѴҮӀ": "aeopcyxijsdhlqwvwyeABEHIJKMOPCTYXSGWVYI",
    "αικνορυγχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿϜ": "aikvopuyxcjABEZHIKMNOPTYXCJF",
    "հոսցօքգզԼՍՏՕ": "hnugopqqLUSO",
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᏀᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏳᏴꭵꮁꮃꮓꮩꮪꮯ": "DRTiYAJEWMHGZbRWSVSLCPKGBirwzvsc",
    "ⲞⲟⲤⲥⲢⲣⲔⲎⲘⲚⲦⲨⲬⲒ": "OoCcPpKHMNTYXI",
    "ꓐꓑꓒꓓꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓔꓧꓪꓫꓬꓮꓰꓲꓳꓴꓦ": "BPdDGKJCZFMNLSRTHWXYAEIOUV",
    "ɑɡɩᴄᴏᴠᴡᴢꜱ": "agicovwzs",
}
"""Letters, and the ASCII letters that they look like."""

LOOKALIKES = (
    "".join(_ASCII)
    # characters that NFKC turns into ASCII: mathematical and full-width letters, Roman numerals, the Kelvin sign
    + "\u212a\u2160-\u217f\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5"
)
"""Letters that look like ASCII ones.

confusables.txt maps each to one ASCII letter. They are of the scripts that fonts draw in the same style, without those
that are similar only in some fonts.
"""


_LETTERS = {ord(letter): like for letters, likes in _ASCII.items() for letter, like in zip(letters, likes, strict=True)}
_UNSEEN = re.compile(f"[{INVISIBLE}{JOINERS}]")


def as_read(text: str) -> str:
    """Return a text as a person reads it: without invisible characters, and with the ASCII letters that it looks like.

    >>> as_read("r\u0435ad\u200b_file")
    'read_file'
    """
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).translate(_LETTERS)


def escapes(text: str) -> str:
    r"""Return a text with all but printable ASCII as Python's escapes.

    >>> escapes("\u202e")
    '\\u202e'
    """
    return text.encode("unicode_escape").decode("ascii")


def script(letter: str) -> str:
    """Return the script or the style of a letter, the first word of its Unicode name; "" if it has none.

    >>> script("a"), script("\u0430"), script("\uff41"), script("\ue000")
    ('LATIN', 'CYRILLIC', 'FULLWIDTH', '')
    """
    return unicodedata.name(letter, "").partition(" ")[0]
