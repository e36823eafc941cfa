"""Runs the statements of a dialect."""

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from rota.jobs import Job, JobId
from rota.stores.rows import Row
from rota.stores.statements import Statements


class Session(Protocol):
    """A connection while one call uses it."""

    name: str
    """Of the dialect."""
    queries: Statements

    @abstractmethod
    async def fetch(self, statement: str, **values: Any) -> Iterable[Row]:
        """The rows of a statement, perhaps read only as they are consumed.

        A statement with numbered parameters takes the values in their order. A list of names is one
        value; None instead of a list means any name.
        """
        ...

    @abstractmethod
    async def change(self, statement: str, ids: Iterable[JobId], **values: Any) -> object:
        """Run a statement about each of these jobs."""
        ...

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Everything inside happens, or nothing."""
        ...

    @abstractmethod
    async def write(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement for each of these rows."""
        ...

    @abstractmethod
    def decode(self, row: Row, /) -> Job:
        """The job in ``job_columns``; DamagedJobError if they are not a job's."""
        ...


SessionT = TypeVar("SessionT", bound=Session)
