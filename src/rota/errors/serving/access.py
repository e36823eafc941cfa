"""Why somebody is not let in, or not served."""

from datetime import timedelta

from rota.errors.groups import InvalidInputError, NotFoundError, RefusedError


class TokenNotFoundError(NotFoundError):
    """No token has that id, as far as who asks may know.

    The id is not repeated: whoever mistakes the token itself for its id must not find it in a log.
    """

    def __init__(self) -> None:
        super().__init__("There is no token with that id")


class UnauthorizedError(RefusedError):
    """Nobody is known by what was sent, or nothing was sent.

    The same for a token that is unknown, revoked, expired or mistyped: why it is not good is
    nobody's business but its owner's.
    """

    def __init__(self) -> None:
        super().__init__("A valid token is needed, as in Authorization: Bearer rota_...")


class ForbiddenError(RefusedError):
    """The caller is known, and may not do this; ``scope`` is what would be needed."""

    def __init__(self, scope: str) -> None:
        super().__init__(f'This needs a token with the scope "{scope}"', {"scope": scope})
        self.scope = scope


class CrossSiteRequestError(RefusedError):
    """A browser sent a change that no page of this service asked for."""

    def __init__(self) -> None:
        super().__init__("A change must come from a page of this service")


class UnknownHostError(RefusedError):
    """A request names a host that this service does not answer for."""

    def __init__(self, host: str) -> None:
        super().__init__(f'This service does not answer for the host "{host}"', {"host": host})
        self.host = host


class QuotaExceededError(RefusedError):
    """Too much was asked for in too short a time, or too much is waiting already.

    ``retry_after`` is in how many seconds it makes sense to ask again.
    """

    def __init__(self, message: str, quota: str, retry_after: int) -> None:
        super().__init__(message, {"quota": quota, "retry_after": retry_after})
        self.quota = quota
        self.retry_after = retry_after


class RequestTooSlowError(RefusedError):
    """The body of a request had not arrived in time, and is not waited for any longer."""

    def __init__(self, within: timedelta) -> None:
        seconds = within.total_seconds()
        super().__init__(
            f"The body must arrive within {seconds:g} s", {"field": "body", "within": seconds}
        )
        self.within = within


class UnguardedAddressError(InvalidInputError):
    """A service that lets everybody in would be reachable from other hosts."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f'Other hosts reach "{host}", and nobody would be asked for a token: '
            "listen on 127.0.0.1, or leave authentication on",
            {"field": "host", "value": host},
        )
        self.host = host
