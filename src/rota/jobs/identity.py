"""Job ids: UUIDs of version 7, which sort by creation time."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError
from rota.jobs.record import JobId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
RANDOM_BITS = 62
"""How many bits of an id are random."""

LOWEST_ID: JobId = "00000000-0000-0000-0000-000000000000"
"""Sorts before the id of every job."""

_VARIANT = 0b10 << RANDOM_BITS
_RANDOM_MASK = (1 << RANDOM_BITS) - 1
_COUNTING_ROOM = 1 << 61
_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_is_id = re.compile(_PATTERN).fullmatch
_are_ids = re.compile(rf"(?:{_PATTERN},)*").fullmatch
_LENGTH = 36
_TIME_LENGTH = 19
"""What comes before the random bits, with the hyphen that follows."""


def make_job_id(now: datetime, random_bits: int) -> JobId:
    """An id that sorts after all ids made a microsecond or more before ``now``.

    The lowest 62 of ``random_bits``, drawn by the caller, are used.
    """
    elapsed = (to_utc(now, "now") - _EPOCH) // _MICROSECOND
    if elapsed < 0:
        raise InvalidInputError(
            f"now must not be before 1970, got {now.isoformat()}",
            {"field": "now", "value": now.isoformat()},
        )
    return _format(elapsed, random_bits)


def make_job_ids(now: datetime, random_bits: int, count: int) -> list[JobId]:
    """``count`` ascending ids of one moment, so that jobs inserted together keep their order."""
    beginning = make_job_id(now, 0)[:_TIME_LENGTH]
    base = _VARIANT | random_bits % _COUNTING_ROOM
    endings = [f"{bits:x}" for bits in range(base, base + count)]
    return [f"{beginning}{digits[:4]}-{digits[4:]}" for digits in endings]


def derive_job_id(parent_id: JobId, occurrence_at: datetime) -> JobId:
    """The id of the job after ``parent_id`` in its series; always the same.

    So a job has one successor, even when several callers end it or one repeats the call.
    """
    digest = sha256(f"{parent_id}|{occurrence_at.isoformat()}".encode()).digest()
    elapsed = max((occurrence_at - _EPOCH) // _MICROSECOND, 0)
    return _format(elapsed, int.from_bytes(digest[:8]))


def normalize_job_id(text: str) -> JobId | None:
    """The UUID in ``text``, in lower case; None when it is not a UUID."""
    if _is_id(text):
        return text
    lowered = text.lower()
    return lowered if text.isascii() and _is_id(lowered) else None


def are_job_ids(texts: Sequence[str]) -> bool:
    """Whether each is a job id in its stored form. Checking them as one text is fast."""
    joined = ",".join(texts) + ","
    return not texts or (len(joined) == (_LENGTH + 1) * len(texts) and _are_ids(joined) is not None)


def _format(elapsed: int, random_bits: int) -> JobId:
    """The id of microseconds since 1970: milliseconds, their fraction in twelve bits, the rest."""
    milliseconds, rest = divmod(elapsed, 1000)
    time_bits = milliseconds << 16 | 0x7 << 12 | rest * 4096 // 1000
    digits = (time_bits << 64 | _VARIANT | random_bits & _RANDOM_MASK).to_bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
