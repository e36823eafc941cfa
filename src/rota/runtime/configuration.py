"""The environment variables of specification 3, and those of every process."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidConfigurationError, InvalidInputError, InvalidStoreUrlError
from rota.jobs import RAIL_RETRIES, RetryPolicy
from rota.jobs.retention import DEFAULT_KEEP, Keep, parse_keep
from rota.rail.environment import ATTEMPTS, Variable, with_usual_attempts
from rota.runtime.wiring import DEFAULT_STORE, check_address
from rota.worker import WorkerSettings

Value = TypeVar("Value")

LONGEST_MS = 24 * 60 * 60 * 1000
LARGEST_BATCH = 10_000
HIGHEST_PORT = 65_535
LOOPBACK = "127.0.0.1"


POLL_MS = Variable("WORKER_POLL_MS", 1, LONGEST_MS)
BATCH = Variable("WORKER_BATCH", 1, LARGEST_BATCH)
LEASE_MS = Variable("WORKER_LEASE_MS", 1000, LONGEST_MS)
METRICS_PORT = Variable("ROTA_METRICS_PORT", 0, HIGHEST_PORT)
METRICS_HOST = "ROTA_METRICS_HOST"
LONGEST_WATCH_MS = 30_000
"""Twice this, and an alert would come later than a minute after its condition."""
WATCH_MS = Variable("ROTA_WATCH_MS", 100, LONGEST_WATCH_MS)
WATCH_EVERY = timedelta(milliseconds=LONGEST_WATCH_MS)
STORE = "ROTA_STORE"
SEARCH_INDEX = "ROTA_SEARCH_INDEX"
KEEP = "ROTA_KEEP"

VARIABLES = (POLL_MS, BATCH, LEASE_MS, ATTEMPTS, METRICS_PORT, WATCH_MS)


class MetricsAddress(NamedTuple):
    """Where a process without pages shows its metrics."""

    port: int
    host: str = LOOPBACK


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The store, the settings of the worker, and the retry policy of new jobs.

    ``retry_policy`` is for ``RailSettings``. Existing jobs keep theirs. ``metrics`` is where a
    process without pages shows its metrics; None for nowhere. ``watch_every`` is how often a
    process looks for what a person should know of. ``keep`` is what processes keep, and how long,
    where no stored rule says otherwise. With ``has_search_index`` processes with pages keep an
    index for searches in the store.
    """

    store_url: str = DEFAULT_STORE
    worker: WorkerSettings = WorkerSettings()
    retry_policy: RetryPolicy = RAIL_RETRIES
    metrics: MetricsAddress | None = None
    watch_every: timedelta = WATCH_EVERY
    has_search_index: bool = True
    keep: Keep = DEFAULT_KEEP

    @property
    def keeping_worker(self) -> WorkerSettings:
        """The settings of the worker of a process that applies retention."""
        return replace(self.worker, retention=self.keep)


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


def read_configuration(
    environ: Mapping[str, str] | None = None, *, settings: WorkerSettings | None = None
) -> Configuration:
    """Read the environment, by default that of this process.

    What is not set stays as in ``settings``, or has its specified default. Raises
    InvalidConfigurationError, which names every invalid variable and why. Unknown variables are
    ignored.
    """
    given = os.environ if environ is None else environ
    problems: dict[str, str] = {}
    numbers = {each: _collect(problems, each.name, partial(each.read, given)) for each in VARIABLES}
    url = _collect(problems, STORE, partial(_read_store, given))
    has_index = _collect(problems, SEARCH_INDEX, partial(_read_switch, given, SEARCH_INDEX))
    keep = _collect(problems, KEEP, partial(_read_keep, given, settings))
    if problems or url is None or keep is None:
        raise InvalidConfigurationError(problems)
    changed = {
        field: read(value)
        for each, (field, read) in _SETTINGS.items()
        if (value := numbers[each]) is not None
    }
    port, watch_ms = numbers[METRICS_PORT], numbers[WATCH_MS]
    host = given.get(METRICS_HOST, "").strip() or LOOPBACK
    return Configuration(
        store_url=url,
        worker=replace(settings or WorkerSettings(), **changed),
        retry_policy=with_usual_attempts(RAIL_RETRIES, given),
        metrics=None if port is None else MetricsAddress(port, host),
        watch_every=WATCH_EVERY if watch_ms is None else timedelta(milliseconds=watch_ms),
        has_search_index=has_index is not False,
        keep=keep,
    )


_SETTINGS: Mapping[Variable, tuple[str, Callable[[int], Any]]] = {
    POLL_MS: ("poll_for", lambda value: timedelta(milliseconds=value)),
    BATCH: ("batch", int),
    LEASE_MS: ("lease_for", lambda value: timedelta(milliseconds=value)),
}


def _collect(problems: dict[str, str], name: str, read: Callable[[], Value]) -> Value | None:
    """The value; on an error None, with the reason noted under the variable's name."""
    try:
        return read()
    except ValueError as error:
        problems[name] = str(error)
        return None


def _read_switch(environ: Mapping[str, str], name: str) -> bool | None:
    """True for on, False for off, None if it is not set."""
    text = environ.get(name, "").strip().lower()
    if text not in {"", "on", "off"}:
        raise ValueError(f'must be on or off, got "{text[:40]}"')
    return None if not text else text == "on"


def _read_keep(environ: Mapping[str, str], settings: WorkerSettings | None) -> Keep:
    """What the environment sets, then the settings, then the defaults."""
    own = None if settings is None else settings.keep
    wider = DEFAULT_KEEP if own is None else own.over(DEFAULT_KEEP)
    try:
        return parse_keep(environ.get(KEEP, ""), KEEP).over(wider)
    except InvalidInputError as error:
        raise ValueError(str(error.details.get("reason", error.message))) from error


def _read_store(environ: Mapping[str, str]) -> str:
    url = environ.get(STORE, "").strip() or DEFAULT_STORE
    try:
        check_address(url)
    except InvalidStoreUrlError as error:
        raise ValueError(f"names no store: {error.reason}") from error
    return url
