"""``write_all``: all writes or none."""

from collections.abc import Iterator

import pytest

from rota.errors import InvalidInputError, StaleVersionError
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract.fixture import (
    StoreFixture,
    change,
    expect,
    find,
    new,
    remove,
    scan_all,
)


class _StreamBrokenError(Exception):
    """What an iterator of the caller's own may raise."""


class WriteAllContract(StoreFixture):
    """Whatever stops it, nothing is half-written."""

    async def test_all_writes_are_applied(self, store: DocumentStore) -> None:
        await store.write_each([new("b"), new("c")])
        await store.write_all([new("a"), change("b", 1), remove("c", 1), new("d")])
        versions = [(document.key, document.version) for document in await scan_all(store)]
        expect(versions, [("a", 1), ("b", 2), ("d", 1)])

    async def test_nothing_is_written_when_the_third_of_five_is_stale(
        self, store: DocumentStore
    ) -> None:
        await store.write_each([new("b"), new("c"), new("d")])
        before = await scan_all(store)
        writes = [new("a"), change("b", 1), change("c", 7), remove("d", 1), new("e")]
        with pytest.raises(StaleVersionError) as caught:
            await store.write_all(writes)
        expect(caught.value.details, {"collection": "tasks", "key": "c", "expected": 7})
        expect(await scan_all(store), before)

    @pytest.mark.parametrize(
        "stale",
        [new("taken"), change("absent", 1), remove("taken", 2), remove("absent", 1)],
        ids=lambda write: f"{write.key}-{write.expected}",
    )
    async def test_every_kind_of_stale_write_undoes_the_others(
        self, store: DocumentStore, stale: DocumentWrite
    ) -> None:
        await store.write_each([new("taken")])
        with pytest.raises(StaleVersionError):
            await store.write_all([change("taken", 1), remove("taken", 2), new("taken"), stale])
        expect(await scan_all(store), [Document("taken", 1, b"new")])

    async def test_nothing_is_written_when_absence_was_demanded_in_vain(
        self, store: DocumentStore
    ) -> None:
        await store.write_each([new("b")])
        absent = [DocumentWrite("tasks", key, None, None) for key in ("c", "b")]
        with pytest.raises(StaleVersionError):
            await store.write_all([new("a"), *absent])
        expect([document.key for document in await scan_all(store)], ["b"])

    async def test_nothing_is_written_when_the_stream_breaks(self, store: DocumentStore) -> None:
        def break_after_three() -> Iterator[DocumentWrite]:
            yield from [new("a"), new("b"), change("kept", 1)]
            raise _StreamBrokenError

        await store.write_each([new("kept")])
        with pytest.raises(_StreamBrokenError):
            await store.write_all(break_after_three())
        expect(await scan_all(store), [Document("kept", 1, b"new")])

    async def test_nothing_is_written_when_a_name_is_refused(self, store: DocumentStore) -> None:
        with pytest.raises(InvalidInputError):
            await store.write_all([new("a"), new("b"), new("")])
        expect(await scan_all(store), [])

    async def test_no_writes_are_no_error(self, store: DocumentStore) -> None:
        await store.write_all([])
        expect(await scan_all(store), [])

    async def test_a_long_stream_is_written_as_it_comes(self, store: DocumentStore) -> None:
        await store.write_all(new(f"{number:05}") for number in range(3_000))
        kinds = (change, lambda key, expected: change(key, expected, b""), remove)
        await store.write_all(kinds[number % 3](f"{number:05}", 1) for number in range(3_000))
        documents = await scan_all(store)
        expect(len(documents), 2_000)
        expect({document.version for document in documents}, {2})

    async def test_a_write_sees_those_before_it_in_the_stream(self, store: DocumentStore) -> None:
        await store.write_all([new("a"), change("a", 1), remove("a", 2), new("a", b"last")])
        expect(await find(store, "a"), Document("a", 1, b"last"))

    async def test_the_store_works_on_after_a_refusal(self, store: DocumentStore) -> None:
        with pytest.raises(StaleVersionError):
            await store.write_all([new("a"), change("a", 9)])
        await store.write_all([new("a")])
        expect(await store.write_each([change("a", 1)]), [2])
