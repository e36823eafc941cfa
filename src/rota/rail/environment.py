"""Whole numbers in the environment, and the one that sets how often new jobs are tried."""

import os
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidConfigurationError
from rota.jobs import RetryPolicy
from rota.jobs.validation import MAX_ATTEMPTS

_LONGEST_NUMBER = 20


class Variable(msgspec.Struct, frozen=True):
    """A whole number in the environment, with its limits."""

    name: str
    least: int
    most: int

    def read(self, environ: Mapping[str, str]) -> int | None:
        """Its value; None if it is not set, or empty. Raises ValueError with the reason."""
        text = environ.get(self.name, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
            raise ValueError(f"must be a whole number, got {text!r:.40}")
        value = int(text)
        if not self.least <= value <= self.most:
            raise ValueError(f"must be from {self.least} to {self.most}, got {value}")
        return value


ATTEMPTS = Variable("WORKER_MAX_ATTEMPTS", 1, MAX_ATTEMPTS)


def with_usual_attempts(
    policy: RetryPolicy, environ: Mapping[str, str] | None = None
) -> RetryPolicy:
    """The policy of new jobs that name none: with ``WORKER_MAX_ATTEMPTS``, if that is set.

    Raises InvalidConfigurationError when its value is not valid.
    """
    try:
        attempts = ATTEMPTS.read(os.environ if environ is None else environ)
    except ValueError as error:
        raise InvalidConfigurationError({ATTEMPTS.name: str(error)}) from error
    return policy if attempts is None else replace(policy, max_attempts=attempts)
