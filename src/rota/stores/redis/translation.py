"""What Redis and its driver report, in the words of Rota's errors."""

import ssl

from redis import exceptions

from rota.errors import StoreUnavailableError

DRIVER_ERRORS: tuple[type[Exception], ...] = (exceptions.RedisError, OSError)
"""All that the driver raises; a TimeoutError is an OSError."""

LOST_CONNECTION: tuple[type[Exception], ...] = (
    OSError,
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.InvalidResponse,
)
"""After one of these nobody knows whether what was sent was carried out."""

SILENCE: tuple[type[Exception], ...] = (TimeoutError, exceptions.TimeoutError)
"""The server was waited for in vain."""


class NoPrimaryError(exceptions.ConnectionError):
    """No Sentinel names a server that can be written to."""

    def __init__(self, told: str, *, is_answered: bool = False) -> None:
        super().__init__(told)
        self.is_answered = is_answered
        """Whether any of them was there to say so."""


_REFUSED = (
    exceptions.AuthenticationError,
    exceptions.BusyLoadingError,
    exceptions.MaxConnectionsError,
)
"""The driver takes these for losses; the server said no."""

NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"

_LOST = "the connection to the server was lost"
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
)
_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "nobody listens at that address"),
    (FileNotFoundError, "nobody listens at that address"),
    (ssl.SSLCertVerificationError, "the certificate of the server is not trusted"),
    (ssl.SSLError, "the server and this program find no way to encrypt"),
)
_REFUSALS = (
    ("OOM", "the server has no memory left"),
    ("MISCONF", "the server cannot write to its disk"),
    ("NOREPLICAS", "too few replicas follow the server"),
    ("BUSY", "the server is busy with somebody else's script"),
)


def translate(error: Exception, label: str, outcome: str | None = None) -> StoreUnavailableError:
    """The StoreError that says what ``error`` means for the store at ``label``.

    ``outcome``, where it is known beforehand, says what has become of the call.
    """
    reason = _reason_of(error)
    details = {"store": label, "reason": reason, "outcome": outcome or _outcome_of(error)}
    told = f" ({error})" if str(error) else ""
    return StoreUnavailableError(f"The store {label} is not available: {reason}{told}", details)


def put_in_doubt(error: StoreUnavailableError) -> StoreUnavailableError:
    """The same, of a call whose first parts were carried out."""
    return StoreUnavailableError(error.message, {**error.details, "outcome": UNKNOWN})


def must_reconnect(error: Exception) -> bool:
    """Whether another connection may find a server that can do what this one cannot."""
    return isinstance(error, (*LOST_CONNECTION, exceptions.ReadOnlyError))


def _reason_of(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    for kind, reason in _CAUSES:
        if isinstance(cause, kind):
            return reason
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    if isinstance(error, LOST_CONNECTION):
        return _LOST
    refusals = (reason for word, reason in _REFUSALS if str(error).startswith(word))
    return next(refusals, "Redis refused")


def _outcome_of(error: Exception) -> str:
    """Whether what was asked for may have been done all the same."""
    is_lost = isinstance(error, LOST_CONNECTION) and not isinstance(error, _REFUSED)
    return UNKNOWN if is_lost else NOTHING_WRITTEN
