"""Signs messages so that a receiver can verify the sender and the age, and finds keys by name."""

import hashlib
import hmac
import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from rota.clock.protocol import to_utc
from rota.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    InvalidSignatureError,
    SecretNotFoundError,
)

SIGNATURE_HEADER = "Rota-Signature"
TOLERANCE = timedelta(minutes=5)
"""How old a message may be; and how far ahead its sender's clock."""

MOST_SECRETS = 2
SHORTEST_SECRET = 16

_LONGEST_HEADER = 1_000
_PART = re.compile(r"(t|v1)=([0-9a-f]{1,64})", re.ASCII)
_TIME = re.compile(r"[0-9]{1,11}", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """A message that can be trusted: when it was sent, and what identifies it.

    A repeated message has the same ``digest``, no matter who sends it. A receiver that must not act
    twice remembers the digests of the last ten minutes.
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
    # Every pair is compared, in constant time: the duration reveals nothing about a secret.
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
        raise InvalidSignatureError(f"the header {SIGNATURE_HEADER} is missing or malformed")
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


VARIABLE_PREFIX = "ROTA_SECRET_"
FOLDER_VARIABLE = "ROTA_SECRETS_DIR"
DEFAULT_TENANT = "default"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)

_TENANT = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,199}", re.ASCII)
_LARGEST_FILE = 4_096


class Keyring:
    """Reads secrets each time: a new one is used from the next message on.

    The file ``<folder>/<tenant>/<name>`` holds one secret or, while it is being replaced, two, in
    lines of their own. Those of the tenant ``default`` may be in variables instead, such as
    ``ROTA_SECRET_BILLING`` for ``billing``, separated by spaces.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def __repr__(self) -> str:
        return "<Keyring>"

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The one or two secrets of that name; SecretNotFoundError when there is none."""
        text = self._read_file(tenant, name) or self._read_variable(tenant, name)
        secrets = tuple(text.split())
        if not secrets:
            raise SecretNotFoundError(tenant, name)
        if len(secrets) > MOST_SECRETS or any(len(it) < SHORTEST_SECRET for it in secrets):
            raise InvalidConfigurationError(
                {
                    f"secret {name}": f"must be one or two texts without spaces, each of at least "
                    f"{SHORTEST_SECRET} characters"
                }
            )
        return secrets

    def _read_variable(self, tenant: str, name: str) -> str:
        if tenant != DEFAULT_TENANT:
            return ""
        return self._environ.get(VARIABLE_PREFIX + name.upper().replace("-", "_"), "")

    def _read_file(self, tenant: str, name: str) -> str:
        folder = self._environ.get(FOLDER_VARIABLE, "")
        if not folder or not NAME.fullmatch(name) or not _TENANT.fullmatch(tenant):
            return ""
        try:
            with Path(folder, tenant, name).open(encoding="utf-8") as file:
                return file.read(_LARGEST_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfigurationError({f"secret {name}": "cannot be read"}) from error
