"""The document by which a process says that it is alive, and the identity of a process."""

import os
import subprocess
import sys

import pytest
from tests.spec.stage import SpyStore
from tests.unit.worker.workshop import NOW

from rota.errors import StoreUnavailableError
from rota.fleet.identity import GONE, make_process_name, process_started
from rota.fleet.presence import SignOfLife
from rota.stores.documents import remove_documents
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.testing import VirtualClock

PEERS = "peers"


async def shown(store: DocumentStore) -> dict[str, bytes]:
    return {it.key: it.body async for page in store.scan(PEERS) for it in page}


async def test_a_sign_is_shown_again_and_withdrawn() -> None:
    store = MemoryStore()
    sign = SignOfLife(store, PEERS, "me")
    await sign.withdraw()
    await sign.show(b"1")
    await sign.show(b"2")
    assert await shown(store) == {"me": b"2"}
    await sign.withdraw()
    await sign.withdraw()
    assert await shown(store) == {}


async def test_a_sign_that_was_removed_or_whose_answer_was_lost_is_shown_again() -> None:
    store = MemoryStore()
    spy = SpyStore(store, VirtualClock(NOW))
    sign = SignOfLife(spy, PEERS, "me")
    spy.losing_replies = True
    spy.errors["write_each"] = StoreUnavailableError("lost")
    with pytest.raises(StoreUnavailableError):
        await sign.show(b"1")
    spy.losing_replies = False
    spy.errors.clear()
    await sign.show(b"2")
    assert await shown(store) == {"me": b"2"}
    await store.write_each([DocumentWrite(PEERS, "me", 2, None)])
    await sign.show(b"3")
    assert await shown(store) == {"me": b"3"}


async def test_a_sweep_removes_the_signs_of_processes_that_are_gone() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        await SignOfLife(store, PEERS, name).show(name.encode())
    assert await remove_documents(store, PEERS, lambda it: it.key == "a") == 1
    assert await shown(store) == {"b": b"b"}


def test_a_process_name_is_unique_and_names_its_process() -> None:
    assert make_process_name() != make_process_name()
    assert f":{os.getpid()}:" in make_process_name()


def test_a_process_that_is_gone_has_no_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert child.wait() == 0
    assert process_started(child.pid) == GONE
    assert process_started(os.getpid()) == process_started(os.getpid()) != GONE
