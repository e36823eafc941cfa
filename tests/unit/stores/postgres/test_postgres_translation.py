"""What PostgreSQL and its driver report, in Rota's words."""

from socket import gaierror

import asyncpg
import pytest
from asyncpg import exceptions

from rota.errors import StoreDamagedError, StoreUnavailableError
from rota.stores.postgres.connections import NOTHING_WRITTEN, UNKNOWN, translate, translated

LABEL = "postgresql://me@host/jobs"


@pytest.mark.parametrize(
    ("error", "reason", "outcome"),
    [
        (ConnectionRefusedError("x"), "no server listens at that address", UNKNOWN),
        (gaierror("x"), "the name of the server is not known", UNKNOWN),
        (ConnectionResetError("x"), "the connection to the server was lost", UNKNOWN),
        (TimeoutError("x"), "the server did not answer in time", UNKNOWN),
        (
            exceptions.ConnectionDoesNotExistError("x"),
            "the connection to the server was lost",
            UNKNOWN,
        ),
        (asyncpg.InterfaceError("x"), "the connection to the server was lost", UNKNOWN),
        (exceptions.AdminShutdownError("x"), "the server is stopping", UNKNOWN),
        (
            exceptions.CannotConnectNowError("x"),
            "the server is starting or stopping",
            NOTHING_WRITTEN,
        ),
        (
            exceptions.TooManyConnectionsError("x"),
            "the server has no connection left",
            NOTHING_WRITTEN,
        ),
        (
            exceptions.InvalidPasswordError("x"),
            "the server refuses to let this user in",
            NOTHING_WRITTEN,
        ),
        (exceptions.InvalidCatalogNameError("x"), "there is no such database", NOTHING_WRITTEN),
        (exceptions.InsufficientPrivilegeError("x"), "this user may not do that", NOTHING_WRITTEN),
        (
            exceptions.DeadlockDetectedError("x"),
            "others were writing to the same documents",
            NOTHING_WRITTEN,
        ),
        (exceptions.DiskFullError("x"), "the server's disk is full", NOTHING_WRITTEN),
        (exceptions.OutOfMemoryError("x"), "the server lacks the means", NOTHING_WRITTEN),
        (exceptions.UndefinedTableError("x"), "PostgreSQL refused", NOTHING_WRITTEN),
    ],
)
def test_an_error_says_which_store_why_and_what_became_of_the_call(
    error: Exception, reason: str, outcome: str
) -> None:
    meaning = translate(error, LABEL)
    assert isinstance(meaning, StoreUnavailableError)
    assert meaning.message == f"The store {LABEL} is not available: {reason} (x)"
    assert meaning.details == {"store": LABEL, "reason": reason, "outcome": outcome}


def test_an_error_without_words_leaves_no_empty_brackets() -> None:
    assert translate(TimeoutError(), LABEL).message.endswith("did not answer in time")


@pytest.mark.parametrize(
    "error", [exceptions.DataCorruptedError("x"), exceptions.IndexCorruptedError("x")]
)
def test_damage_is_reported_as_damage(error: Exception) -> None:
    meaning = translate(error, LABEL)
    assert isinstance(meaning, StoreDamagedError)
    assert meaning.message == f"The store {LABEL} is damaged (x)"


def test_the_cause_is_kept() -> None:
    with pytest.raises(StoreUnavailableError) as caught, translated(LABEL):
        raise exceptions.DiskFullError("x")
    assert isinstance(caught.value.__cause__, exceptions.DiskFullError)


def test_a_failed_connection_means_nothing_was_written() -> None:
    with pytest.raises(StoreUnavailableError) as caught, translated(LABEL, NOTHING_WRITTEN):
        raise ConnectionResetError("x")
    assert caught.value.details["outcome"] == NOTHING_WRITTEN


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated(LABEL):
        raise KeyError
