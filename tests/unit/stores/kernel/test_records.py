"""What all stores share in being taken elsewhere."""

import pytest

from rota.errors import InvalidJobError
from rota.jobs import PAUSED_UNTIL, JobStatus
from rota.stores.kernel.records import (
    PORTION_SIZE,
    check_job_ids,
    cut_at_size,
    make_stand_in,
)
from rota.stores.protocol import KeptDocument, KeptJob, UnreadableJob
from rota.testing import a_job


def test_an_id_that_no_server_can_keep_is_named() -> None:
    good = KeptJob(a_job())
    check_job_ids([good, KeptDocument("tasks", "any key", 1, b"")])
    strange = UnreadableJob("not-a-uuid", "default", "default", (), b"{}")
    for bad in (KeptJob(a_job(id=a_job().id.upper())), strange):
        with pytest.raises(InvalidJobError, match="must be a UUID in lower case, got"):
            check_job_ids([good, bad])


def test_the_stand_in_for_an_unreadable_job_is_never_due_and_never_ends() -> None:
    parent = a_job()
    job = make_stand_in(UnreadableJob(a_job().id, "acme", "mail", (parent.id,), b"{}"))
    assert (job.status, job.due_at) == (JobStatus.READY, PAUSED_UNTIL)
    assert (job.tenant, job.queue, job.dependencies) == ("acme", "mail", (parent.id,))


def test_a_portion_ends_with_the_item_that_fills_it() -> None:
    half = PORTION_SIZE // 2
    assert list(cut_at_size([1, 2, 3, 4], lambda _: half)) == [1, 2]
    assert list(cut_at_size([1, 2], lambda _: PORTION_SIZE)) == [1]
    assert list(cut_at_size([1, 2, 3], lambda _: 1)) == [1, 2, 3]
