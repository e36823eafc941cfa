"""The store as SQLite on a disk whose power may fail at any write or sync.

Each call runs in the thread of another event loop while virtual time stands still, so that the
order of calls is certain. After a power cut the file must hold every call that was carried out
before, and the one that was under way wholly or not at all: this is compared with the memory store.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from tests.verification.fleet.disk import SimulatedDisk
from tests.verification.fleet.server import Operation, StoreServer, perform, replay

from rota.errors import RotaError, StoreUnavailableError
from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, Portion

PATIENCE_SECONDS = 60
MOST_WRITES_AHEAD = 12


class Elsewhere:
    """A thread with an event loop, for calls that the caller waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def ask(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE_SECONDS)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SteppedStore:
    """A store elsewhere: to its caller a call takes no turn of the loop."""

    def __init__(self, there: Elsewhere, store: Any) -> None:
        self.store = store
        self._there = there
        self._wakeups = MemoryStore()  # nothing is ever written there: a link has to poll

    def __getattr__(self, verb: str) -> Any:
        async def call(*given: Any, **named: Any) -> Any:
            return self._there.ask(getattr(self.store, verb)(*given, **named))

        return call

    def listen(self, *chosen: Any) -> Any:
        return self._wakeups.listen(*chosen)

    def listen_for_end(self, tenant: str, job_ids: Any) -> Any:
        return self._wakeups.listen_for_end(tenant, job_ids)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        for page in self._there.ask(_list_pages(self.store, collection)):
            yield page

    async def close(self) -> None:
        self._there.ask(self.store.close())
        await self._wakeups.close()


class SqliteServer(StoreServer):
    """SQLite behind the log; a failover is a power cut and a restart."""

    def __init__(self, random: Random, folder: Path, findings: list[str]) -> None:
        super().__init__(random)
        self._folder = folder
        self._findings = findings
        self._disk = SimulatedDisk(random)
        self._there = Elsewhere()
        self._file_count = 0
        self._path = folder / "0.db"
        self._has_image = False
        self._abandoned: list[SteppedStore] = []

    async def open(self) -> None:
        self.inner = self._open(self._path)

    def _open(self, path: Path) -> SteppedStore:
        return SteppedStore(self._there, self._there.ask(open_store(f"sqlite:///{path}")))

    async def carry_out(self, verb: str, *given: Any, **named: Any) -> Operation:
        if verb == "write_all":
            given = (list(given[0]),)
        operation = Operation(verb, given, named)
        await perform(operation, self.inner)
        if self._has_image:
            await self._restart(operation)
            raise StoreUnavailableError("the power failed", {"outcome": "unknown"})
        self.log.append(operation)
        return operation

    async def doom(self) -> None:
        """The power fails soon, in the middle of a write if there is one."""
        count = self._random.randint(1, MOST_WRITES_AHEAD)
        self._disk.fail_in(count, self._cut_power)

    def spare(self) -> None:
        self._disk.spare()

    def _cut_power(self) -> None:
        self._file_count += 1
        target = self._folder / f"{self._file_count}.db"
        self._disk.save_image(self._path, target)
        self._path, self._has_image = target, True

    async def _restart(self, under_way: Operation) -> None:
        """Open what is left, and find out which calls it holds."""
        self._has_image = False
        self._abandoned.append(self.inner)
        self.epoch += 1
        self.inner = self._open(self._path)
        kept = await read_all(self.inner)
        for calls in (self.log, [*self.log, under_way]):
            if kept == await read_all(await replay(calls)):
                self.log = list(calls)
                return
        self._findings.append(
            f"after a power cut in {under_way.verb} the file holds neither all "
            f"{len(self.log)} calls before it nor it as well"
        )

    async def close(self) -> None:
        try:
            for store in (*self._abandoned, self.inner):
                try:
                    await store.close()
                except RotaError as error:
                    self._findings.append(f"it could not be closed: {error}")
        finally:
            self._there.end()
            self._disk.close()


async def read_all(store: Any) -> list[Any]:
    """Everything that a store holds, in order."""
    records: list[Any] = []
    cursor = None
    while True:
        portion: Portion = await store.dump(cursor)
        records += portion.records
        cursor = portion.cursor
        if cursor is None:
            return records


async def _list_pages(store: Any, collection: str) -> list[Sequence[Document]]:
    return [page async for page in store.scan(collection)]
