"""Error answers of the service, turned back into the errors they were made of."""

from collections.abc import Mapping

from rota.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
    ServerUnavailableError,
    StoreUnavailableError,
)

GROUPS: Mapping[int, type[RotaError]] = {
    400: InvalidInputError,
    401: RefusedError,
    403: RefusedError,
    404: NotFoundError,
    405: InvalidInputError,
    409: ConflictError,
    413: InvalidInputError,
    415: InvalidInputError,
    422: InvalidInputError,
    429: RefusedError,
    503: StoreUnavailableError,
}
"""To which group of errors an HTTP status belongs: who must act."""


def read_problem(status: int, document: object, url: str) -> RotaError:
    """The error of an answer that is not what was asked for."""
    group = GROUPS.get(status)
    if group is None or not isinstance(document, Mapping) or "message" not in document:
        return ServerUnavailableError(url, f"answered with the status {status}, and not as a Rota")
    details = document.get("details")
    return group(str(document["message"]), details if isinstance(details, Mapping) else None)
