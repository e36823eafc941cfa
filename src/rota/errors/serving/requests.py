"""What can be wrong with a request before anybody looks at what it asks for."""

from collections.abc import Iterable

from rota.errors.groups import InvalidInputError, NotFoundError


class InvalidRequestError(InvalidInputError):
    """A request cannot be read; ``field`` says where in it, ``reason`` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class RequestTooLargeError(InvalidInputError):
    """The body of a request is longer than ``limit`` bytes; the rest of it was not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"body must not be longer than {limit} bytes", {"field": "body", "limit": limit}
        )
        self.limit = limit


class UnsupportedMediaError(InvalidInputError):
    """The body of a request is in a form that is not read here; ``field`` is the header."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class MethodNotAllowedError(InvalidInputError):
    """There is something under that path, and it does not know that method."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.method = method
        self.allowed = sorted(allowed)
        super().__init__(
            f"{method} is not possible here, only {', '.join(self.allowed)}",
            {"field": "method", "allowed": self.allowed},
        )


class UnknownPathError(NotFoundError):
    """Nothing is served under that path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"There is nothing under {path[:200]}")
        self.path = path
