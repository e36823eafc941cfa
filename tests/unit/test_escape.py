import json
import unicodedata

import pytest

from rota.escape import escape, escape_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, naïve café — ☃ 漢字 🙂", "plain text, naïve café — ☃ 漢字 🙂"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r\n\ttab\x00", r"two\x0alines\x0d\x0a\x09tab\x00"),
        ("\x7f\x85\x9b2J", r"\x7f\x85\x9b2J"),
        ("\u202etxt.exe\u2066\u200f\u061c", r"\u202etxt.exe\u2066\u200f\u061c"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\ufeff\u200bhidden", r"\ufeff\u200bhidden"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
        ("back\\slash", "back\\slash"),
        ("", ""),
    ],
)
def test_unsafe_characters_are_written_out(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_joiners_in_persian_and_in_emoji_are_kept() -> None:
    text = "\u0645\u06cc\u200c\u062e 👩\u200d💻"
    assert escape(text) == text


def test_no_control_character_or_line_break_of_any_plane_gets_through() -> None:
    for code in range(0x110000):
        character = chr(code)
        unsafe = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        bidi = unicodedata.bidirectional(character) in {
            "LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI", "B",
        }  # fmt: skip
        if unsafe or bidi:
            shown = escape(character)
            assert shown.isascii(), hex(code)
            assert shown.isprintable(), hex(code)


@pytest.mark.parametrize(
    "text", ["plain é漢🙂", "\x7f\x85\u202e\u2028\ufeff", "\U000e0041", "\ud800", 'quote" \\ \n']
)
def test_escaped_json_is_safe_and_says_the_same(text: str) -> None:
    written = escape_json(json.dumps(text, ensure_ascii=False))
    assert escape(written) == written
    assert json.loads(written) == text
