"""What can go wrong in the use of a worker, and of the kinds that it can do by itself."""

from rota.errors.groups import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
)


class WorkerBusyError(ConflictError):
    """The worker is running already; one run at a time."""

    def __init__(self) -> None:
        super().__init__("This worker is running already")


class WorkerWornOutError(RotaError):
    """Handlers that will not end have taken up every place of a worker: start the process anew."""

    def __init__(self, leaked_count: int) -> None:
        super().__init__(
            f"The worker is worn out: {leaked_count} handlers were cut short and go on all the "
            "same. Its jobs were handed back; start the process anew",
            {"leakedCount": leaked_count},
        )
        self.leaked_count = leaked_count


class WorkerForkedError(InvalidInputError):
    """A worker was used in another process than the one that made it."""

    def __init__(self, made_in: int, used_in: int) -> None:
        super().__init__(
            f"This worker was made in process {made_in} and cannot be used in process {used_in}: "
            "threads and connections do not survive a fork; open the store and make the worker "
            "afterwards",
            {"madeIn": made_in, "usedIn": used_in},
        )
        self.made_in = made_in
        self.used_in = used_in


class InvalidPayloadError(InvalidInputError):
    """The payload of a job of a built-in kind cannot be used; no attempt would change that."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class InvalidSignatureError(InvalidInputError):
    """A message was not signed with a known secret, or too long ago: do nothing that it says."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The signature cannot be trusted: {reason}", {"reason": reason})
        self.reason = reason


class SecretNotFoundError(NotFoundError):
    """A job names a secret that the worker was not given."""

    def __init__(self, tenant: str, name: str) -> None:
        super().__init__(
            f"There is no secret {name!r} for tenant {tenant!r}", {"tenant": tenant, "secret": name}
        )
        self.tenant = tenant
        self.secret = name


class ForbiddenAddressError(RefusedError):
    """A request would have gone to where none may go, such as a private network.

    The message does not say where that is: whoever asked need not learn what names stand for here.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"No request may go to {host}: {reason}", {"host": host, "reason": reason})
        self.host = host
        self.reason = reason


class DeliveryError(RotaError):
    """Another program could not be asked, or did not do what it was asked; it may later."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(
            reason, {"reason": reason} | ({} if status is None else {"status": status})
        )
        self.reason = reason
        self.status = status
