"""What MongoDB and its driver report, in the words of Rota's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import (
    AutoReconnect,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from rota.errors import StoreError, StoreUnavailableError

NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"

DRIVER_ERRORS: tuple[type[Exception], ...] = (PyMongoError, OSError)
"""All that the driver raises; a TimeoutError is an OSError."""

_NOT_ALLOWED = frozenset({13, 18})
_NOT_PRIMARY = frozenset({10107, 11602, 13435, 13436, 189, 91})
_NO_PRIMARY = "the server is not, or no longer, the one that takes writes"
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ServerSelectionTimeoutError, "no server that can be written to answers at that address"),
    (NotPrimaryError, _NO_PRIMARY),
    (NetworkTimeout, "the server did not answer in time"),
    (ExecutionTimeout, "the server did not answer in time"),
    (AutoReconnect, "the connection to the server was lost"),
    (ConnectionFailure, "the connection to the server was lost"),
    (ConfigurationError, "the driver cannot make sense of the address"),
    (InvalidOperation, "the driver was let go"),
    (TimeoutError, "the server did not answer in time"),
    (OSError, "the connection to the server was lost"),
)


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Turn whatever the driver raises inside into a StoreError about the store at ``label``."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, label) from error


def translate(error: Exception, label: str) -> StoreError:
    """The StoreError that says what ``error`` means for the store at ``label``."""
    reason = _reason_of(error)
    details = {"store": label, "reason": reason, "outcome": _outcome_of(error)}
    told = f" ({str(error)[:300]})" if str(error) else ""
    return StoreUnavailableError(f"The store {label} is not available: {reason}{told}", details)


def _reason_of(error: Exception) -> str:
    if isinstance(error, OperationFailure) and error.code in _NOT_ALLOWED:
        return "the server refuses to let this user do that"
    if isinstance(error, OperationFailure) and error.code in _NOT_PRIMARY:
        return _NO_PRIMARY
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return "MongoDB refused"


def _outcome_of(error: Exception) -> str:
    """Whether what was asked for may have been done all the same."""
    if isinstance(error, ServerSelectionTimeoutError):
        return NOTHING_WRITTEN
    lost = (ConnectionFailure, ExecutionTimeout, WriteConcernError, OSError)
    return UNKNOWN if isinstance(error, lost) else NOTHING_WRITTEN
