"""A secret is seen only by who asks for it."""

import copy
import json
import logging
import traceback

import msgspec
import pytest

from rota.auth.tokens import Secret

TEXT = "rota_not-to-be-seen"


def test_no_way_of_printing_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(TEXT)
    with caplog.at_level(logging.INFO):
        logging.getLogger("rota.test").info("issued %s and %r in %s", secret, secret, [secret])
    shown = [f"{secret}", f"{secret:>40}", str(secret), repr({"a": secret}), "%s" % secret]  # noqa: UP031 - one of the ways
    assert TEXT not in "".join([*shown, caplog.text])
    assert set(shown) == {"Secret(***)", "{'a': Secret(***)}"}


def test_a_traceback_does_not_show_it() -> None:
    with pytest.raises(ValueError, match="Secret") as caught:
        raise ValueError(Secret(TEXT))
    assert TEXT not in "".join(traceback.format_exception(caught.value))


def test_it_cannot_be_written_out_by_accident() -> None:
    secret = Secret(TEXT)
    for write in (json.dumps, msgspec.json.encode, copy.deepcopy):
        with pytest.raises(TypeError):
            write(secret)
    assert not hasattr(secret, "__dict__")


def test_it_is_shown_on_request() -> None:
    assert Secret(TEXT).reveal() == TEXT


def test_two_are_equal_when_their_texts_are() -> None:
    assert Secret(TEXT) == Secret(TEXT)
    assert hash(Secret(TEXT)) == hash(Secret(TEXT))
    assert Secret(TEXT) != Secret("\ud800")
    assert Secret(TEXT) != TEXT
