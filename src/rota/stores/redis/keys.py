"""Every key, and what is kept under it. No other file, in Python or in Lua, spells one.

All keys of a store carry its name as their hash tag, so that on a cluster they lie together: a
script sees all of them at once, whichever tenants a call is about.

Sorted sets have no scores: they are ordered by their members, byte for byte. An instant is text of
one length, and a name ends with NUL, so members are in the order of what they are made of. ``rank``
is ``10 - priority`` in two digits, and ``letter`` the sort of the job, a capital if it was not due
from its creation on. Each job is in the listing of its code, so that those of the few that wait or
run stay small, and stands in the same place in each: what it is moved by is one text.
"""

from typing import NamedTuple

DOCUMENT_KEYS = (
    "document-names",  # sorted set: collection NUL key
    "document-versions",  # hash: the same -> version
    "document-bodies",  # hash: the same -> body
)

JOB_KEYS = (
    "heads",  # hash: id -> array of texts; rows.py says which
    "bodies",  # hash: id -> JSON of all other fields
    "ready",  # the line, and listing of R: sorted set as the others; READY, and was found to be due
    "later",  # sorted set: due id; READY, and was not
    "timetable",  # sorted set: tenant NUL queue NUL due id; READY, and the line does not say so
    "leased",  # sorted set: until id; all that are RUNNING
    *(
        f"listing-{code}" for code in "PLUCFDB"
    ),  # sorted sets: tenant NUL queue NUL letter rank created id; L are those in `later`
    "ended",  # sorted set: updated id; those that ended and on which none depends
    "children",  # sorted set: parent child; all dependencies
    "open",  # sorted set: parent child; those that a PENDING child still waits for
    "identities",  # hash: JSON of tenant, kind, idempotency key and occurrence -> id
    "attempts",  # sorted set: id token JSON
    "cascades",  # sorted set: began root parent; ends whose dependents were not all told
    "counts",  # hash: code tenant NUL queue NUL -> how many; RUNNING jobs and dead letters
    "counters",  # hash: leases -> how often jobs were handed out, graph -> dependencies amended
    "wake",  # channel, not a key: sender and JSON of queues and tenants with something to lease
)

ADDITION_KEYS = (
    *("heads", "bodies", "ready", "later", "timetable", "listing-L"),
    *("identities", "wake"),
)
"""Of those, all that the script for the commonest jobs writes; each of the others would cost it."""


class Keys(NamedTuple):
    """The keys of one store, as the scripts take them."""

    schema: str
    documents: tuple[str, ...]
    jobs: tuple[str, ...]
    additions: tuple[str, ...]
    stream: str
    """Where a long stream of writes is gathered; one's own part is appended to it."""

    @property
    def channel(self) -> str:
        return self.jobs[-1]


def name_keys(store_name: str) -> Keys:
    """The keys of the store with this name."""

    def named(part: str) -> str:
        return f"{{{store_name}}}:{part}"

    return Keys(
        named("schema"),
        tuple(map(named, DOCUMENT_KEYS)),
        tuple(map(named, JOB_KEYS)),
        tuple(map(named, ADDITION_KEYS)),
        named("stream"),
    )
