"""What can go wrong in the use of a worker."""

from rota.errors.groups import ConflictError, InvalidInputError


class WorkerBusyError(ConflictError):
    """The worker is running already; one run at a time."""

    def __init__(self) -> None:
        super().__init__("This worker is running already")


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
