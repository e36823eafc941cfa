"""What a history of jobs is made of: calls of a store and their answers, and attempts.

A call is written down before it is made and its answer when it is there. A call without an answer
was cut off or failed: it may have been carried out or not, and the judge must allow for both.
``at`` is the writer's clock; ``now`` is the time that was passed to the store.
"""

from datetime import datetime

import msgspec

from rota.jobs import JobId, JobStatus


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at ``at``, in the process ``instance``."""

    at: datetime
    instance: str = ""


class CallRecord(Record, frozen=True, kw_only=True):
    """A call of the store, or its answer; ``call`` is the same in both, for one instance."""

    call: int


class Place(msgspec.Struct, frozen=True):
    """The one occurrence of one series that a job stands for."""

    origin: JobId
    occurrence_at: datetime


class JobFacts(msgspec.Struct, frozen=True):
    """A job as it is handed in, as far as the judge must know it."""

    id: JobId
    tenant: str
    due_at: datetime
    identity: tuple[str, str, str, str | None] | None = None
    """Tenant, kind, idempotency key and occurrence."""
    place: Place | None = None


class KeptFacts(msgspec.Struct, frozen=True):
    """What an insert says of one job."""

    id: JobId
    status: JobStatus
    is_existing: bool


class Grant(msgspec.Struct, frozen=True):
    """A lease that was given."""

    job_id: JobId
    token: int
    until: datetime
    due_at: datetime


class Move(msgspec.Struct, frozen=True):
    """A change, as it is handed to the store."""

    job_id: JobId
    token: int
    source: JobStatus
    target: JobStatus
    due_at: datetime
    attempt: int | None = None
    """The number of the attempt that it records."""
    outcome: str | None = None
    successor: JobFacts | None = None
    is_removed: bool = False


class MoveAnswer(msgspec.Struct, frozen=True):
    """What became of a change."""

    is_applied: bool
    successor_id: JobId | None = None
    released: tuple[JobId, ...] = ()
    blocked: tuple[JobId, ...] = ()


class InsertCalled(CallRecord, frozen=True, tag="insert called"):
    jobs: tuple[JobFacts, ...]


class InsertAnswered(CallRecord, frozen=True, tag="insert answered"):
    jobs: tuple[KeptFacts, ...]


class LeaseCalled(CallRecord, frozen=True, tag="lease called"):
    worker: str
    now: datetime


class LeaseAnswered(CallRecord, frozen=True, tag="lease answered"):
    grants: tuple[Grant, ...]


class ApplyCalled(CallRecord, frozen=True, tag="apply called"):
    moves: tuple[Move, ...]
    now: datetime


class ApplyAnswered(CallRecord, frozen=True, tag="apply answered"):
    answers: tuple[MoveAnswer, ...]


class ExtendCalled(CallRecord, frozen=True, tag="extend called"):
    held: tuple[tuple[JobId, int], ...]
    until: datetime
    now: datetime


class ExtendAnswered(CallRecord, frozen=True, tag="extend answered"):
    kept: tuple[bool, ...]


class AmendCalled(CallRecord, frozen=True, tag="amend called"):
    job_id: JobId
    fields: tuple[str, ...]


class DeleteCalled(CallRecord, frozen=True, tag="delete called"):
    job_id: JobId


class PruneCalled(CallRecord, frozen=True, tag="prune called"):
    limit: int


class PruneAnswered(CallRecord, frozen=True, tag="prune answered"):
    count: int


class Refused(CallRecord, frozen=True, tag="refused"):
    """The store said that it has done nothing."""

    error: str


class AttemptStarted(Record, frozen=True, tag="attempt started"):
    job_id: JobId
    number: int
    token: int
    worker: str


class AttemptEnded(Record, frozen=True, tag="attempt ended"):
    """The handler returned (``returned``) or raised (the name of the error)."""

    job_id: JobId
    number: int
    token: int
    worker: str
    ending: str


class Crashed(Record, frozen=True, tag="crashed"):
    """The instance is gone: it did nothing afterwards."""


JobEntry = (
    InsertCalled
    | InsertAnswered
    | LeaseCalled
    | LeaseAnswered
    | ApplyCalled
    | ApplyAnswered
    | ExtendCalled
    | ExtendAnswered
    | AmendCalled
    | DeleteCalled
    | PruneCalled
    | PruneAnswered
    | Refused
    | AttemptStarted
    | AttemptEnded
    | Crashed
)
"""One record of a history of jobs."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[JobEntry] = msgspec.json.Decoder(JobEntry)


def to_line(entry: JobEntry) -> bytes:
    """One line of JSON, with its line break."""
    return _encoder.encode(entry) + b"\n"


def from_line(line: bytes) -> JobEntry:
    """The record that ``to_line`` wrote; ``msgspec.DecodeError`` when it did not."""
    return _decoder.decode(line)
