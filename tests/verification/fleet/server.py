"""The store as a server: it carries out one call after the other and writes a log of them.

The log is the order in which calls took effect. Replayed on an empty memory store it must give the
same answers, which is the check for linearizability: every call took effect once, between its
beginning and its answer. A failover keeps a part of the log that holds at least every call that was
answered, and drops the rest.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rota.errors import RotaError, StoreUnavailableError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document

WRITES = frozenset(
    {"insert", "lease", "extend", "apply", "amend", "delete", "prune", "write_each", "write_all"}
)
READS = frozenset(
    {
        "find_expired",
        "next_due_at",
        "results",
        "get",
        "find",
        "count",
        "attempts",
        "find_dependents",
        "survey",
        "read",
    }
)


@dataclass(slots=True, eq=False)
class Operation:
    """A call that took effect, with its answer or the error that refused it."""

    verb: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any = None
    refusal: RotaError | None = None
    is_answered: bool = False
    is_lost: bool = False

    @property
    def outcome(self) -> Any:
        refusal = self.refusal
        return self.answer if refusal is None else (type(refusal), str(refusal))


Watch = Callable[[Operation, MemoryStore], None]
"""Looks at the store after each write."""


class StoreServer:
    """One store in memory behind a log."""

    def __init__(self, random: Random, watch: Watch | None = None) -> None:
        self.inner: Any = MemoryStore()
        self.log: list[Operation] = []
        self.epoch = 0
        self.is_up = True
        self.lost_count = 0
        self.on_down: Callable[[], object] | None = None
        self._random = random
        self._watch = watch
        self._is_doomed = False

    async def carry_out(self, verb: str, *given: Any, **named: Any) -> Operation:
        """The call, done. Nothing else happens meanwhile."""
        if verb == "write_all":
            given = (list(given[0]),)
        operation = Operation(verb, given, named)
        await perform(operation, self.inner)
        self.log.append(operation)
        if self._watch is not None and verb in WRITES:
            self._watch(operation, self.inner)
        if self._is_doomed and verb in WRITES:
            await self.fail_over()
        return operation

    async def doom(self) -> None:
        """It fails over right after the next write, before its answer is on its way."""
        self._is_doomed = True

    def spare(self) -> None:
        """It does not fail any more."""
        self._is_doomed = False

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """The pages of a scan, until the server fails over."""
        epoch = self.epoch
        async for page in self.inner.scan(collection):
            yield page
            if epoch != self.epoch:
                raise StoreUnavailableError("the connection is lost", {"outcome": "unknown"})

    async def fail_over(self) -> None:
        """Another server takes over. It has every answered call, and perhaps some that were not."""
        self._is_doomed = self.is_up = False
        if self.on_down is not None:
            self.on_down()
        answered = [place for place, one in enumerate(self.log, 1) if one.is_answered]
        kept = self._random.randint(answered[-1] if answered else 0, len(self.log))
        for operation in self.log[kept:]:
            operation.is_lost = True
        self.lost_count += len(self.log) - kept
        del self.log[kept:]
        await self.inner.close()
        self.inner, self.epoch = await replay(self.log), self.epoch + 1

    async def close(self) -> None:
        await self.inner.close()


async def perform(operation: Operation, store: Any) -> None:
    """Carry out a call on a store, and keep what it answers."""
    try:
        call = getattr(store, operation.verb)
        operation.answer = await call(*operation.arguments, **operation.named)
    except StoreUnavailableError:
        raise
    except RotaError as refusal:
        operation.refusal = refusal


async def replay(log: Sequence[Operation]) -> MemoryStore:
    """A store in memory that has seen the writes of this log."""
    store = MemoryStore()
    for operation in log:
        if operation.verb in WRITES:
            await perform(Operation(operation.verb, operation.arguments, operation.named), store)
    return store


async def find_disagreements(log: Sequence[Operation]) -> list[str]:
    """What a memory store answers otherwise, if the calls of a log come one after the other."""
    model, found = MemoryStore(), []
    for place, operation in enumerate(log):
        again = Operation(operation.verb, operation.arguments, operation.named)
        await perform(again, model)
        if again.outcome != operation.outcome:
            found.append(
                f"call {place} ({operation.verb}) answered {operation.outcome!r:.200}, "
                f"in this order it answers {again.outcome!r:.200}"
            )
    return found


def of_verbs(log: Sequence[Operation], *verbs: str) -> Iterator[Operation]:
    return (operation for operation in log if operation.verb in verbs)
