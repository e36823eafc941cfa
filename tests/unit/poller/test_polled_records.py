"""Jobs to be polled, as documents of a store."""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.unit.poller.polling import HOUR, MINUTE, NOW, SECOND

from rota.errors import DamagedJobError, InvalidInputError
from rota.jobs import JobStatus
from rota.poller import JobUpdate, PolledJobs
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import VirtualClock

NAIVE = datetime(2026, 5, 1)  # noqa: DTZ001 - on purpose
BEYOND = datetime.max.replace(tzinfo=timezone(-HOUR))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def jobs(store: MemoryStore) -> PolledJobs:
    return PolledJobs(store, clock=VirtualClock(NOW))


async def documents_in(store: MemoryStore) -> dict[str, list[str]]:
    """Every key that is left, by collection."""
    found = {}
    for collection in ("poller.poller", "poller.poller.line"):
        found[collection] = [each.key async for page in store.scan(collection) for each in page]
    return found


async def test_a_job_is_kept_as_the_one_job_record(jobs: PolledJobs) -> None:
    job_id = await jobs.add(
        {"a": 1}, sleep_until=NOW + HOUR, interval="@daily", repeat_until=NOW + 2 * HOUR
    )
    job = await jobs.get(job_id)
    assert job is not None
    assert (job.status, job.due_at, job.payload) == (JobStatus.READY, NOW + HOUR, {"a": 1})
    assert (job.queue, job.created_at, job.auto_remove) == ("poller", NOW, False)
    assert job.recurrence is not None
    assert (job.recurrence.text, job.recurrence.until) == ("@daily", NOW + 2 * HOUR)


async def test_a_job_without_a_time_is_due_at_once(jobs: PolledJobs) -> None:
    job_id = await jobs.add({})
    locked = await jobs.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert (locked.id, locked.sleep_until) == (job_id, NOW)


async def test_jobs_added_at_one_moment_keep_their_order(jobs: PolledJobs) -> None:
    added = [await jobs.add({}) for _ in range(20)]
    assert [job.id async for page in jobs.scan() for job in page] == added


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("sleep_until", {"sleep_until": NAIVE}),
        ("sleep_until", {"sleep_until": "tomorrow"}),
        ("repeat_until", {"interval": "@daily", "repeat_until": NAIVE}),
        ("repeat_until", {"interval": "@daily", "repeat_until": 5}),
        ("payload", {"payload": {"a": object()}}),
        ("auto_remove", {"auto_remove": "yes"}),
        ("repeat_until", {"interval": "@daily", "repeat_until": BEYOND}),
    ],
)
async def test_an_invalid_record_is_refused_before_anything_is_written(
    jobs: PolledJobs, store: MemoryStore, field: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        await jobs.add(**{"payload": {}, **fields})
    assert refusal.value.details["field"] == field
    assert await documents_in(store) == {"poller.poller": [], "poller.poller.line": []}


@pytest.mark.parametrize("fields", [{"interval": "no"}, {"interval": "@daily", "zone": "Nowhere"}])
async def test_an_interval_or_a_zone_that_cannot_be_read_is_refused(
    jobs: PolledJobs, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError):
        await jobs.add({}, **fields)


@pytest.mark.parametrize("queue", ["", "a/b", "a b"])
def test_a_queue_is_named_as_any_other(queue: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        PolledJobs(MemoryStore(), queue)
    assert refusal.value.details["field"] == "queue"


async def test_queues_do_not_share_jobs(jobs: PolledJobs, store: MemoryStore) -> None:
    await jobs.add({})
    other = PolledJobs(store, "other", clock=VirtualClock(NOW))
    assert await other.lock_next(NOW + MINUTE, NOW) is None
    assert await jobs.lock_next(NOW + MINUTE, NOW) is not None


async def test_of_a_removed_job_nothing_is_left(jobs: PolledJobs, store: MemoryStore) -> None:
    await jobs.add({})
    locked = await jobs.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert await jobs.remove(locked)
    assert await documents_in(store) == {"poller.poller": [], "poller.poller.line": []}


async def test_a_job_that_sleeps_for_good_is_kept_and_delays_no_other(
    jobs: PolledJobs, store: MemoryStore
) -> None:
    job_id = await jobs.add({})
    locked = await jobs.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert await jobs.update(locked, JobUpdate(sleep_until=None), NOW + SECOND)
    assert await documents_in(store) == {"poller.poller": [job_id], "poller.poller.line": []}


@pytest.mark.parametrize("stage", ["asleep", "locked", "done"])
async def test_a_job_can_be_discarded_at_any_stage(
    jobs: PolledJobs, store: MemoryStore, stage: str
) -> None:
    job_id = await jobs.add({})
    locked = await jobs.lock_next(NOW + MINUTE, NOW) if stage != "asleep" else None
    if stage == "done" and locked is not None:
        await jobs.update(locked, JobUpdate(sleep_until=None), NOW)
    assert await jobs.discard(job_id)
    assert not await jobs.discard(job_id)
    assert await jobs.get(job_id) is None
    assert await documents_in(store) == {"poller.poller": [], "poller.poller.line": []}
    if locked is not None:
        assert not await jobs.update(locked, JobUpdate(sleep_until=NOW), NOW)
        assert not await jobs.remove(locked)


@pytest.mark.parametrize("job_id", ["", "no id", None, 5])
async def test_an_invalid_id_matches_no_job(jobs: PolledJobs, job_id: Any) -> None:
    assert await jobs.get(job_id) is None
    assert not await jobs.discard(job_id)


async def test_a_damaged_record_delays_no_other_and_is_reported_when_it_is_the_only_one(
    jobs: PolledJobs, store: MemoryStore
) -> None:
    damaged = await jobs.add({}, sleep_until=NOW - HOUR)
    sound = await jobs.add({}, sleep_until=NOW)
    document = (await store.read("poller.poller", [damaged]))[damaged]
    await store.write_all([DocumentWrite("poller.poller", damaged, document.version, b"{not json")])
    locked = await jobs.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert locked.id == sound
    with pytest.raises(DamagedJobError, match=damaged):
        await jobs.lock_next(NOW + MINUTE, NOW)
    kept = (await store.read("poller.poller", [damaged]))[damaged]
    assert kept.body == b"{not json"


async def test_an_index_entry_without_a_job_is_skipped(
    jobs: PolledJobs, store: MemoryStore
) -> None:
    stray = f"2026-01-01T00:00:00.000000Z {await jobs.add({}, sleep_until=NOW)}"
    await store.write_all([DocumentWrite("poller.poller.line", stray, None, b"")])
    assert await jobs.lock_next(NOW + MINUTE, NOW) is not None
    assert await jobs.lock_next(NOW + MINUTE, NOW) is None


class SlowScan(MemoryStore):
    """Between reading the line and reading a job, another poller does all there is to do."""

    def __init__(self) -> None:
        super().__init__()
        self.rival: PolledJobs | None = None

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        rival, self.rival = self.rival, None
        if rival is not None:
            locked = await rival.lock_next(NOW + MINUTE, NOW)
            assert locked is not None
            assert await rival.update(locked, JobUpdate(sleep_until=None), NOW)
        return await super().read(collection, keys)


async def test_a_stale_read_does_not_revive_an_ended_job() -> None:
    store = SlowScan()
    jobs = PolledJobs(store, clock=VirtualClock(NOW))
    job_id = await jobs.add({})
    store.rival = PolledJobs(store, clock=VirtualClock(NOW))
    assert await jobs.lock_next(NOW + MINUTE, NOW) is None
    job = await jobs.get(job_id)
    assert job is not None
    assert job.status is JobStatus.COMPLETED


class RacedStore(MemoryStore):
    """Another poller locks whatever this one is about to lock, so often as is said."""

    def __init__(self) -> None:
        super().__init__()
        self.rival = PolledJobs(self, clock=VirtualClock(NOW))
        self.race_count = 0

    async def write_all(self, writes: Any) -> None:
        if self.race_count:
            self.race_count -= 1
            rest, self.race_count = self.race_count, 0
            await self.rival.lock_next(NOW + MINUTE, NOW)
            self.race_count = rest
        await super().write_all(writes)


async def test_a_late_worker_takes_the_next_job() -> None:
    store = RacedStore()
    jobs = PolledJobs(store, clock=VirtualClock(NOW))
    added = [await jobs.add({}) for _ in range(3)]
    store.race_count = 2
    locked = await jobs.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert locked.id == added[2]


async def test_where_others_take_everything_there_is_nothing_left() -> None:
    store = RacedStore()
    jobs = PolledJobs(store, clock=VirtualClock(NOW))
    await jobs.add({})
    store.race_count = 1
    assert await jobs.lock_next(NOW + MINUTE, NOW) is None


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_the_first_is_tried_first_and_every_other_once(count: int) -> None:
    keys = [str(number) for number in range(count)]
    for _ in range(10):
        tried = PolledJobs(MemoryStore())._spread(keys)
        assert tried[:1] == keys[:1]
        assert sorted(tried) == sorted(keys)


def test_losers_of_a_race_continue_at_different_places() -> None:
    keys = [str(number) for number in range(100)]
    assert len({PolledJobs(MemoryStore())._spread(keys)[1] for _ in range(50)}) > 5
