"""A job as lists show it."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job
from rota.server.pages.wording.payloads import first_line
from rota.server.pages.wording.statuses import Sign, sign_of


class Row(NamedTuple):
    """The job, its state in a word, and the line of its last error that says most."""

    job: Job
    sign: Sign
    error: str = ""
    at: datetime | None = None
    note: str = ""


def make_rows(jobs: Iterable[Job], now: datetime) -> list[Row]:
    return [Row(job, sign_of(job, now), first_line(job.last_error)) for job in jobs]
