"""The environment variables of specification 3."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidConfigurationError, InvalidStoreUrlError
from rota.jobs import RAIL_RETRIES, RetryPolicy
from rota.jobs.validation import MAX_ATTEMPTS
from rota.runtime.wiring import check_address
from rota.worker import WorkerSettings

Value = TypeVar("Value")

DEFAULT_STORE = "sqlite:///rota.db"

LONGEST_MS = 24 * 60 * 60 * 1000
LARGEST_BATCH = 10_000
_LONGEST_NUMBER = 20


class Variable(msgspec.Struct, frozen=True):
    """An integer in the environment, with its default and limits."""

    name: str
    default: int
    least: int
    most: int

    def read(self, environ: Mapping[str, str]) -> int:
        """Its value; an empty variable counts as not set. Raises ValueError with the reason."""
        text = environ.get(self.name, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
            raise ValueError(f"must be a whole number, got {text!r:.40}")
        value = int(text)
        if not self.least <= value <= self.most:
            raise ValueError(f"must be from {self.least} to {self.most}, got {value}")
        return value


POLL_MS = Variable("WORKER_POLL_MS", 1000, 1, LONGEST_MS)
BATCH = Variable("WORKER_BATCH", 10, 1, LARGEST_BATCH)
LEASE_MS = Variable("WORKER_LEASE_MS", 60_000, 1000, LONGEST_MS)
ATTEMPTS = Variable("WORKER_MAX_ATTEMPTS", 5, 1, MAX_ATTEMPTS)
STORE = "ROTA_STORE"

VARIABLES = (POLL_MS, BATCH, LEASE_MS, ATTEMPTS)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The store, the settings of the worker, and the retry policy of new jobs.

    ``retry_policy`` is for ``RailSettings``. Existing jobs keep theirs.
    """

    store_url: str = DEFAULT_STORE
    worker: WorkerSettings = WorkerSettings()
    retry_policy: RetryPolicy = RAIL_RETRIES


ALERT_WEBHOOK = "ROTA_ALERT_WEBHOOK"
ALERT_SECRET = "ROTA_ALERT_SECRET"  # noqa: S105 - the name of a variable


class Webhook(msgspec.Struct, frozen=True):
    """Where alerts are posted, and the name of the secret that signs them, if any."""

    url: str
    secret: str | None = None


def read_webhook(
    url: str | None = None, secret: str | None = None, environ: Mapping[str, str] | None = None
) -> Webhook | None:
    """The webhook for alerts: what is given, or else what the environment names."""
    given = os.environ if environ is None else environ
    chosen = url or given.get(ALERT_WEBHOOK, "").strip()
    if not chosen:
        return None
    return Webhook(chosen, secret or given.get(ALERT_SECRET, "").strip() or None)


def read_configuration(environ: Mapping[str, str] | None = None) -> Configuration:
    """Read the environment, by default that of this process; the rest has its specified default.

    Raises InvalidConfigurationError, which names every invalid variable and why. Unknown variables
    are ignored.
    """
    given = os.environ if environ is None else environ
    problems: dict[str, str] = {}
    poll_ms, batch, lease_ms, attempts = (
        _collect(problems, each.name, partial(each.read, given), each.default) for each in VARIABLES
    )
    url = _collect(problems, STORE, partial(_read_store, given), DEFAULT_STORE)
    if problems:
        raise InvalidConfigurationError(problems)
    return Configuration(
        store_url=url,
        worker=WorkerSettings(
            poll_for=timedelta(milliseconds=poll_ms),
            batch=batch,
            lease_for=timedelta(milliseconds=lease_ms),
        ),
        retry_policy=replace(RAIL_RETRIES, max_attempts=attempts),
    )


def _collect(
    problems: dict[str, str], name: str, read: Callable[[], Value], default: Value
) -> Value:
    """The value; on an error the default, with the reason noted under the variable's name."""
    try:
        return read()
    except ValueError as error:
        problems[name] = str(error)
        return default


def _read_store(environ: Mapping[str, str]) -> str:
    url = environ.get(STORE, "").strip() or DEFAULT_STORE
    try:
        check_address(url)
    except InvalidStoreUrlError as error:
        raise ValueError(f"names no store: {error.reason}") from error
    return url
