"""Runs the statements that all dialects of SQL share, on a connection to the file."""

from collections.abc import Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

import apsw

from rota.jobs import JobId
from rota.stores.rows import Row, decode_job, encode_ids
from rota.stores.sqlite.queries import QUERIES

Answer = TypeVar("Answer")


class Session:
    """A connection in the thread that owns it; none of its coroutines ever waits."""

    name = "sqlite"
    queries = QUERIES
    decode = staticmethod(decode_job)

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    async def fetch(self, statement: str, **values: Any) -> Iterable[Row]:
        """The rows, read as they are consumed. A list becomes a JSON array."""
        return self.connection.execute(
            statement,
            [encode_ids(each) if isinstance(each, list) else each for each in values.values()],
        )

    async def change(self, statement: str, ids: Iterable[JobId], **values: Any) -> None:
        """Run a statement for each id."""
        await self.write(statement, [(each, *values.values()) for each in ids])

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Nothing to do: the caller of the coroutine has begun one."""
        return nullcontext()

    async def write(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row."""
        self.connection.executemany(statement, rows)


def finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise RuntimeError("work on a file has nothing to wait for")
