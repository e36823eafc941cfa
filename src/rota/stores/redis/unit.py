"""Units of work: a plan of the kernel reads jobs, and its writes are committed if they hold.

Redis cannot lock what a plan reads. So a unit notes the head of each job it has read, and
``commit.lua`` writes only if all these heads are still the same. Otherwise a new plan runs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import msgspec

from rota.errors import DamagedJobError, DuplicateJobError
from rota.jobs import Job, JobId, JobStatus, format_instant
from rota.stores.kernel.identity import Identity
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.kernel.records import seal
from rota.stores.kernel.unit import (
    Decision,
    Ended,
    Partition,
    Placed,
    Plan,
    Stored,
    Waiting,
    Writes,
    answer_by,
    run_async,
)
from rota.stores.protocol import EndedPlace, Inserted
from rota.stores.redis.database import NO_LIMIT, Database
from rota.stores.redis.documents import GATHER, GATHERED_FOR
from rota.stores.redis.rows import (
    CODES,
    Head,
    Links,
    decode_head,
    decode_job,
    encode_attempt,
    encode_body,
    encode_head,
    encode_identity,
    encode_move,
    end_trials,
    pack_head,
    status_of,
    text_of,
    unpack_head,
)
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import in_doubt_if

WAITING = load_script("waiting")
COMMIT = load_script("commit")
ADD = load_script("add")
FINISH = load_script("finish")

WRITTEN_AT_ONCE = 2_000
"""Dependents that one script releases or blocks; more are written part by part."""

GATHERED_AT_ONCE = 6_000
"""Texts of writes that are laid aside by one script."""

_WRITTEN, _INTENT_FIRST = 1, 2
_GIVEN = 2

_DUE, _UPDATED, _TRIALS, _SLOT, _LINKS = map(
    Head._fields.index, ("due", "updated", "trials", "slot", "links")
)
_KEEP = "="
_NOTHING = Kept({}, {}, {})
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode

Answer = TypeVar("Answer")


async def carry_out(
    database: Database, make_plan: Callable[[], Plan[Answer]], sender: str = ""
) -> Decision[Answer]:
    """Run a plan and commit its writes, for other processes to hear of if there is a sender."""
    while True:
        unit = Unit(database)
        decision = await run_async(make_plan(), answer_by(unit))
        if await unit.commit(decision.writes, sender):
            return decision


async def finish_intent(database: Database, now: datetime) -> None:
    """Write what a commit has left to do, part by part, whichever process has begun it."""
    while await database.run(FINISH, [text_of(now)]):
        pass


async def insert_unseen(
    database: Database, jobs: Sequence[Job], now: datetime, sender: str
) -> tuple[list[Inserted], bool] | None:
    """Insert jobs without dependencies as if none of them existed; None if one of them does.

    Also whether there may be a job to lease: a parked worker may have been given the only one.
    """
    try:
        answers = plan_insertion(jobs, _NOTHING)
    except DuplicateJobError:  # with what is stored, there may be another reason
        return None
    new = [each.job for each in answers if not each.is_existing]
    if not new:
        return answers, False
    places = encode_places({(job.tenant, job.queue) for job in new})
    arguments = [text_of(now), sender.encode() + places]
    for job in new:
        arguments += _encode_addition(job, now)
    reply = await database.run(ADD, arguments, database.keys.additions)
    return (answers, reply != _GIVEN) if reply else None


class Unit:
    """The reads of one plan, and the commit of its writes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heads: dict[JobId, bytes] = {}
        """Each job as it was read; empty if there was none."""
        self._graph = b""

    async def commit(self, writes: Writes, sender: str) -> bool:
        """Write, and wake listeners; False if what the plan has read has changed."""
        entries = _Entries(self._heads, writes)
        is_empty = not (entries or writes.without_results or writes.without_attempts)
        if is_empty and not self._database.settings.replica_count:
            return True
        keys, now = self._database.keys, text_of(writes.now)
        notices = _encode_notices(writes, sender)
        key, gathered = f"{keys.stream}:{token_hex(8)}", 0
        if len(writes.placed) > WRITTEN_AT_ONCE:
            gathered = await self._gather(key, entries.split_off(writes.placed), notices)
            notices = _Notices()
        details = _encode_details(writes, notices.ends)
        arguments = [now, notices.ready, self._graph, gathered, details, *entries.encode()]
        reply = await self._database.run(COMMIT, arguments, (*keys.jobs, key))
        if gathered or reply == _INTENT_FIRST:
            with in_doubt_if(reply == _WRITTEN):
                await finish_intent(self._database, writes.now)
        return bool(reply == _WRITTEN)

    async def _gather(self, key: str, texts: list[Any], notices: "_Notices") -> int:
        """Lay many writes aside on the server, and the messages; how many texts."""
        for channel, message in notices._asdict().items():
            texts += ["", channel, message] if message else []
        for at in range(0, len(texts), GATHERED_AT_ONCE):
            part = texts[at : at + GATHERED_AT_ONCE]
            await self._database.run(GATHER, [GATHERED_FOR, *part], [key])
        return len(texts)

    async def read_jobs(
        self, job_ids: Collection[JobId], *, skips_damaged: bool
    ) -> dict[JobId, Stored]:
        return await self._read_all(job_ids, (), skips_damaged=skips_damaged)

    async def _read_all(
        self,
        job_ids: Collection[JobId],
        identities: Iterable[Identity],
        *,
        skips_damaged: bool = False,
    ) -> dict[JobId, Stored]:
        named = map(encode_identity, identities)
        shown = await self._database.read_jobs(("heads", "bodies"), job_ids, named)
        found: dict[JobId, Stored] = {}
        for name, head, body in zip(*shown, strict=True):
            job_id = name.decode()
            self._heads.setdefault(job_id, head or b"")
            if head is None or body is None:
                continue
            try:
                job = decode_job(job_id, head, body)
            except DamagedJobError:
                if not skips_damaged:
                    raise
            else:
                found[job_id] = Stored(job, decode_head(head).linked.is_awaited)
        return found

    async def read_twins(self, identities: Collection[Identity]) -> list[Job]:
        return [stored.job for stored in (await self._read_all((), identities)).values()]

    async def read_statuses(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        shown = await self._database.read_jobs(("heads",), job_ids)
        found: dict[JobId, str] = {}
        for name, head in zip(*shown, strict=True):
            self._heads.setdefault(name.decode(), head or b"")
            if head is not None:
                found[name.decode()] = status_of(decode_head(head).code)
        return found

    async def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        found: dict[JobId, Head] = {}
        edges: dict[JobId, list[JobId]] = {}
        asked: set[str] = set()
        left = list(parents)
        while left:
            asked.update(left)
            arguments = ("1" if is_deep else "", *left)
            ids, heads, by, rest = await self._database.run(WAITING, arguments)
            for name, head in zip(ids, heads, strict=True):
                job_id = name.decode()
                self._heads.setdefault(job_id, head)
                found[job_id] = decode_head(head)
            for edge in map(bytes.decode, by):
                edges.setdefault(edge[36:], []).append(edge[:36])
            left = [each for each in map(bytes.decode, rest) if each not in asked]
        return [_make_waiting(each, head, edges[each]) for each, head in found.items()]

    async def read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, tuple[JobId, ...]]:
        found: dict[JobId, tuple[JobId, ...]] = {}
        asked: set[JobId] = set()
        left = set(job_ids)
        counters = self._database.keys.job_key("counters")
        self._graph = self._graph or await self._database.call("HGET", counters, "graph") or b"0"
        while left:
            asked |= left
            shown = await self._database.read_jobs(("heads", "parents"), left)
            for name, head, texts in zip(*shown, strict=True):
                if head is not None:
                    found[name.decode()] = _split(texts)
            left = {each for parents in found.values() for each in parents} - asked
        return found

    async def read_dependents(self, job_ids: Collection[JobId]) -> dict[JobId, set[JobId]]:
        ranges = [part for each in job_ids for part in (f"[{each}", f"({each}~")]
        (edges,) = await self._database.read_ranges("children", (), NO_LIMIT, ranges)
        found: dict[JobId, set[JobId]] = {}
        for edge in map(bytes.decode, edges):
            found.setdefault(edge[:36], set()).add(edge[36:])
        return found

    async def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:
        start = f"({format_instant(after.ended_at)}{after.job_id}"
        ranges = (start, f"({format_instant(before)}")
        contents = ("heads", "parents")
        shown = await self._database.read_ranges("ended", contents, limit, ranges)
        found: list[Ended] = []
        for member, head, parents in zip(*shown, strict=True):
            job_id = member[-36:].decode()
            self._heads.setdefault(job_id, head)
            ended_at = datetime.fromisoformat(member[:-36].decode())
            found.append(Ended(ended_at, job_id, _split(parents)))
        return found


class _Entries:
    """What ``commit.lua`` takes of each job that was read or is new: its new head and body."""

    def __init__(self, heads: Mapping[JobId, bytes], writes: Writes) -> None:
        self._heads = heads
        self._changed: dict[JobId, list[str]] = {}
        """The texts of new heads; none for a job to remove."""
        self._bodies: dict[JobId, bytes] = {}
        for job_id, new in writes.new.items():
            links = Links(new.is_awaited, new.open_count, 0, new.job.on_parent_failure)
            self._changed[job_id] = encode_head(new.job, links)
            unreadable = new.unreadable
            self._bodies[job_id] = encode_body(new.job) if unreadable is None else seal(unreadable)
        for job_id, job in writes.moved.items():
            self._change(job_id, encode_move(job))
        for job_id, amended in writes.amended.items():
            self._change(job_id, encode_head(amended.job)[:_LINKS], amended.open_count)
            self._bodies[job_id] = encode_body(amended.job)
        for job_id, placed in writes.placed.items():
            self._place(job_id, placed, text_of(writes.now))
        for job_id in writes.awaited:
            self._change(job_id, (), is_awaited=True)
        self._changed |= {job_id: [] for job_id in writes.removed}

    def __bool__(self) -> bool:
        return bool(self._changed)

    def encode(self) -> Iterable[Any]:
        unread = (job_id for job_id in self._changed if job_id not in self._heads)
        for job_id in (*self._heads, *unread):
            head = self._changed.get(job_id)
            yield job_id
            yield self._heads.get(job_id, b"")
            yield _KEEP if head is None else pack_head(head) if head else b""
            yield self._bodies.get(job_id, b"")

    def split_off(self, job_ids: Iterable[JobId]) -> list[Any]:
        """The ids, old and new heads of these jobs, which are then not encoded."""
        texts: list[Any] = []
        self._heads = dict(self._heads)
        for job_id in job_ids:
            texts += job_id, self._heads.pop(job_id), pack_head(self._changed.pop(job_id))
        return texts

    def _place(self, job_id: JobId, placed: Placed, updated: str) -> None:
        head = self._change(job_id, [CODES[placed.status]], placed.open_count)
        if placed.status is not JobStatus.PENDING:
            head[_UPDATED] = updated
        if placed.ending is not None:
            head[_TRIALS] = end_trials(head[_TRIALS], placed.ending, placed.error)

    def _change(
        self,
        job_id: JobId,
        texts: Sequence[str],
        open_count: int | None = None,
        *,
        is_awaited: bool = False,
    ) -> list[str]:
        """The head as it was read, with these texts at its beginning."""
        head = self._changed.setdefault(job_id, unpack_head(self._heads[job_id]))
        links = Head(*head).linked
        head[: len(texts)] = texts
        head[_LINKS] = Links(
            links.is_awaited or is_awaited,
            links.open_count if open_count is None else open_count,
            links.version + 1,
            links.on_parent_failure,
        ).encode()
        return head


def encode_places(partitions: Iterable[Partition]) -> bytes:
    """Queues and tenants with something to lease, as listeners read them; empty without any."""
    places = [(queue, tenant) for tenant, queue in partitions]
    return _encode(places) if places else b""


def _encode_addition(job: Job, now: datetime) -> tuple[str | bytes, ...]:
    """A job as ``add.lua`` takes it."""
    head = encode_head(job)
    slot, identity = head[_SLOT], head[_SLOT + 1]
    due = "" if job.due_at == job.created_at <= now else head[_DUE]
    return job.id, pack_head(head), encode_body(job), slot + job.id, due, identity


def _split(parents: bytes | None) -> tuple[JobId, ...]:
    return tuple((parents or b"").decode().split())


class _Notices(NamedTuple):
    """What other processes hear on each channel."""

    ready: bytes = b""
    ends: str = ""


def _encode_notices(writes: Writes, sender: str) -> _Notices:
    places = encode_places(writes.ready_partitions()) if sender else b""
    ended = "".join(writes.ended_jobs()) if sender else ""
    return _Notices(sender.encode() + places if places else b"", sender + ended if ended else "")


def _encode_details(writes: Writes, ends: str) -> bytes:
    """What is written beside the jobs, as ``commit.lua`` takes it. Scripts read texts only."""
    links: list[str] = []
    for job_id, new in writes.new.items():
        if new.job.dependencies:
            links += job_id, " ".join(new.job.dependencies)
    for job_id, amended in writes.amended.items():
        if amended.open_count is not None:
            links += job_id, " ".join(amended.job.dependencies)
    results = [text for each, result in writes.results.items() for text in (each, result.decode())]
    bare = list(writes.without_results), list(writes.without_attempts)
    return _pack((list(map(encode_attempt, writes.attempts)), links, results, ends, *bare))


def _make_waiting(job_id: JobId, head: Head, parents: Iterable[JobId]) -> Waiting:
    """A PENDING job, with those of its dependencies by which it was found."""
    due_at, links = datetime.fromisoformat(head.due), head.linked
    return Waiting(
        job_id,
        *head.partition,
        due_at,
        links.open_count,
        tuple(parents),
        links.on_parent_failure,
    )
