"""A retry policy, from a record or from a mapping that may leave things out."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rota.errors import InvalidJobError
from rota.jobs.record import BackoffStrategy, JobRequest, RetryPolicy
from rota.jobs.validation.fields import read_number, type_name

MAX_ATTEMPTS = 10
LONGEST_BASE_DELAY = 300
LONGEST_DELAY = 3_600
LONGEST_RUNG = 7 * 24 * 3_600

_DEFAULTS = JobRequest(name="", queue="").retry_policy
"""The very one that a request has which says nothing of it: comparing them takes no time."""


def read_retry_policy(value: object) -> RetryPolicy:
    """What is left out takes its default before anything is compared; None is all defaults."""
    if value is None or value is _DEFAULTS or value == _DEFAULTS:
        return _DEFAULTS
    fields = _fields_of(value)
    base = read_number(
        fields["base_delay_seconds"], "retry_policy.base_delay_seconds", 1, LONGEST_BASE_DELAY
    )
    return RetryPolicy(
        max_attempts=read_number(
            fields["max_attempts"], "retry_policy.max_attempts", 1, MAX_ATTEMPTS
        ),
        backoff_strategy=_read_strategy(fields["backoff_strategy"]),
        base_delay_seconds=base,
        max_delay_seconds=read_number(
            fields["max_delay_seconds"], "retry_policy.max_delay_seconds", base, LONGEST_DELAY
        ),
        ladder_seconds=_read_ladder(fields["ladder_seconds"]),
    )


def _fields_of(value: object) -> dict[str, Any]:
    fields = msgspec.structs.asdict(_DEFAULTS)
    if isinstance(value, RetryPolicy):
        return msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise InvalidJobError("retry_policy", f"must be an object, got {type_name(value)}")
    for name in value:
        if name not in fields:
            raise InvalidJobError(f"retry_policy.{str(name)[:40]}", "is not a field")
    return fields | dict(value)


def _read_strategy(value: object) -> BackoffStrategy:
    if isinstance(value, str) and value in BackoffStrategy.__members__:
        return BackoffStrategy[value]
    names = ", ".join(BackoffStrategy.__members__)
    raise InvalidJobError("retry_policy.backoff_strategy", f"must be one of {names}")


def _read_ladder(value: object) -> tuple[int, ...]:
    field = "retry_policy.ladder_seconds"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidJobError(field, f"must be a list, got {type_name(value)}")
    if not 1 <= len(value) <= MAX_ATTEMPTS:
        raise InvalidJobError(field, f"must have 1 to {MAX_ATTEMPTS} delays, got {len(value)}")
    return tuple(
        read_number(each, f"{field}[{index}]", 1, LONGEST_RUNG) for index, each in enumerate(value)
    )
