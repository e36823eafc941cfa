from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from rota.search import indexer, lookup
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few jobs, so that a hundred jobs need many."""
    monkeypatch.setattr(indexer, "MOST_LOOKED_AT", 5)
    monkeypatch.setattr(indexer, "SEGMENT_LENGTH", 30)
    monkeypatch.setattr(indexer, "HIGHEST_LIMIT", 30)
    monkeypatch.setattr(indexer, "FEWEST_INDEXED", 10)
    monkeypatch.setattr(indexer, "MERGED_AT_ONCE", 3)
    monkeypatch.setattr(indexer, "LEVELS", (25, 80))
    monkeypatch.setattr(indexer, "PAGE_LENGTH", 20)
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 50)
