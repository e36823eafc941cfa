"""What MongoDB and its driver report, as Rota's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from rota.errors import InvalidInputError, StoreUnavailableError

NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"

DRIVER_ERRORS: tuple[type[Exception], ...] = (PyMongoError, OSError)
"""All that the driver raises; a TimeoutError is an OSError."""

_NOT_ALLOWED = frozenset({13, 18})
_NOT_PRIMARY = frozenset({10107, 11602, 13435, 13436, 189, 91})
_TOO_LARGE = frozenset({10334, 17280, 17419, 17420})
_NO_PRIMARY = "the server is not, or no longer, the one that takes writes"
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ServerSelectionTimeoutError, "no server that can be written to answers at that address"),
    (NotPrimaryError, _NO_PRIMARY),
    (NetworkTimeout, "the server did not answer in time"),
    (ExecutionTimeout, "the server did not answer in time"),
    (ConnectionFailure, "the connection to the server was lost"),
    (ConfigurationError, "the driver cannot make sense of the address"),
    (InvalidOperation, "the connection is closed"),
    (TimeoutError, "the server did not answer in time"),
    (OSError, "the connection to the server was lost"),
)


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Raise whatever the driver raises inside as an error about the store at ``label``."""
    try:
        yield
    except DocumentTooLarge as error:
        raise _too_large() from error
    except DRIVER_ERRORS as error:
        if isinstance(error, OperationFailure) and error.code in _TOO_LARGE:
            raise _too_large() from error
        raise translate(error, label) from error


def translate(error: Exception, label: str) -> StoreUnavailableError:
    """The error that says what ``error`` means for the store at ``label``."""
    reason = _reason_of(error)
    details = {"store": label, "reason": reason, "outcome": _outcome_of(error)}
    shown = f" ({str(error)[:300]})" if str(error) else ""
    return StoreUnavailableError(f"The store {label} is not available: {reason}{shown}", details)


def _too_large() -> InvalidInputError:
    reason = "is larger than the 16 MiB that MongoDB stores: make the payload smaller"
    return InvalidInputError(f"A record {reason}", {"field": "payload", "reason": reason})


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
    """Whether the call may have been carried out."""
    if isinstance(error, ServerSelectionTimeoutError):
        return NOTHING_WRITTEN
    lost = (ConnectionFailure, ExecutionTimeout, WriteConcernError, OSError)
    return UNKNOWN if isinstance(error, lost) or is_unacknowledged(error) else NOTHING_WRITTEN


def is_unacknowledged(error: Exception) -> bool:
    """Whether several writes were carried out, but a majority has not confirmed them."""
    return isinstance(error, BulkWriteError) and bool(error.details.get("writeConcernErrors"))
