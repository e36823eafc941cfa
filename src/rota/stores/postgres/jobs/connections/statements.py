"""What carries out statements: a connection of the pool, or one that the caller has begun with."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Statements(Protocol):
    """Where the statements of one call go."""

    is_foreign: bool
    """The transaction is the caller's: what fails must leave it as it was."""

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows that a statement gives, with their columns by position."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """All that is done inside is done, or none of it."""
        ...
