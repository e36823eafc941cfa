"""What a store holds, counted and summed up so that two stores can be compared.

Stores give their records in different orders, and there may be too many to be held. So each record
is brought into one form and digested, and the digests are added up, in as many sums as there are
buckets; which one, its name says. Where two sums differ, only the records of that bucket have to be
looked at again.
"""

from collections.abc import Iterable
from hashlib import sha256
from zlib import crc32

import msgspec

from rota.stores.protocol import KeptDocument, KeptJob, Record

BUCKET_COUNT = 1024
_MODULUS = 1 << 128

_encode = msgspec.json.Encoder(order="deterministic").encode


def name_of(record: Record) -> str:
    """What a record is called in messages; no two of a store have the same name."""
    if isinstance(record, KeptDocument):
        return f'document "{record.key}" of "{record.collection}"'
    return f"job {record.job.id if isinstance(record, KeptJob) else record.job_id}"


def digest_of(record: Record) -> bytes:
    """The record in 32 bytes: the same for what is the same, whichever store it comes from."""
    return sha256(_encode([type(record).__name__, *record])).digest()


def bucket_of(name: str) -> int:
    """The sum to which a record is added."""
    return crc32(name.encode()) % BUCKET_COUNT


class Tally:
    """How many records of each sort there are, and the sums of their digests."""

    def __init__(self) -> None:
        self.document_count = 0
        self.job_count = 0
        self.attempt_count = 0
        self.unreadable_count = 0
        self.sums = [0] * BUCKET_COUNT

    def add(self, records: Iterable[Record]) -> None:
        """Count these records, and add up their digests."""
        sums = self.sums
        for record in records:
            self._count(record)
            sums[bucket_of(name_of(record))] += int.from_bytes(digest_of(record)[:16])

    @property
    def digest(self) -> str:
        """All that was counted, in 64 hexadecimal digits."""
        parts = ((each % _MODULUS).to_bytes(16) for each in self.sums)
        return sha256(b"".join(parts)).hexdigest()

    def find_differing(self, other: "Tally") -> list[int]:
        """The buckets in which the two differ."""
        pairs = enumerate(zip(self.sums, other.sums, strict=True))
        return [bucket for bucket, (mine, its) in pairs if mine != its]

    def _count(self, record: Record) -> None:
        if isinstance(record, KeptDocument):
            self.document_count += 1
            return
        self.job_count += 1
        if isinstance(record, KeptJob):
            self.attempt_count += len(record.attempts)
        else:
            self.unreadable_count += 1
