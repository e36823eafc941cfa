"""What the memory store does beyond the contract of all stores."""

from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach


def test_it_reaches_no_further_than_the_process() -> None:
    assert MemoryStore().reach is Reach.PROCESS


async def test_two_stores_share_nothing() -> None:
    async with await open_store("memory://") as one, await open_store("memory://") as other:
        await one.write_each([DocumentWrite("tasks", "a", None, b"")])
        assert await other.read("tasks", ["a"]) == {}


def test_no_call_suspends_its_caller() -> None:
    store = MemoryStore()
    calls = [
        store.write_each([DocumentWrite("tasks", "a", None, b"")]),
        store.write_all([DocumentWrite("tasks", "b", None, b"")]),
        store.read("tasks", ["a"]),
        store.close(),
    ]
    for call in calls:
        try:
            call.send(None)
        except StopIteration:
            continue
        raise AssertionError("the call was suspended")


async def test_a_page_whose_documents_are_all_gone_is_left_out() -> None:
    store = MemoryStore()
    keys = [f"{number:05}" for number in range(1_500)]
    await store.write_all(DocumentWrite("tasks", key, None, b"") for key in keys)
    pages = store.scan("tasks")
    assert len(await anext(pages)) == 1_000
    await store.write_each([DocumentWrite("tasks", key, 1, None) for key in keys])
    assert [page async for page in pages] == []
