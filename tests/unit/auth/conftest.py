from datetime import UTC, datetime
from random import Random

import pytest

from rota.auth.sessions import SessionBook
from rota.auth.tokens import TokenBook
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 5, 1, 12, tzinfo=UTC))


@pytest.fixture
def book(store: MemoryStore, clock: VirtualClock) -> TokenBook:
    return TokenBook(store, clock, Random(7).getrandbits)


@pytest.fixture
def sessions(store: MemoryStore, clock: VirtualClock, book: TokenBook) -> SessionBook:
    return SessionBook(store, clock, book, draw_bits=Random(8).getrandbits)
