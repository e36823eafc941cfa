"""The fields of a job: makes its id, and validates what a request says about the others.

A ``read_x`` returns the value as it is stored, or raises InvalidJobError with field and reason. It
checks the exact type first: that is the most likely case and the cheapest check, and a bulk insert
makes it for every job. Ids are UUIDs of version 7, which sort by creation time.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError, InvalidJobError
from rota.jobs.codec import parse_instant
from rota.jobs.record import HIGHEST_PRIORITY, JobId

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


LONGEST_NAME = 255
LONGEST_QUOTED = 60
MAX_DEPENDENCIES = 50

QUEUE_PATTERN = "[a-zA-Z0-9_.:-]{1,64}"
PLAIN_QUEUE_PATTERN = "[a-zA-Z0-9_]{1,64}"
"""The names that specification 5 allows."""

_QUEUE = re.compile(QUEUE_PATTERN)
_PLAIN_QUEUE = re.compile(PLAIN_QUEUE_PATTERN)
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Value = TypeVar("Value")


def require(kind: type[Value], value: object, field: str, article_and_type: str) -> Value:
    """The value, if it has that type. A boolean is not a number."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidJobError(field, f"must be {article_and_type}, got {type_name(value)}")
    return value


def read_name(value: object, field: str = "name") -> str:
    """1 to 255 characters (code points) of printable text."""
    name = value if type(value) is str else require(str, value, field, "a text")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidJobError(field, f"must have 1 to {LONGEST_NAME} characters, got {len(name)}")
    if not name.isprintable() and _UNPRINTABLE.search(name):
        raise InvalidJobError(field, f"must not hold control characters, got {quote(name)}")
    return name


def read_queue(value: object) -> str:
    queue = value if type(value) is str else require(str, value, "queue", "a text")
    _check_queue(queue)
    return queue


def read_plain_queue(value: object) -> str:
    """As ``read_queue``, with the names that specification 5 allows."""
    queue = require(str, value, "queue", "a text")
    if not is_plain_queue(queue):
        reason = "must be 1 to 64 of the characters a-z, A-Z, 0-9 and _"
        raise InvalidJobError("queue", f"{reason}, got {quote(queue)}")
    return queue


def is_plain_queue(queue: str) -> bool:
    return _PLAIN_QUEUE.fullmatch(queue) is not None


def read_word(value: object, field: str) -> str:
    """A kind or a tenant: text that is safe wherever it is written."""
    word = value if type(value) is str else require(str, value, field, "a text")
    _check_word(word, field)
    return word


def read_number(value: object, field: str, lowest: int, highest: int) -> int:
    number = value if type(value) is int else require(int, value, field, "an integer")
    if not lowest <= number <= highest:
        raise InvalidJobError(field, f"must be from {lowest} to {highest}, got {short(number)}")
    return number


def read_priority(value: object) -> int:
    if type(value) is int and 1 <= value <= HIGHEST_PRIORITY:
        return value
    return read_number(value, "priority", 1, HIGHEST_PRIORITY)


def read_flag(value: object, field: str) -> bool:
    return require(bool, value, field, "true or false")


def read_instant(value: object, field: str) -> datetime:
    """An aware datetime, or ISO 8601 text with an offset; in UTC."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    try:
        if isinstance(value, str):
            return parse_instant(value, field)
        return to_utc(require(datetime, value, field, "an instant"), field)
    except InvalidJobError:
        raise
    except OverflowError as error:
        reason = f"must be an instant of the calendar, got {quote(str(value))}"
        raise InvalidJobError(field, reason) from error
    except InvalidInputError as error:
        reason = "must be an instant with an offset from UTC, such as 2026-05-01T12:00:00Z"
        raise InvalidJobError(field, f"{reason}, got {quote(str(value))}") from error


def read_dependencies(value: object) -> tuple[JobId, ...]:
    """Up to 50 different UUIDs."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidJobError("dependencies", f"must be a list, got {type_name(value)}")
    if len(value) > MAX_DEPENDENCIES:
        raise InvalidJobError(
            "dependencies", f"must not be more than {MAX_DEPENDENCIES}, got {len(value)}"
        )
    ids = tuple(read_id(each, f"dependencies[{index}]") for index, each in enumerate(value))
    if len(set(ids)) < len(ids):
        raise InvalidJobError("dependencies", "must not name a job twice")
    return ids


def read_id(value: object, field: str) -> JobId:
    if type(value) is str and _is_id(value):
        return value
    if not isinstance(value, str):
        value = str(value) if isinstance(value, UUID) else require(str, value, field, "a UUID")
    job_id = normalize_job_id(value)
    if job_id is None:
        reason = "must be a UUID, such as 01890a5d-ac96-774b-bcce-b302099a8057"
        raise InvalidJobError(field, f"{reason}, got {quote(value)}")
    return job_id


# There are few queues, kinds and tenants, and many jobs name each. Refused values are not
# remembered, so nothing long is.
@lru_cache(maxsize=1024)
def _check_queue(queue: str) -> None:
    if not _QUEUE.fullmatch(queue):
        reason = "must be 1 to 64 of the characters a-z, A-Z, 0-9, _, ., : and -"
        raise InvalidJobError("queue", f"{reason}, got {quote(queue)}")


@lru_cache(maxsize=1024)
def _check_word(word: str, field: str) -> None:
    if not _WORD.fullmatch(word):
        reason = "must be 1 to 200 of the characters a-z, A-Z, 0-9, _, ., : and -"
        raise InvalidJobError(field, f"{reason}, got {quote(word)}")


def type_name(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def quote(value: object) -> str:
    """Text as an error shows it: on one line and not too long. The type of anything else."""
    if not isinstance(value, str):
        return type_name(value)
    return repr(value if len(value) <= LONGEST_QUOTED else f"{value[:LONGEST_QUOTED]}…")


def short(number: int) -> str:
    """The number, or a short form when it has too many digits to print."""
    return str(number) if number.bit_length() <= 64 else "a number of more than 64 bits"


MAX_PAYLOAD_BYTES = 65_536
MAX_DEPTH = 64
MOST_AT_A_GLANCE = 100
"""A payload with more fields takes the thorough path, because its size is unknown."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ENCODED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_CONTAINERS = (dict, list, tuple)
_SCALARS = frozenset({str, int, float, bool, type(None)})
_Integer = Annotated[int, msgspec.Meta(ge=_LOWEST, le=_HIGHEST)]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_flat = msgspec.json.Decoder(dict[str, _Integer | float | str | bool | None]).decode
_UNUSUAL = (msgspec.MsgspecError, ValueError, TypeError, OverflowError)


def read_payload(value: object) -> Any:
    """A validated copy of the payload, so that the caller may change the original.

    At most 64 KiB of compact JSON in UTF-8, 64 levels deep, with 64-bit integers. NUL, lone
    surrogates, NaN and infinities are refused: some store would change them.
    """
    # Most payloads are flat, and what survives a round trip within the limits is valid.
    if (
        type(value) is dict
        and len(value) <= MOST_AT_A_GLANCE
        and _SCALARS.issuperset(map(type, value.values()))
    ):
        try:
            encoded = _encode(value)
            is_usual = len(encoded) <= MAX_PAYLOAD_BYTES and encoded.find(b"\\u0000") < 0
            copy = _decode_flat(encoded) if is_usual else None
        except _UNUSUAL:
            copy = None
        if copy == value:
            return copy
    _check_values(value)
    try:
        encoded = _encode(value)
    except UnicodeEncodeError as error:
        raise _refusal("must not hold halves of surrogate pairs") from error
    except TypeError as error:
        raise _refusal(f"must be JSON: {error}") from error
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise _too_large()
    if encoded.find(b"\\u0000") >= 0 and _ENCODED_NUL.search(encoded):
        raise _refusal("must not hold the character NUL")
    return _decode(encoded)


def read_encoded_payload(encoded: bytes) -> Any:
    """The payload in compact JSON that ``msgspec`` has written, validated like any other."""
    if len(encoded) <= MAX_PAYLOAD_BYTES and encoded.find(b"\\u0000") < 0:
        try:
            return _decode_flat(encoded)
        except msgspec.ValidationError:
            pass
    return read_payload(_decode(encoded))


def _check_values(payload: object) -> None:
    """Check every value without recursion, and stop as soon as the payload must be too large."""
    whole = (_inner_values(payload, 0), 1) if type(payload) is dict else ((payload,), 0)
    left: list[tuple[Any, int]] = [whole]
    byte_count = 0  # each value takes at least one byte, each character of a text another
    while left:
        values, depth = left.pop()
        byte_count += len(values)
        for value in values:
            # The hottest lines of a bulk insert: the exact, likely types come first.
            kind = type(value)
            if kind is str:
                byte_count += len(value)
            elif kind is int and _LOWEST <= value <= _HIGHEST:
                continue
            elif kind is dict or kind is list:
                left.append((_inner_values(value, depth), depth + 1))
            elif kind is not bool and value is not None:
                byte_count += _look_closer(value, depth, left)
        if byte_count > MAX_PAYLOAD_BYTES:
            raise _too_large()


def _look_closer(value: object, depth: int, left: list[tuple[Any, int]]) -> int:
    """How many bytes the value takes beyond the first. Its content is checked later."""
    if isinstance(value, _CONTAINERS):
        left.append((_inner_values(value, depth), depth + 1))
    elif isinstance(value, str):
        return len(value)
    else:
        _check_number(value)
    return 0


def _inner_values(container: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
    if depth == MAX_DEPTH:
        raise _refusal(f"must not be nested deeper than {MAX_DEPTH} levels")
    if not isinstance(container, dict):
        return container
    for key in container:
        if type(key) is not str and not isinstance(key, str):
            raise _refusal(f"must be JSON, in which a key is a text and not {type(key).__name__}")
    return container.values()


def _check_number(value: object) -> None:
    if isinstance(value, float):
        if not isfinite(value):
            raise _refusal("must be JSON, which has neither NaN nor infinities")
    elif not isinstance(value, int):
        raise _refusal(f"must be JSON, which has no form for {type(value).__name__}")
    elif not _LOWEST <= value <= _HIGHEST:
        raise _refusal("must not hold integers of more than 64 bits")


def _too_large() -> InvalidJobError:
    return _refusal(f"must not be larger than {MAX_PAYLOAD_BYTES} bytes of JSON")


def _refusal(reason: str) -> InvalidJobError:
    return InvalidJobError("payload", reason)
