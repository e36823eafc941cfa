"""The contract suite can fail: each of these stores breaks one promise and is found out."""

from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from rota.errors import InvalidInputError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract import StoreContract, expect


class ForgetsVersions(MemoryStore):
    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        return [1 for _ in await super().write_each(writes)]


class WritesWhatIsStale(MemoryStore):
    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        current = await self.read("tasks", [write.key for write in writes])
        return await super().write_each(
            [
                write._replace(expected=current[write.key].version if current else None)
                for write in writes
            ]
        )


class WritesHalf(MemoryStore):
    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        for write in writes:
            await super().write_all([write])


class LosesTheLastPage(MemoryStore):
    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        async for page in super().scan(collection):
            if len(page) > 1:
                yield page[:-1]


class TakesAnyName(MemoryStore):
    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        try:
            return await super().write_each(writes)
        except InvalidInputError:
            return [None for _ in writes]


class NeverCloses(MemoryStore):
    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (ForgetsVersions, "test_each_change_makes_the_version_greater_by_one"),
        (WritesWhatIsStale, "test_a_stale_change_writes_nothing"),
        (WritesHalf, "test_nothing_is_written_when_the_third_of_five_is_stale"),
        (WritesHalf, "test_nothing_is_written_when_the_stream_breaks"),
        (LosesTheLastPage, "test_a_large_collection_comes_whole_in_pages"),
        (LosesTheLastPage, "test_a_scan_sees_unchanged_documents_once_while_others_write"),
        (NeverCloses, "test_a_closed_store_refuses_every_verb"),
    ],
)
async def test_a_broken_store_is_found_out(broken: type[DocumentStore], promise: str) -> None:
    await getattr(StoreContract(), promise)(MemoryStore())
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(StoreContract(), promise)(broken())


async def test_a_store_that_takes_any_name_is_found_out() -> None:
    contract = StoreContract()
    await contract.test_an_unfit_key_is_refused_and_nothing_written(MemoryStore(), "")
    with pytest.raises(pytest.fail.Exception):
        await contract.test_an_unfit_key_is_refused_and_nothing_written(TakesAnyName(), "")


def test_a_difference_is_shown_from_both_sides() -> None:
    expect([1], [1])
    with pytest.raises(AssertionError, match=r"expected \[1\]\n +got \[None\]"):
        expect([None], [1])
