"""The shards of one store, and how to ask several of them at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import TypeVar

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.stores.opened import OpenStore

Answer = TypeVar("Answer")
Question = Callable[[str, OpenStore], Awaitable[Answer]]

logger = logging.getLogger("rota.stores.shards")


class Members(Mapping[str, OpenStore]):
    """Open stores by the name of their shard; the first is the home shard."""

    def __init__(self, stores: Mapping[str, OpenStore]) -> None:
        self._stores = dict(stores)
        self._unavailable: set[str] = set()

    def __getitem__(self, name: str) -> OpenStore:
        return self._stores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    @property
    def home(self) -> OpenStore:
        """The shard of all documents."""
        return next(iter(self._stores.values()))

    def check_name(self, name: str, field: str) -> None:
        """Refuse a name that no shard has."""
        if name not in self._stores:
            raise InvalidInputError(
                f'"{name}" is not a shard of this store; its shards are {", ".join(self)}',
                {"field": field, "value": name},
            )

    async def ask_all(self, question: Question[Answer]) -> dict[str, Answer]:
        """The answers of all shards; raises what one of them raises."""
        return await self.ask_each(self, question)

    async def ask_each(
        self, names: Collection[str], question: Question[Answer]
    ) -> dict[str, Answer]:
        """The answers of the named shards, once all have answered; raises what one has raised."""
        answers = await self._ask(names, question)
        return {name: _unwrap(answer) for name, answer in answers.items()}

    async def ask_available(
        self, names: Collection[str], question: Question[Answer]
    ) -> dict[str, Answer]:
        """The answers of the named shards that are available, so that one cannot stop the others.

        Raises StoreUnavailableError only if none of them is.
        """
        answers = await self._ask(names, question)
        missing = {
            name: each for name, each in answers.items() if isinstance(each, StoreUnavailableError)
        }
        self._note(answers.keys() - missing.keys(), missing)
        if missing and len(missing) == len(answers):
            raise next(iter(missing.values()))
        return {name: _unwrap(each) for name, each in answers.items() if name not in missing}

    async def _ask(
        self, names: Collection[str], question: Question[Answer]
    ) -> dict[str, Answer | BaseException]:
        ordered = [name for name in self._stores if name in names]
        if len(ordered) == 1:
            return {ordered[0]: await question(ordered[0], self[ordered[0]])}
        calls = (question(name, self[name]) for name in ordered)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return dict(zip(ordered, answers, strict=True))

    def _note(
        self, available: Collection[str], missing: Mapping[str, StoreUnavailableError]
    ) -> None:
        """Log when a shard goes away and when it is back."""
        for name, error in missing.items():
            if name not in self._unavailable:
                logger.warning("Shard %s is not available; the others go on: %s", name, error)
        for name in self._unavailable & set(available):
            logger.info("Shard %s is available again", name)
        self._unavailable = (self._unavailable | missing.keys()) - set(available)


def _unwrap(answer: Answer | BaseException) -> Answer:
    if isinstance(answer, BaseException):
        raise answer
    return answer
