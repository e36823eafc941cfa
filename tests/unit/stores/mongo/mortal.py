"""A process that dies between two of its writes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.stores.mongo.gateway import AsyncGateway, Operation, Query, Raw, Written


class DiedError(Exception):
    """The process is no more."""


class ImpatientGateway(AsyncGateway):
    """Lets no time pass where it would wait for others: here there are none but the dead.

    It names no index either: to make them all takes longer than what is tested.
    """

    async def find(self, query: Query) -> list[Raw]:
        return await super().find(query._replace(by=None))

    async def aggregate(
        self,
        collection: str,
        stages: Sequence[Mapping[str, Any]],
        index: str | None = None,  # noqa: ARG002 - it goes by none
    ) -> list[Raw]:
        return await super().aggregate(collection, stages)

    async def pause(self, seconds: float) -> None:
        """Nothing."""


class MortalGateway:
    """Lets so many writes through; the process does not live to see another."""

    def __init__(self, inner: AsyncGateway, lives: int) -> None:
        self._inner = inner
        self.label = inner.label
        self._lives = lives
        self.write_count = 0

    async def find(self, query: Query) -> list[Raw]:
        self._check()
        return await self._inner.find(query)

    async def aggregate(
        self, collection: str, stages: Sequence[Mapping[str, Any]], index: str | None = None
    ) -> list[Raw]:
        self._check()
        return await self._inner.aggregate(collection, stages, index)

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        if self.write_count == self._lives:
            self._lives = -1
        self._check()
        self.write_count += 1
        return await self._inner.write(collection, operations)

    async def pause(self, seconds: float) -> None:
        self._check()
        await self._inner.pause(seconds)

    def _check(self) -> None:
        if self._lives < 0:
            raise DiedError
