"""A job as lists show it."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job
from rota.ops.explain.explanation import name_error
from rota.server.pages.wording.statuses import Sign, sign_of


class Row(NamedTuple):
    """The job, its state in a word, and the line of its last error that says most."""

    job: Job
    sign: Sign
    error: str = ""
    at: datetime | None = None
    note: str = ""


def make_rows(jobs: Iterable[Job], now: datetime) -> list[Row]:
    return [Row(job, sign_of(job, now), name_error(job.last_error)) for job in jobs]
