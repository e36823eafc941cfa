"""Two stores are compared by sums, whatever order their records come in."""

import pytest
from msgspec.structs import replace

from rota.jobs import JobStatus
from rota.ops.store_comparison import ContentDigest, bucket_of, digest_of, name_of
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.testing import a_job
from rota.testing.portable_store_contract import records_of_every_sort

JOB = a_job(payload={"b": 1, "a": 2})
DOCUMENT = KeptDocument("tasks", "a", 1, b"body")
UNREADABLE = UnreadableJob(JOB.id, "default", "default", (), b"{}")


def content_of(records: list[Record]) -> ContentDigest:
    content = ContentDigest()
    content.add(records)
    return content


def test_the_order_of_records_and_of_keys_does_not_matter() -> None:
    records = records_of_every_sort()
    one, other = content_of(records), content_of(records[::-1])
    assert one.digest == other.digest
    assert one.find_differing(other) == []
    assert digest_of(KeptJob(JOB)) == digest_of(KeptJob(replace(JOB, payload={"a": 2, "b": 1})))


@pytest.mark.parametrize(
    "changed",
    [
        KeptJob(replace(JOB, status=JobStatus.COMPLETED)),
        KeptJob(replace(JOB, last_token=1)),
        KeptJob(replace(JOB, payload={"b": 1, "a": 3})),
        KeptJob(replace(JOB, dependencies=(JOB.id,))),
        UNREADABLE,
    ],
)
def test_every_change_of_a_job_is_seen_in_its_bucket(changed: Record) -> None:
    one, other = content_of([KeptJob(JOB), DOCUMENT]), content_of([changed, DOCUMENT])
    assert one.find_differing(other) == [bucket_of(name_of(changed))]
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "changed",
    [DOCUMENT._replace(version=2), DOCUMENT._replace(body=b"bodY")],
)
def test_every_change_of_a_document_is_seen(changed: KeptDocument) -> None:
    assert content_of([DOCUMENT]).find_differing(content_of([changed]))


def test_a_record_that_is_missing_or_doubled_is_seen() -> None:
    once = content_of([DOCUMENT])
    assert once.find_differing(content_of([]))
    assert once.find_differing(content_of([DOCUMENT, DOCUMENT]))


def test_records_are_counted_by_sort() -> None:
    content = content_of(records_of_every_sort())
    counts = (
        content.job_count,
        content.unreadable_count,
        content.attempt_count,
        content.document_count,
    )
    assert counts == (8, 1, 4, 3)


def test_names_identify_records() -> None:
    names = {name_of(record) for record in records_of_every_sort()}
    assert len(names) == len(records_of_every_sort())
    assert name_of(DOCUMENT) == 'document "a" of "tasks"'
    assert name_of(UNREADABLE) == name_of(KeptJob(JOB)) == f"job {JOB.id}"
