"""The contract of a document store, as tests.

Write a test class that inherits ``StoreContract`` and has a fixture ``store_factory``: an async
callable without arguments that opens a store. The store is empty at the start of each test. A store
that outlives its process also inherits ``LastingStoreContract``; then every call of the factory in
one test opens the same store again::

    class TestMyStore(StoreContract, LastingStoreContract):
        @pytest.fixture
        def store_factory(self, tmp_path: Path) -> StoreFactory:
            return lambda: open_my_store(tmp_path / "store")

A store whose content can move to another one inherits ``PortableStoreContract`` of
``rota.testing.portable_store_contract``, with the same fixture. The tests need pytest, and
pytest-asyncio in its mode ``auto``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import pairwise
from typing import TypeVar

import pytest

from rota.errors import InvalidInputError, StaleVersionError, StoreClosedError
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

StoreFactory = Callable[[], Awaitable[DocumentStore]]

Value = TypeVar("Value")


class StoreFixture:
    """Opens a store before each test and closes it afterwards."""

    @pytest.fixture
    async def store(self, store_factory: StoreFactory) -> AsyncIterator[DocumentStore]:
        """An empty store."""
        store = await store_factory()
        yield store
        await store.close()


def expect(actual: Value, expected: Value) -> None:
    """Fail when the two differ, and show both, with or without pytest's rewriting of asserts."""
    if actual != expected:
        raise AssertionError(f"expected {expected!r}\n     got {actual!r}")


def new(key: str, body: bytes = b"new") -> DocumentWrite:
    """A write that makes a document in the collection ``tasks``."""
    return DocumentWrite("tasks", key, None, body)


def change(key: str, expected: int, body: bytes = b"changed") -> DocumentWrite:
    """A write that changes a document at a version."""
    return DocumentWrite("tasks", key, expected, body)


def remove(key: str, expected: int) -> DocumentWrite:
    """A write that removes a document at a version."""
    return DocumentWrite("tasks", key, expected, None)


async def find(store: DocumentStore, key: str) -> Document | None:
    """One document of the collection ``tasks``."""
    return (await store.read("tasks", [key])).get(key)


async def scan_all(store: DocumentStore, collection: str = "tasks") -> list[Document]:
    """A whole collection."""
    return [document async for page in store.scan(collection) for document in page]


class ReadContract(StoreFixture):
    """Returns what exists, and leaves out what does not."""

    async def test_existing_documents_are_returned_by_key(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"one"), new("b"), change("b", 1, b"two"), new("c")])
        found = await store.read("tasks", ["b", "a"])
        expect(found, {"a": Document("a", 1, b"one"), "b": Document("b", 2, b"two")})

    async def test_missing_documents_are_left_out(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(list(await store.read("tasks", ["a", "b", "A"])), ["a"])
        expect(await store.read("other", ["a"]), {})

    async def test_no_keys_find_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(await store.read("tasks", []), {})

    async def test_a_key_that_is_named_twice_is_returned_once(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(await store.read("tasks", ["a", "a"]), {"a": Document("a", 1, b"new")})

    async def test_collections_do_not_share_keys(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), DocumentWrite("other", "a", None, b"other")])
        expect(await store.read("other", ["a"]), {"a": Document("a", 1, b"other")})

    async def test_many_keys_can_be_asked_for_at_once(self, store: DocumentStore) -> None:
        keys = [f"task-{number}" for number in range(5_000)]
        await store.write_all(new(key) for key in keys[::2])
        expect(sorted(await store.read("tasks", keys)), sorted(keys[::2]))


class WriteEachContract(StoreFixture):
    """The version a write names decides whether it is applied."""

    async def test_a_new_document_has_version_1(self, store: DocumentStore) -> None:
        expect(await store.write_each([new("a", b"body")]), [1])
        expect(await find(store, "a"), Document("a", 1, b"body"))

    async def test_each_change_makes_the_version_greater_by_one(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        for version in range(1, 6):
            expect(await store.write_each([change("a", version)]), [version + 1])
        expect(await find(store, "a"), Document("a", 6, b"changed"))

    async def test_a_stale_change_writes_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), change("a", 1, b"second")])
        for stale in (0, 1, 3):
            expect(await store.write_each([change("a", stale, b"stale")]), [None])
        expect(await find(store, "a"), Document("a", 2, b"second"))

    async def test_an_existing_document_is_not_created_again(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"first")])
        expect(await store.write_each([new("a", b"second")]), [None])
        expect(await find(store, "a"), Document("a", 1, b"first"))

    async def test_a_missing_document_is_not_changed(self, store: DocumentStore) -> None:
        expect(await store.write_each([change("a", 1), change("a", 0)]), [None, None])
        expect(await scan_all(store), [])

    async def test_a_removed_document_is_gone(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), new("b")])
        expect(await store.write_each([remove("a", 1)]), [0])
        expect(await store.write_each([remove("a", 1)]), [None])
        expect([document.key for document in await scan_all(store)], ["b"])

    async def test_a_stale_removal_removes_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), change("a", 1)])
        expect(await store.write_each([remove("a", 1)]), [None])
        expect(await find(store, "a"), Document("a", 2, b"changed"))

    async def test_a_document_that_is_created_again_starts_at_version_1(
        self, store: DocumentStore
    ) -> None:
        await store.write_each([new("a"), change("a", 1), remove("a", 2)])
        expect(await store.write_each([new("a", b"again")]), [1])
        expect(await find(store, "a"), Document("a", 1, b"again"))

    async def test_stale_writes_do_not_hold_up_the_others(self, store: DocumentStore) -> None:
        await store.write_each([new("b"), new("d")])
        writes = [new("a"), new("b"), change("b", 1), change("c", 1), remove("d", 2), new("e")]
        expect(await store.write_each(writes), [1, None, 2, None, None, 1])
        versions = [(document.key, document.version) for document in await scan_all(store)]
        expect(versions, [("a", 1), ("b", 2), ("d", 1), ("e", 1)])

    async def test_a_write_sees_those_before_it_in_the_same_call(
        self, store: DocumentStore
    ) -> None:
        writes = [new("a"), new("a"), change("a", 1), remove("a", 2), change("a", 2), new("a")]
        expect(await store.write_each(writes), [1, None, 2, 0, None, 1])

    async def test_a_write_can_require_that_a_document_is_missing(
        self, store: DocumentStore
    ) -> None:
        await store.write_each([new("b")])
        absent = [DocumentWrite("tasks", key, None, None) for key in ("a", "b")]
        expect(await store.write_each(absent), [0, None])
        expect([document.key for document in await scan_all(store)], ["b"])

    async def test_no_writes_have_no_results(self, store: DocumentStore) -> None:
        expect(await store.write_each([]), [])


class _StreamBrokenError(Exception):
    """What an iterator of the caller's own may raise."""


class WriteAllContract(StoreFixture):
    """Nothing is half-written."""

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

    async def test_nothing_is_written_when_a_document_that_must_be_missing_exists(
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

    async def test_no_writes_are_allowed(self, store: DocumentStore) -> None:
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


DOCUMENT_COUNT = 5_000
"""Enough that a store which reads in pages needs several."""


class ScanContract(StoreFixture):
    """What is there from beginning to end is seen exactly once."""

    async def test_documents_come_in_the_order_of_their_keys(self, store: DocumentStore) -> None:
        keys = ["b", "a", "B", "ä", "10", "9", "a b", "~", "日本", "😀", "\uffff", "aa"]
        await store.write_each([new(key) for key in keys])
        expect([document.key for document in await scan_all(store)], sorted(keys))

    async def test_an_empty_collection_has_no_pages(self, store: DocumentStore) -> None:
        await store.write_each([DocumentWrite("other", "a", None, b"")])
        expect([page async for page in store.scan("tasks")], [])

    async def test_documents_come_with_version_and_body(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"one"), new("b"), change("b", 1, b"two")])
        expect(await scan_all(store), [Document("a", 1, b"one"), Document("b", 2, b"two")])

    async def test_only_the_collection_asked_for_is_seen(self, store: DocumentStore) -> None:
        for collection in ("task", "tasks", "tasks2"):
            await store.write_each([DocumentWrite(collection, "a", None, collection.encode())])
        expect(await scan_all(store), [Document("a", 1, b"tasks")])

    async def test_a_large_collection_comes_whole_in_pages(self, store: DocumentStore) -> None:
        await _fill(store)
        pages = [page async for page in store.scan("tasks")]
        keys = [document.key for page in pages for document in page]
        expect(keys, [_scan_key(number) for number in range(DOCUMENT_COUNT)])
        expect([page for page in pages if not page], [])

    async def test_a_scan_sees_unchanged_documents_once_while_others_write(
        self, store: DocumentStore
    ) -> None:
        await _fill(store)
        seen: list[Document] = []
        async for page in store.scan("tasks"):
            seen += page
            await _disturb(store, number=len(seen) // 1_000)
        keys = [document.key for document in seen]
        expect([pair for pair in pairwise(keys) if pair[0] >= pair[1]], [])
        staying = {_scan_key(number) for number in range(DOCUMENT_COUNT) if number % 100}
        expect(staying - set(keys), set())

    async def test_an_abandoned_scan_leaves_nothing_behind(self, store: DocumentStore) -> None:
        await _fill(store)
        await anext(aiter(store.scan("tasks")))
        expect(await store.write_each([change(_scan_key(4_999), 1)]), [2])
        expect(len(await scan_all(store)), DOCUMENT_COUNT)

    async def test_two_scans_at_once_do_not_disturb_each_other(self, store: DocumentStore) -> None:
        await _fill(store)
        outer_count = inner_count = 0
        async for page in store.scan("tasks"):
            outer_count += len(page)
            inner_count = len(await scan_all(store))
        expect((outer_count, inner_count), (DOCUMENT_COUNT, DOCUMENT_COUNT))


async def _fill(store: DocumentStore) -> None:
    await store.write_all(new(_scan_key(number)) for number in range(DOCUMENT_COUNT))


async def _disturb(store: DocumentStore, number: int) -> None:
    """Remove, make and change documents before and behind where a scan may be."""
    await store.write_each(
        [
            *(remove(_scan_key(hundred), 1) for hundred in range(number % 2 * 100, 5_000, 200)),
            *(new(f"{_scan_key(other)}-new") for other in range(number, 5_000, 500)),
            *(change(_scan_key(other), 1) for other in range(number * 7 + 1, 5_000, 333)),
        ]
    )


def _scan_key(number: int) -> str:
    return f"task-{number:05}"


NAMES = [
    "plain",
    "with space, comma; and 'quotes\" and \\ back",
    "%_*?[a]$.{}:/#",
    "Grüße, 世界, мир, שלום",
    "😀👩‍👩‍👧 e\u0301",
    "line\nbreak\tand tab",
    "x" * 255,
    "😀" * 255,
]
UNFIT_NAMES = ["", "x" * 256, "nul\0inside", "half \ud800 pair"]


class ContentContract(StoreFixture):
    """Any text is a name and any bytes are a body, within the stated limits."""

    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    async def test_any_text_may_be_a_key(self, store: DocumentStore, name: str) -> None:
        await store.write_each([new(name)])
        expect(await find(store, name), Document(name, 1, b"new"))
        expect(await scan_all(store), [Document(name, 1, b"new")])

    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    async def test_any_text_may_be_a_collection(self, store: DocumentStore, name: str) -> None:
        await store.write_each([DocumentWrite(name, "a", None, b"body")])
        expect(await scan_all(store, name), [Document("a", 1, b"body")])

    async def test_keys_that_only_look_alike_are_different(self, store: DocumentStore) -> None:
        keys = ["é", "e\u0301", "E", "e", " e", "e ", "1", "01", "1.0"]
        expect(await store.write_each([new(key) for key in keys]), [1] * len(keys))
        expect(sorted(await store.read("tasks", keys)), sorted(keys))

    @pytest.mark.parametrize("name", UNFIT_NAMES, ids=range(len(UNFIT_NAMES)))
    async def test_an_unfit_key_is_refused_and_nothing_written(
        self, store: DocumentStore, name: str
    ) -> None:
        with pytest.raises(InvalidInputError, match="key"):
            await store.write_each([new("fit"), new(name)])
        with pytest.raises(InvalidInputError, match="key"):
            await store.read("tasks", ["fit", name])
        expect(await scan_all(store), [])

    @pytest.mark.parametrize("name", UNFIT_NAMES, ids=range(len(UNFIT_NAMES)))
    async def test_an_invalid_collection_is_refused_and_nothing_is_written(
        self, store: DocumentStore, name: str
    ) -> None:
        with pytest.raises(InvalidInputError, match="collection"):
            await store.write_each([new("fit"), DocumentWrite(name, "a", None, b"")])
        with pytest.raises(InvalidInputError, match="collection"):
            await store.read(name, ["a"])
        with pytest.raises(InvalidInputError, match="collection"):
            await scan_all(store, name)
        expect(await scan_all(store), [])

    @pytest.mark.parametrize(
        "body",
        [b"", b"\0", bytes(range(256)), b"\xff\xfe not text", bytes(1024) * 1024],
        ids=["empty", "nul", "all-bytes", "no-text", "one-mebibyte"],
    )
    async def test_a_body_comes_back_byte_for_byte(self, store: DocumentStore, body: bytes) -> None:
        await store.write_each([new("a", body)])
        expect(await find(store, "a"), Document("a", 1, body))


class ConcurrencyContract(StoreFixture):
    """Each version is given out once."""

    async def test_one_of_many_claims_wins(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        claims = (store.write_each([change("a", 1, b"%d" % caller)]) for caller in range(50))
        results = [version for (version,) in await asyncio.gather(*claims)]
        expect(sorted(version or 0 for version in results), [0] * 49 + [2])
        winner = await find(store, "a")
        expect(winner and winner.body, b"%d" % results.index(2))

    async def test_no_increment_is_lost(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        await asyncio.gather(*(_increment(store, times=10) for _ in range(8)))
        counter = await find(store, "a")
        expect(counter and counter.version, 81)

    async def test_each_caller_gets_the_results_of_its_own_writes(
        self, store: DocumentStore
    ) -> None:
        calls = [[new(f"{caller}-{n}") for n in range(caller % 4)] for caller in range(40)]
        results = await asyncio.gather(*map(store.write_each, calls))
        expect(results, [[1] * (caller % 4) for caller in range(40)])
        expect(len(await scan_all(store)), sum(map(len, calls)))

    async def test_a_refused_caller_takes_no_other_down(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        results = await asyncio.gather(
            store.write_each([new("b")]),
            store.write_all([new("c"), new("a")]),
            store.write_each([new("a"), new("d")]),
            return_exceptions=True,
        )
        expect(results[0], [1])
        expect(type(results[1]), StaleVersionError)
        expect(results[2], [None, 1])
        expect([document.key for document in await scan_all(store)], ["a", "b", "d"])

    async def test_a_cancelled_call_is_carried_out_wholly_or_not_at_all(
        self, store: DocumentStore
    ) -> None:
        keys = [f"{number:03}" for number in range(200)]
        task = asyncio.create_task(store.write_each([new(key) for key in keys]))
        await asyncio.wait([task], timeout=0)
        task.cancel()
        await asyncio.wait([task])
        await store.write_each([new("afterwards")])  # what was handed over before it is done now
        written = await store.read("tasks", keys)
        expect(len(written) in {0, 200}, expected=True)
        expect(await store.write_each([new("and again")]), [1])


async def _increment(store: DocumentStore, times: int) -> None:
    while times:
        current = await find(store, "a")
        if current and await store.write_each([change("a", current.version)]) != [None]:
            times -= 1


class CloseContract(StoreFixture):
    """A closed store does nothing, and says so."""

    async def test_a_closed_store_refuses_every_verb(self, store: DocumentStore) -> None:
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.write_each([new("a")])
        with pytest.raises(StoreClosedError):
            await store.write_all([new("a")])
        with pytest.raises(StoreClosedError):
            await store.read("tasks", ["a"])
        with pytest.raises(StoreClosedError):
            await scan_all(store)

    async def test_closing_twice_is_allowed(self, store: DocumentStore) -> None:
        await asyncio.gather(store.close(), store.close())
        await store.close()

    async def test_a_scan_does_not_outlive_its_store(self, store: DocumentStore) -> None:
        await store.write_all(new(f"{number:05}") for number in range(5_000))
        pages = store.scan("tasks")
        await anext(pages)
        await store.close()
        with pytest.raises(StoreClosedError):
            await anext(pages)

    async def test_running_calls_are_completed_on_close(self, store_factory: StoreFactory) -> None:
        store = await store_factory()
        calls = [asyncio.ensure_future(store.write_each([new(f"{n}")])) for n in range(20)]
        await asyncio.wait(calls, timeout=0)
        await store.close()
        expect(await asyncio.gather(*calls), [[1]] * 20)


class LastingStoreContract(StoreFixture):
    """Opened again, or opened twice, it is the same store."""

    async def test_documents_survive_reopening(self, store_factory: StoreFactory) -> None:
        first = await store_factory()
        await first.write_each([new("a", b"one"), new("b"), change("b", 1, b"two"), new("c")])
        await first.write_all([remove("c", 1), new("d")])
        before = await scan_all(first)
        await first.close()
        second = await store_factory()
        expect(await scan_all(second), before)
        expect(await second.write_each([change("b", 1), change("b", 2)]), [None, 3])
        await second.close()

    async def test_its_reach_is_more_than_a_process(self, store: DocumentStore) -> None:
        expect(store.reach is Reach.PROCESS, expected=False)

    async def test_two_open_stores_see_each_other(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await store.write_each([new("a", b"from one")])
        expect(await find(other, "a"), Document("a", 1, b"from one"))
        expect(await other.write_each([change("a", 1, b"from the other")]), [2])
        expect(await store.write_each([change("a", 1, b"too late")]), [None])
        expect(await scan_all(store), [Document("a", 2, b"from the other")])
        await other.close()

    async def test_closing_one_store_leaves_the_other_open(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await other.write_each([new("a")])
        await other.close()
        expect(await store.write_each([change("a", 1)]), [2])

    async def test_one_store_can_write_between_the_pages_of_the_other(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await store.write_all(new(f"{number:05}") for number in range(5_000))
        seen_count = 0
        async for page in store.scan("tasks"):
            seen_count += len(page)
            expect(await other.write_each([change(page[0].key, 1)]), [2])
        expect(seen_count, 5_000)
        await other.close()


class StoreContract(
    CloseContract,
    ConcurrencyContract,
    ContentContract,
    ReadContract,
    ScanContract,
    WriteAllContract,
    WriteEachContract,
):
    """Every promise of ``DocumentStore``."""
