"""Configuration by environment."""

from datetime import timedelta

import pytest

from rota.errors import InvalidConfigurationError
from rota.jobs import RAIL_RETRIES
from rota.runtime.configuration import Configuration, MetricsAddress, read_configuration
from rota.worker import WorkerSettings


def test_without_variables_everything_is_as_specified() -> None:
    found = read_configuration({})
    assert found == Configuration()
    assert found.worker.poll_for == timedelta(milliseconds=1000)
    assert found.worker.batch == 10
    assert found.worker.lease_for == timedelta(milliseconds=60_000)
    assert found.retry_policy == RAIL_RETRIES
    assert found.retry_policy.max_attempts == 5
    assert found.store_url == "sqlite:///rota.db"


def test_each_variable_sets_what_it_is_named_after_and_nothing_else() -> None:
    def read(name: str, value: str) -> Configuration:
        return read_configuration({name: value, "WORKER_NAME": "none of ours"})

    usual = WorkerSettings()
    polled = read("WORKER_POLL_MS", "250").worker
    assert (polled.poll_for, polled.batch) == (timedelta(milliseconds=250), usual.batch)
    assert read("WORKER_BATCH", "50").worker.batch == 50
    leased = read("WORKER_LEASE_MS", " 30000 ").worker
    assert (leased.lease_for, leased.poll_for) == (timedelta(seconds=30), usual.poll_for)
    tried = read("WORKER_MAX_ATTEMPTS", "8").retry_policy
    assert (tried.max_attempts, tried.ladder_seconds) == (8, RAIL_RETRIES.ladder_seconds)
    assert read("ROTA_STORE", "memory://").store_url == "memory://"
    assert read("ROTA_SEARCH_INDEX", " Off ") == Configuration(has_search_index=False)
    with pytest.raises(InvalidConfigurationError, match="must be on or off"):
        read("ROTA_SEARCH_INDEX", "maybe")
    assert read("ROTA_METRICS_PORT", "9100").metrics == MetricsAddress(9100, "127.0.0.1")
    assert read("ROTA_METRICS_HOST", "0.0.0.0").metrics is None  # noqa: S104 - not opened


def test_settings_apply_where_the_environment_is_silent() -> None:
    settings = WorkerSettings(batch=3, concurrency=2, poll_for=timedelta(seconds=9))
    found = read_configuration({"WORKER_POLL_MS": "500"}, settings=settings).worker
    assert found == WorkerSettings(batch=3, concurrency=2, poll_for=timedelta(milliseconds=500))


KNOWN_SCHEMES = "known schemes are memory, mongodb, mysql, postgresql, redis, shards and sqlite"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("WORKER_POLL_MS", "fast", "must be a whole number, got 'fast'"),
        ("WORKER_POLL_MS", "0", "must be from 1 to 86400000, got 0"),
        ("WORKER_POLL_MS", "1e3", "must be a whole number, got '1e3'"),
        ("WORKER_BATCH", "-1", "must be a whole number, got '-1'"),
        ("WORKER_BATCH", "10.5", "must be a whole number, got '10.5'"),
        ("WORKER_BATCH", "\u0661\u0660", "must be a whole number, got '\u0661\u0660'"),
        ("WORKER_BATCH", "10001", "must be from 1 to 10000, got 10001"),
        ("WORKER_LEASE_MS", "60", "must be from 1000 to 86400000, got 60"),
        ("WORKER_LEASE_MS", "9" * 5000, "must be a whole number, got '" + "9" * 39),
        ("WORKER_MAX_ATTEMPTS", "11", "must be from 1 to 10, got 11"),
        (
            "ROTA_STORE",
            "oracle://x",
            f"names no store: {KNOWN_SCHEMES}",
        ),
        (
            "ROTA_STORE",
            "mongodb://host/a.b",
            "names no store: the name of a database is 1 to 63 letters, digits, _ and -",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_variable(
    name: str, value: str, reason: str
) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        read_configuration({name: value})
    assert caught.value.problems == {name: reason}
    assert caught.value.message == f"Invalid configuration: {name} {reason}"
    assert caught.value.details["field"] == name


def test_all_that_is_wrong_is_said_at_once() -> None:
    environ = {
        "WORKER_BATCH": "x",
        "WORKER_POLL_MS": "5",
        "ROTA_STORE": "x",
        "WORKER_LEASE_MS": "1",
    }
    with pytest.raises(InvalidConfigurationError) as caught:
        read_configuration(environ)
    assert set(caught.value.problems) == {"WORKER_BATCH", "ROTA_STORE", "WORKER_LEASE_MS"}


def test_no_password_is_repeated_in_an_error() -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        read_configuration({"ROTA_STORE": "oracle://rota:hunter2@db/rota"})
    assert "hunter2" not in f"{caught.value.message} {caught.value.details}"


def test_a_variable_set_to_nothing_is_not_set() -> None:
    assert read_configuration({"WORKER_BATCH": "", "ROTA_STORE": " "}) == Configuration()


def test_by_default_it_is_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_BATCH", "7")
    monkeypatch.setenv("ROTA_STORE", "memory://")
    assert read_configuration().worker.batch == 7
