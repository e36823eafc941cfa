"""Signatures by which a receiver knows who sent a message, and that it is not an old one.

A signature is an HMAC with SHA-256 over the time of sending in whole seconds since 1970, a full
stop, and the body. The header says ``t=<time>,v1=<signature>``, with one ``v1`` for each secret
that is in use: while a secret is replaced there are two, and a receiver needs to know only one.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from rota.errors import InvalidInputError, InvalidSignatureError
from rota.triggers.zone import to_utc

SIGNATURE_HEADER = "Rota-Signature"
TOLERANCE = timedelta(minutes=5)
"""How old a message may be; and how far ahead its sender's clock."""

MOST_SECRETS = 2
SHORTEST_SECRET = 16

_LONGEST_HEADER = 1_000
_PART = re.compile(r"(t|v1)=([0-9a-f]{1,64})", re.ASCII)
_TIME = re.compile(r"[0-9]{1,11}", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """A message that can be trusted: when it was sent, and what tells it from any other.

    A message that is sent again, by whomever, has the same ``digest``: a receiver that must not
    act twice remembers the digests of the last ten minutes.
    """

    at: datetime
    digest: str


def sign(body: bytes, secrets: Sequence[str], now: datetime) -> str:
    """The value of the header ``Rota-Signature`` for this body; one or two secrets are in use."""
    if not 1 <= len(secrets) <= MOST_SECRETS:
        raise InvalidInputError(
            f"there must be one or two, got {len(secrets)}", {"field": "secrets"}
        )
    at = int(to_utc(now, "now").timestamp())
    return ",".join((f"t={at}", *(f"v1={_compute(secret, at, body)}" for secret in secrets)))


def verify(
    body: bytes,
    header: str | None,
    secrets: Collection[str],
    now: datetime,
    tolerance: timedelta = TOLERANCE,
) -> Signed:
    """For receivers: what the header proves about the body, or InvalidSignatureError.

    ``body`` are the bytes as they came, before anything is made of them; ``secrets`` those that
    the receiver accepts.
    """
    now = to_utc(now, "now")
    at, signatures = _read(header)
    # Every pair is compared, in constant time: how long it takes tells nothing about a secret.
    matches = [
        hmac.compare_digest(_compute(secret, at, body), signature)
        for secret in secrets
        for signature in signatures
    ]
    if not any(matches):
        raise InvalidSignatureError("it was not made with a known secret for this body")
    sent_at = datetime.fromtimestamp(at, UTC)
    if abs(now - sent_at) > tolerance:
        raise InvalidSignatureError(f"the message is from {sent_at.isoformat()}")
    return Signed(sent_at, hashlib.sha256(_signed_bytes(at, body)).hexdigest())


def _read(header: str | None) -> tuple[int, list[str]]:
    if not header or len(header) > _LONGEST_HEADER:
        raise InvalidSignatureError(f"there is no header {SIGNATURE_HEADER} that could be one")
    parts = [_PART.fullmatch(part.strip()) for part in header.split(",")]
    # Parts of other names are those of versions to come.
    times = [part[2] for part in parts if part is not None and part[1] == "t"]
    signatures = [part[2] for part in parts if part is not None and part[1] == "v1"]
    if len(times) != 1 or _TIME.fullmatch(times[0]) is None or not signatures:
        raise InvalidSignatureError("the header must have one t and at least one v1")
    return int(times[0]), signatures


def _compute(secret: str, at: int, body: bytes) -> str:
    if not secret:
        raise InvalidInputError("secrets must not be empty", {"field": "secrets"})
    return hmac.new(secret.encode(), _signed_bytes(at, body), hashlib.sha256).hexdigest()


def _signed_bytes(at: int, body: bytes) -> bytes:
    return b"%d.%b" % (at, body)
