"""Every key, and what is stored under it. No other file, in Python or in Lua, spells one.

All keys of a store carry its name as their hash tag. So on a cluster they are on one server, and a
script sees all of them at once.

Sorted sets have no scores: their members are ordered byte by byte. An instant is text of one
length, and a name ends with NUL, so members sort by what they are made of. ``rank`` is ``10 -
priority`` in two digits. ``letter`` is "o" for a job that comes once and "s" for one of a series, a
capital if the job was not due from its creation on. ``slot`` is ``tenant NUL queue NUL letter rank
created``, and ``place`` is the slot and the id. Each job is in the listing of its code, at its
place.
"""

from typing import NamedTuple

DOCUMENT_KEYS = (
    "document-names",  # sorted set: collection NUL key
    "document-versions",  # hash: the same -> version
    "document-bodies",  # hash: the same -> body
)

JOB_KEYS = (
    "heads",  # hash: id -> array of texts; see rows.py
    "bodies",  # hash: id -> JSON of all other fields
    "ready",  # sorted set: place; the listing of R: READY jobs that were found to be due
    "later",  # sorted set: due id; READY jobs that are due later
    "timetable",  # sorted set: tenant NUL queue NUL due id; READY jobs that are due later, or were
    "leased",  # sorted set: until id; all RUNNING jobs
    *("listing-L", "listing-U"),  # sorted sets: place; L are the jobs in `later`
    "counters",  # hash: leases -> number of leases so far, graph -> of amended dependencies
    "identities",  # hash: JSON of tenant, kind, idempotency key and occurrence -> id
    "wake",  # channel, not a key: sender and JSON of queues and tenants with a READY job
    "parked",  # channel, not a key: no messages; whether a worker is parked. See parking.py
    *(f"listing-{code}" for code in "PCFDB"),  # sorted sets: place
    "ended",  # sorted set: updated id; jobs that have ended and that no job depends on
    "children",  # sorted set: parent child; all dependencies
    "parents",  # hash: id -> ids of its dependencies, if it has any; bodies have them too
    "attempts",  # sorted set: id token JSON
    "results",  # hash: id -> what the handler returned, if it is kept
    "intent",  # list: id, old head, new head of PENDING jobs that a commit has yet to write
    "ends",  # channel, not a key: sender and ids of jobs that have ended or are gone
)

ADDITION_KEYS = JOB_KEYS[: JOB_KEYS.index("parked") + 1]
"""The keys that ``add.lua`` needs; each key more would slow it down."""

LISTING_CODES = "PRLUCFDB"
"""Each job is in exactly one of these listings."""


class Keys(NamedTuple):
    """The keys of one store, as the scripts take them."""

    schema: str
    documents: tuple[str, ...]
    jobs: tuple[str, ...]
    additions: tuple[str, ...]
    stream: str
    """Where long streams of writes are gathered; each stream appends a part of its own."""

    def job_key(self, part: str) -> str:
        return self.jobs[JOB_KEYS.index(part)]

    def listing(self, code: str) -> str:
        return self.job_key("ready" if code == "R" else f"listing-{code}")


def name_keys(store_name: str, number: int = 0) -> Keys:
    """The keys of the store with this name, in the database of that number.

    All databases of a server share its channels, and a worker must not be given another store's
    jobs. A wake-up for another store costs no more than a look.
    """

    def named(part: str) -> str:
        is_numbered = part == "parked" and number > 0
        return f"{{{store_name}}}:{part}{number if is_numbered else ''}"

    return Keys(
        named("schema"),
        tuple(map(named, DOCUMENT_KEYS)),
        tuple(map(named, JOB_KEYS)),
        tuple(map(named, ADDITION_KEYS)),
        named("stream"),
    )
