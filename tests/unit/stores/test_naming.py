"""What a collection and a key may be called."""

import pytest

from rota.errors import InvalidInputError
from rota.stores.protocol import check_name


@pytest.mark.parametrize("name", ["a", "x" * 255, "😀" * 255, "two\nlines", "\x7f", " "])
def test_text_within_the_limit_is_let_through(name: str) -> None:
    check_name("key", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must not be empty"),
        ("x" * 256, "is 256 characters long, 255 are the most"),
        ("\n" * 256, "is 256 characters long, 255 are the most"),
        ("a\0", "must not hold the character NUL"),
        ("a\udfff", "holds half of a surrogate pair, which is not text"),
    ],
)
def test_a_refusal_names_the_field_and_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_name("collection", name)
    assert caught.value.message == f"collection: {reason}"
    assert caught.value.details == {"field": "collection", "reason": reason}
