"""Keeps the search index up to date, in the background.

The indexer walks over jobs, newest first, and writes the terms of some thousands at a time as a
segment. Small segments are merged. Jobs that had not ended are read again later, less and less
often, until they have; so errors and amended fields get into the index.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from zlib import crc32

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import RotaError, StaleVersionError
from rota.jobs import Job, JobFilter, encode_cursor
from rota.jobs.search import HIGHEST_LIMIT
from rota.search.index import (
    STATES,
    CoveredRange,
    Gap,
    IndexChangedError,
    OpenJob,
    OpenPage,
    Parts,
    Pause,
    SearchedStore,
    SegmentMark,
    find_candidates,
    list_gaps,
)
from rota.search.lookup import MOST_LOOKED_AT
from rota.search.segments import Place, build_segment, count_micros, place_of
from rota.search.terms import STATUS, list_terms
from rota.search.writer import IndexWriter, merge_segments
from rota.stores.documents import find_document
from rota.stores.protocol import DocumentWrite

TURN_EVERY = timedelta(seconds=15)
LAGS_BY = timedelta(seconds=10)
"""Younger jobs are not indexed: one with an earlier time of creation may still be committed."""

LEASED_FOR = timedelta(minutes=5)
"""How long a process that indexes is waited for. Less would mean more writes while nothing runs."""

SEGMENT_LENGTH = 16_384
"""The number of jobs in a segment before it is merged."""

FEWEST_INDEXED = 500
"""Fewer new jobs wait for others: a search reads them itself."""

MERGED_AT_ONCE = 8
LEVELS = (SEGMENT_LENGTH // 2, SEGMENT_LENGTH * 4)
"""Segments between these sizes are merged with each other; larger ones stay."""

PAGE_LENGTH = 4_096
"""The number of open jobs on a page."""

READ_AT_ONCE = 500
READ_AGAIN_AFTER = timedelta(seconds=30)
READ_AGAIN_WITHIN = timedelta(hours=1)
MOST_PAGES = 8
"""How many pages of open jobs are read in one turn."""

LOOKS_BACK_EVERY = timedelta(minutes=5)
LOOKS_BACK_FOR = timedelta(minutes=20)
"""How late a job may be committed, unless more jobs than a segment has came after it."""

CHECKED_EVERY = timedelta(hours=6)
SAMPLE_SIZE = 64
FEWEST_ALIVE = 0.7
"""A segment with a smaller share of jobs that exist is rewritten."""

_LEASE = " indexer"
"""The key of the lease, beside the states. It is not a valid tenant."""


class IndexerLease(msgspec.Struct, frozen=True):
    """Which process indexes, and until when."""

    holder: str
    until: datetime


_decode_lease = msgspec.json.Decoder(IndexerLease).decode


class SearchIndexer:
    """Indexes the jobs of some tenants, unless another process does."""

    def __init__(
        self,
        store: SearchedStore,
        clock: Clock,
        name: str,
        list_tenants: Callable[[], Awaitable[Collection[str]]],
        pause_for: timedelta = timedelta(milliseconds=3),
    ) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._list_tenants = list_tenants
        self._pause_for = pause_for
        self._leased_until: datetime | None = None

    async def run(self) -> None:
        """Take turns until cancelled. After a store failure, try again later."""
        while True:
            with suppress(RotaError, IndexChangedError):
                await self.run_once()
            await self._clock.sleep(TURN_EVERY)

    async def run_once(self) -> int:
        """Bring the index up to date. Returns how many jobs were added to it."""
        added = 0
        for tenant in sorted(await self._list_tenants()):
            with suppress(StaleVersionError):
                added += await self._index(tenant)
        return added

    async def _index(self, tenant: str) -> int:
        writer = IndexWriter(self._store, tenant, self._pause)
        await writer.read()
        if writer.is_new:
            count = await self._store.count(tenant, None, MOST_LOOKED_AT + 1)
            if count <= MOST_LOOKED_AT:  # a search reads them all in one call
                return 0
        if not await self._hold_lease():
            return 0
        turn = TenantTurn(self._store, tenant, writer, self._clock, self._pause)
        return await turn.run()

    async def _pause(self) -> None:
        """Let others work, and keep the lease. StaleVersionError when it is lost."""
        await self._clock.sleep(self._pause_for)
        if not await self._hold_lease():
            raise StaleVersionError(STATES, _LEASE, None)

    async def _hold_lease(self) -> bool:
        """Take the lease, or extend it; False while another process has it."""
        now = self._clock.now()
        if self._leased_until is not None and now < self._leased_until - LEASED_FOR / 2:
            return True
        document = await find_document(self._store, STATES, _LEASE)
        if document is not None:
            lease = _decode_lease(document.body)
            if lease.holder != self._name and lease.until > now:
                return False
        lease = IndexerLease(self._name, now + LEASED_FOR)
        version = None if document is None else document.version
        body = msgspec.json.encode(lease)
        (written,) = await self._store.write_each([DocumentWrite(STATES, _LEASE, version, body)])
        self._leased_until = lease.until if written is not None else None
        return written is not None


class TenantTurn:
    """One turn for one tenant."""

    def __init__(
        self, store: SearchedStore, tenant: str, writer: IndexWriter, clock: Clock, pause: Pause
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._writer = writer
        self._clock = clock
        self._pause = pause

    async def run(self) -> int:
        """Do all that is to be done. Returns how many jobs were added."""
        await self._writer.remove_leftovers()
        added = 0
        while count := await self._fill_gap():
            added += count
            await self._merge()
        await self._read_open_again()
        await self._look_back()
        await self._merge()
        await self._check_oldest()
        return added

    async def _fill_gap(self) -> int:
        """Index some jobs of the newest gap that has enough of them; how many."""
        for at, gap in enumerate(list_gaps(self._writer.state.ranges)):
            jobs, is_closed = await self._collect(gap)
            if at == 0 and is_closed and len(jobs) < FEWEST_INDEXED:
                continue
            if jobs or is_closed:
                ranges = cover(
                    self._writer.state.ranges, at, list(map(place_of, jobs)), is_closed=is_closed
                )
                await self._add(jobs, ranges)
            if jobs:
                return len(jobs)
        return 0

    async def _collect(self, gap: Gap) -> tuple[list[Job], bool]:
        """The newest jobs in a gap, and whether these are all."""
        found: list[Job] = []
        cursor, wanted = None, JobFilter(created_before=self._clock.now() - LAGS_BY)
        if gap.after is not None:
            cursor = encode_cursor(gap.after.created_at, gap.after.job_id)
        while len(found) < SEGMENT_LENGTH:
            page = await self._store.find(self._tenant, wanted, cursor, HIGHEST_LIMIT)
            for job in page.items:
                if gap.until is not None and place_of(job) >= gap.until:
                    return found, True
                found.append(job)
            cursor = page.next_cursor
            if cursor is None:
                return found, True
            await self._pause()
        return found, False

    async def _add(
        self, jobs: Sequence[Job], ranges: tuple[CoveredRange, ...] | None = None
    ) -> None:
        """Add a segment of these jobs, and remember those that have not ended."""
        writer, now = self._writer, self._clock.now()
        marks, pages = await self._add_segment(jobs), list[OpenPage]()
        opened = [_open_job(job) for job in jobs if not job.status.is_terminal]
        for start in range(0, len(opened), PAGE_LENGTH):
            part = opened[start : start + PAGE_LENGTH]
            pages.append(await writer.add_page(part, now + READ_AGAIN_AFTER))
        state = writer.state
        used = [*(mark.number for mark in marks), *(page.number for page in pages)]
        await writer.commit(
            replace(
                state,
                ranges=state.ranges if ranges is None else ranges,
                segments=(*state.segments, *marks),
                pages=(*state.pages, *pages),
            ),
            used,
        )

    async def _add_segment(self, jobs: Sequence[Job]) -> list[SegmentMark]:
        """Store a segment of these jobs, if there are any."""
        if not jobs:
            return []
        segment = build_segment({place_of(job): list_terms(job) for job in jobs})
        return [await self._writer.add_segment(segment, self._clock.now())]

    async def _merge(self) -> None:
        """Merge neighbours of similar size, as long as there are enough of them."""
        while chosen := choose_merged(self._writer.state.segments):
            is_large = sum(mark.job_count for mark in chosen) > LEVELS[-1]
            await self._replace(chosen, self._keep_existing if is_large else _keep_all)

    async def _replace(
        self,
        marks: Sequence[SegmentMark],
        keep: Callable[[Sequence[Place]], Awaitable[Collection[Place]]],
    ) -> None:
        """One segment in place of several."""
        writer = self._writer
        merged = await merge_segments(Parts(self._store, self._tenant), marks, keep, self._pause)
        made: list[SegmentMark] = (
            [] if merged is None else [await writer.add_segment(merged, self._clock.now())]
        )
        state = writer.state
        await writer.commit(
            replace(
                state,
                segments=(*(each for each in state.segments if each not in marks), *made),
                retired=(*state.retired, *marks),
            ),
            [each.number for each in made],
        )

    async def _keep_existing(self, places: Sequence[Place]) -> list[Place]:
        kept: list[Place] = []
        for start in range(0, len(places), READ_AT_ONCE):
            part = places[start : start + READ_AT_ONCE]
            found = await self._store.get(self._tenant, [place.job_id for place in part])
            kept += (place for place in part if place.job_id in found)
            await self._pause()
        return kept

    async def _read_open_again(self) -> None:
        """Index what has changed in jobs that had not ended."""
        now = self._clock.now()
        due = [page for page in self._writer.state.pages if page.again_at <= now][:MOST_PAGES]
        for page in due:
            await self._read_page_again(page, now)

    async def _read_page_again(self, page: OpenPage, now: datetime) -> None:
        writer = self._writer
        left, changed = list[OpenJob](), list[Job]()
        opened = await writer.read_page(page)
        for start in range(0, len(opened), READ_AT_ONCE):
            part = opened[start : start + READ_AT_ONCE]
            left += [each for each in part if each.due_at > now]
            ids = [each.place.job_id for each in part if each.due_at <= now]
            found = await self._store.get(self._tenant, ids) if ids else {}
            digests = {each.place.job_id: each.digest for each in part}
            for job in found.values():
                again = _open_job(job)
                if again.digest != digests[job.id]:
                    changed.append(job)
                if not job.status.is_terminal:
                    left.append(again)
            await self._pause()
        await self._commit_page(page, left, await self._add_segment(changed))
        await writer.replace_page(page, left)

    async def _commit_page(
        self, page: OpenPage, left: Sequence[OpenJob], marks: Sequence[SegmentMark]
    ) -> None:
        """The next time this page is read comes later and later."""
        state, count = self._writer.state, page.read_count + 1
        delay = min(READ_AGAIN_AFTER * 2 ** min(count, 10), READ_AGAIN_WITHIN)
        next_due = min((each.due_at for each in left), default=self._clock.now())
        again_at = max(self._clock.now() + delay, min(next_due, self._clock.now() + timedelta(1)))
        following = [OpenPage(page.number, len(left), again_at, count)] if left else []
        await self._writer.commit(
            replace(
                state,
                segments=(*state.segments, *marks),
                pages=(*(each for each in state.pages if each != page), *following),
            ),
            [each.number for each in marks],
        )

    async def _look_back(self) -> None:
        """Add recent jobs that were committed after the index had passed their place."""
        state, now = self._writer.state, self._clock.now()
        last = state.looked_back_at
        if not state.ranges or (last is not None and now - last < LOOKS_BACK_EVERY):
            return
        covered, since = state.ranges[0], Place(count_micros(now - LOOKS_BACK_FOR), "")
        until = since if covered.oldest is None else min(since, covered.oldest)
        jobs, _ = await self._collect(Gap(covered.newest, until))
        if jobs:
            candidates = await find_candidates(Parts(self._store, self._tenant), state, (), None)
            indexed = set(await candidates.take(2 * SEGMENT_LENGTH, place_of(jobs[-1])))
            late = [job for job in jobs if place_of(job) not in indexed]
            await self._add(late)
        await self._writer.commit(replace(self._writer.state, looked_back_at=now))

    async def _check_oldest(self) -> None:
        """Rewrite a segment if many of its jobs no longer exist. One segment in a turn."""
        state, now = self._writer.state, self._clock.now()
        mark = min(state.segments, key=lambda each: each.checked_at, default=None)
        if mark is None or now - mark.checked_at < CHECKED_EVERY:
            return
        sample = await self._take_sample(mark)
        found = await self._store.get(self._tenant, [place.job_id for place in sample])
        if len(found) < FEWEST_ALIVE * len(sample):
            await self._replace([mark], self._keep_existing)
            return
        checked = mark._replace(checked_at=now)
        segments = tuple(checked if each == mark else each for each in state.segments)
        await self._writer.commit(replace(state, segments=segments))

    async def _take_sample(self, mark: SegmentMark) -> list[Place]:
        """Some places: the first ones of all blocks or, if these are few, one block."""
        parts = Parts(self._store, self._tenant)
        (head,) = await parts.read_heads([mark])
        places, middle = head.first_places, len(head.first_places) // 2
        if len(places) < SAMPLE_SIZE:
            places = (await parts.read_chunks([(mark, middle)]))[mark.number, middle][:]
        return places[:: max(len(places) // SAMPLE_SIZE, 1)]


async def _keep_all(places: Sequence[Place]) -> Sequence[Place]:
    return places


def _open_job(job: Job) -> OpenJob:
    terms = sorted(term for term in list_terms(job) if term[0] != STATUS)
    digest = crc32("\0".join(terms).encode("utf-8", "replace"))
    return OpenJob(place_of(job), job.due_at, digest)


def cover(
    ranges: tuple[CoveredRange, ...], at: int, places: Sequence[Place], *, is_closed: bool
) -> tuple[CoveredRange, ...]:
    """The ranges after some places of gap ``at``, or all of them, have been indexed."""
    newest = ranges[at - 1].newest if at else None
    if newest is None:
        if not places:
            return ranges
        newest = places[0]
    before = ranges[: max(at - 1, 0)]
    if not is_closed:
        return (*before, CoveredRange(newest, places[-1]), *ranges[at:])
    oldest = ranges[at].oldest if at < len(ranges) else None
    return (*before, CoveredRange(newest, oldest), *ranges[at + 1 :])


def choose_merged(segments: Iterable[SegmentMark]) -> list[SegmentMark]:
    """Segments to merge: neighbours of one size. Empty if there are too few."""
    ordered = sorted(segments, key=lambda mark: mark.newest)
    low = 0
    for high in LEVELS:
        level = [mark for mark in ordered if low <= mark.job_count < high]
        if len(level) >= MERGED_AT_ONCE:
            return level[-MERGED_AT_ONCE:]
        low = high
    return []


async def forget_index(store: SearchedStore) -> None:
    """Remove the indexes of all tenants."""

    async def go_on() -> None:
        """Nothing else has to be done."""

    async for page in store.scan(STATES):
        for document in page:
            if document.key == _LEASE:
                write = DocumentWrite(STATES, _LEASE, document.version, None)
                await store.write_each([write])
                continue
            writer = IndexWriter(store, document.key, go_on)
            await writer.read()
            await writer.remove_all()
