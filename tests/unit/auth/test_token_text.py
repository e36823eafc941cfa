"""How tokens are written, and told from what is none."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.auth.tokens import TOKEN_PATTERN, is_well_formed, make_token, take_fingerprint

TOKEN = make_token(Random(1).getrandbits).reveal()


def test_a_token_is_prefix_randomness_and_checksum() -> None:
    assert re.fullmatch(r"rota_[0-9A-Za-z]{43}[0-9A-Za-z]{6}", TOKEN)
    assert is_well_formed(TOKEN)


def test_scanners_find_one_in_the_middle_of_a_text() -> None:
    assert re.findall(TOKEN_PATTERN, f'password = "{TOKEN}"\n') == [TOKEN]


def test_all_256_bits_are_in_it() -> None:
    asked: list[int] = []

    def draw(bits: int) -> int:
        asked.append(bits)
        return (1 << bits) - 1

    lowest, highest = make_token(lambda _: 0).reveal(), make_token(draw).reveal()
    almost = make_token(lambda bits: (1 << bits) - 2).reveal()
    assert asked == [256]
    assert len({lowest, highest, almost}) == 3
    assert {len(it) for it in (lowest, highest)} == {54}


@given(st.integers(5, 53), st.sampled_from("0123456789ABCDEFabcdefxyzXYZ"))
def test_one_wrong_character_is_noticed(position: int, character: str) -> None:
    mistyped = TOKEN[:position] + character + TOKEN[position + 1 :]
    assert is_well_formed(mistyped) is (mistyped == TOKEN)


@given(st.integers(5, 52))
def test_two_swapped_characters_are_noticed(position: int) -> None:
    one, other = TOKEN[position], TOKEN[position + 1]
    swapped = TOKEN[:position] + other + one + TOKEN[position + 2 :]
    assert is_well_formed(swapped) is (one == other)


@pytest.mark.parametrize(
    "text",
    ["", "rota_", TOKEN[:-1], TOKEN + "0", TOKEN + "\n", " " + TOKEN, TOKEN.upper(), "\ud800"],
)
def test_an_invalid_token_is_refused(text: str) -> None:
    assert not is_well_formed(text)


def test_the_stored_fingerprint_does_not_contain_the_token() -> None:
    fingerprint = take_fingerprint(TOKEN)
    assert len(fingerprint.digest) == 64
    assert len(fingerprint.id) == 24
    assert fingerprint.id not in fingerprint.digest
    assert take_fingerprint(TOKEN[:-1]) != fingerprint
