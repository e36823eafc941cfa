"""``apply``: the changes that still hold are written, with what they mean for others.

What a change says is decided already, and what it finds is compared by the script. Only a successor
takes something from the job as it is kept: that is read beforehand, and the script says if it has
been amended since.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rota.errors import StoreUnavailableError
from rota.jobs import Change, Job, JobId, JobStatus, format_instant
from rota.stores.kernel.settlement import check_path, make_successor
from rota.stores.protocol import STALE, Applied
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.reading.reading import look_up
from rota.stores.redis.jobs.rows import (
    CODES,
    encode_attempt,
    encode_body,
    encode_head,
    encode_move,
    encode_trials,
    rank_of,
    text_of,
)
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import put_in_doubt

APPLY = load_script(__package__, "apply")
CASCADE = load_script(__package__, "cascade")

ABANDONED_FOR = timedelta(minutes=1)
"""After so long whoever wrote an end is not going to tell the rest of those whom it concerns."""

_STALE, _MOVED = b"stale", b"moved"
_WRITTEN = 1
_COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)
_pack = msgspec.msgpack.Encoder().encode


class Cascade(NamedTuple):
    """An end that may concern others: when it was written, and of which job."""

    began_at: datetime
    root: JobId


class Settlement(NamedTuple):
    """What became of the changes, and what listeners are to be told of it."""

    answers: list[Applied]
    places: list[bytes]


def check_paths(changes: Sequence[Change]) -> None:
    """Refuse any that goes a way which is not in the table of moves."""
    for change in changes:
        if change.path != _COMPLETION:
            check_path(change)


async def apply(
    database: Database, changes: Sequence[Change], now: datetime, sender: str
) -> Settlement:
    """Write each change that still holds; see the protocol."""
    settled = Settlement([], [])
    try:
        await _apply_on(database, changes, now, sender, settled)
    except StoreUnavailableError as error:
        raise (put_in_doubt(error) if settled.places else error) from error
    return settled


async def _apply_on(
    database: Database, changes: Sequence[Change], now: datetime, sender: str, settled: Settlement
) -> None:
    """Script by script; what each has written is noted before the next."""
    while len(settled.answers) < len(changes):
        left = changes[len(settled.answers) :]
        steps = [_make_step(change, kept) for change, kept in await _read_kept(database, left)]
        arguments = [format_instant(now), sender, _pack([step.parts for step in steps])]
        arguments += [part for step in steps for part in step.successor_parts]
        reply = await database.write(APPLY, database.keys.jobs, arguments)
        places, is_unfinished, answers = reply
        settled.places.append(places)
        answered = zip(steps, answers, strict=False)
        settled.answers.extend(step.read(told) for step, told in answered if told != _MOVED)
        if is_unfinished:
            last = settled.answers[-1]
            cascade = Cascade(now, left[len(answers) - 1].job_id)
            settled.answers[-1] = await _finish(database, cascade, last, settled, sender)


async def finish_cascade(
    database: Database, cascade: Cascade, now: datetime, sender: str
) -> tuple[list[bytes], list[JobId], list[JobId]]:
    """Tell the rest of those whom an end concerns: whom to wake, who is released, who blocked."""
    name = f"{format_instant(cascade.began_at)}{cascade.root}"
    return await _go_on(database, (format_instant(now), sender, name, ""))


async def resume_cascades(database: Database, now: datetime, sender: str) -> list[bytes]:
    """Tell those whom a process that is gone has not told any more; whom to wake."""
    abandoned = now - ABANDONED_FOR
    places, _, _ = await _go_on(
        database, (format_instant(now), sender, "", format_instant(abandoned))
    )
    return places


async def _go_on(
    database: Database, arguments: Sequence[Any]
) -> tuple[list[bytes], list[JobId], list[JobId]]:
    all_places: list[bytes] = []
    all_released: list[JobId] = []
    all_blocked: list[JobId] = []
    is_unfinished = 1
    while is_unfinished:
        reply = await database.write(CASCADE, database.keys.jobs, arguments)
        places, is_unfinished, released, blocked = reply
        all_places.append(places)
        all_released += [each.decode() for each in released]
        all_blocked += [each.decode() for each in blocked]
    return all_places, all_released, all_blocked


async def _finish(
    database: Database, cascade: Cascade, answer: Applied, settled: Settlement, sender: str
) -> Applied:
    found = await finish_cascade(database, cascade, cascade.began_at, sender)
    places, released, blocked = found
    settled.places.extend(places)
    return replace(
        answer,
        released=tuple(sorted([*answer.released, *released])),
        blocked=tuple(sorted([*answer.blocked, *blocked])),
    )


async def _read_kept(
    database: Database, changes: Sequence[Change]
) -> list[tuple[Change, Job | None]]:
    """Each change with the job as it is kept, which only those with a successor need."""
    parents = [change.job_id for change in changes if change.successor is not None]
    kept = await look_up(database, parents) if parents else {}
    return [(change, kept.get(change.job_id)) for change in changes]


class _Step:
    """A change that only completes its job, on its way into the script, and its answer."""

    successor_parts: Sequence[bytes] = ()
    """What a successor was made from, and what it is."""

    def __init__(self, change: Change) -> None:
        job = change.job
        self.change = change
        self.parts: Sequence[str] = (
            job.id,
            job.tenant,
            str(change.expected_token),
            text_of(job.due_at),
            text_of(job.updated_at),
            encode_trials(job),
        )

    def read(self, told: Any) -> Applied:
        """The answer of the script in the words of the protocol."""
        if told == _WRITTEN:
            return Applied(self.change.job)
        if told == _STALE:
            return STALE
        return self.read_more(*told)

    def read_more(
        self, _is_kept: int, is_removed: int, released: Sequence[bytes], blocked: Sequence[bytes]
    ) -> Applied:
        return Applied(
            self.change.job,
            released=tuple(each.decode() for each in released),
            blocked=tuple(sorted(each.decode() for each in blocked)),
            is_removed=bool(is_removed),
        )


class _FullStep(_Step):
    """Any other change."""

    def __init__(self, change: Change, kept: Job | None) -> None:
        self.change = change
        self._successor = None if kept is None else make_successor(change, kept)
        attempt = change.attempt
        self.parts = (
            change.job_id,
            change.job.tenant,
            CODES[change.expected_status],
            str(change.expected_token),
            "1" if attempt is not None and attempt.outcome == "lost" else "",
            *encode_move(change.job),
            "" if attempt is None else encode_attempt(attempt),
            "1" if change.is_removed else "",
            "" if kept is None else f"{kept.queue}\0{rank_of(kept.priority)}",
            "" if change.successor is None else change.successor.id,
        )
        if change.successor is not None:
            self.successor_parts = self._encode_successor(kept)

    def read_more(
        self, is_kept: int, is_removed: int, released: Sequence[bytes], blocked: Sequence[bytes]
    ) -> Applied:
        told = super().read_more(is_kept, is_removed, released, blocked)
        return replace(told, successor=self._successor) if is_kept else told

    def _encode_successor(self, kept: Job | None) -> Sequence[bytes]:
        if kept is None or self._successor is None:  # should it be there after all, it has moved
            return (b"", b"", b"")
        return (encode_body(kept), encode_head(self._successor), encode_body(self._successor))


def _make_step(change: Change, kept: Job | None) -> _Step:
    is_plain = (
        change.path == _COMPLETION
        and change.successor is None
        and change.attempt is None
        and not change.is_removed
    )
    return _Step(change) if is_plain else _FullStep(change, kept)
