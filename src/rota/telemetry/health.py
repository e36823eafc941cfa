"""The state of a store, sampled for metrics and judged for findings that need attention."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, StoreError
from rota.jobs import JobFilter, JobStatus
from rota.rail.jobs import RailStore
from rota.scheduler.storage import SET_ASIDE
from rota.stores.inspection import StoreInspection
from rota.stores.protocol import JobStore, QueueDepth
from rota.telemetry.notices import Report, read_report

_NO_TIME = timedelta(0)

Inspect = Callable[[], Awaitable[StoreInspection]]


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a store at one moment.

    ``job_counts`` has every status. ``oldest_due_at`` is the due time of the job that has waited
    longest; None when none is due. ``stalled_count`` jobs have an expired lease and wait for
    rescue. ``dead_count`` are dead letters, of the named tenants or of all. ``queues`` has each
    queue over all tenants. ``pinned_by`` names the transaction that keeps the database from
    removing dead rows. ``report`` is what the processes last watched for.
    """

    taken_at: datetime
    job_counts: Mapping[str, int]
    set_aside_count: int = 0
    oldest_due_at: datetime | None = None
    stalled_count: int = 0
    dead_count: int = 0
    queues: Sequence[QueueDepth] = ()
    pinned_by: str | None = None
    report: Report | None = None

    @property
    def oldest_due_for(self) -> timedelta:
        """How long the oldest due job has been due."""
        return _NO_TIME if self.oldest_due_at is None else self.taken_at - self.oldest_due_at


async def read_store_status(
    store: RailStore, inspect: Inspect, now: datetime, tenants: Collection[str] = ()
) -> StoreStatus:
    """Read the state of the store. Changes nothing.

    ``inspect`` is usually ``partial(inspect_store, url)``. It counts every stored job, so once a
    minute is often enough for a store with millions of jobs.
    """
    return await complete_store_status(store, await inspect(), now, tenants)


async def complete_store_status(
    store: RailStore, inspection: StoreInspection, now: datetime, tenants: Collection[str] = ()
) -> StoreStatus:
    """As ``read_store_status``, for a store that has been inspected already."""
    counts = inspection.job_counts or {}
    queues = await store.survey(now)
    stored = await read_report(store)
    due_since = [depth.oldest_due_at for depth in queues if depth.oldest_due_at is not None]
    all_dead_count = sum(depth.dead_count for depth in queues)
    return StoreStatus(
        taken_at=now,
        job_counts={str(status): counts.get(status, 0) for status in JobStatus},
        set_aside_count=count_unreadable(inspection),
        oldest_due_at=min(due_since, default=None),
        stalled_count=sum(depth.stalled_count for depth in queues),
        dead_count=await _count_dead(store, tenants) if tenants else all_dead_count,
        queues=tuple(queues),
        pinned_by=inspection.pinned_by,
        report=None if stored is None else stored.report,
    )


def count_unreadable(inspection: StoreInspection) -> int:
    """The number of task and job records that cannot be read."""
    return inspection.document_counts.get(SET_ASIDE, 0) + inspection.set_aside_job_count


async def _count_dead(store: JobStore, tenants: Collection[str]) -> int:
    wanted = JobFilter(only_dead=True)
    return sum([await store.count(tenant, wanted) for tenant in sorted(set(tenants))])


Look = Callable[[], Awaitable[StoreStatus]]
Show = Callable[[StoreStatus | None], object]

SAMPLED_EVERY = timedelta(seconds=30)


class Sampler:
    """Passes what ``look`` returns to ``show`` at intervals, or None when the store fails."""

    def __init__(
        self, look: Look, show: Show, clock: Clock, every: timedelta = SAMPLED_EVERY
    ) -> None:
        if every <= timedelta(0):
            raise InvalidInputError(
                f"every must be longer than no time, got {every}", {"field": "every"}
            )
        self._look = look
        self._show = show
        self._clock = clock
        self._every = every

    async def run(self) -> None:
        """Sample at once and then at intervals, until cancelled."""
        while True:
            await self.run_once()
            await self._clock.sleep(self._every)

    async def run_once(self) -> StoreStatus | None:
        """Sample once. A store failure is shown as None."""
        try:
            status: StoreStatus | None = await self._look()
        except StoreError:
            status = None
        self._show(status)
        return status


Concern = (
    Literal["dead_letters", "stalled", "late", "set_aside", "pinned", "schema", "store"]
    | Literal["held", "task_late", "task_fails", "overdue"]
)

LATE_AFTER = timedelta(minutes=5)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted number of dead letters and stalled jobs, and the accepted lateness."""

    dead_letters: int = 0
    stalled: int = 0
    late_after: timedelta = LATE_AFTER


class Finding(msgspec.Struct, frozen=True):
    """One finding: what it is, how many, and what to do."""

    concern: Concern
    count: int
    text: str


def list_findings(status: StoreStatus, thresholds: Thresholds | None = None) -> list[Finding]:
    """The findings; empty when all is well."""
    limits = thresholds or Thresholds()
    return list(_judge(status, limits))


def _judge(status: StoreStatus, limits: Thresholds) -> Iterator[Finding]:
    if status.dead_count > limits.dead_letters:
        yield Finding("dead_letters", status.dead_count, describe_dead(status.dead_count))
    if status.stalled_count > limits.stalled:
        yield Finding("stalled", status.stalled_count, describe_stalled(status.stalled_count))
    late_for = status.oldest_due_for
    if late_for > limits.late_after:
        since = f"{status.oldest_due_at:%Y-%m-%dT%H:%M:%SZ}"
        text = f"jobs are late: one is due since {since}, for {_in_words(late_for)}"
        yield Finding("late", 1, text)
    unreadable = judge_unreadable(status.set_aside_count)
    if unreadable is not None:
        yield unreadable
    if status.pinned_by is not None:
        text = f"the database cannot remove dead rows: {status.pinned_by} still needs them"
        yield Finding("pinned", 1, text)


def judge_unreadable(count: int) -> Finding | None:
    """Records that cannot be read need repair."""
    if not count:
        return None
    text = f"{count} records are set aside: they cannot be read, and are kept"
    if count == 1:
        text = "1 record is set aside: it cannot be read, and is kept"
    return Finding("set_aside", count, text)


def describe_dead(count: int) -> str:
    """A sentence about dead letters."""
    if count == 1:
        return "1 dead letter: the job failed its last attempt"
    return f"{count} dead letters: the jobs failed their last attempt"


def describe_stalled(count: int) -> str:
    """A sentence about stalled jobs."""
    if count == 1:
        return "1 job is stalled: its lease has run out, and no worker has rescued it"
    return f"{count} jobs are stalled: their leases have run out, and no worker has rescued them"


def _in_words(duration: timedelta) -> str:
    """A duration in its largest unit, rounded down."""
    seconds = int(duration.total_seconds())
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            number = seconds // length
            return f"{number} {name}{'s' if number > 1 else ''}"
    return f"{seconds} seconds"
