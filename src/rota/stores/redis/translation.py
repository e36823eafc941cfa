"""Translates what Redis and its driver report into Rota's errors."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from rota.errors import StoreUnavailableError

DRIVER_ERRORS: tuple[type[Exception], ...] = (exceptions.RedisError, OSError)
"""Everything the driver raises; a TimeoutError is an OSError."""

LOST_CONNECTION: tuple[type[Exception], ...] = (
    OSError,
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.InvalidResponse,
)
"""After one of these it is unknown whether the server has carried out the command."""

SILENCE: tuple[type[Exception], ...] = (TimeoutError, exceptions.TimeoutError)
"""The server did not answer in time."""

NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"


class NoPrimaryError(exceptions.ConnectionError):
    """No Sentinel names a server that can be written to."""

    def __init__(self, reason: str, *, is_answered: bool = False) -> None:
        super().__init__(reason)
        self.is_answered = is_answered
        """Whether any Sentinel has answered."""


_REFUSED = (
    exceptions.AuthenticationError,
    exceptions.BusyLoadingError,
    exceptions.MaxConnectionsError,
)
"""The driver derives these from lost connections, but the server has refused."""

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (NoPrimaryError, "Sentinel names no server that can be written to"),
    (exceptions.AuthenticationError, "the server refuses to let this user in"),
    (exceptions.NoPermissionError, "this user may not do that"),
    (exceptions.BusyLoadingError, "the server is still reading what it had kept"),
    (exceptions.ReadOnlyError, "the server only lets itself be read"),
    (exceptions.MasterDownError, "the server has lost the one it follows"),
    (exceptions.ClusterDownError, "the cluster is incomplete"),
    (exceptions.TryAgainError, "the cluster is moving the store to another server"),
    (exceptions.AskError, "the cluster is moving the store to another server"),
    (exceptions.OutOfMemoryError, "the server has no memory left"),
    (exceptions.TimeoutError, "the server did not answer in time"),
    (TimeoutError, "the server did not answer in time"),
    *((each, "the connection to the server was lost") for each in LOST_CONNECTION),
)
_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "no server listens at that address"),
    (FileNotFoundError, "no server listens at that address"),
    (ssl.SSLCertVerificationError, "the certificate of the server is not trusted"),
    (ssl.SSLError, "the server and this program find no way to encrypt"),
)
_REFUSALS = (
    ("OOM", "the server has no memory left"),
    ("MISCONF", "the server cannot write to its disk"),
    ("NOREPLICAS", "too few replicas follow the server"),
    ("BUSY", "the server is busy with a script of another client"),
)


def translate(error: Exception, label: str, outcome: str | None = None) -> StoreUnavailableError:
    """The error for the store at ``label``; ``outcome`` if it is known beforehand."""
    cause = f" ({error})" if str(error) else ""
    return unavailable(label, _reason_of(error), outcome or _outcome_of(error), cause)


def unavailable(label: str, reason: str, outcome: str, cause: str = "") -> StoreUnavailableError:
    """The store at ``label`` cannot carry out a call, and ``outcome`` says what was written."""
    return StoreUnavailableError(
        f"The store {label} is not available: {reason}{cause}",
        {"store": label, "reason": reason, "outcome": outcome},
    )


@contextmanager
def in_doubt_if(is_begun: object) -> Iterator[None]:
    """If a part of the call was carried out before, an error leaves its outcome unknown."""
    try:
        yield
    except StoreUnavailableError as error:
        if not is_begun:
            raise
        details = {**error.details, "outcome": UNKNOWN}
        raise StoreUnavailableError(error.message, details) from error


def must_reconnect(error: Exception) -> bool:
    """Whether another connection may find a server that can do what this one cannot."""
    return isinstance(error, (*LOST_CONNECTION, exceptions.ReadOnlyError))


def _reason_of(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    reasons = [reason for kind, reason in _CAUSES if isinstance(cause, kind)]
    reasons += [reason for kind, reason in _REASONS if isinstance(error, kind)]
    reasons += [reason for word, reason in _REFUSALS if str(error).startswith(word)]
    return next(iter(reasons), "Redis refused")


def _outcome_of(error: Exception) -> str:
    is_lost = isinstance(error, LOST_CONNECTION) and not isinstance(error, _REFUSED)
    return UNKNOWN if is_lost else NOTHING_WRITTEN
