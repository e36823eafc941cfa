"""The memory store is the specification: whatever is done, another store answers the same."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rota.errors import RotaError
from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.testing.store_contract import scan_all

COLLECTIONS = ("tasks", "tâches")
names = st.sampled_from(["a", "b", "ä", "😀", "a\n", "", "x" * 256, "\ud800"])
writes = st.builds(
    DocumentWrite,
    st.sampled_from([*COLLECTIONS, COLLECTIONS[0], "nul\0"]),
    names,
    st.none() | st.integers(min_value=0, max_value=4),
    st.none() | st.binary(max_size=20),
)


class StoresAgree(RuleBasedStateMachine):
    """Both stores, side by side. A subclass says where its store is."""

    def new_address(self) -> str:
        """The address of a store that is empty."""
        raise NotImplementedError

    @initialize()
    def open_both(self) -> None:
        self.runner = asyncio.Runner()
        self.address = self.new_address()
        self.model = MemoryStore()
        self.store: DocumentStore = self.run(self.reopened())

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)

    async def reopened(self) -> DocumentStore:
        return await open_store(self.address)

    def compare(self, verb: str, *arguments: Any) -> None:
        expected, actual = (
            self.run(_answer(getattr(store, verb)(*arguments)))
            for store in (self.model, self.store)
        )
        assert actual == expected

    @rule(batch=st.lists(writes, max_size=8))
    def write_each(self, batch: list[DocumentWrite]) -> None:
        self.compare("write_each", batch)

    @rule(batch=st.lists(writes, max_size=5))
    def write_all(self, batch: list[DocumentWrite]) -> None:
        self.compare("write_all", batch)

    @rule(batch=st.lists(writes, min_size=1, max_size=5))
    def write_all_of_a_stream_that_breaks(self, batch: list[DocumentWrite]) -> None:
        expected, actual = (
            self.run(_answer(store.write_all(_broken_after(batch))))
            for store in (self.model, self.store)
        )
        assert actual == expected

    @rule(batch=st.lists(writes, max_size=5))
    def write_what_is_current(self, batch: list[DocumentWrite]) -> None:
        """Name the right versions, so that long histories are reached."""
        held = {name: _versions(self.run(scan_all(self.model, name))) for name in COLLECTIONS}
        current = [
            write._replace(expected=held.get(write.collection, {}).get(write.key))
            for write in batch
        ]
        self.compare("write_all", current)

    @rule(collection=st.sampled_from(COLLECTIONS), keys=st.lists(names, max_size=5))
    def read(self, collection: str, keys: list[str]) -> None:
        self.compare("read", collection, keys)

    @rule()
    def close_and_reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.run(self.reopened())

    @invariant()
    def both_hold_the_same(self) -> None:
        for name in COLLECTIONS:
            assert self.run(scan_all(self.store, name)) == self.run(scan_all(self.model, name))


async def _answer(call: Coroutine[Any, Any, Any]) -> Any:
    """What a call gives, or what it was refused with."""
    try:
        return await call
    except RotaError as error:
        return type(error), error.message, error.details
    except _StreamBrokenError:
        return "the stream broke"


class _StreamBrokenError(Exception):
    pass


def _broken_after(batch: list[DocumentWrite]) -> Iterator[DocumentWrite]:
    yield from batch
    raise _StreamBrokenError


def _versions(documents: list[Any]) -> dict[str, int]:
    return {document.key: document.version for document in documents}


THOROUGHNESS = settings(
    max_examples=24,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
