"""What PostgreSQL and its driver report, in the words of Rota's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from asyncpg import exceptions

from rota.errors import StoreDamagedError, StoreError, StoreUnavailableError

DRIVER_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""All that the driver raises; a TimeoutError is an OSError."""

LOST_CONNECTION: tuple[type[Exception], ...] = (
    OSError,
    exceptions.PostgresConnectionError,
    exceptions.AdminShutdownError,
    exceptions.CrashShutdownError,
    asyncpg.InterfaceError,
)
"""After one of these nobody knows whether the last statement was carried out."""

_LOST = "the connection to the server was lost"
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.CannotConnectNowError, "the server is starting or stopping"),
    (exceptions.AdminShutdownError, "the server is stopping"),
    (exceptions.TooManyConnectionsError, "the server has no connection left"),
    (exceptions.InvalidAuthorizationSpecificationError, "the server refuses to let this user in"),
    (exceptions.InvalidCatalogNameError, "there is no such database"),
    (exceptions.InsufficientPrivilegeError, "this user may not do that"),
    (exceptions.ReadOnlySQLTransactionError, "the server only lets itself be read"),
    (exceptions.LockNotAvailableError, "another program has kept it locked for too long"),
    (exceptions.QueryCanceledError, "the server was told to stop, or has taken too long"),
    (exceptions.TransactionRollbackError, "others were writing to the same documents"),
    (exceptions.DiskFullError, "the server's disk is full"),
    (exceptions.InsufficientResourcesError, "the server lacks the means"),
    (TimeoutError, "the server did not answer in time"),
    (ConnectionRefusedError, "nobody listens at that address"),
    (FileNotFoundError, "nobody listens at that address"),
)
_DAMAGE = (exceptions.DataCorruptedError, exceptions.IndexCorruptedError)


NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"


@contextmanager
def translated(label: str, outcome: str | None = None) -> Iterator[None]:
    """Turn whatever the driver raises inside into a StoreError about the store at ``label``.

    ``outcome``, where it is known beforehand, says what has become of the call.
    """
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, label, outcome) from error


def translate(error: Exception, label: str, outcome: str | None = None) -> StoreError:
    """The StoreError that says what ``error`` means for the store at ``label``."""
    reason = _reason_of(error)
    details = {"store": label, "reason": reason, "outcome": outcome or _outcome_of(error)}
    if isinstance(error, _DAMAGE):
        return StoreDamagedError(f"The store {label} is damaged ({error})", details)
    told = f" ({error})" if str(error) else ""
    return StoreUnavailableError(f"The store {label} is not available: {reason}{told}", details)


def _reason_of(error: Exception) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return _LOST if isinstance(error, LOST_CONNECTION) else "PostgreSQL refused"


def _outcome_of(error: Exception) -> str:
    """Whether what was asked for may have been done all the same."""
    return UNKNOWN if isinstance(error, LOST_CONNECTION) else NOTHING_WRITTEN
