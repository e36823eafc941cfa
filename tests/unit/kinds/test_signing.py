"""Signatures, made and verified."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import InvalidInputError, InvalidSignatureError
from rota.kinds import sign, verify
from rota.kinds.signing import TOLERANCE

STEADY = settings(deadline=None, derandomize=True)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
OLD, NEW, OTHER = "an-old-secret-of-ours", "a-new-secret-of-ours", "a-secret-of-somebody"
BODY = b'{"order": 7}'


def test_a_signature_is_an_hmac_over_time_full_stop_and_body() -> None:
    at = int(NOW.timestamp())
    made = hmac.new(NEW.encode(), f"{at}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, [NEW], NOW) == f"t={at},v1={made}"


@STEADY
@given(st.binary(), st.text(min_size=1), st.integers(0, 90_000_000_000))
def test_a_signature_can_be_verified(body: bytes, secret: str, at: int) -> None:
    secret = secret.encode("utf-8", "replace").decode()
    now = datetime.fromtimestamp(at, UTC)
    assert verify(body, sign(body, [secret], now), [secret], now).at == now


@STEADY
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_another_body_is_never_verified(body: bytes, other: bytes) -> None:
    if body != other:
        with pytest.raises(InvalidSignatureError):
            verify(other, sign(body, [NEW], NOW), [NEW], NOW)


@pytest.mark.parametrize("known", [[OLD], [NEW], [OLD, NEW], [OTHER, NEW]])
def test_while_a_secret_is_replaced_both_are_good(known: list[str]) -> None:
    assert verify(BODY, sign(BODY, [NEW, OLD], NOW), known, NOW).at == NOW


@pytest.mark.parametrize("known", [[OTHER], []])
def test_a_secret_that_is_not_known_proves_nothing(known: list[str]) -> None:
    with pytest.raises(InvalidSignatureError):
        verify(BODY, sign(BODY, [NEW, OLD], NOW), known, NOW)


@pytest.mark.parametrize("moved", [TOLERANCE, -TOLERANCE, timedelta(0)])
def test_a_message_is_good_for_five_minutes(moved: timedelta) -> None:
    assert verify(BODY, sign(BODY, [NEW], NOW), [NEW], NOW + moved).at == NOW


@pytest.mark.parametrize("moved", [TOLERANCE + SECOND, -TOLERANCE - SECOND, timedelta(days=9)])
def test_a_message_that_is_sent_again_later_is_refused(moved: timedelta) -> None:
    with pytest.raises(InvalidSignatureError):
        verify(BODY, sign(BODY, [NEW], NOW), [NEW], NOW + moved)


def test_an_old_message_cannot_be_given_a_new_time() -> None:
    header = sign(BODY, [NEW], NOW)
    later = NOW + timedelta(hours=1)
    forged = header.replace(f"t={int(NOW.timestamp())}", f"t={int(later.timestamp())}")
    assert forged != header
    with pytest.raises(InvalidSignatureError):
        verify(BODY, forged, [NEW], later)


def test_a_message_sent_again_at_once_is_recognised_by_its_digest() -> None:
    both, at = sign(BODY, [NEW, OLD], NOW), f"t={int(NOW.timestamp())}"
    first = verify(BODY, both, [OLD, NEW], NOW)
    stripped = f"{at},{both.split(',')[2]}"  # by somebody who leaves out one of the signatures
    assert verify(BODY, stripped, [OLD, NEW], NOW + SECOND).digest == first.digest
    again = verify(BODY, sign(BODY, [NEW, OLD], NOW + SECOND), [NEW], NOW + SECOND)
    assert again.digest != first.digest


@pytest.mark.parametrize(
    "header",
    [
        None, "", "nonsense", "t=1", "v1=ab", "t=,v1=ab", "t=1,t=2,v1=ab", "t=-1,v1=ab",
        "t=1777636800,v2=ab", "t=0x10,v1=ab", "t=" + "9" * 64 + ",v1=ab", "t=1,v1=" + "a" * 2_000,
        "t=\u0661,v1=ab", "t=ab,v1=ab",
    ],
)  # fmt: skip
def test_a_header_that_is_none_is_refused(header: str | None) -> None:
    with pytest.raises(InvalidSignatureError):
        verify(BODY, header, [NEW], NOW)


def test_parts_of_versions_to_come_do_not_disturb() -> None:
    assert verify(BODY, sign(BODY, [NEW], NOW) + ", v2=zz==", [NEW], NOW).at == NOW


def test_an_invalid_secret_is_refused() -> None:
    for secrets in ([], [NEW, OLD, OTHER], [""]):
        with pytest.raises(InvalidInputError) as caught:
            sign(BODY, secrets, NOW)
        assert caught.value.details["field"] == "secrets"
    with pytest.raises(InvalidInputError):
        verify(BODY, sign(BODY, [NEW], NOW), [NEW], NOW.replace(tzinfo=None))
