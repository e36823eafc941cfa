"""What is shown of a payload that holds secrets."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.auth.masking import MASK, SECRET_WORDS, mask_secrets, mask_text
from rota.auth.tokens import make_token

TOKEN = make_token(Random(1).getrandbits).reveal()
PLAIN_NAMES = st.sampled_from(["to", "subject", "amount", "Zahl", "", "user name"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc äöü 123"),
    lambda inner: st.lists(inner) | st.dictionaries(PLAIN_NAMES, inner),
)


@pytest.mark.parametrize(
    "name",
    [
        *SECRET_WORDS,
        "API-Key",
        "api_key",
        "apiKey",
        "X-Api.Key",
        "Authorization",
        "user_password",
        "PASSWORD",
        "refreshToken",
        "private key",
        "Set-Cookie",
    ],
)
def test_a_field_with_a_secret_name_is_masked_for_any_value(name: str) -> None:
    for value in ("x", 7, None, ["x"], {"a": "x"}):
        assert mask_secrets({"to": "ada", "deep": [{name: value}]}) == {
            "to": "ada",
            "deep": [{name: MASK}],
        }


@given(PLAIN)
def test_other_values_than_secrets_are_unchanged(value: Any) -> None:
    assert mask_secrets(value) == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {TOKEN}, please", f"use {MASK}, please"),
        ("postgresql://ada:pw@db.example/rota", f"postgresql://ada:{MASK}@db.example/rota"),
        ("redis://:pw@db.example", f"redis://:{MASK}@db.example"),
        ("https://rota.example:8080/a@b", "https://rota.example:8080/a@b"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_tokens_and_passwords_of_urls_are_masked_in_texts(text: str, shown: str) -> None:
    assert mask_text(text) == shown
    assert mask_secrets({"note": [text]}) == {"note": [shown]}


def test_the_words_are_for_the_operator_to_choose() -> None:
    payload = {"iban": "x", "token": "y"}
    assert mask_secrets(payload, ["I-BAN"]) == {"iban": MASK, "token": "y"}
    assert mask_secrets(payload, []) == payload


def test_a_long_text_is_masked_in_linear_time() -> None:
    text = "://" + "a" * 200_000 + ":" * 1000
    assert mask_text(text) == text
